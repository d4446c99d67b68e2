#!/bin/sh
# What recording costs and how fast recordings are read; docs/benchmarks.md has figures and how they are taken.
set -eu
build=$1
shift
if ! command -v python3 >/dev/null; then
    echo "make bench: needs python3" >&2
    exit 1
fi
exec python3 -B bench/bench.py --build "$build" "$@"
