"""L21: failed requests of 8 GiB on 4 GiB are caught, other work succeeds, then an unrelated error is raised.

copies: the results are read; launches: nothing waits for them. repaired: no error. many: a hundred failures, no error.
"""

import sys

import torch

kind = sys.argv[1]
x = torch.ones(1024, 1024, device="cuda")
caught = 0
for _ in range(100 if kind == "many" else 1):
    try:
        torch.empty(8 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        caught += 1
for step in range(3000):
    x = x * 0.5 + 1
    if kind == "copies" and step % 10 == 0:
        x[:16].cpu()
if kind in ("copies", "launches"):
    raise ValueError("epoch 3 has no entry in the schedule")
torch.cuda.synchronize()
print("caught", caught)
