"""S28: the program ends for a reason unrelated to the GPU, after a few good steps on it: exception, segfault, exit3."""

import ctypes
import sys

import torch

import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()
for _ in range(10):
    trainer.step(*cnn.batch(64))
torch.cuda.synchronize()
print("ten steps", flush=True)
kind = sys.argv[1]
if kind == "exception":
    raise KeyError("learning_rate")
if kind == "segfault":
    ctypes.string_at(8)
if kind == "exit3":
    sys.exit(3)
