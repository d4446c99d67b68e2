#!/bin/sh
# Configure and build quietly: `tools/build.sh <folder> [cmake options]`. The output goes to <folder>/build.log and is
# shown if the build fails. SOURCE in the environment is another source folder than this one.
set -eu
folder=$1
shift
mkdir -p "$folder"
log=$folder/build.log
# Use Ninja if it is installed: it finds out faster which files need a rebuild.
if [ ! -e "$folder/CMakeCache.txt" ] && command -v ninja >/dev/null 2>&1; then
    export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
fi
if ! cmake -S "${SOURCE:-.}" -B "$folder" "$@" >"$log" 2>&1 || ! cmake --build "$folder" -j"$(nproc)" >>"$log" 2>&1; then
    grep -nE 'error|Error|warning:' "$log" | head -40 || true
    echo "---"
    tail -20 "$log"
    echo "the build in $folder failed; all of it: $log"
    exit 1
fi
# List the missing features of this build once, at the end.
grep -h '^-- .* not found' "$log" | sed 's/^-- //' || true
