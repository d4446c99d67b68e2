#!/bin/sh
# Run the tests with the label "long" GPUWHY_SOAK_ROUNDS times (20).
set -eu
build=$1
round=1
while [ "$round" -le "${GPUWHY_SOAK_ROUNDS:-20}" ]; do
    echo "== round $round"
    (cd "$build" && ctest -L long --output-on-failure --no-tests=error)
    round=$((round + 1))
done
