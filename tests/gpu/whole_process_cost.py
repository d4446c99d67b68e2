"""What recording costs a training as a user pays it: whole processes, bare against `gpuwhy run`. By hand, on a card:

    python3 tests/gpu/whole_process_cost.py [--build build] [--pairs 30] [--iterations 2000] [--seconds 500]

The small network of measure_history.py at batch 32 is bound by its launches. Each pair is one bare process and one under
gpuwhy, in random order, since the process that runs second looks slower. A process reports the median of its blocks of
50 iterations, each waited for. The median ratio of the pairs is printed with a bootstrap interval, and the same for the
pairs by who ran first. `--variant NAME=VALUE` sets a variable of the hook's for the recorded process, to find a cost by
elimination: GPUWHY_COURSE=0, GPUWHY_SITES=0, GPUWHY_ATTACH=0. Build for release.
"""

import argparse
import os
import pathlib
import random
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
BLOCK = 50


def child(iterations):
    import torch
    import measure_history as history
    torch.manual_seed(1)
    trainer = history.Trainer(32)
    trainer.steps(300)
    torch.cuda.synchronize()
    times = []
    for _ in range(iterations // BLOCK):
        begin = time.perf_counter()
        trainer.steps(BLOCK)
        torch.cuda.synchronize()
        times.append((time.perf_counter() - begin) / BLOCK)
    print(f"ms {statistics.median(times) * 1000:.6f}")


def one(options, recorded):
    command = [sys.executable, "-B", __file__, "--child", str(options.iterations)]
    if recorded:
        command = [str(ROOT / options.build / "gpuwhy"), "run", "--quiet", "-o", "/dev/null", "--"] + command
        command[command.index("-o") + 1] = f"/tmp/cost-{os.getpid()}-{time.monotonic_ns()}.gpuwhy"
    variables = dict(os.environ, **dict(v.split("=", 1) for v in options.variant)) if recorded else None
    done = subprocess.run(command, env=variables, capture_output=True, text=True, cwd=ROOT / "tests" / "gpu", timeout=120)
    for line in done.stdout.splitlines():
        if line.startswith("ms "):
            return float(line[3:])
    sys.exit(f"whole_process_cost: no time came back:\n{done.stdout}\n{done.stderr}")


def interval(ratios, rng):
    draws = sorted(statistics.median(rng.choices(ratios, k=len(ratios))) for _ in range(4000))
    return draws[100], draws[3899]


def show(name, ratios, rng):
    if len(ratios) < 3:
        return
    low, high = interval(ratios, rng)
    print(f"{name:32s} {len(ratios):3d} {100 * (statistics.median(ratios) - 1):+7.2f} %"
          f"   {100 * (low - 1):+.2f} to {100 * (high - 1):+.2f} %")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--pairs", type=int, default=30)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=500)
    parser.add_argument("--variant", action="append", default=[])
    parser.add_argument("--child", type=int)
    options = parser.parse_args()
    if options.child is not None:
        return child(options.child)
    rng, end = random.Random(5), time.monotonic() + options.seconds
    one(options, False)  # the first process fills the disk's cache
    pairs = []
    while len(pairs) < options.pairs and time.monotonic() < end:
        first_recorded = rng.random() < 0.5
        times = {recorded: one(options, recorded) for recorded in (first_recorded, not first_recorded)}
        pairs.append((times[True] / times[False], first_recorded, times[False], times[True]))
    print(f"bare {statistics.median(p[2] for p in pairs):.4f} ms an iteration, recorded "
          f"{statistics.median(p[3] for p in pairs):.4f} ms {' '.join(options.variant)}")
    print(f"{'':32s} pairs  median     95 % interval")
    show("recorded against bare", [p[0] for p in pairs], rng)
    show("  the recorded one ran first", [p[0] for p in pairs if p[1]], rng)
    show("  the bare one ran first", [p[0] for p in pairs if not p[1]], rng)


if __name__ == "__main__":
    main()
