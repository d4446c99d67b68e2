"""L16: a CuPy RawKernel writes 1 TiB after its array; the error appears some launches later. repaired: inside."""

import sys

import cupy

scatter = cupy.RawKernel(r"""
extern "C" __global__ void scatter(float *out, long long far) {
    out[threadIdx.x + far] = threadIdx.x;
}
""", "scatter")


def scatter_rows(out, far):
    scatter((1,), (128,), (out, cupy.int64(far)))


repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
out = cupy.zeros(1 << 20, dtype=cupy.float32)
for step in range(20):
    out *= 0.5
    scatter_rows(out, 0 if repaired or step < 10 else 1 << 38)
    out += 1
cupy.cuda.Device().synchronize()
print("done")
