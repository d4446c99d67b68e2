"""L32: each step keeps 0.5 GiB, so that the fifth or sixth dies on 4 GiB. repaired: only their sum is kept."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
kept = []


def features(step):
    x = torch.full((128 << 20,), float(step), device="cuda")
    return x.mul_(2).add(1)


for step in range(12):
    made = features(step)
    kept.append(made.sum() if repaired else made)
    del made
torch.cuda.synchronize()
print("done", len(kept))
