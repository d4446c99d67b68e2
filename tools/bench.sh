#!/bin/sh
# Measure the cost of recording and the speed of reading recordings. docs/benchmarks.md has the results and the method.
set -eu
build=$1
shift
if ! command -v python3 >/dev/null; then
    echo "make bench: needs python3" >&2
    exit 1
fi
exec python3 -B bench/bench.py --build "$build" "$@"
