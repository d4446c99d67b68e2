"""S21: a forked child uses CUDA, which its parent had initialised. repaired: the child is spawned."""

import multiprocessing
import sys

import torch


def work():
    print("sum", float(torch.ones(1000, device="cuda").sum()), flush=True)


def main():
    repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
    print("before", float(torch.ones(10, device="cuda").sum()), flush=True)
    child = multiprocessing.get_context("spawn" if repaired else "fork").Process(target=work)
    child.start()
    child.join()
    sys.exit(0 if child.exitcode == 0 else 1)


if __name__ == "__main__":
    main()
