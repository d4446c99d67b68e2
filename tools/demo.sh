#!/bin/sh
# Train a small network twice on a virtual 16 GiB card without freeing the memory of the first run, so the second run fails.
set -eu
build=$1
set -- --runs 2 --batch 16384 --keep-runs
echo "\$ $build/gpuwhy run --gpu virtual:h200,memory=16GiB -- $build/examples/cnn $*"
status=0
"$build/gpuwhy" run --gpu virtual:h200,memory=16GiB -- "$build/examples/cnn" "$@" || status=$?
# The program must fail by itself (exit status 1 to 125); any other end is an error of the demonstration.
if [ "$status" -eq 0 ] || [ "$status" -ge 126 ]; then
    echo "the demonstration failed: exit status $status" >&2
    exit 1
fi
