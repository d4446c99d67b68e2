#!/bin/sh
# Fuzz every parser of data from outside, and the model and the verdict behind them, under the sanitizers; then judge
# recordings that are large in one way (tests/sized). FUZZ_SECONDS (60) is the time for each fuzzer, and for the large
# recordings of each shape group. Needs clang.
set -eu
sh tools/build.sh build-fuzz -DCMAKE_BUILD_TYPE=Debug -DGW_FUZZ=ON -DCMAKE_C_COMPILER=clang
sh tools/build.sh build -DCMAKE_BUILD_TYPE=Release
sh tools/products.sh build libgpuscope
SOURCE=trainer sh tools/build.sh build-fuzz/trainer -DCMAKE_BUILD_TYPE=Debug -DGW_FUZZ=ON -DCMAKE_C_COMPILER=clang \
    -DCMAKE_PREFIX_PATH="$PWD/build/installed"
seconds=${FUZZ_SECONDS:-60}
for program in build-fuzz/tests/fuzz/fuzz_* build-fuzz/trainer/tests/fuzz/fuzz_*; do
    if [ -f "$program" ] && [ -x "$program" ]; then
        corpus=build-fuzz/corpus/${program##*/}
        mkdir -p "$corpus"
        if [ "${program##*/}" = fuzz_gpucore ] && command -v zstd >/dev/null 2>&1; then
            zstd -dqf --output-dir-flat "$corpus" tests/fixtures/gpucore/device-assert.cudacore.zst
        fi
        if [ "${program##*/}" = fuzz_parts ]; then
            { printf '\0\0\0\0\0\0\0\0'; cat /bin/true; } >"$corpus/true"
        fi
        if [ "${program##*/}" = fuzz_logs ]; then
            cp tests/logs/produced/*.log "$corpus"
        fi
        echo "== ${program##*/}, $seconds s"
        GW_FUZZ_SEEDS="$corpus" "$program" -max_total_time="$seconds" -print_final_stats=1 "$corpus" 2>"$corpus.log" ||
            { tail -40 "$corpus.log"; exit 1; }
        sed -nE 's/^stat::number_of_executed_units: */  inputs tried: /p' "$corpus.log"
    fi
done

echo "== recordings of 1,000 to 1,000,000 items of each kind, one after the other for $((seconds * 10)) s"
python3 -B tests/sized/sized.py build --all --shuffle --count 1000 --steps 3 --seconds $((seconds * 10))
