#!/bin/sh
# `tools/products.sh BUILD [libgpuscope] [trainer]`: install that build of gpuwhy into BUILD/installed. Then build the named
# products, or both, against what is installed there, in BUILD/libgpuscope and BUILD/trainer, and install libgpuscope there, too.
# They get the build type, warnings and compiler of BUILD.
set -eu
build=$(cd "$1" && pwd)
shift
[ $# -gt 0 ] || set -- libgpuscope trainer
options=$(sed -nE 's/^(CMAKE_BUILD_TYPE|CMAKE_C_COMPILER|GW_STRICT):[A-Z]+=(.+)/-D\1=\2/p' "$build/CMakeCache.txt")
for product in "$@"; do
    if [ "$product" = libgpuscope ]; then # of the trainer, nothing is installed
        rm -rf "$build/installed"
        cmake --install "$build" --prefix "$build/installed" >"$build/installed.log"
    fi
    # shellcheck disable=SC2086 # options are words
    SOURCE=$product sh tools/build.sh "$build/$product" $options -DCMAKE_PREFIX_PATH="$build/installed"
    [ "$product" = trainer ] || cmake --install "$build/$product" --prefix "$build/installed" >>"$build/installed.log"
done
