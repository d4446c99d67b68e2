"""S05: a loader copies each batch to the GPU and keeps it. repaired: the previous batch is freed."""

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
    return x[:256], torch.zeros(256, dtype=torch.long, device="cuda")


for step in range(150):
    trainer.step(*load())  # uses a part of the batch, but the whole batch is kept
torch.cuda.synchronize()
print("trained")
