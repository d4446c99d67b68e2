"""Measure what the recorder costs a training: one process, with the recorder alternately off and on.

usage: gpuwhy run --quiet -- python3 training.py cnn|resnet50 [--blocks N] [--sites-switch OFFSET] [--seconds S]

Off: the facade passes calls directly to the driver. OFFSET is the position of the switch for call sites in the buffer
(printed by bench-hook-cost --layout and passed on by bench.py); with it, only call sites are switched off. Without
gpuwhy all blocks are the same. Prints one JSON object with the milliseconds per iteration of every block.
"""

import argparse
import ctypes
import glob
import json
import mmap
import os
import struct
import sys
import time

import torch
import torch.nn as nn


class Switch:
    """Switches the recorder of this process, or its call sites, on and off; no effect in a process not recorded."""

    def __init__(self, sites_offset):
        self.sites_offset, self.map = sites_offset, None
        folder = os.environ.get("GPUWHY_RUN_DIR")
        found = glob.glob(os.path.join(glob.escape(folder), f"{os.getpid()}-*.buf")) if folder else []
        if found:
            with open(found[0], "r+b") as f:
                self.map = mmap.mmap(f.fileno(), 4096)
            if self.map[:5] != b"GWBUF":
                sys.exit("training: this is no buffer of gpuwhy's")
        elif folder:
            sys.exit("training: gpuwhy runs, but this process has no buffer")

        if self.map is not None and sites_offset is None:
            try:  # the hook is loaded since the first driver call
                self.record = ctypes.CDLL("libgpuwhy-hook.so", mode=os.RTLD_LAZY | os.RTLD_NOLOAD).gpuwhy_record
            except (OSError, AttributeError) as error:
                sys.exit(f"training: the recorder cannot be switched: {error}")

    def set(self, on):
        if self.map is None:
            return
        if self.sites_offset is not None:
            self.map[self.sites_offset:self.sites_offset + 4] = struct.pack("<I", 0 if on else 1)
        elif self.record(int(on)) != 1:
            sys.exit("training: the recorder was not switched")

    def launches(self, counters):
        """Number of launches and other recorded calls so far; `counters` is (first slot, slot bytes, slots, offset of
        calls)."""
        if self.map is None or counters is None:
            return None
        first, size, count, calls = counters
        with mmap.mmap(os.open(glob.glob(os.path.join(os.environ["GPUWHY_RUN_DIR"], f"{os.getpid()}-*.buf"))[0],
                               os.O_RDONLY), first + size * count, prot=mmap.PROT_READ) as whole:
            return sum(struct.unpack_from("<Q", whole, first + i * size + calls)[0] for i in range(count))


def small_cnn():
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6272, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    x, y = torch.randn(32, 3, 28, 28, device="cuda"), torch.randint(0, 10, (32,), device="cuda")
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss(model(x), y).backward()
        optimizer.step()

    return step, 40, 300


def resnet50():
    import torchvision
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    x = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (256,), device="cuda")
    loss = nn.CrossEntropyLoss()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", dtype=torch.bfloat16):
            value = loss(model(x), y)
        value.backward()
        optimizer.step()

    return step, 4, 30


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("work", choices=("cnn", "resnet50"))
    parser.add_argument("--blocks", type=int, default=400)
    parser.add_argument("--sites-switch", type=int, help="offset of the switch of call sites in the buffer")
    parser.add_argument("--slots", help="first,bytes,count,calls: where the buffer counts calls")
    parser.add_argument("--seconds", type=float, default=120)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("training: no CUDA device here")
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    step, iterations, warm = {"cnn": small_cnn, "resnet50": resnet50}[options.work]()
    for _ in range(warm):
        step()
    torch.cuda.synchronize()
    switch = Switch(options.sites_switch)
    counters = tuple(int(n) for n in options.slots.split(",")) if options.slots else None
    switch.set(True)
    before = switch.launches(counters)
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    after = switch.launches(counters)
    blocks = {True: [], False: []}
    end = time.monotonic() + options.seconds
    for i in range(options.blocks - options.blocks % 4):
        on = (i & 3) in (0, 3)
        switch.set(on)
        step()
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for _ in range(iterations):
            step()
        torch.cuda.synchronize()
        blocks[on].append((time.perf_counter() - begin) / iterations * 1e3)
        if (i & 3) == 3 and time.monotonic() > end:
            break
    switch.set(True)
    print(json.dumps({"card": torch.cuda.get_device_name(), "torch": torch.__version__, "work": options.work,
                      "recorded": switch.map is not None, "on_ms": blocks[True], "off_ms": blocks[False],
                      "calls_an_iteration": None if before is None else (after - before) / 10}))


if __name__ == "__main__":
    main()
