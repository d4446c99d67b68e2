"""The small network that the scenarios train, its optimizer, and data of a given size made on the device."""

import torch
import torch.nn as nn


def model():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6272, 10)).cuda()


def batch(count):
    return torch.randn(count, 3, 28, 28, device="cuda"), torch.randint(0, 10, (count,), device="cuda")


class Trainer:
    def __init__(self):
        self.net = model()
        self.criterion = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.net.parameters(), lr=1e-3)

    def loss(self, x, y):
        return self.criterion(self.net(x), y)

    def step(self, x, y):
        self.optimizer.zero_grad(set_to_none=True)
        loss = self.loss(x, y)
        loss.backward()
        self.optimizer.step()
        return loss.detach()


def make_handles():
    """Create the handles of cuBLAS and cuDNN, also those of the backward pass's thread, while there is memory."""
    Trainer().step(*batch(8))
    torch.cuda.synchronize()
