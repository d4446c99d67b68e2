"""S19: validation at the end of the first epoch keeps every graph. repaired: runs under no_grad."""

import contextlib
import sys

import torch

import cnn

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
trainer = cnn.Trainer()
for epoch in range(2):
    for _ in range(100):
        trainer.step(*cnn.batch(800))
    with torch.no_grad() if repaired else contextlib.nullcontext():
        total = 0
        for _ in range(12):
            total = total + trainer.loss(*cnn.batch(1600))
    print("epoch", epoch, flush=True)
    del total
torch.cuda.synchronize()
