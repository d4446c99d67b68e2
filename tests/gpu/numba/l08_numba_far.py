"""L08: a Numba kernel writes 1 TiB after its array; the error appears some launches later. repaired: inside."""

import sys

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # Numba uses it
from numba import cuda


@cuda.jit
def scatter(out, far):
    i = cuda.grid(1)
    out[i + far] = i


@cuda.jit
def halve(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] *= 0.5


def scatter_rows(out, far):
    scatter[4, 256](out, far)


repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
out = cuda.to_device(np.ones(1 << 20, dtype=np.float32))
for step in range(20):
    halve[4096, 256](out)
    scatter_rows(out, np.int64(0 if repaired or step < 10 else 1 << 38))
    halve[4096, 256](out)
cuda.synchronize()
print("done", float(out[:1].copy_to_host()[0]))
