#!/bin/sh
# A small network trained twice on a virtual 16 GiB card, keeping what the first run allocated: the second one dies.
set -eu
build=$1
set -- --runs 2 --batch 16384 --keep-runs
echo "\$ $build/gpuwhy run --gpu virtual:h200,memory=16GiB -- $build/examples/cnn $*"
status=0
"$build/gpuwhy" run --gpu virtual:h200,memory=16GiB -- "$build/examples/cnn" "$@" || status=$?
# The program must have died of what it did; anything else is no demonstration.
if [ "$status" -eq 0 ] || [ "$status" -ge 126 ]; then
    echo "the demonstration failed: exit status $status" >&2
    exit 1
fi
