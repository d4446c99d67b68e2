"""L21: refusals of 8 GiB on 4 GiB are caught, other work goes well, and then the program raises an error of its own.

copies: the work is read back; launches: nothing waits for it. repaired: no error of its own. many: a hundred refusals, no error.
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
