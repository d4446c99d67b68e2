"""L10: Lightning's first batch needs 500,000 x 1,024 x 4 B = 1.9 GiB per layer, on 4 GiB.

layers: 150,000, so that nine layers of 0.6 GiB add up. repaired: 30,000, 0.1 GiB per layer.
"""

import logging
import sys

import torch
from lightning.pytorch import LightningModule, Trainer

count = {"repaired": 30_000, "layers": 150_000}.get(sys.argv[-1], 500_000)
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Model(LightningModule):
    def __init__(self):
        super().__init__()
        layers = [torch.nn.Linear(64, 1024)]
        for _ in range(4):
            layers += [torch.nn.ReLU(), torch.nn.Linear(1024, 1024)]
        self.net = torch.nn.Sequential(*layers)

    def training_step(self, batch, index):
        out = self.net(torch.randn(count, 64, device=self.device))
        return (out - batch).square().mean()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


torch.manual_seed(1)
trainer = Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                  enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(20, 1)))
print("trained", trainer.global_step)
