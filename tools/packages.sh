#!/bin/sh
# Build packages into build-packages/: `tools/packages.sh [wheel] [tar] [deb] [rpm]` (default: all). Equal sources make equal
# packages, wherever and whenever they are built. BUILD_PACKAGES is another folder; docs/packages.md describes the packages.
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL # set by a make that started this script
glibc=2.17
source=$(pwd -P)
out=${BUILD_PACKAGES:-build-packages}
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
case $source$out in
*[[:space:]]*)
    echo "tools/packages.sh: the compiler's options cannot have the spaces of $source or $out" >&2
    exit 1
    ;;
esac
version=$(sed -nE 's/^project\(gpuwhy VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)
[ -n "$version" ] || { echo "tools/packages.sh: no version in CMakeLists.txt" >&2; exit 1; }
# The time of all files: that of the commit; without git, that of the list of sources.
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct 2>/dev/null || stat -c %Y CMakeLists.txt)}"
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC0
umask 022

# Run a command, and show its output only if it fails.
quietly() { # name command...
    name=$1
    shift
    "$@" >"$out/$name.log" 2>&1 || {
        tail -40 "$out/$name.log" >&2
        echo "tools/packages.sh: $name failed; all of it: $out/$name.log" >&2
        exit 1
    }
}

build() {
    [ "$(uname -m)" = x86_64 ] || { echo "tools/packages.sh: packages are built on x86-64 only" >&2; exit 1; }
    sh tools/need.sh build logs report watch packages
    quietly glibc python3 -B packaging/glibc/stubs.py $glibc "$out/glibc"
    command -v ninja >/dev/null 2>&1 && export CMAKE_GENERATOR="${CMAKE_GENERATOR:-Ninja}"
    rm -rf "$out/build" "$out/libgpuscope" "$out/installed" # no file of an earlier build gets into a package
    build_product . build
    quietly install cmake --install "$out/build" --prefix "$out/installed"
    build_product libgpuscope libgpuscope -DCMAKE_PREFIX_PATH="$out/installed"
}

build_product() { # sources folder options...
    from=$1 to=$2
    shift 2
    # shellcheck disable=SC2086 # options are words
    GW_GLIBC=$out/glibc quietly "configure-$to" cmake -S "$from" -B "$out/$to" -C packaging/portable.cmake "$@" ${PACKAGES_CMAKE:-}
    quietly "build-$to" cmake --build "$out/$to" -j"$(nproc)" --target installed
}

# The licenses of what is linked statically or copied into the packages, as Debian documents them.
collect_licenses() {
    rm -rf "$out/licenses"
    mkdir -p "$out/licenses/common"
    for library in json-c:libjson-c-dev zstd:libzstd-dev elfutils:libdw-dev zlib:zlib1g-dev liblzma:liblzma-dev \
        bzip2:libbz2-dev hyperscan:libhyperscan-dev libstdc++:libstdc++-12-dev pcre2:libpcre2-dev ncurses:libncurses-dev \
        sqlite:libsqlite3-dev libunistring:libunistring-dev glibc:libc6-dev dygraphs:libjs-dygraphs; do
        cp -L "/usr/share/doc/${library#*:}/copyright" "$out/licenses/${library%%:*}.txt"
    done
    for text in Apache-2.0 GPL-2 GPL-3 LGPL-2.1 LGPL-3; do
        cp -L "/usr/share/common-licenses/$text" "$out/licenses/common/$text.txt"
    done
}

# Install into a folder, as a package of a distribution would. The programs of the lessons keep their line numbers.
stage() { # folder library-folder
    rm -rf "$1"
    for built in build libgpuscope; do
        quietly "configure-$built-${1##*/}" cmake "$out/$built" -DCMAKE_INSTALL_LIBDIR="$2"
        DESTDIR=$1 quietly "install-$built-${1##*/}" cmake --install "$out/$built" --prefix /usr
    done
    find "$1" -type f ! -path '*/lab/*' \( -name '*.so*' -o -name stderr-relay -o -path '*/bin/*' \) -exec strip --strip-unneeded {} +
    find "$1" -name '*.a' -exec strip --strip-debug --enable-deterministic-archives {} +
    mkdir -p "$1/usr/share/doc/gpuwhy"
    cp LICENSE "$1/usr/share/doc/gpuwhy/"
    cp -r "$out/licenses" "$1/usr/share/doc/gpuwhy/licenses"
    find "$1" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
}

pack_wheel() {
    rm -f "$out"/*.whl
    python3 -B packaging/wheel/wheel.py "$out/stage/usr" "$out/licenses" "$version" "$out"
}

pack_tar() {
    name=gpuwhy-$version-linux-x86_64
    rm -f "$out/$name.tar.zst"
    tar --sort=name --format=gnu --owner=0 --group=0 --numeric-owner --mtime="@$SOURCE_DATE_EPOCH" -C "$out/stage" \
        --transform "s,^usr,$name," -cf - usr | zstd -q -19 -T1 -o "$out/$name.tar.zst"
    echo "$out/$name.tar.zst"
}

# The packages of Debian and its derivatives: gpuwhy, libgpuscope0 and libgpuscope-dev.
pack_deb() {
    sh tools/need.sh debian
    rm -rf "$out/deb" "$out"/*.deb
    mkdir -p "$out/deb/gpuwhy"
    cp -r packaging/debian "$out/deb/gpuwhy/debian"
    stage "$out/deb/gpuwhy/tree" lib/x86_64-linux-gnu
    documents=$out/deb/gpuwhy/tree/usr/share/doc/gpuwhy
    rm "$documents/LICENSE" # debian/copyright replaces it
    mv "$documents/licenses" "$documents/libraries"
    rm -r "$documents/libraries/common" # base-files has these texts
    printf 'gpuwhy (%s) unstable; urgency=medium\n\n  * Version %s.\n\n -- %s  %s\n' "$version" "$version" \
        "$(sed -n 's/^Maintainer: //p' packaging/debian/control)" "$(date -u -R -d "@$SOURCE_DATE_EPOCH")" \
        >"$out/deb/gpuwhy/debian/changelog"
    (cd "$out/deb/gpuwhy" && quietly dpkg dpkg-buildpackage -b -us -uc)
    mv "$out"/deb/*.deb "$out"
    ls "$out"/*.deb
}

# The packages of Fedora, RHEL, SUSE and their derivatives: gpuwhy, libgpuscope and libgpuscope-devel.
pack_rpm() {
    sh tools/need.sh rpm
    rm -rf "$out/rpm" "$out"/*.rpm
    stage "$out/rpm/tree" lib64
    quietly rpmbuild rpmbuild -bb --target x86_64-linux --define "tree $out/rpm/tree" --define "version $version" \
        --define "_topdir $out/rpm/top" --define '_prefix /usr' --define '_libdir /usr/lib64' \
        --define '_includedir /usr/include' --define '_datadir /usr/share' packaging/rpm/gpuwhy.spec
    mv "$out"/rpm/top/RPMS/x86_64/*.rpm "$out"
    ls "$out"/*.rpm
}

build
collect_licenses
stage "$out/stage" lib
[ $# -gt 0 ] || set -- wheel tar deb rpm
for kind in "$@"; do
    case $kind in
    wheel | tar | deb | rpm) "pack_$kind" ;;
    *)
        echo "tools/packages.sh: unknown package $kind" >&2
        exit 2
        ;;
    esac
done
