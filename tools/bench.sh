#!/bin/sh
# What recording costs; docs/benchmarks.md has figures and how they are taken.
set -eu
build=$1
found=0
for program in "$build"/tests/bench/*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
        found=1
        echo "== ${program##*/}"
        "$program"
    fi
done
if [ "$found" -eq 0 ]; then
    echo "make bench: this build has no benchmark programs" >&2
    exit 1
fi
