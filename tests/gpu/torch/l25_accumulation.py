"""L25: no fault: each step adds up the gradients of 16 small batches, and the numbers of the losses are kept."""

import torch

import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()
losses = []
for step in range(12):
    trainer.optimizer.zero_grad(set_to_none=True)
    total = torch.zeros((), device="cuda")
    for _ in range(16):
        loss = trainer.loss(*cnn.batch(200)) / 16
        loss.backward()
        total += loss.detach()
    trainer.optimizer.step()
    losses.append(total)
torch.cuda.synchronize()
print("trained", len(losses))
