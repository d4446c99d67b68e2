"""L03: each step has a larger batch than the one before, and frees all of it. repaired: it stops growing in time."""

import sys

import torch

import cnn

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
trainer = cnn.Trainer()
for step in range(1, 8 if repaired else 60):
    trainer.step(*cnn.batch(400 * step))
torch.cuda.synchronize()
print("trained")
