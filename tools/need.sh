#!/bin/sh
# Check the packages that a target needs: `tools/need.sh build [logs] [report] [products] [watch] [check] [packages] [debian]
# [rpm] [lintian] [pythons] [slurm] [fuzz]`.
# Missing packages are installed on Debian and its derivatives if we are root; otherwise the command that installs them is
# printed.
set -eu

missing=
need_command() { # command package
    command -v "$1" >/dev/null 2>&1 || missing="$missing $2"
}
need_header() { # header package
    printf '#include <stddef.h>\n#include <stdarg.h>\n#include <setjmp.h>\n#include <stdint.h>\n#include <%s>\n' "$1" |
        "${CC:-cc}" -fsyntax-only -x c - >/dev/null 2>&1 || missing="$missing $2"
}

for part in "$@"; do
    case $part in
    build)
        need_command "${CC:-cc}" gcc
        need_command make make
        need_command cmake cmake
        need_header stdio.h libc6-dev
        need_header json-c/json.h libjson-c-dev
        need_header zstd.h libzstd-dev
        need_header sqlite3.h libsqlite3-dev
        need_header uniwidth.h libunistring-dev
        need_header md4c.h libmd4c-dev
        need_header gelf.h libelf-dev
        need_header elfutils/libdw.h libdw-dev
        ;;
    logs)
        [ "$(uname -m)" != x86_64 ] || need_header hs/hs.h libhyperscan-dev
        printf '#define PCRE2_CODE_UNIT_WIDTH 8\n#include <pcre2.h>\n' | "${CC:-cc}" -fsyntax-only -x c - >/dev/null 2>&1 ||
            missing="$missing libpcre2-dev"
        need_header zlib.h zlib1g-dev
        need_header lzma.h liblzma-dev
        ;;
    report) [ -e /usr/share/javascript/dygraphs/dygraph.min.js ] || missing="$missing libjs-dygraphs" ;;
    products) # the trainer
        need_header oneapi/dnnl/dnnl.h libdnnl-dev
        printf '#include <stdio.h>\n#include <jpeglib.h>\n' | "${CC:-cc}" -fsyntax-only -x c - >/dev/null 2>&1 ||
            missing="$missing libjpeg62-turbo-dev"
        need_header png.h libpng-dev
        ;;
    slurm)
        need_header slurm/spank.h libslurm-dev
        need_command slurmctld slurmctld
        need_command slurmd slurmd
        need_command srun slurm-client
        need_command munged munge
        need_command python3 python3
        need_command ip iproute2
        ;;
    watch)
        need_header ncursesw/ncurses.h libncurses-dev
        need_header microhttpd.h libmicrohttpd-dev
        ;;
    check)
        need_header slurm/spank.h libslurm-dev
        need_header cmocka.h libcmocka-dev
        need_command clang-format clang-format
        need_command python3 python3
        need_command "${CXX:-c++}" g++
        need_command pkg-config pkg-config
        python3 -c 'import ensurepip, venv' >/dev/null 2>&1 || missing="$missing python3-venv"
        python3 -c 'import numpy' >/dev/null 2>&1 || /usr/bin/python3 -c 'import numpy' >/dev/null 2>&1 ||
            missing="$missing python3-numpy"
        need_command ps procps
        need_command unshare util-linux
        need_command git git
        need_command zstd zstd
        need_command gdb gdb
        need_command ninja ninja-build
        need_command tmux tmux
        need_command vim.tiny vim-tiny
        need_command htop htop
        need_command less less
        need_command promtool prometheus
        need_command man man-db
        need_command mandoc mandoc
        need_command zsh zsh
        need_command fish fish
        [ -e /usr/share/bash-completion/bash_completion ] || missing="$missing bash-completion"
        python3 -c 'import jsonschema' >/dev/null 2>&1 || /usr/bin/python3 -c 'import jsonschema' >/dev/null 2>&1 ||
            missing="$missing python3-jsonschema"
        need_command chromium chromium
        need_command chromedriver chromium-driver
        need_command pdftoppm poppler-utils
        ;;
    packages)
        need_command python3 python3
        need_command readelf binutils
        need_command zstd zstd
        need_command "${CXX:-c++}" g++ # for the static libstdc++ of Hyperscan
        need_header bzlib.h libbz2-dev # for the static libdw
        ;;
    debian)
        need_command dh debhelper
        need_command dpkg-buildpackage dpkg-dev
        ;;
    rpm) need_command rpmbuild rpm ;;
    lintian) need_command lintian lintian ;;
    pythons) need_command debootstrap debootstrap ;;
    fuzz) need_command clang "clang libclang-rt-14-dev" ;;
    *)
        echo "tools/need.sh: unknown part $part" >&2
        exit 2
        ;;
    esac
done

[ -n "$missing" ] || exit 0
command="apt-get install -y --no-install-recommends$missing"
if ! command -v apt-get >/dev/null 2>&1; then
    echo "missing:$missing (names as in Debian); install them and try again" >&2
    exit 1
fi
if [ "$(id -u)" -ne 0 ]; then
    echo "missing:$missing; install them with: sudo $command" >&2
    exit 1
fi
echo "installing:$missing"
log=$(mktemp)
if ! { apt-get update && DEBIAN_FRONTEND=noninteractive $command; } >"$log" 2>&1; then
    tail -20 "$log" >&2
    echo "could not install; by hand: $command" >&2
    rm -f "$log"
    exit 1
fi
rm -f "$log"
