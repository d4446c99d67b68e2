#!/bin/sh
# Run some steps on a back end, and compare with NumPy: compare.sh TRAINER_STEPS BACKEND MODEL.net OPTIMIZER IMAGES
# PARTS STEPS [checkpointing].
set -eu
steps=$1 backend=$2 model=$3 optimizer=$4
shift 4
for python3 in python3 /usr/bin/python3 ""; do # Debian's python3 has Debian's packages
    [ -n "$python3" ] || {
        echo "skipped: no Python with NumPy"
        exit 77
    }
    ! "$python3" -c 'import numpy' 2>/dev/null || break
done
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$steps" "$backend" "$model" "$optimizer" "$1" "$2" "$3" "$out" ${4:+"$4"}
"$python3" -B "$(dirname "$0")/reference.py" "$model" "$optimizer" "$2" "$3" "$out"
