#!/bin/sh
# Bring the versions of CPython that this machine lacks into build-pythons/, from Debian's releases: 3.9, 3.13 and 3.14.
# Needs root and debootstrap (apt-get install debootstrap). Each is a folder of its own with a C library of its own; the
# program pythonX.Y beside it runs it. Then every version that is here is tested; 3.10 and 3.12 are no Debian release's:
# they are taken from PATH or pyenv where they are there (tests/python/with_version.py).
#
# `pythons.sh lacking` brings only versions of which nothing is found; where it cannot, it says so and ends well: the
# tests of that version are then printed as skipped.
set -eu
cd "$(dirname "$0")/.."
folder=build-pythons
lacking=${1:-}

is_there() { # version
    if [ -z "$lacking" ]; then
        [ -x "$folder/python$1" ]
    else
        python3 -B tests/python/with_version.py "$1" -c pass >/dev/null 2>&1
    fi
}

if [ -n "$lacking" ]; then
    wanted=
    for version in 3.9 3.13 3.14; do
        is_there "$version" || wanted="$wanted $version"
    done
    [ -n "$wanted" ] || exit 0
    if [ "$(id -u)" -ne 0 ] || ! sh tools/need.sh pythons; then
        echo "no CPython$wanted here, and only root can bring them: not tested"
        exit 0
    fi
fi
# Where this machine gets its own packages from.
mirror=${GPUWHY_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1)}

bring() { # suite version
    suite=$1 version=$2 root=$PWD/$folder/$1
    if is_there "$version"; then
        echo "  python$version is there"
        return
    fi
    mkdir -p "$folder"
    echo "  python$version from $suite"
    rm -rf "$root"
    # The script of a release that debootstrap does not know yet is that of unstable.
    if ! debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib "$suite" "$root" "$mirror" \
        /usr/share/debootstrap/scripts/sid >"$folder/$suite.log" 2>&1; then
        tail -3 "$folder/$suite.log" >&2
        echo "  python$version could not be brought" >&2
        rm -rf "$root"
        return
    fi
    machine=$(basename "$(dirname "$(ls "$root"/usr/lib/*/libc.so.6)")")
    loader=$(ls "$root/usr/lib/$machine"/ld-linux-*.so.*)
    cat >"$folder/python$version" <<END
#!/bin/sh
export PYTHONHOME=$root/usr
exec $loader --library-path $root/lib/$machine:$root/usr/lib/$machine $root/usr/bin/python$version "\$@"
END
    chmod +x "$folder/python$version"
    "$folder/python$version" -c 'import ctypes, asyncio' || rm -f "$folder/python$version"
}

command -v debootstrap >/dev/null || { echo "debootstrap is missing: apt-get install debootstrap" >&2; exit 1; }
bring bullseye 3.9
bring trixie 3.13
bring forky 3.14
