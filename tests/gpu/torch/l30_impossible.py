"""L30: by mistake a table has rows x rows x 1,024 bytes, 1 PiB, more than any GPU. repaired: rows x 1,024, 1 GiB."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
rows = 1 << 20
warm = torch.ones(1024, 1024, device="cuda")
print("warm", float((warm @ warm)[0, 0]), flush=True)
table = torch.zeros((rows, 1024) if repaired else (rows, rows, 1024), dtype=torch.uint8, device="cuda")
print("table", int(table[0, 0]))
