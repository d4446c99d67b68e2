#!/bin/sh
# Install missing versions of CPython into build-pythons/, from Debian's releases: 3.9, 3.13 and 3.14. Needs root and
# debootstrap (apt-get install debootstrap). Each version is a separate folder with its own C library; the program pythonX.Y
# beside it runs it. Then every installed version is tested. 3.10 and 3.12 are in no Debian release; they are taken from
# PATH or pyenv if they exist there (tests/python/with_version.py).
#
# `pythons.sh lacking` installs only the versions that are not found. If it cannot, it prints a message and exits with 0;
# the tests of that version are then printed as skipped.
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
        echo "CPython$wanted not found, and only root can install it: not tested"
        exit 0
    fi
fi
# The package mirror of this machine.
mirror=${GPUWHY_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1)}

bring() { # suite version
    suite=$1 version=$2 root=$PWD/$folder/$1
    if is_there "$version"; then
        echo "  python$version is installed"
        return
    fi
    mkdir -p "$folder"
    echo "  python$version from $suite"
    rm -rf "$root"
    # For a release that debootstrap does not know yet, use the script of unstable.
    if ! debootstrap --variant=minbase --include=python3-minimal,libpython3-stdlib "$suite" "$root" "$mirror" \
        /usr/share/debootstrap/scripts/sid >"$folder/$suite.log" 2>&1; then
        tail -3 "$folder/$suite.log" >&2
        echo "  python$version could not be installed" >&2
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
