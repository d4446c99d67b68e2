#!/bin/sh
# `tools/check_install.sh <folder>`: install that build by `make install` with PREFIX and DESTDIR, then move the build
# folder away and the installed tree to another place. gpuwhy must find its libraries beside itself, not anywhere else.
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL # set by a make that started this script
build=$(cd "$1" && pwd)
moved=$build.moved
place=$(mktemp -d)
back() {
    [ ! -d "$moved" ] || mv "$moved" "$build"
    rm -rf "$place"
}
trap back EXIT
trap 'exit 130' INT TERM

. tools/expect.sh

rm -rf "$moved" # left by a run that was killed
make install BUILD="$build" DESTDIR="$place/staged" PREFIX=/usr >"$place/install" 2>&1 || fail "$(cat "$place/install")"
expect "$place/install" "installed: $place/staged/usr/bin/gpuwhy"
(cd "$place/staged" && find . ! -type d | sort) >"$place/files"
cat "$place/files"
for file in bin/gpuwhy lib/gpuwhy/libgpuwhy-hook.so lib/gpuwhy/libgpuwhy-c10.so lib/gpuwhy/libgpuwhy-stderr.so lib/gpuwhy/stderr-relay lib/gpuwhy/virtual/libcuda.so.1 lib/gpuwhy/virtual/libcuda.so \
    lib/gpuwhy/virtual/nvml/libnvidia-ml.so.1 lib/gpuwhy/virtual/bin/nvidia-smi \
    lib/gpuwhy/python/gpuwhy_kernel.py lib/gpuwhy/python/gpuwhy_ipython.py lib/gpuwhy/python/gpuwhy.py \
    lib/gpuwhy/report/report.js lib/gpuwhy/report/report.css \
    lib/gpuwhy/lab/cnn lib/gpuwhy/lab/cnn.c lib/gpuwhy/lab/s04_other_process \
    share/gpuwhy/prometheus/alerts.yml share/gpuwhy/prometheus/scrape.yml share/gpuwhy/grafana/dashboard.json \
    share/gpuwhy/systemd/gpuwhy-watch.service \
    share/gpuwhy/schema/verdict.schema.json share/gpuwhy/schema/doctor.schema.json \
    share/gpuwhy/schema/history.schema.json share/gpuwhy/skills/gpuwhy/SKILL.md share/doc/gpuwhy/docs/SKILL.md \
    share/man/man1/gpuwhy.1 share/man/man1/gpuwhy-run.1 share/bash-completion/completions/gpuwhy \
    share/zsh/site-functions/_gpuwhy share/fish/vendor_completions.d/gpuwhy.fish \
    include/gpuwhy/kernel_model.h include/gpuwhy.h include/gpuwhy/gw_api_proto.h include/gpuwhy/gw_cuda_abi.h \
    include/gpuwhy/gw_cuda_results.h lib/gpuwhy/cmake/gpuwhyConfig.cmake lib/gpuwhy/cmake/gpuwhyConfigVersion.cmake; do
    expect "$place/files" "./usr/$file"
done
for file in README.md docs/README.md examples/cnn/cnn.c; do
    expect "$place/files" "./usr/share/doc/gpuwhy/$file"
done
expect "$place/staged/usr/share/gpuwhy/systemd/gpuwhy-watch.service" "ExecStart=/usr/bin/gpuwhy watch"
! grep -v '^\./usr/' "$place/files" || fail "files outside PREFIX"

cp "$build/examples/cnn" "$place/cnn"
mv "$build" "$moved"
mv "$place/staged" "$place/elsewhere"
HOME=$place/home XDG_STATE_HOME=$place/state
export HOME XDG_STATE_HOME
unset XDG_CACHE_HOME
cd /
work=$place # of run()
try() { # name gpuwhy: detect a leak, stay silent for the repaired program, find the last recording
    run "$1-twin" 0 "$2" run --gpu virtual:h200,memory=16GiB -- "$place/cnn" --runs 2 --batch 16384
    expect "$place/$1-twin.err" "no fault"
    run "$1-leak" 1 "$2" run --gpu virtual:h200,memory=16GiB -- "$place/cnn" --runs 2 --batch 16384 --keep-runs
    expect "$place/$1-leak.err" "Verdict  gpu-oom-leak (supported)"
    run "$1-explain" 0 "$2" explain
    expect "$place/$1-explain.out" "Verdict  gpu-oom-leak (supported)"
}
try path "$place/elsewhere/usr/bin/gpuwhy"
# Start it through the search path, and through a link from another folder, as package managers create them.
PATH=$place/elsewhere/usr/bin:$PATH try name gpuwhy
run lesson 0 "$place/elsewhere/usr/bin/gpuwhy" lab run S15
expect "$place/lesson.out" "passed: expected launch-config-invalid"
run lesson-source 0 "$place/elsewhere/usr/bin/gpuwhy" lab run S05 --source
expect "$place/lesson-source.out" "Train a small CNN"
mkdir "$place/links"
ln -s ../elsewhere/usr/bin/gpuwhy "$place/links/gpuwhy"
try link "$place/links/gpuwhy"
# Without its libraries it must print an error and not find other ones.
mv "$place/elsewhere/usr/lib" "$place/elsewhere/usr/nowhere"
status=0
"$place/elsewhere/usr/bin/gpuwhy" run --gpu virtual:h200 -- true >"$place/bare" 2>&1 || status=$?
expect "$place/bare" "a part of the installation is missing"
echo "passed: installed with PREFIX and DESTDIR, moved, and run without the build folder (exit status without libraries: $status)"
