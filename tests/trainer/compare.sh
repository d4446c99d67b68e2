#!/bin/sh
# Run some steps on a back end, and compare with NumPy, or with PyTorch if REFERENCE=torch: compare.sh TRAINER_STEPS
# BACKEND MODEL.net OPTIMIZER IMAGES PARTS STEPS [WORDS of trainer_steps].
set -eu
steps=$1 backend=$2 model=$3 optimizer=$4 images=$5 parts=$6 count=$7
shift 7
case ${REFERENCE:-numpy} in
torch) script=torch_reference.py modules="numpy, torch" ;;
*) script=reference.py modules=numpy ;;
esac
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
"$python3" -B "$(dirname "$0")/$script" "$model" "$optimizer" "$parts" "$count" "$out" "$@"
