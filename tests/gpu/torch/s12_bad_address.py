"""S12: a kernel writes to a bad address; a call in the second run reports it. repaired: a good address."""

import sys

import torch

import bad_kernel
import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()
x, y = cnn.batch(64)
for _ in range(20):
    trainer.step(x, y)
torch.cuda.synchronize()
print("first run done", flush=True)
bad_kernel.launch(0 if len(sys.argv) > 1 and sys.argv[1] == "repaired" else 4096)
second = cnn.Trainer()
x, y = cnn.batch(1600)
for _ in range(20):
    second.step(x, y)
torch.cuda.synchronize()
print("second run done")
