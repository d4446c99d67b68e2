#!/bin/sh
# `tools/check_minimal.sh <folder>`: build there with only cc, make, cmake and the required libraries. The optional libraries
# are hidden, and the path contains only those three tools, the programs that they call, and standard system tools. Then
# record and judge a run on a virtual card, check that missing features are reported, and check that a missing required
# library stops the configuration.
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL # set by a make that started this script
mkdir -p "$1"
folder=$(cd "$1" && pwd)
work=$folder/check-minimal
rm -rf "$work"
mkdir -p "$work/bin"

. tools/expect.sh

# ---- the tools: a path with nothing else ----
compiler=$(command -v "${CC:-cc}") || fail "no C compiler"
ln -s "$compiler" "$work/bin/cc"
for tool in make cmake as ld ar ranlib nm objdump strip sh cat chmod cp cut date dirname expr grep head ln ls mkdir mktemp mv \
    nproc rm rmdir sed sleep sort tail test touch tr true uname wc; do
    path=$(command -v "$tool") || fail "no $tool"
    case $path in
    /*) [ -e "$work/bin/$tool" ] || ln -s "$path" "$work/bin/$tool" ;;
    *) ;; # shell built-in
    esac
done
unset CC CFLAGS LDFLAGS
PATH=$work/bin
export PATH
for tool in python3 perl git pkg-config clang-format zstd; do
    ! command -v "$tool" >/dev/null 2>&1 || fail "$tool is still found"
done

# ---- the build: OFF is a value that find_library() does not replace. Without optimisation, it takes a third of the time. The
# test `packages` compiles the same code with it ----
hidden=
for library in HS PCRE2 ZLIB LZMA CMOCKA CURSES MICROHTTPD; do
    hidden="$hidden -DGW_${library}_INCLUDE:STRING=OFF -DGW_${library}_LIBRARY:STRING=OFF"
done
hidden="$hidden -DGW_SLURM_INCLUDE:STRING=OFF"
hidden="$hidden -DGW_DYGRAPHS_SCRIPT:STRING=OFF -DGW_DYGRAPHS_STYLE:STRING=OFF"
hidden="$hidden -DGW_PYTHON3:STRING=OFF -DCMAKE_DISABLE_FIND_PACKAGE_Python3=ON -DCMAKE_DISABLE_FIND_PACKAGE_Git=ON"
# shellcheck disable=SC2086 # options are words
sh tools/build.sh "$folder" -DCMAKE_BUILD_TYPE=Release -DCMAKE_C_FLAGS_RELEASE="-O0 -DNDEBUG" -DGW_STRICT=ON $hidden >"$work/build" || fail "$(cat "$work/build")"
for library in "Hyperscan or PCRE2" zlib liblzma cmocka "ncurses (wide)" libmicrohttpd; do
    expect "$work/build" "$library not found: "
done
expect "$work/build" "(libjs-dygraphs): no HTML reports"
gpuwhy=$folder/gpuwhy
for file in "$gpuwhy" "$folder/lib/gpuwhy/libgpuwhy-hook.so" "$folder/lib/gpuwhy/virtual/libcuda.so.1"; do
    objdump -p "$file" | grep NEEDED >"$work/needed"
    ! grep -E 'libhs|pcre2|libz\.|lzma|cmocka|ncurses|microhttpd' "$work/needed" || fail "$file is linked to what was hidden"
done

# ---- features that must work ----
XDG_STATE_HOME=$work/state
export XDG_STATE_HOME
card="--gpu virtual:h200,memory=16GiB"
leak="--runs 2 --batch 16384 --keep-runs"
# shellcheck disable=SC2086
{
    run twin 0 "$gpuwhy" run $card -o "$work/twin.gpuwhy" -- "$folder/examples/cnn" --runs 2 --batch 16384
    run leak 1 "$gpuwhy" run $card -o "$work/leak.gpuwhy" -- "$folder/examples/cnn" $leak
}
expect "$work/twin.err" "no fault"
expect "$work/leak.err" "Verdict  gpu-oom-leak (supported)"
expect "$work/leak.err" "examples/cnn/cnn.c:"
# shellcheck disable=SC2086
run blame 1 "$gpuwhy" run $card --blame -o "$work/blame.gpuwhy" -- "$folder/examples/cnn" --runs 2 --bad-address
expect "$work/blame.err" "(established): kernel class_report accessed"
run explain 0 "$gpuwhy" explain "$work/leak.gpuwhy"
expect "$work/explain.out" "Verdict  gpu-oom-leak (supported)"
run csv 0 "$gpuwhy" export "$work/leak.gpuwhy" --to csv
expect "$work/csv.out" "cuMemAlloc_v2"
run history 0 "$gpuwhy" history --where "cause = 'gpu-oom-leak'"
expect "$work/history.out" "cnn --runs 2"
run watch 0 "$gpuwhy" watch --once
expect "$work/watch.out" "RECORDED RUN"
run watch-json 0 "$gpuwhy" watch --once --json
expect "$work/watch-json.out" '"kind":"watch"'

# ---- features that are missing and must report it ----
run version 0 "$gpuwhy" version
expect "$work/version.out" "no (built without Hyperscan and PCRE2)"
expect "$work/version.out" "no (built without zlib)"
expect "$work/version.out" "no (built without liblzma)"
expect "$work/version.out" "no (built without ncurses)"
expect "$work/version.out" "no (built without libmicrohttpd)"
run listen 2 "$gpuwhy" watch --listen 127.0.0.1:0
expect "$work/listen.err" "this build cannot serve metrics"
expect "$work/version.out" "no (built without dygraphs)"
run report 2 "$gpuwhy" report /no/such/recording -o "$work/report.html"
expect "$work/report.err" "install libjs-dygraphs"
[ ! -e "$work/report.html" ] || fail "a page was written without its charts"
echo "RuntimeError: CUDA error: out of memory" >"$work/train.log"
run log 2 "$gpuwhy" explain "$work/train.log"
expect "$work/log.err" "this build cannot read text logs"

# ---- required libraries ----
for library in JSONC ZSTD SQLITE ELF DW; do
    cmake -S . -B "$work/without-$library" -DGW_${library}_INCLUDE:STRING=OFF -DGW_${library}_LIBRARY:STRING=OFF \
        2>&1 >"$work/without.out" | tr -s ' \n' ' ' >"$work/without.err"
    expect "$work/without.err" "apt-get install lib"
done
echo "passed: built with cc, make, cmake and the required libraries; run, explain and the virtual GPU work; the missing parts are reported"
