"""L13: the outputs of a compiled step are kept: 32 MiB x 300 = 9.4 GiB on 4 GiB. repaired: only their means."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.GELU(), torch.nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.SGD(net.parameters(), lr=1e-3)


@torch.compile
def forward(x):
    out = torch.tanh(net(x)) * 2
    return out, out.square().mean()


outputs = []
for step in range(300):
    out, loss = forward(torch.randn(8192, 1024, device="cuda"))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    outputs.append(out.mean().item() if repaired else out)
torch.cuda.synchronize()
print("trained", len(outputs))
