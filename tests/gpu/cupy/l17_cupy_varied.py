"""L17: CuPy arrays of 3 to 13 MiB, a new size each step, are kept: 8 MiB x 1,000 = 7.8 GiB on 4 GiB. repaired: one.

ordered: the same from the driver's stream-ordered pool.
"""

import sys

import cupy

repaired = "repaired" in sys.argv
if "ordered" in sys.argv:
    cupy.cuda.set_allocator(cupy.cuda.MemoryAsyncPool().malloc)
kept = []
for step in range(1000):
    mib = 3 + step * 7 % 11
    x = cupy.arange(mib << 18, dtype=cupy.float32)
    y = cupy.sqrt(x) + step
    if repaired:
        kept.clear()
    kept.append(y)
    if step % 10 == 0:
        float(y[0])
print("done", len(kept))
