#!/bin/sh
# What only a real GPU can show. Fails where there is none: a check that did not run is no check.
set -eu
build=$1
if [ ! -e /dev/nvidiactl ] || ! ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1'; then
    echo "make check-gpu: no NVIDIA GPU and driver here, so nothing was checked" >&2
    exit 1
fi
(cd "$build" && ctest -L gpu --output-on-failure --no-tests=error)
