"""S31: an out-of-memory exception is caught and stored, together with the frames that hold the first run's tensors.

repaired: the exception is dropped before the smaller second run.
"""

import sys

import torch

import cnn

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
failures = []


def run(count, steps):
    trainer = cnn.Trainer()
    x, y = cnn.batch(count)
    for _ in range(steps):
        trainer.step(x, y)
    torch.cuda.synchronize()


cnn.make_handles()
try:
    run(12_800, 10)
except torch.cuda.OutOfMemoryError as error:
    failures.append(error)
    print("the first run did not fit", flush=True)
if repaired:
    failures.clear()
torch.cuda.empty_cache()
run(6_400, 3)
print("the smaller run fits")
