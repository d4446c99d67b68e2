#!/bin/sh
# Run every check that does not need a GPU: formatting, a build with warnings as errors, all tests, and the tests again
# under the sanitizers. Missing packages are installed first (need.sh). The last line is `N passed, N failed, N skipped`;
# skipped tests are listed.
set -u
cd "$(dirname "$0")/.." || exit 1
jobs=$(($(nproc) * 3)) # most tests wait for something most of the time
passed=0 failed=0 skipped=0 flaky=0 names= pythons=
began=$(date +%s)

# Print a line with the time since the start, in minutes and seconds.
progress() { # text
    since=$(($(date +%s) - began))
    printf '%3d:%02d  %s\n' $((since / 60)) $((since % 60)) "$1"
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

# The Python versions are installed in the background during the first build. Wait for them.
wait_for_pythons() {
    [ -n "$pythons" ] || return 0
    wait "$pythons"
    pythons=
    cat build-pythons.log
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
    (cd "$1" && ctest --rerun-failed -FA '.*' --timeout 300 --output-on-failure --no-tests=error) >"$1/check.alone.log" 2>&1
    ended=$?
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
    (cd "$at" && exec ctest -j"$jobs" --timeout 300 --output-on-failure --no-tests=error "$@") >"$at/check.log" 2>&1 &
    tests=$!
    seconds=0
    while kill -0 "$tests" 2>/dev/null; do
        sleep 1
        seconds=$((seconds + 1))
        [ $((seconds % 60)) -ne 0 ] ||
            progress "$label: $(sed -nE 's/^ *([0-9]+)\/([0-9]+) Test .*/\1 of \2 tests/p' "$at/check.log" | tail -1)"
    done
    wait "$tests"
    ended=$?
}

run_tests() { # name folder ctest options
    name=$1 folder=$2
    shift 2
    wait_for_pythons
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

check_build() { # name cmake options -- ctest options
    name=$1 folder=build-$1
    shift
    options=
    while [ $# -gt 0 ] && [ "$1" != -- ]; do
        options="$options $1"
        shift
    done
    [ $# -eq 0 ] || shift
    progress "$name: building"
    # shellcheck disable=SC2086 # options are words
    sh tools/build.sh "$folder" $options
    status=$?
    count "$name: build" $status
    [ $status -ne 0 ] || run_tests "$name" "$folder" "$@"
}

echo "three builds with their tests (plain, address and undefined-behaviour sanitizers, thread sanitizer): 16 to 20 minutes on two idle cores; first, missing packages are installed"
sh tools/need.sh build logs history report dnnl images watch packages check || exit 1
sh tools/pythons.sh lacking >build-pythons.log 2>&1 &
pythons=$!
formatted
count "clang-format" $?
check_build dev -DCMAKE_BUILD_TYPE=Debug -DGW_STRICT=ON -- -LE soak
# Run the long tests and the repaired twins of the scenarios only in the plain build, and all other tests also with the
# sanitizers; with the thread sanitizer without those that wait for several readings of NVML.
check_build asan -DCMAKE_BUILD_TYPE=Debug -DGW_STRICT=ON -DGW_SANITIZE=address,undefined -- -LE "long|soak" -E "-twin$"
check_build tsan -DCMAKE_BUILD_TYPE=Debug -DGW_STRICT=ON -DGW_SANITIZE=thread -- -LE "long|soak" \
    -E "-twin$|-S25-(thermal|brake|cap|link)"

wait_for_pythons
echo "$names" | sed "/^$/d"
[ "$flaky" -eq 0 ] || echo "flaky: $flaky of the passed tests failed at first, and passed only when run again alone"
echo "$passed passed, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
