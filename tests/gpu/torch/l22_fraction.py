"""L22: PyTorch may use 2 % of the GPU (2.8 of an H200's 140 GiB); a step needs 8/5 of that. repaired: 1/5 of that."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.cuda.set_per_process_memory_fraction(0.02)
limit = torch.cuda.get_device_properties(0).total_memory // 50
count = limit // 4096 // (25 if repaired else 5)  # rows of 1,024 floats: a fifth or a twenty-fifth of the limit
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024)).cuda()


def train(x):
    hidden = net(x)
    return (torch.sigmoid(hidden) * torch.tanh(hidden)).square().mean()


for step in range(5):
    train(torch.randn(count, 1024, device="cuda")).backward()
torch.cuda.synchronize()
print("trained")
