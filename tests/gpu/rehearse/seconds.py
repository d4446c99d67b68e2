#!/usr/bin/env python3
"""How long a rehearsal takes beyond the program's own imports, one program at a time: from the end of the imports until
gpuwhy has given its answer; and the same training run for real, without gpuwhy, until its end.

    tests/gpu/rehearse/seconds.py --gpuwhy build/gpuwhy [--cases 12] [--seed 1]"""
import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time

import compare

HERE = os.path.dirname(os.path.abspath(__file__))
# Import first what the training imports, and leave the time of the end in a file.
PROGRAM = """
import runpy, sys, time
import torch, torchvision
with open(sys.argv[1], "w") as mark:
    mark.write(repr(time.monotonic()))
sys.argv = sys.argv[2:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def seconds_beyond_imports(before, words, folder):
    mark = os.path.join(folder, "mark")
    command = [*before, sys.executable, "-B", "-c", PROGRAM, mark, os.path.join(HERE, "train.py"), *words]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    end = time.monotonic()
    with open(mark) as file:
        return end - float(file.read()), done


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", required=True)
    parser.add_argument("--cases", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    rehearsals, real = [], []
    print("| case | rehearsal, s | ended by | real run of four iterations, s |\n|---|---|---|---|")
    for case in compare.random_cases(args.cases, args.seed):
        with tempfile.TemporaryDirectory() as folder:
            before = [args.gpuwhy, "rehearse", "--no-history", "-o", os.path.join(folder, "r.gpuwhy"), "--memory", "500GiB", "--"]
            taken, done = seconds_beyond_imports(before, [*case.split(), "--iterations", "1000"], folder)
            answered = "Peak" in done.stderr and "Fits" in done.stderr
            bare, _ = seconds_beyond_imports([], [*case.split(), "--iterations", "4"], folder)
            rehearsals.append(taken)
            real.append(bare)
            print(f"| `{case}` | {taken:.2f} | {'an answer' if answered else 'NO ANSWER'}, exit {done.returncode} | {bare:.2f} |", flush=True)
    rehearsals.sort()
    print(f"rehearsals: median {statistics.median(rehearsals):.2f} s, p90 {rehearsals[int(0.9 * len(rehearsals))]:.2f}, "
          f"largest {rehearsals[-1]:.2f}; at most 2 s: {sum(s <= 2 for s in rehearsals)} of {len(rehearsals)}; "
          f"real runs: median {statistics.median(real):.2f} s")


if __name__ == "__main__":
    main()
