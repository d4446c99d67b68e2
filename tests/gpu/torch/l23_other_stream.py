"""L23: a kernel on one stream does not end; the program waits for another stream, and then for all streams.

The kernel ends after a minute, so that the GPU does not stay busy. repaired: it ends after 0.2 s.
"""

import sys

import torch

SOURCE = """
extern "C" __global__ void spin(int ms, int *never) {
    unsigned long long begin, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(begin));
    do
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    while (now - begin < ms * 1000000ull && *(volatile int *)never == 0);
}
"""
repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
kernel = torch.cuda._compile_kernel(SOURCE, "spin")
never = torch.zeros(1, dtype=torch.int32, device="cuda")
x = torch.ones(1 << 20, device="cuda")
torch.cuda.synchronize()
one, other = torch.cuda.Stream(), torch.cuda.Stream()
kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[200 if repaired else 60_000, never], stream=one)
for step in range(20):
    with torch.cuda.stream(other):
        x.mul_(0.5)
    other.synchronize()
print("the other stream is done", flush=True)
torch.cuda.synchronize()
print("done")
