"""A memory snapshot saved by the program itself, without gpuwhy: save_snapshot.py CASE FILE.

leak: keeps a loss with its graph every third step.   validation: keeps every graph after training.
capacity: one batch that is too large.   healthy: nothing fails.
The process limits itself to 6 GiB (set_per_process_memory_fraction), so that it runs on any GPU.
"""

import sys

import torch

import cnn

LIMIT = 6 << 30
case, path = sys.argv[1:]
torch.manual_seed(1)
torch.cuda.set_per_process_memory_fraction(LIMIT / torch.cuda.get_device_properties(0).total_memory)
torch.cuda.memory._record_memory_history(max_entries=200_000)
kept = []


def train(trainer, steps, count=400):
    for _ in range(steps):
        trainer.step(*cnn.batch(count))


def leak(trainer):
    train(trainer, 60)
    while True:
        train(trainer, 3)
        kept.append(trainer.loss(*cnn.batch(400)))


def validation(trainer):
    train(trainer, 200)
    while True:
        kept.append(trainer.loss(*cnn.batch(450)))


def capacity(trainer):
    train(trainer, 1, 12_800)


def healthy(trainer):
    train(trainer, 50)


try:
    {"leak": leak, "validation": validation, "capacity": capacity, "healthy": healthy}[case](cnn.Trainer())
except torch.cuda.OutOfMemoryError:
    print("out of memory", flush=True)
torch.cuda.memory._dump_snapshot(path)
