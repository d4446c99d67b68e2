"""L04: CuPy arrays of each step are kept in a list. repaired: only the last one is kept."""

import sys

import cupy

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
weights = cupy.ones((2048, 2048), dtype=cupy.float32)
kept = []
for step in range(600):
    x = cupy.full((2048, 2048), step, dtype=cupy.float32)
    y = x @ weights + 1
    if repaired:
        kept.clear()
    kept.append(y)
    float(y[0, 0])
print("done")
