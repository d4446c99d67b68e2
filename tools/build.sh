#!/bin/sh
# Configure and build, quietly: `tools/build.sh <folder> [cmake options]`. What the tools say goes into <folder>/build.log
# and is shown when something fails.
set -eu
folder=$1
shift
mkdir -p "$folder"
log=$folder/build.log
# Ninja, where it is, spends no time on looking what there is to do.
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
    export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
fi
if ! cmake -S . -B "$folder" "$@" >"$log" 2>&1 || ! cmake --build "$folder" -j"$(nproc)" >>"$log" 2>&1; then
    grep -nE 'error|Error|warning:' "$log" | head -40 || true
    echo "---"
    tail -20 "$log"
    echo "the build in $folder failed; all of it: $log"
    exit 1
fi
# What this build lacks is said once, at the end.
grep -h '^-- .* not found' "$log" | sed 's/^-- //' || true
