# Completion of gpuwhy for bash (needs bash-completion). `gpuwhy help --complete` knows the commands, options and values.

_gpuwhy()
{
    local cur prev words cword line value shell before reply=()
    _init_completion -n =:@ || return
    while IFS= read -r line; do
        case $line in
        :*) shell=${line#:} ;;
        *) reply+=("${line%%$'\t'*}") ;;
        esac
    done < <("${words[0]}" help --complete -- gpuwhy "${words[@]:1:cword}" 2>/dev/null)
    case $shell in
    program\ *)
        _command_offset "${shell#program }"
        return
        ;;
    esac
    # readline replaces only what follows the last =, : or @ of the word.
    before=
    [[ $cur != *[=:@]* ]] || before=${cur%"${cur##*[=:@]}"}
    COMPREPLY=()
    for value in "${reply[@]}"; do
        COMPREPLY+=("${value#"$before"}")
        case $value in *[=:,]) compopt -o nospace ;; esac
    done
    cur=${cur#"$before"}
    [[ $before != @* ]] || shell= # a run, not a file
    case $shell in
    files) _filedir ;;
    files\ *) _filedir "${shell#files }" ;;
    folders) _filedir -d ;;
    esac
} && complete -F _gpuwhy gpuwhy
