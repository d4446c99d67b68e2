"""Two ranks of Lightning on the CPU; rank 1 fails in its third step."""
import lightning
import rank
import torch

torch.cuda.is_available = lambda: False  # PyTorch's own CUDA parts cannot run on a virtual card


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)

    def on_fit_start(self):
        rank.begin()

    def training_step(self, batch, index):
        rank.allocate(1 << (50 if self.global_rank == 1 and index == 2 else 20))
        return self.layer(batch).mean()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), 0.1)


if __name__ == "__main__":
    trainer = lightning.Trainer(accelerator="cpu", devices=2, strategy="ddp", max_epochs=1, logger=False,
                                enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(Model(), torch.utils.data.DataLoader(torch.ones(64, 4), batch_size=4))
