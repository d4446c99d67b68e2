#!/bin/sh
# With only cc, make and cmake: `tools/check_minimal.sh <folder>` builds there with the optional libraries hidden and with no other
# tool in the path than those three, what they call, and what every system has; then records and judges on a virtual card,
# and looks whether the parts that are missing say so.
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL # of a make that started us
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$folder/check-minimal
rm -rf "$work"
mkdir -p "$work/bin"

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
expect() { # file text
    grep -qF -- "$2" "$1" || fail "not said: '$2'; there is:
$(cat "$1")"
}

# ---- the tools: nothing else is found ----
compiler=$(command -v "${CC:-cc}") || fail "no C compiler"
ln -s "$compiler" "$work/bin/cc"
for tool in make cmake as ld ar ranlib nm objdump strip sh cat chmod cp cut date dirname expr grep head ln ls mkdir mktemp mv \
    nproc rm rmdir sed sleep sort tail test touch tr true uname wc ldd; do
    path=$(command -v "$tool") || fail "no $tool"
    case $path in
    /*) [ -e "$work/bin/$tool" ] || ln -s "$path" "$work/bin/$tool" ;;
    *) ;; # the shell's own
    esac
done
unset CC CFLAGS LDFLAGS
PATH=$work/bin
export PATH
for tool in python3 perl git pkg-config clang-format zstd; do
    ! command -v "$tool" >/dev/null 2>&1 || fail "$tool is still found"
done

# ---- the build: OFF is a value that no search replaces ----
hidden=
for library in ZSTD JSONC CMOCKA ELF DW DNNL; do
    hidden="$hidden -DGW_${library}_INCLUDE:STRING=OFF -DGW_${library}_LIBRARY:STRING=OFF"
done
hidden="$hidden -DGW_PYTHON3:STRING=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON"
# shellcheck disable=SC2086 # options are words
sh tools/build.sh "$folder" -DCMAKE_BUILD_TYPE=Release -DGW_STRICT=ON $hidden >"$work/build" || fail "$(cat "$work/build")"
for library in zstd json-c cmocka oneDNN; do
    expect "$work/build" "$library not found: "
done
gpuwhy=$folder/gpuwhy
ldd "$gpuwhy" "$folder/lib/gpuwhy/libgpuwhy-hook.so" "$folder/lib/gpuwhy/virtual/libcuda.so.1" >"$work/ldd"
! grep -E 'zstd|json-c|cmocka|not found' "$work/ldd" || fail "linked to what was hidden"

# ---- what works ----
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME
run() { # name wanted-status command...: its outputs are $work/<name>.out and .err
    name=$1 wanted=$2
    shift 2
    status=0
    "$@" >"$work/$name.out" 2>"$work/$name.err" || status=$?
    [ "$status" -eq "$wanted" ] || fail "exit status $status, not $wanted: $*
$(cat "$work/$name.out" "$work/$name.err")"
}
card="--gpu virtual:h200,memory=16GiB"
leak="--runs 2 --batch 16384 --keep-runs"
# shellcheck disable=SC2086
{
    run twin 0 "$gpuwhy" run $card -o "$work/twin.gpuwhy" -- "$folder/examples/cnn" --runs 2 --batch 16384
    run leak 1 "$gpuwhy" run $card -o "$work/leak.gpuwhy" -- "$folder/examples/cnn" $leak
}
expect "$work/twin.err" "no fault"
expect "$work/leak.err" "Verdict  gpu-oom-leak (supported)"
expect "$work/leak.err" "Where    cnn+0x"
# shellcheck disable=SC2086
run blame 1 "$gpuwhy" run $card --blame -o "$work/blame.gpuwhy" -- "$folder/examples/cnn" --runs 2 --bad-address
expect "$work/blame.err" "(established): kernel class_report touched"
run explain 0 "$gpuwhy" explain "$work/leak.gpuwhy"
expect "$work/explain.out" "Verdict  gpu-oom-leak (supported)"
run csv 0 "$gpuwhy" export "$work/leak.gpuwhy" --to csv
expect "$work/csv.out" "cuMemAlloc_v2"

# ---- what does not, and says so ----
run version 0 "$gpuwhy" version
expect "$work/version.out" "no (built without json-c)"
expect "$work/version.out" "no (built without zstd)"
expect "$work/version.out" "no (built without elfutils: native frames are file and address)"
run json 2 "$gpuwhy" explain --json - "$work/leak.gpuwhy"
expect "$work/json.err" "json-c"
run run-json 2 "$gpuwhy" run --gpu virtual:h200 --json "$work/verdict.json" -- true
expect "$work/run-json.err" "json-c"
run export-json 2 "$gpuwhy" export "$work/leak.gpuwhy" --to json
expect "$work/export-json.err" "json-c"
run core 2 "$gpuwhy" run --gpu virtual:h200 --core -- true
expect "$work/core.err" "elfutils"
run packed 2 "$gpuwhy" explain tests/fixtures/format/version-1-packed.gpuwhy
expect "$work/packed.err" "packed with zstd, which this build lacks"
echo "passed: built with cc, make and cmake alone; run, explain and the virtual card work; JSON, compression and names say that they are off"
