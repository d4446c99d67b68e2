"""L01: a recurrent state is never detached, so each step keeps the graph of all steps before it. repaired: detached."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
cell = torch.nn.GRUCell(1024, 1024).cuda()
state = torch.zeros(4096, 1024, device="cuda")
total = 0.0
for step in range(60):
    if repaired:
        state = state.detach()
    state = cell(torch.randn(4096, 1024, device="cuda"), state)
    total += float(state.mean())
print("trained", total == total)
