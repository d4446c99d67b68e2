#!/bin/sh
# Run every check that does not need a GPU: formatting, a build with warnings as errors, all tests, the products beside
# gpuwhy with their tests, and the tests of gpuwhy again under the sanitizers. Missing packages are installed first (need.sh).
# The last line is `N passed, N failed, N skipped`; skipped tests are listed.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=$(($(nproc) * 3)) # most tests wait for something most of the time
passed=0 failed=0 skipped=0 flaky=0 names= extras= sanitized= group=
began=$(date +%s)

# Print a line with the time since the start, in minutes and seconds.
progress() { # text
    since=$(($(date +%s) - began))
    printf '%3d:%02d  %s\n' $((since / 60)) $((since % 60)) "$1"
}

# Run a command in its own process group and wait for it, so that end_group can end it with all that it started.
grouped() { # command...
    setsid "$@" &
    group=$!
    wait "$group"
    ended=$?
    group=
    return "$ended"
}

end_group() {
    [ -z "$group" ] || kill -TERM "-$group" 2>/dev/null
}

# Report one result that does not come from ctest.
count() { # what status
    if [ "$2" -eq 0 ]; then
        passed=$((passed + 1))
        echo "  passed   $1"
    else
        failed=$((failed + 1))
        names="$names
  FAILED   $1"
        echo "  FAILED   $1"
    fi
}

formatted() {
    git ls-files '*.c' '*.h' | grep -v '^build' | xargs clang-format --dry-run -Werror
}

# Install what only a few tests need: more versions of Python, Slurm, and the tools that make and try a Debian package. Where
# this is not possible, these tests are skipped.
install_extras() {
    trap 'end_group; exit 143' TERM
    if [ "$(id -u)" -eq 0 ]; then
        grouped sh tools/need.sh slurm debian lintian pythons || echo "Slurm or the Debian package is not tested"
    fi
    grouped sh tools/pythons.sh lacking
}

# install_extras runs in the background during the first build. Wait for it.
wait_for_extras() {
    [ -n "$extras" ] || return 0
    wait "$extras"
    extras=
    cat build-pythons/extras.log
}

# Print the output of the failed tests.
show_failed() { # log
    sed -n '/tests failed/q;p' "$1" | grep -vE '^ +Start +[0-9]|(Passed|Skipped) +[0-9.]+ sec' | tail -120
}

# Run failed tests once more, alone; a test that passes then is reported as flaky. A test with a sanitizer report stays
# failed, because a race need not happen twice.
run_failed_alone() { # folder
    show_failed "$1/check.log"
    ! grep -qE '(Address|Thread|Leak)Sanitizer:|runtime error:' "$1/check.log" || return 0
    # By name: --rerun-failed goes by numbers, which are others without the first run's filters.
    again=$(sed -nE '/ (Passed|Skipped)$/!s/ .*//p' "$1/check.results" | paste -sd'|')
    grouped sh -c 'cd "$1" && exec ctest -R "^($2)\$" -FA ".*" --timeout 300 --output-on-failure --no-tests=error' sh "$1" "$again" \
        >"$1/check.alone.log" 2>&1
    show_failed "$1/check.alone.log"
    sed -E -f tools/results.sed "$1/check.alone.log" >"$1/check.alone"
    grep -E ' (Passed|Skipped)$' "$1/check.results" >"$1/check.first"
    cat "$1/check.first" "$1/check.alone" >"$1/check.results"
    names="$names$(sed -nE "s/^([^ ]+) Passed$/\n  flaky    $name: \1 (failed beside others, passed alone)/p" "$1/check.alone")"
    flaky=$((flaky + $(grep -c ' Passed$' "$1/check.alone")))
}

# Run ctest and print its progress once a minute. Its output goes to check.log. Sets `ended`.
run_ctest() { # name folder ctest options
    label=$1 at=$2
    shift 2
    (cd "$at" && exec setsid ctest -j"$jobs" --timeout 300 --output-on-failure --no-tests=error "$@") >"$at/check.log" 2>&1 &
    group=$!
    seconds=0
    while kill -0 "$group" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ $((seconds % 60)) -ne 0 ] ||
            progress "$label: $(sed -nE 's/^ *([0-9]+)\/([0-9]+) Test .*/\1 of \2 tests/p' "$at/check.log" | tail -1)"
    done
    wait "$group"
    ended=$?
    group=
}

run_tests() { # name folder ctest options
    name=$1 folder=$2
    shift 2
    wait_for_extras
    progress "$name: running the tests"
    run_ctest "$name" "$folder" "$@"
    sed -E -f tools/results.sed "$folder/check.log" >"$folder/check.results"
    awk -f tools/parts.awk "$folder/Testing/Temporary/LastTest.log" >"$folder/check.parts"
    [ "$ended" -eq 0 ] || run_failed_alone "$folder"
    p=$(grep -c ' Passed$' "$folder/check.results")
    s=$(grep -cE ' Skipped$' "$folder/check.results")
    total=$(wc -l <"$folder/check.results")
    f=$((total - p - s))
    if [ "$ended" -ne 0 ] && [ "$f" -eq 0 ]; then
        f=1 # ctest itself failed, whatever the lines say
    fi
    parts=$(wc -l <"$folder/check.parts")
    passed=$((passed + p)) failed=$((failed + f)) skipped=$((skipped + s + parts))
    echo "  $name: $p passed, $f failed, $s skipped, and $parts parts of passed tests skipped"
    names="$names$(grep -E ' Skipped$' "$folder/check.results" | sed -E "s/^([^ ]+) .*/\n  skipped  $name: \1/")"
    names="$names$(sed -E "s/^/\n  skipped  $name: /" "$folder/check.parts")"
    names="$names$(grep -vE ' (Passed|Skipped)$' "$folder/check.results" | sed -E "s/^([^ ]+) .*/\n  FAILED   $name: \1/")"
}

build() { # name sanitizers tests command-before...
    name=$1 sanitizers=$2 tests=$3
    shift 3
    grouped "$@" sh tools/build.sh "build-$name" -DCMAKE_BUILD_TYPE=Debug -DGW_STRICT=ON -DGW_SANITIZE="$sanitizers" -DGW_TESTS="$tests"
}

# The tests leave much of the processors' time unused. The builds with sanitizers use it, at the lowest priority, so that
# compilers hardly delay the tests. In the folder of a build, check.built has its output, and check.status its exit status.
build_sanitized() {
    trap 'end_group; exit 143' TERM
    build asan address,undefined "" nice -n 19 >build-asan/check.built 2>&1
    echo $? >build-asan/check.status
    build tsan thread "$threaded" nice -n 19 >build-tsan/check.built 2>&1
    echo $? >build-tsan/check.status
}

# End all that runs in the background, and what it started.
stop() {
    trap "" HUP INT TERM
    end_group
    [ -z "$extras$sanitized" ] || kill $extras $sanitized 2>/dev/null # one or two numbers
    exit 130
}

wait_for_build() { # name
    [ -s "build-$1/check.status" ] || progress "$1: building"
    while [ ! -s "build-$1/check.status" ] && kill -0 "$sanitized" 2>/dev/null; do sleep 1; done
    cat "build-$1/check.built"
    [ "$(cat "build-$1/check.status")" = 0 ]
}

# Report a build and run its tests if it succeeded.
check_build() { # name exit-status-of-the-build ctest options
    count "$1: build" "$2"
    if [ "$2" -eq 0 ]; then
        built=$1
        shift 2
        run_tests "$built" "build-$built" "$@"
    fi
}

# Build a product against an installation of the plain build, and run its tests.
check_product() { # name
    progress "$1: building"
    grouped sh tools/products.sh build-dev "$1"
    built=$?
    count "$1: build" $built
    [ $built -ne 0 ] || run_tests "$1" "build-dev/$1"
}

# Run the long tests and the repaired twins of the scenarios only in the plain build, and all other tests also with the
# address sanitizer. With the thread sanitizer, run the tests of code that has several threads: the hook, recordings, the
# supervisor, the virtual card, and the scenarios.
threaded='^(facade|drain|recording|supervisor|virt|unwind|live|many|observer|watch|hook|conformance|slurm_task|cmd-(keep|progress|message))'
threaded="$threaded|^torch_course_(threads|shared|unlocked|fork)|^python_.*thread"
threaded="$threaded|^e2e-(S01|S05|S10|S12|S16|S2[123]|S32-stream|S36|hangs|memory-threads|keep|waste|device|pool|ranks|walks)"

echo "three builds with their tests (plain, address and undefined-behaviour sanitizers, thread sanitizer), and two products: 14 to 18 minutes on two idle cores; first, missing packages are installed"
trap stop HUP INT TERM
sh tools/need.sh build logs report products watch packages check || exit 1
mkdir -p build-pythons build-asan build-tsan
install_extras >build-pythons/extras.log 2>&1 &
extras=$!
formatted
count "clang-format" $?
progress "dev: building"
build dev "" ""
status=$?
rm -f build-asan/check.status build-tsan/check.status
build_sanitized &
sanitized=$!
check_build dev $status -LE soak -j $((jobs + 2)) # two tests compile at a low priority
check_product libgpuscope
check_product trainer
wait_for_build asan
check_build asan $? -LE "long|soak" -E "-twin$"
wait_for_build tsan
check_build tsan $? -LE "long|soak" -R "$threaded" -E "-twin$|-S25-"

wait_for_extras
echo "$names" | sed "/^$/d"
[ "$flaky" -eq 0 ] || echo "flaky: $flaky of the passed tests failed at first, and passed only when run again alone"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
