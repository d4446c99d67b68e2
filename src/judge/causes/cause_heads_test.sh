#!/bin/sh
# Every cause says which observation allows "established", or that none does: in the head of its file for all causes of
# the file, or, if the head says "see the comment of each cause", in a comment of its own. No cause and no topic sees the
# text of messages: src/read/logs says what a line means.
# $1: the folder of the causes.
set -u
status=0

complain() { # file what
    echo "$1: $2"
    status=1
}

for file in "$1"/*.c "$1"/*.def; do
    [ "${file##*/}" != template.c ] || continue
    head=$(sed '/\*\//q' "$file")
    case $head in
    *"Established only by: "*"Never established: "* | *"Never established: "*"Established only by: "*)
        complain "$file" "its head says both \"Established only by:\" and \"Never established:\"" ;;
    *"Established only by: "*) ;;
    *"Never established: "*)
        ! grep -q GW_ESTABLISHED "$file" || complain "$file" "its head says \"Never established:\", and its code has GW_ESTABLISHED" ;;
    *) complain "$file" "its head says neither \"Established only by:\" nor \"Never established:\"" ;;
    esac
    case $head in
    *"see the comment of each cause"*)
        causes=$(grep -c -e '^const gw_cause ' -e '^GWI_BY_' "$file")
        comments=$(grep -c -e '^\( \*\|/\*\) Established only by: ' -e '^\( \*\|/\*\) Never established: ' "$file")
        [ "$comments" -gt "$causes" ] || complain "$file" "not each of its $causes causes has a comment that says what establishes it" ;;
    esac
done
for file in "$1"/*.[ch] "$1"/../topics/*.[ch] "$1"/../topics/memory/*.[ch]; do
    case $file in *_test.c) continue ;; esac
    ! grep -q 'gw_logs\.h\|gwi_log\.h' "$file" || complain "$file" "it sees the text of messages"
done
exit $status
