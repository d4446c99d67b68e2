"""S36: two spawned processes train; one dies of a bad address, and the parent does not check. repaired: none dies."""

import sys

import torch
import torch.multiprocessing as processes


def work(index, fails):
    import bad_kernel
    import cnn

    torch.manual_seed(1)
    trainer = cnn.Trainer()
    x, y = cnn.batch(64)
    for _ in range(20):
        trainer.step(x, y)
    torch.cuda.synchronize()
    if fails:
        bad_kernel.launch()
        torch.cuda.synchronize()


if __name__ == "__main__":
    repaired = sys.argv[1:] == ["repaired"]
    context = processes.get_context("spawn")
    children = [context.Process(target=work, args=(index, index == 1 and not repaired)) for index in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()  # child.exitcode is not checked
    print("all children are done")
