"""L31: both GPUs are used, and the second one needs 6 GiB, with GPUs of 4 GiB. repaired: 1 GiB."""

import sys

import torch

gib = 1 if sys.argv[1:] == ["repaired"] else 6
for device in ("cuda:0", "cuda:1"):
    x = torch.ones(1024, 1024, device=device)
    print(device, float((x @ x)[0, 0]), flush=True)
table = torch.zeros(gib << 30, dtype=torch.uint8, device="cuda:1")
print("table", int(table[0]))
