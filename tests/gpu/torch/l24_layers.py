"""L24: a model of 160 layers is loaded and converted to half, 32 MiB each: 5 GiB on 4 GiB. repaired: 40 layers, 1.3 GiB."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
host = torch.full((4096, 4096), 1 / 4096)
layers = []


def load():
    return host.cuda().half()


for _ in range(40 if repaired else 160):
    layers.append(load())
print("loaded", flush=True)
with torch.no_grad():
    for step in range(10):
        x = torch.ones(256, 4096, device="cuda", dtype=torch.half)
        for layer in layers:
            x = x @ layer
print("mean", float(x.mean()))
