#!/bin/sh
# Start the program of the Python package gpuwhy. A shell starts faster than Python. This file may be a link: to the folder
# bin of an environment, or to an unpacked wheel (as uv may make it).
for file in "$0" "$(readlink -f -- "$0")"; do
    here=$(dirname -- "$file")
    for program in "$here"/../lib*/python3*/*-packages/gpuwhy/_install/bin/gpuwhy "$here"/../gpuwhy/_install/bin/gpuwhy \
        "$here"/../../gpuwhy/_install/bin/gpuwhy; do
        if [ -x "$program" ]; then
            exec "$program" "$@"
        fi
    done
done
echo "gpuwhy: the Python package gpuwhy is not beside $here; install it again" >&2
exit 127
