"""L05: a Triton kernel writes far beyond its block. repaired: the write is masked."""

import sys

import torch
import triton
import triton.language as tl


@triton.jit
def scatter(out, far, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    tl.store(out + at + far, at.to(tl.float32))


def scatter_rows(out, far):
    scatter[(1,)](out, far, BLOCK=128)


repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
out = torch.zeros(1 << 20, device="cuda")
for step in range(20):
    out.mul_(0.5)
    scatter_rows(out, 0 if repaired or step < 10 else 1 << 40)
    out.add_(1.0)
torch.cuda.synchronize()
print("done")
