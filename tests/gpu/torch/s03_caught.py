"""S03: an out-of-memory exception is caught and printed, and the program continues.

same_site: it fails at the same place again, uncaught.       unwritten: it uses what the failed step did not create.
smaller: repaired with a smaller batch, exit 0.              finder: searches the largest batch that fits, exit 0.
value_error: handled, then an unrelated error.               illegal: handled, then a kernel with a bad address.
"""

import sys

import torch

import cnn

variant = sys.argv[1]
torch.manual_seed(1)
trainer = cnn.Trainer()


def step(count):
    return trainer.step(*cnn.batch(count))


def guarded(count):
    try:
        return step(count)
    except torch.cuda.OutOfMemoryError as error:
        print("out of memory at batch", count, flush=True)
        print(str(error).split("\n")[0], file=sys.stderr)
    return None


def go_on_well():
    torch.cuda.empty_cache()
    for _ in range(60):
        step(64)
    torch.cuda.synchronize()


for _ in range(20):
    step(64)
if variant == "same_site":
    guarded(12_800)
    for _ in range(3):
        step(64)
    step(12_800)
elif variant == "unwritten":
    loss = guarded(12_800)
    print("loss", loss.item())
elif variant == "smaller":
    if guarded(12_800) is None:
        torch.cuda.empty_cache()
        for _ in range(20):
            step(1600)
    print("trained")
elif variant == "finder":
    count = 12_800
    while guarded(count) is None:
        torch.cuda.empty_cache()
        count //= 2
    for _ in range(20):
        step(count)
    print("largest batch", count)
elif variant == "value_error":
    guarded(12_800)
    go_on_well()
    raise ValueError("the schedule has no entry for epoch 3")
elif variant == "illegal":
    guarded(12_800)
    go_on_well()
    import bad_kernel
    bad_kernel.launch()
    torch.cuda.synchronize()
