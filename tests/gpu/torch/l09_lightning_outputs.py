"""L09: a LightningModule keeps the output of each training step: 32 MiB x 300 = 9.4 GiB on 4 GiB. repaired: its mean."""

import logging
import sys

import torch
from lightning.pytorch import LightningModule, Trainer

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        self.net = torch.nn.Sequential(torch.nn.Linear(1024, 1024), torch.nn.ReLU(), torch.nn.Linear(1024, 1024))
        self.outputs = []

    def training_step(self, batch, index):
        out = self.net(torch.randn(8192, 1024, device=self.device))
        loss = (out - batch).square().mean()
        self.outputs.append(out.mean().item() if repaired else out)
        return loss

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-3)


torch.manual_seed(1)
trainer = Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(300, 1)))
print("trained", trainer.global_step)
