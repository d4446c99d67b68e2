"""S13: a label without a class in the model; a later call reports the assertion. repaired: valid labels."""

import sys

import torch

import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()
x, y = cnn.batch(64)
for _ in range(10):
    trainer.step(x, y)
print("epoch 1", flush=True)
if len(sys.argv) < 2 or sys.argv[1] != "repaired":
    y[5] = 10  # classes are 0 to 9
for _ in range(10):
    trainer.step(x, y)
torch.cuda.synchronize()
print("epoch 2")
