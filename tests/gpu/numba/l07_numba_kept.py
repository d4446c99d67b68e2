"""L07: Numba's device arrays are kept in a list: 16 MiB x 600 = 9.4 GiB on 4 GiB. repaired: only the last one."""

import sys

import numpy as np

if not hasattr(np, "row_stack"):
    np.row_stack = np.vstack  # Numba uses it
from numba import cuda


@cuda.jit
def scale(out, x, factor):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = x[i] * factor


COUNT = 4 << 20  # float32: 16 MiB
repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
x = cuda.to_device(np.ones(COUNT, dtype=np.float32))
kept = []
for step in range(600):
    y = cuda.device_array(COUNT, dtype=np.float32)
    scale[COUNT // 256, 256](y, x, np.float32(step))
    if repaired:
        kept.clear()
    kept.append(y)
    y[:1].copy_to_host()
print("done", float(y[:1].copy_to_host()[0]))
