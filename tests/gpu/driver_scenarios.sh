#!/bin/sh
# The scenarios of the driver API on a real GPU: the same programs and checks as on the virtual card, with small cards made
# by --memory. Prints a line a scenario; exits 1 when one failed, 77 where there is no GPU, 2 where there is no build.
#
#   tests/gpu/driver_scenarios.sh [build folder] [scenario...]
set -u
here=$(cd "$(dirname "$0")" && pwd)
build=${1:-build}
[ $# -gt 0 ] && shift

if [ ! -x "$build/gpuwhy" ] || [ ! -x "$build/examples/cnn" ]; then
    echo "driver_scenarios: $build holds no gpuwhy and examples: build first" >&2
    exit 2
fi
if ! ls /dev/nvidia[0-9]* >/dev/null 2>&1; then
    echo "skipped: no NVIDIA GPU on this machine"
    exit 77
fi

GPUWHY_BUILD=$build
GPUWHY_E2E_GPU=real
PYTHONDONTWRITEBYTECODE=1
export GPUWHY_BUILD GPUWHY_E2E_GPU PYTHONDONTWRITEBYTECODE
scenarios=$here/../e2e/scenarios.py
[ $# -gt 0 ] || set -- $(python3 "$scenarios" --list --real)

failed=0
for name in "$@"; do
    output=$(python3 "$scenarios" "$name" 2>&1)
    case $? in
    0) result=passed ;;
    77) result=skipped ;;
    *)
        result=FAILED
        failed=$((failed + 1))
        ;;
    esac
    printf '%-16s %-8s %s\n' "$name" "$result" "$(printf '%s' "$output" | head -n 1)"
    [ "$result" = FAILED ] && printf '%s\n' "$output" | sed 's/^/    /'
done
[ "$failed" -eq 0 ] || { echo "$failed failed" >&2 && exit 1; }
