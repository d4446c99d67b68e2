"""S20: JAX allocates three quarters of the GPU at start, then PyTorch in the same process needs memory.

The fix is an environment variable (XLA_PYTHON_CLIENT_PREALLOCATE=false), so the twin is the same program.
"""

import os
import sys

import jax.numpy as jnp

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "torch"))

print("jax", float(jnp.ones(1000).sum()), flush=True)

import torch

import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()
for _ in range(3):
    trainer.step(*cnn.batch(3200))
torch.cuda.synchronize()
print("trained")
