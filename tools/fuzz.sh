#!/bin/sh
# Every parser against made-up input, built with the sanitizers; GPUWHY_FUZZ_S seconds each (60).
set -eu
sh tools/build.sh build-fuzz -DCMAKE_BUILD_TYPE=Debug -DGW_SANITIZE=address,undefined
seconds=${GPUWHY_FUZZ_S:-60}
found=0
for program in build-fuzz/tests/fuzz/*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
        found=1
        echo "== ${program##*/}, $seconds s"
        "$program" "$seconds"
    fi
done
if [ "$found" -eq 0 ]; then
    echo "make fuzz: this build has no fuzzers" >&2
    exit 1
fi
