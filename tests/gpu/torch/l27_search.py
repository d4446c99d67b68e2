"""L27: no fault: the batch is doubled until it does not fit 6 GiB; the largest that fits is used to train."""

import torch

import cnn

torch.manual_seed(1)
trainer = cnn.Trainer()


def fits(count):
    try:
        trainer.step(*cnn.batch(count))
        torch.cuda.synchronize()
        return True
    except torch.cuda.OutOfMemoryError:
        return False


count = 100
while count < 100_000 and fits(2 * count):
    count *= 2
trainer.optimizer.zero_grad(set_to_none=True)
torch.cuda.empty_cache()
for step in range(20):
    trainer.step(*cnn.batch(count // 2))
torch.cuda.synchronize()
print("trained", count < 100_000)
