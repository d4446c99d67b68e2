"""L33: two lines keep hidden states and scores of sequences of 100 to 900 tokens: 64 x 500 x 2,048 x 4 B = 0.24 GiB
per step on average, on 6 GiB. repaired: none is kept."""

import random
import sys

import torch

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
random.seed(1)
torch.manual_seed(1)
embed = torch.nn.Linear(64, 1024).cuda()
score = torch.nn.Linear(1024, 1024).cuda()
states, scores = [], []
with torch.no_grad():
    for step in range(60):
        tokens = torch.randn(64, random.randint(100, 900), 64, device="cuda")
        hidden = torch.relu(embed(tokens))
        states.append(None if repaired else hidden)
        scored = score(hidden)
        scores.append(None if repaired else scored)
        float(scored[0, 0, 0])
print("done", len(states))
