"""Measure what recording costs a training in whole processes: without gpuwhy and under `gpuwhy run`. Run by hand on
a GPU:

    python3 tests/gpu/whole_process_cost.py [--seconds 500] [--net resnet50] [--variants GPUWHY_COURSE=0 ...]

Processes differ from each other by more than recording costs: they have their memory at other addresses and run on
other cores, and the machine's speed drifts. So a group of processes, half of them without gpuwhy, starts at the same
time, and then they take turns: in each round every process trains for a short time, in a new random order, while the
others wait. Effects on a whole round are removed: a process's value is the median, over the rounds, of its time
divided by the round's mean. The table compares the mean of a variant's processes with that of the processes without
gpuwhy, with a bootstrap interval over processes.

`--variants` adds recorded processes with a variable of the hook set, to find a cost by elimination: GPUWHY_COURSE=0,
GPUWHY_SITES=0, GPUWHY_ATTACH=0, GPUWHY_OFF=1. `@FOLDER` uses gpuwhy from another folder. The variant "bare" compares
half of the processes without gpuwhy with the other half, which shows the error of the method itself.

The small network of measure_history.py at batch 32 is limited by its launches; ResNet-50 runs at batch 256 in
bfloat16. Use a release build.
"""

import argparse
import json
import math
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
WARM = {"small": 300, "resnet50": 20}
BLOCK = {"small": 10, "resnet50": 1}


# ---- the trained process ----

def resnet50():
    import torch
    import torchvision
    model = torchvision.models.resnet50().cuda().to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss = torch.nn.CrossEntropyLoss()
    x = torch.randn(256, 3, 224, 224, device="cuda").to(memory_format=torch.channels_last)
    y = torch.randint(0, 1000, (256,), device="cuda")

    def steps(count):
        for _ in range(count):
            optimizer.zero_grad(set_to_none=True)
            with torch.autocast("cuda", torch.bfloat16):
                value = loss(model(x), y)
            value.backward()
            optimizer.step()
    return steps


def small():
    import measure_history as history
    return history.Trainer(32).steps


def child(net):
    """Print the process id when ready. For each line with a number of iterations, train and print the time."""
    import torch
    torch.manual_seed(1)
    steps = {"small": small, "resnet50": resnet50}[net]()
    steps(WARM[net])
    torch.cuda.synchronize()
    print(f"ready {os.getpid()}", flush=True)
    for line in sys.stdin:
        steps(BLOCK[net])  # fills the caches again, which hold another process's data
        torch.cuda.synchronize()
        times = []
        for _ in range(int(line) // BLOCK[net]):
            begin = time.perf_counter()
            steps(BLOCK[net])
            torch.cuda.synchronize()
            times.append(1000 * (time.perf_counter() - begin) / BLOCK[net])
        print("ms", *(f"{t:.5f}" for t in times), flush=True)


# ---- processes that take turns ----

class Process:
    """One training, with or without gpuwhy. It is stopped except in its turn."""

    def __init__(self, variant, options, folder):
        self.variant = variant
        self.times = []
        command = [sys.executable, "-B", __file__, "--child", "--net", options.net]
        if variant != "bare":
            recording = f"{folder}/{time.monotonic_ns()}.gpuwhy"
            build = variant[1:] if variant.startswith("@") else options.build
            setting = ["env", variant] if "=" in variant else []  # for the hook: `gpuwhy run` has variables of its own
            command = [str(ROOT / build / "gpuwhy"), "run", "--quiet", "-o", recording, "--"] + setting + command
        self.process = subprocess.Popen(command, cwd=ROOT / "tests" / "gpu", text=True,
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.pid = None

    def read(self, word):
        for line in self.process.stdout:
            if line.startswith(word + " "):
                return line.split()[1:]
        sys.exit(f"whole_process_cost: a process ({self.variant}) ended:\n{self.process.stderr.read()}")

    def wait_until_ready(self):
        self.pid = int(self.read("ready")[0])

    def pin(self, cores):
        """Pin the thread that trains, the one that runs the backward pass, and all others to separate cores."""
        for task in pathlib.Path(f"/proc/{self.pid}/task").iterdir():
            name = (task / "comm").read_text().strip()
            mine = cores[:1] if int(task.name) == self.pid else cores[1:2] if name == "pt_autograd_0" else cores[2:]
            os.sched_setaffinity(int(task.name), mine)

    def turn(self, iterations, cores):
        if cores:
            self.pin(cores)
        print(iterations, file=self.process.stdin, flush=True)
        self.times.append([float(t) for t in self.read("ms")])

    def end(self):
        self.process.stdin.close()
        self.process.stdout.read()
        self.process.wait(timeout=60)


def run_group(variants, options, rng, folder):
    group = [Process(variant, options, folder) for variant in variants]
    for process in group:
        process.wait_until_ready()
    time.sleep(1.0)  # the supervisors finish their start
    for _ in range(options.rounds):
        cores = rng.sample(sorted(os.sched_getaffinity(0)), os.cpu_count()) if options.pin else None
        for process in rng.sample(group, len(group)):
            process.turn(options.iterations // options.rounds, cores)
    for process in group:
        process.end()
    return group


# ---- the table ----

def effects_of(group):
    """Return {variant: [(log of a process's time relative to its rounds' mean, its ms per iteration)]}."""
    ms = [[statistics.median(turn) for turn in p.times] for p in group]
    means = [statistics.fmean(math.log(row[r]) for row in ms) for r in range(len(ms[0]))]
    effects = {}
    for process, row in zip(group, ms):
        effect = statistics.median(math.log(t) - mean for t, mean in zip(row, means))
        effects.setdefault(process.variant, []).append((effect, statistics.median(row)))
    return effects


def difference(groups, variant, rng):
    """Return the differences in percent between the variant's processes and those without gpuwhy in their group,
    over all groups. With `rng`, from processes drawn from each."""
    differences = []
    for effects in groups:
        bare, other = effects["bare"], effects.get(variant)
        if variant == "bare":
            bare, other = bare[::2], bare[1::2]
        draw = (lambda some: rng.choices(some, k=len(some))) if rng else (lambda some: some)
        differences.append(statistics.fmean(e for e, _ in draw(other)) - statistics.fmean(e for e, _ in draw(bare)))
    return 100 * math.expm1(statistics.fmean(differences))


def show(variants, groups, rng):
    print(f"{'':20s} processes   bare ms        ms    cost      95 % interval")
    for variant in variants:
        draws = sorted(difference(groups, variant, rng) for _ in range(4000))
        count = sum(len(effects[variant]) for effects in groups)
        ms = [statistics.median(t for effects in groups for _, t in effects[v]) for v in ("bare", variant)]
        print(f"{variant:20s} {count:9d} {ms[0]:9.4f} {ms[1]:9.4f} {difference(groups, variant, None):+7.2f} %"
              f"  {draws[100]:+6.2f} to {draws[3899]:+6.2f} %", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", default="build")
    parser.add_argument("--net", choices=sorted(WARM), default="small")
    parser.add_argument("--each", type=int, default=8, help="processes of each variant in a group")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--seconds", type=float, default=500, help="no group begins that may end later")
    parser.add_argument("--variants", nargs="*", default=["recorded"])
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--pin", action="store_true", help="the same cores for all processes of a round")
    parser.add_argument("--json")
    parser.add_argument("--child", action="store_true")
    options = parser.parse_args()
    if options.child:
        return child(options.net)
    rng, begin = random.Random(options.seed), time.monotonic()
    variants = list(dict.fromkeys(options.variants))
    longest, raw, groups = 0.0, [], []
    with tempfile.TemporaryDirectory() as folder:
        while not groups or time.monotonic() - begin + longest < options.seconds:
            start = time.monotonic()
            names = (["bare"] + [v for v in variants if v != "bare"]) * options.each
            group = run_group(rng.sample(names, len(names)), options, rng, folder)
            longest = max(longest, time.monotonic() - start)
            groups.append(effects_of(group))
            raw.append([[p.variant, p.times] for p in group])
            if options.json:
                pathlib.Path(options.json).write_text(json.dumps(raw))
            print(f"{options.net}, {options.iterations} iterations in {options.rounds} turns, {len(groups)} groups of "
                  f"{len(names)} processes, {longest:.0f} s a group")
            show(variants, groups, rng)


if __name__ == "__main__":
    main()
