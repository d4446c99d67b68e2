"""Measure what following PyTorch's allocations costs a launch-bound training. Run by hand on a GPU:

    python3 tests/gpu/torch_course_cost.py [--build build] [--blocks 60] [--seconds 300]

One process trains the small network of measure_history.py at batch 32 under `gpuwhy run`, in alternating blocks. The
library for PyTorch's blocks passes calls through (off), or also calls the hook (course), or passes calls through
while PyTorch keeps its memory history (all, no stacks). Each block is compared with the mean of its two "off"
neighbours. The table has the median of these ratios with a bootstrap interval. The rest of the recorder is active in
all blocks. Use a release build.
"""

import argparse
import ctypes
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]


class Door(ctypes.Structure):
    """struct gw_c10_door of src/inside/facade/gw_c10_door.h, version 1."""
    _fields_ = [("version", ctypes.c_uint32), ("reserved", ctypes.c_uint32)] + [
        (name, ctypes.c_void_p) for name in ("usage", "oom", "next_usage", "next_oom", "resolve", "usage_alone", "oom_alone")]


def door():
    found = Door.in_dll(ctypes.CDLL(None), "gw_the_c10_door")  # preloaded, so in the global scope
    if found.version != 1 or found.usage == found.usage_alone:
        sys.exit("torch_course_cost: gpuwhy does not follow this process's allocations")
    return found


def child(options):
    import torch
    import measure_history as history
    torch.manual_seed(1)
    trainer = history.Trainer(32)
    trainer.steps(300)
    torch.cuda.synchronize()
    it = door()
    course, alone = it.usage, it.usage_alone

    def switch(follow, keep):
        it.usage = course if follow else alone
        history.history("all" if keep else None)

    modes = {"off (against itself)": (False, False), "course": (True, False), "history, no stacks": (False, True)}
    ratios = {name: [] for name in modes}
    rng, end = random.Random(3), time.monotonic() + options.seconds
    switch(False, False)
    before = history.block_seconds(trainer, options.iterations)
    off_ms = []
    for _ in range(options.blocks):
        for name in rng.sample(list(modes), len(modes)):
            switch(*modes[name])
            with_it = history.block_seconds(trainer, options.iterations)
            switch(False, False)
            after = history.block_seconds(trainer, options.iterations)
            ratios[name].append(with_it / ((before + after) / 2))
            off_ms.append(after / options.iterations * 1e3)
            before = after
        if time.monotonic() > end:
            break
    entries = history.entries_per_iteration(trainer)
    with open(options.child, "w") as out:
        json.dump({"ratios": ratios, "off_ms": statistics.median(off_ms), "events": entries,
                   "version": torch.__version__, "card": torch.cuda.get_device_name()}, out)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--blocks", type=int, default=60)
    parser.add_argument("--iterations", type=int, default=300)
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        return child(options)
    import tempfile
    with tempfile.TemporaryDirectory() as folder:
        result = pathlib.Path(folder) / "result.json"
        words = [str(pathlib.Path(options.build).resolve() / "gpuwhy"), "run", "--quiet", "-o", f"{folder}/run.gpuwhy", "--",
                 sys.executable, "-B", __file__, "--child", str(result)]
        for name in ("blocks", "iterations", "seconds"):
            words += [f"--{name}", str(getattr(options, name))]
        done = subprocess.run(words, env=dict(os.environ, GPUWHY_HISTORY="0", XDG_STATE_HOME=folder), text=True,
                              stderr=subprocess.PIPE)
        if not result.exists():
            sys.exit(done.stderr[-3000:])
        read = json.loads(result.read_text())
    print(f"{read['card']}, PyTorch {read['version']}: {read['off_ms']:.3f} ms and {read['events']:.0f} allocations and frees "
          "an iteration")
    print(f"{'':24}{'blocks':>8}{'median':>9}{'95 % interval':>18}")
    for name, ratios in read["ratios"].items():
        rng = random.Random(1)
        medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(2000))
        print(f"{name:24}{len(ratios):8}{(statistics.median(ratios) - 1) * 100:+8.2f} %"
              f"{(medians[50] - 1) * 100:+9.2f} to {(medians[1949] - 1) * 100:+.2f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
