"""S01: one process trains twice. A list that outlives the first run keeps a loss with its whole graph per epoch.

repaired: the list keeps plain numbers.   S02, released: the first run's objects are freed; PyTorch's cache stays.
"""

import sys

import torch

import cnn

variant = sys.argv[1] if len(sys.argv) > 1 else "faulty"
history = []


def run(name):
    trainer = cnn.Trainer()
    x, y = cnn.batch(1600)
    losses = []
    for epoch in range(6):
        for _ in range(5):
            trainer.step(x, y)
        monitored = trainer.loss(x, y)
        if variant == "faulty":
            history.append(monitored)  # keeps all activations of this forward pass
        elif variant == "repaired":
            history.append(monitored.item())
        else:
            losses.append(monitored)
    print(name, "done", flush=True)


torch.manual_seed(1)
run("first run")
run("second run")
if variant == "released":
    run("third run")
