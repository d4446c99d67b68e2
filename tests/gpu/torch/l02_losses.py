"""L02: losses are kept with their graphs, and nothing waits for the GPU. repaired: only their numbers are kept."""

import sys

import torch

import cnn

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
trainer = cnn.Trainer()
x, y = cnn.batch(1024)
losses = []
for step in range(200):
    loss = trainer.criterion(trainer.net(x), y)
    loss.backward(retain_graph=True)
    trainer.optimizer.step()
    trainer.optimizer.zero_grad(set_to_none=True)
    losses.append(loss.detach() if repaired else loss)
torch.cuda.synchronize()
print("trained")
