#!/bin/sh
# Record a program for SOAK_SECONDS (four hours), then run the tests with the labels "long" and "soak" GPUWHY_SOAK_ROUNDS times (1).
set -eu
build=$1
GPUWHY_BUILD=$PWD/$build python3 -B tests/e2e/soak.py "${SOAK_SECONDS:-14400}"
round=1
while [ "$round" -le "${GPUWHY_SOAK_ROUNDS:-1}" ]; do
    echo "== round $round"
    (cd "$build" && ctest -L "long|soak" --output-on-failure --no-tests=error)
    round=$((round + 1))
done
