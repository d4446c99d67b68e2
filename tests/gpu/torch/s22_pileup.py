"""S22: four spawned workers use GPU 0 and need 28 % of it each, while GPU 1 is idle. repaired: worker i uses GPU i."""

import sys

import torch
import torch.multiprocessing as processes


def work(index, repaired, held, done):
    torch.cuda.set_device(index % 2 if repaired else 0)
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        block = torch.empty(total // 100 * 28, dtype=torch.uint8, device="cuda")
    finally:
        held.release()
    block[:1024].zero_()
    torch.cuda.synchronize()
    done.wait()


if __name__ == "__main__":
    repaired = sys.argv[1:] == ["repaired"]
    context = processes.get_context("spawn")
    held, done = context.Semaphore(0), context.Event()
    children = []
    for index in range(4):  # one after the other, so that the last ones do not fit
        children.append(context.Process(target=work, args=(index, repaired, held, done)))
        children[-1].start()
        held.acquire()
    done.set()
    for child in children:
        child.join()
    failed = sum(child.exitcode != 0 for child in children)
    print(f"{failed} of 4 workers failed")
    sys.exit(failed != 0)
