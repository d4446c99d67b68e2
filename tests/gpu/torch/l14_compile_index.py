"""L14: a compiled function looks up row 5,000 of an embedding of 1,000 rows. repaired: all rows exist."""

import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
torch.manual_seed(1)
table = torch.nn.Embedding(1000, 256).cuda()


@torch.compile
def features(ids):
    return torch.relu(table(ids) * 2 + 1).sum(dim=1)


ids = torch.randint(0, 1000, (512, 32), device="cuda")
bad = ids.clone()
if not repaired:
    bad[7, 3] = 5000
total = torch.zeros(512, 256, device="cuda")
with torch.no_grad():
    for step in range(20):
        total += features(bad if step == 10 else ids)
torch.cuda.synchronize()
print("done", float(total.sum()) > 0)
