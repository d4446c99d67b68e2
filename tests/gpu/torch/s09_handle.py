"""S09: PyTorch uses so much of the GPU that cuDNN cannot create its handle. repaired: the handle is created first."""

import sys

import torch

LEFT_BYTES = 4 << 20
repaired = sys.argv[1:] == ["repaired"]
image = torch.ones(1, 3, 28, 28, device="cuda")
weight = torch.ones(8, 3, 3, 3, device="cuda")
if repaired:
    torch.nn.functional.conv2d(image, weight)
    torch.cuda.synchronize()
free, _ = torch.cuda.mem_get_info()
kept = torch.empty((free - LEFT_BYTES) // (2 << 20) * (2 << 20), dtype=torch.uint8, device="cuda")
print(float(torch.nn.functional.conv2d(image, weight).sum()))
