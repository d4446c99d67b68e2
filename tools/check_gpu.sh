#!/bin/sh
# Run the tests that need a real GPU. Without one this fails, because nothing was checked.
set -u
build=$1
if [ ! -e /dev/nvidiactl ]; then
    echo "make check-gpu: this machine has no NVIDIA GPU (/dev/nvidiactl is missing), so nothing was checked" >&2
    exit 1
fi
log=$build/check-gpu.log
(cd "$build" && ctest -L gpu --output-on-failure --no-tests=error) 2>&1 | tee "$log"
results=$(sed -E -f tools/results.sed "$log")
passed=$(echo "$results" | grep -c ' Passed$')
skipped=$(echo "$results" | grep -c ' Skipped$')
failed=$(echo "$results" | grep -c ' Failed$')
echo "$results" | sed -nE 's/^([^ ]+) Skipped$/  skipped  \1/p'
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
