# Completion of gpuwhy for fish. `gpuwhy help --complete` knows the commands, options and values.

function __gpuwhy_complete
    set -l words (commandline -opc) (commandline -ct)
    set -l shell
    for line in ($words[1] help --complete -- gpuwhy $words[2..-1] 2>/dev/null)
        switch $line
            case ':*'
                set shell (string split ' ' -- (string sub -s 2 -- $line))
            case '*'
                echo -- $line
        end
    end
    set -l last $words[-1]
    set -l before (string match -r '^-[^=]*=' -- $last)
    switch $shell[1]
        case program
            # fish counts from 1.
            complete -C (string join ' ' -- (string escape -- $words[(math $shell[2] + 1)..-2]) $last)
        case files
            set -l found (__fish_complete_path (string replace -- "$before" '' $last))
            if set -q shell[2]
                set found (string match -r '^.*(?:/|\.'$shell[2]')(?:\t.*)?$' -- $found)
            end
            printf "$before%s\n" $found
        case folders
            __fish_complete_directories (string replace -- "$before" '' $last)
    end
end

complete -c gpuwhy -f -a '(__gpuwhy_complete)'
