"""Measure what PyTorch's memory history costs a launch-bound program, without stacks and with those of `gpuwhy run
--deep`.

One process trains the small CNN at batch 32, where the CPU and not the GPU limits the speed, so that a cost per
allocation has its largest effect. Blocks with and without history alternate. Each block with history is compared
with the mean of its two neighbours. The table has the median of these ratios with a bootstrap interval. A second
part measures how long it takes to read a full history.

Needs one CUDA device and PyTorch. Prints a table; --json FILE writes the numbers.
"""

import argparse
import gc
import json
import os
import platform
import random
import re
import statistics
import sys
import time

import torch
import torch.nn as nn

RING = 100_000


def small_cnn():
    return nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(6272, 10))


class Trainer:
    def __init__(self, batch):
        self.model = small_cnn().cuda()
        self.loss = nn.CrossEntropyLoss()
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        self.x = torch.randn(batch, 3, 28, 28, device="cuda")
        self.y = torch.randint(0, 10, (batch,), device="cuda")

    def steps(self, count):
        for _ in range(count):
            self.optimizer.zero_grad(set_to_none=True)
            self.loss(self.model(self.x), self.y).backward()
            self.optimizer.step()


def history(enabled, entries=RING, skip=(), context=None, stacks="python"):
    """Switches the history with the same function and arguments that a recorder would use."""
    record = torch._C._cuda_record_memory_history
    full = (enabled, context, stacks, entries, True, False, False, list(skip))
    for count in (8, 7, 6, 5, 4):
        try:
            record(*full[:count])
            return count
        except TypeError:
            continue
    raise SystemExit("this PyTorch has no _cuda_record_memory_history of a known signature")


def fill_ring():
    """Allocate and free small blocks until the ring wraps, about a microsecond each."""
    for _ in range(RING // 2 + 1000):
        torch.empty(1, device="cuda")


MODES = {
    "off (against itself)": lambda: history(None),
    "state, no stacks": lambda: history("state"),
    "all, no stacks, ring of 2,000 (full)": lambda: history("all", 2000),
    "all, no stacks, ring of 100,000 (filling)": lambda: history("all"),
    "all, no stacks, ring of 100,000 (full)": lambda: (history("all"), fill_ring()),
    "the same, free_requested skipped (full)": lambda: (history("all", RING, ["free_requested"]), fill_ring()),
    "ring of 20,000, free_requested skipped (full)": lambda: (history("all", 20_000, ["free_requested"]), fill_ring()),
    "--deep: Python stacks of allocations (filling)":
        lambda: history("all", RING, ["free_requested"], "alloc"),
    "--deep: Python stacks of allocations (full)":
        lambda: (history("all", RING, ["free_requested"], "alloc"), fill_ring()),
    "Python stacks of allocations and frees (full)": lambda: (history("all", RING, (), "all"), fill_ring()),
    "native frames as well (full)":
        lambda: (history("all", RING, ["free_requested"], "alloc", "all"), fill_ring()),
}


def block_seconds(trainer, iterations):
    gc.collect()
    trainer.steps(20)  # warm up after the switch and fill a small ring
    torch.cuda.synchronize()
    begin = time.perf_counter()
    trainer.steps(iterations)
    torch.cuda.synchronize()
    return time.perf_counter() - begin


def bootstrap(ratios, rounds=2000, seed=1):
    rng = random.Random(seed)
    medians = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(rounds))
    return medians[int(0.025 * rounds)], medians[int(0.975 * rounds) - 1]


def measure(trainer, blocks, iterations, limit_s):
    """Alternate off, mode, off, mode, ..., with the modes in a new order each round."""
    rng = random.Random(7)
    ratios = {name: [] for name in MODES}
    off_ms = []
    end = time.monotonic() + limit_s
    history(None)
    before = block_seconds(trainer, iterations)
    for _ in range(blocks):
        order = list(MODES)
        rng.shuffle(order)
        for name in order:
            MODES[name]()
            with_history = block_seconds(trainer, iterations)
            history(None)
            after = block_seconds(trainer, iterations)
            ratios[name].append(with_history / ((before + after) / 2))
            off_ms.append(after / iterations * 1e3)
            before = after
        if time.monotonic() > end:
            break
    return ratios, statistics.median(off_ms)


def entries_per_iteration(trainer):
    history("all")
    trainer.steps(5)
    history("all")
    trainer.steps(10)
    torch.cuda.synchronize()
    trace = torch._C._cuda_memorySnapshot(None)["device_traces"][torch.cuda.current_device()]
    history(None)
    return len(trace) / 10


def rss_mib():
    with open("/proc/self/statm") as f:
        return int(f.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 2**20


def timed(function, count=3):
    times = []
    for _ in range(count):
        gc.collect()
        begin = time.perf_counter()
        result = function()
        times.append((time.perf_counter() - begin) * 1e3)
        del result
    return statistics.median(times)


def nested(depth, function):
    """Call a function with a stack as deep as in a training script."""
    return function() if depth == 0 else nested(depth - 1, function)


def measure_reading(context=None):
    """Measure time and memory of reading 1,000, 10,000 and 100,000 entries with a few thousand live blocks.
    `context` "alloc": with the stacks of --deep, 25 frames each."""
    rows = []
    depth = 0 if context is None else 25
    keep = [torch.empty(1000, device="cuda") for _ in range(4000)]
    for entries in (1000, 10_000, RING):
        history(None)
        rss_before = rss_mib()
        history("all", entries, (), context)
        for _ in range(entries // 2 + 1000):
            nested(depth, lambda: torch.empty(1, device="cuda"))
        rss_ring = rss_mib()
        whole_ms = timed(lambda: torch._C._cuda_memorySnapshot(None))
        rss_read = rss_mib()
        try:
            blocks_ms = timed(lambda: torch._C._cuda_memorySnapshot((0, 0, False)))
        except (TypeError, RuntimeError):
            blocks_ms = None
        stats_ms = timed(lambda: torch._C._cuda_memoryStats(torch.cuda.current_device()))
        snapshot = torch._C._cuda_memorySnapshot(None)
        begin = time.perf_counter()
        total = 0
        for entry in snapshot["device_traces"][torch.cuda.current_device()]:
            total += entry["size"] + entry["time_us"] + (entry.get("addr") or 0) + len(entry.get("frames") or ())
        walk_ms = (time.perf_counter() - begin) * 1e3
        live = sum(1 for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated")
        rows.append({"entries": len(snapshot["device_traces"][torch.cuda.current_device()]), "live_blocks": live,
                     "whole_snapshot_ms": whole_ms, "blocks_only_ms": blocks_ms, "stats_ms": stats_ms,
                     "walk_in_python_ms": walk_ms, "ring_mib": rss_ring - rss_before,
                     "read_out_mib": rss_read - rss_ring})
        del snapshot
    history(None)
    del keep
    return rows


def print_reading(reading, what):
    print(f"\nreading it back, {what} (ms):")
    print(f"{'entries':>8} {'live blocks':>11} {'statistics':>10} {'blocks only':>11} {'everything':>10} "
          f"{'walk':>8} {'ring MiB':>8} {'read MiB':>8}")
    for row in reading:
        blocks_only = "-" if row["blocks_only_ms"] is None else f"{row['blocks_only_ms']:.1f}"
        print(f"{row['entries']:8d} {row['live_blocks']:11d} {row['stats_ms']:10.2f} {blocks_only:>11} "
              f"{row['whole_snapshot_ms']:10.1f} {row['walk_in_python_ms']:8.1f} {row['ring_mib']:8.1f} "
              f"{row['read_out_mib']:8.1f}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--blocks", type=int, default=200, help="blocks for each way of recording")
    parser.add_argument("--iterations", type=int, default=40, help="timed iterations of a block")
    parser.add_argument("--seconds", type=float, default=330, help="stop the alternating part after this long")
    parser.add_argument("--modes", help="only the ways of recording whose name matches this regular expression")
    parser.add_argument("--json", help="write the numbers to this file")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        sys.exit("measure_history: no CUDA device here")
    for name in [m for m in MODES if options.modes and not re.search(options.modes, m)]:
        del MODES[name]
    torch.manual_seed(1)
    torch.backends.cudnn.benchmark = True
    trainer = Trainer(32)
    trainer.steps(300)
    torch.cuda.synchronize()
    per_iteration = entries_per_iteration(trainer)
    ratios, off_ms = measure(trainer, options.blocks, options.iterations, options.seconds)
    print(f"{torch.cuda.get_device_name()}; PyTorch {torch.__version__}; Python {platform.python_version()}; "
          f"{os.cpu_count()} cores")
    print(f"small CNN, batch 32, off: {off_ms:.3f} ms an iteration; {per_iteration:.0f} history entries an iteration")
    print(f"{'history':44} {'blocks':>6} {'median ratio':>12} {'95 % interval':>17} {'middle half':>15} {'ns/entry':>8}")
    table = []
    for name, values in ratios.items():
        median = statistics.median(values)
        low, high = bootstrap(values)
        quarter = statistics.quantiles(values, n=4)
        ns = (median - 1) * off_ms * 1e6 / per_iteration
        table.append({"history": name, "blocks": len(values), "median": median, "low": low, "high": high,
                      "q1": quarter[0], "q3": quarter[2], "ns_per_entry": ns})
        print(f"{name:44} {len(values):6d} {median:12.4f}   {low:.4f}-{high:.4f}   {quarter[0]:.3f}-{quarter[2]:.3f} "
              f"{ns:8.0f}")
    reading = []
    for context in (None, "alloc"):
        rows = measure_reading(context)
        reading += [{**row, "stacks": context is not None} for row in rows]
        print_reading(rows, "without stacks" if context is None else "with stacks of 25 frames")
    if options.json:
        with open(options.json, "w") as f:
            json.dump({"off_ms": off_ms, "entries_per_iteration": per_iteration, "table": table, "reading": reading,
                       "ratios": ratios}, f)


if __name__ == "__main__":
    main()
