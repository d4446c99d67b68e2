"""L26: weights and gradients, 20 x 64 MiB each, fit 4 GiB; Adam's first step needs 2.5 GiB more. repaired: SGD."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
net = torch.nn.Sequential(*[torch.nn.Linear(4096, 4096, bias=False) for _ in range(20)]).cuda()
optimizer = (torch.optim.SGD if repaired else torch.optim.Adam)(net.parameters(), lr=1e-4, foreach=False)
for step in range(6):
    optimizer.zero_grad()
    for _ in range(4):
        net(torch.randn(64, 4096, device="cuda")).square().mean().backward()
    optimizer.step()
torch.cuda.synchronize()
print("trained")
