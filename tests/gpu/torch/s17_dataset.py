"""S17: the whole data set is in one block on the GPU, then training starts. repaired: batches come from the host."""

import sys

import torch

import cnn

IMAGES = 680_000  # 5.96 GiB of images
repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
if not repaired:
    images = torch.zeros(IMAGES, 3, 28, 28, device="cuda")
trainer = cnn.Trainer()
for step in range(10):
    if repaired:
        x = torch.zeros(3200, 3, 28, 28).cuda()
    else:
        x = images[step * 3200:(step + 1) * 3200]
    trainer.step(x, torch.zeros(3200, dtype=torch.long, device="cuda"))
torch.cuda.synchronize()
print("trained")
