#!/bin/sh
# Run the two measurements that justify the observer's defaults, each with a time limit, and write their output to $OUT
# (default: the current folder). Takes at most eight minutes. Needs a CUDA device and PyTorch.
here=$(cd "$(dirname "$0")" && pwd)
out=${OUT:-.}
python=${PYTHON:-python3}
status=0

run_limited() { # seconds, name, command...
    limit=$1 name=$2
    shift 2
    echo "== $name"
    timeout "$limit" "$@" >"$out/$name.txt" 2>&1
    code=$?
    cat "$out/$name.txt"
    if [ $code -ne 0 ]; then
        echo "$name: exit status $code (124: over its $limit s)"
        status=1
    fi
}

nvidia-smi --query-gpu=name,driver_version,memory.total --format=csv,noheader >"$out/card.txt" 2>&1 || true
cat "$out/card.txt"
run_limited 100 probe_observer "$python" -u "$here/probe_observer.py"
run_limited 380 measure_history "$python" -u "$here/measure_history.py" --seconds "${SECONDS_MAX:-280}" \
    --json "$out/history.json"
exit $status
