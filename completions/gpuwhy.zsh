#compdef gpuwhy
# Completion of gpuwhy for zsh. `gpuwhy help --complete` knows the commands, options and values.

_gpuwhy() {
    local line shell value
    local -a values meanings incomplete incomplete_meanings
    # (Q) removes quotes; "@" keeps the last word even if it is empty.
    for line in "${(@f)$(${(Q)words[1]} help --complete -- gpuwhy "${(@Q)words[2,CURRENT]}" 2>/dev/null)}"; do
        value=${line%%$'\t'*}
        case $line in
        :*) shell=${line#:} ;;
        *[=:,]$'\t'*) incomplete+=($value) incomplete_meanings+=("$value  ${line#*$'\t'}") ;;
        ?*) values+=($value) meanings+=("$value  ${line#*$'\t'}") ;;
        esac
    done
    case $shell in
    program\ *)
        # words[1] becomes the program; zsh counts from 1.
        local first=${shell#program }
        shift first words
        (( CURRENT -= first ))
        _normal
        return
        ;;
    esac
    local ret=1
    (( $#values )) && compadd -l -d meanings -a values && ret=0
    (( $#incomplete )) && compadd -l -S '' -d incomplete_meanings -a incomplete && ret=0
    # The value of --option=VALUE.
    [[ $PREFIX != -*=* ]] || compset -P '*='
    case $shell in
    files) _files && ret=0 ;;
    files\ *) _files -g "*.${shell#files }" && ret=0 ;;
    folders) _files -/ && ret=0 ;;
    esac
    return ret
}

_gpuwhy "$@"
