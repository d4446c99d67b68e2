#!/bin/sh
# Run some steps on a back end, and repeat them in Python: compare.sh PROGRAM.py TRAINER_STEPS BACKEND MODEL.net OPTIMIZER
# IMAGES PARTS STEPS [checkpointing]. PROGRAM.py is reference.py (NumPy) or pytorch.py.
set -eu
program=$1 steps=$2 backend=$3 model=$4 optimizer=$5
shift 5
module=numpy
[ "$program" = reference.py ] || module=torch
for python3 in python3 /usr/bin/python3 ""; do # Debian's python3 has Debian's packages
    [ -n "$python3" ] || {
        echo "skipped: no Python with $module"
        exit 77
    }
    ! "$python3" -c "import numpy, $module" 2>/dev/null || break
done
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$steps" "$backend" "$model" "$optimizer" "$1" "$2" "$3" "$out" ${4:+"$4"}
"$python3" -B "$(dirname "$0")/$program" "$model" "$optimizer" "$2" "$3" "$out"
