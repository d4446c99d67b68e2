"""S21: a data loader's forked workers use a tensor on the GPU. repaired: the parent copies each batch to the GPU."""
import sys

import torch

REPAIRED = "repaired" in sys.argv
DEVICE = "cpu" if REPAIRED else "cuda"
SCALE = torch.ones(1, device="cuda")
DATA = torch.arange(64, dtype=torch.float32, device=DEVICE)


class Numbers(torch.utils.data.Dataset):
    def __len__(self):
        return len(DATA)

    def __getitem__(self, i):
        return DATA[i] + 1


for batch in torch.utils.data.DataLoader(Numbers(), batch_size=8, num_workers=2, multiprocessing_context="fork"):
    print(float((batch.cuda() * SCALE).sum()))
