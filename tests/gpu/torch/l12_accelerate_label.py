"""L12: with accelerate, a batch has a label 10 although the classes are 0 to 9. repaired: valid labels."""

import sys

import torch
from accelerate import Accelerator
from torch.nn import functional
from torch.utils.data import DataLoader, TensorDataset

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"


def loss_of(out, labels):
    return functional.cross_entropy(out, labels)


def main():
    torch.manual_seed(1)
    accelerator = Accelerator()
    labels = torch.arange(64 * 40) % 10
    if not repaired:
        labels[64 * 20 + 5] = 10
    loader = DataLoader(TensorDataset(torch.randn(64 * 40, 256), labels), batch_size=64)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 10))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for x, y in loader:
        accelerator.backward(loss_of(model(x), y))
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()
    print("trained")


main()
