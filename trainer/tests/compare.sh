#!/bin/sh
# Run some steps on a back end, and repeat them in Python: compare.sh PROGRAM.py TRAINER_STEPS BACKEND MODEL.net OPTIMIZER
# IMAGES PARTS STEPS [WORDS of trainer_steps]. PROGRAM.py is reference.py (NumPy) or torch_reference.py.
set -eu
program=$1 steps=$2 backend=$3 model=$4 optimizer=$5 images=$6 parts=$7 count=$8
shift 8
modules=numpy
[ "$program" = reference.py ] || modules="numpy, torch"
for python3 in python3 /usr/bin/python3 ""; do # Debian's python3 has Debian's packages
    [ -n "$python3" ] || {
        echo "skipped: no Python with $modules"
        exit 77
    }
    ! "$python3" -c "import $modules" 2>/dev/null || break
done
out=$(mktemp)
trap 'rm -f "$out"' EXIT
"$steps" "$backend" "$model" "$optimizer" "$images" "$parts" "$count" "$out" "$@"
"$python3" -B "$(dirname "$0")/$program" "$model" "$optimizer" "$parts" "$count" "$out" "$@"
