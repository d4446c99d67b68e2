"""L11: a loop with accelerate keeps each step's output: 32 MiB x 300 = 9.4 GiB on 4 GiB. repaired: only its mean."""

import sys

import torch
from accelerate import Accelerator

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
accelerator = Accelerator()
model = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(torch.ones(300, 1))
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
outputs = []
for batch in loader:
    out = model(torch.randn(8192, 1024, device=accelerator.device))
    loss = (out - batch).square().mean()
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
    outputs.append(out.mean().item() if repaired else out)
print("trained", len(outputs))
