#!/bin/sh
# Start the program of the Python package gpuwhy. A shell starts faster than Python.
here=$(dirname -- "$(readlink -f -- "$0")")
for program in "$here"/../lib*/python3*/*-packages/gpuwhy/_install/bin/gpuwhy "$here"/../gpuwhy/_install/bin/gpuwhy; do
    if [ -x "$program" ]; then
        exec "$program" "$@"
    fi
done
echo "gpuwhy: the Python package gpuwhy is not beside $here; install it again" >&2
exit 127
