"""L29: two functions launch one RawKernel; the second writes 1 TiB after the array. repaired: both write inside."""

import sys

import cupy

scatter = cupy.RawKernel(r"""
extern "C" __global__ void scatter(float *out, long long far) {
    out[threadIdx.x + far] = threadIdx.x;
}
""", "scatter")


def scatter_head(out):
    scatter((1,), (128,), (out, cupy.int64(0)))


def scatter_tail(out, far):
    scatter((1,), (128,), (out, cupy.int64(far)))


repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
out = cupy.zeros(1 << 20, dtype=cupy.float32)
for step in range(20):
    scatter_head(out)
    scatter_tail(out, 1 << 18 if repaired or step < 10 else 1 << 38)
    out += 1
cupy.cuda.Device().synchronize()
print("done")
