#!/bin/sh
# Make GPU core dumps for tests/fixtures/gpucore: `make_dumps.sh BUILD OUT`. Each is made as users get it, with `gpuwhy
# run --core`, so the driver aborts the process. OUT receives the dumps packed by zstd, their recordings and verdicts,
# and one line for each. Needs nvcc.
set -eu
build=$1 out=$2
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$out"
nvcc=$(command -v nvcc || echo /usr/local/cuda/bin/nvcc)
failed=0

make_dump() { # name program arguments...
    name=$1 program=$2
    shift 2
    [ -x "$work/$program" ] || "$nvcc" -arch=native -O1 -lineinfo -o "$work/$program" "$here/cuda/$program.cu"
    status=0
    "$build/gpuwhy" run --core --json "$out/$name.json" -o "$out/$name.gpuwhy" -- "$work/$program" "$@" \
        >"$out/$name.out" 2>"$out/$name.err" || status=$?
    dump=$(find "$out" -name "$name.*.cudacore" | head -1)
    if [ -z "$dump" ]; then
        echo "$name: no dump; exit status $status"
        failed=1
        return
    fi
    bytes=$(wc -c <"$dump")
    if command -v zstd >/dev/null; then
        zstd -19 -q -f "$dump" -o "$out/$name.cudacore.zst"
        rm -f "$dump"
    else
        mv "$dump" "$out/$name.cudacore" # to be packed on another machine
    fi
    echo "$name: exit status $status, $bytes bytes; $(sed -n 's/^Verdict  //p' "$out/$name.err")"
}

make_dump illegal-address s12_bad_address
make_dump device-assert s13_assert
make_dump misaligned s14_faults misaligned
make_dump trap s14_faults trap
make_dump recursion s14_faults recursion
exit $failed
