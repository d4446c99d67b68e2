"""S05: a loader puts each batch on the card and keeps it. repaired: the previous batch is dropped."""

import sys

import torch

import cnn

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
trainer = cnn.Trainer()
seen = []


def load():
    x = torch.zeros(6400, 3, 28, 28).cuda()
    if repaired:
        seen.clear()
    seen.append(x)
    return x, torch.zeros(6400, dtype=torch.long, device="cuda")


for step in range(150):
    trainer.step(*load())
torch.cuda.synchronize()
print("trained")
