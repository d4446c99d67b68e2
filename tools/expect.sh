# Functions of the scripts tools/check_*.sh, which read this file with `.` and end at the first failure.

fail() {
    echo "FAILED: $*" >&2
    exit 1
}
expect() { # file text
    grep -qF -- "$2" "$1" || fail "missing: '$2'; the output is:
$(cat "$1")"
}

# The caller sets `work`, a folder.
run() { # name wanted-status command...: its outputs are $work/<name>.out and .err
    name=$1 wanted=$2
    shift 2
    status=0
    "$@" >"$work/$name.out" 2>"$work/$name.err" || status=$?
    [ "$status" -eq "$wanted" ] || fail "exit status $status, not $wanted: $*
$(cat "$work/$name.out" "$work/$name.err")"
}
