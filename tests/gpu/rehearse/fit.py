#!/usr/bin/env python3
"""Find the largest batch of ResNet-50 on cards of several sizes, and try each answer for real: 50 iterations under the
limit must run, and the next batch must fail. One row a size.

    tests/gpu/rehearse/fit.py [--gpuwhy build/gpuwhy] [GIB ...]"""
import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("gib", type=int, nargs="*", default=[8, 16, 24, 80])
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    parser.add_argument("--model", default="resnet50")
    parser.add_argument("--size", default="224")
    parser.add_argument("--optimizer", default="SGD")
    return parser.parse_args()


def fit(args, gib, path):
    command = [args.gpuwhy, "fit", "--memory", f"{gib}GiB", "--from", "8", "--real=50", "--speed", "--no-history",
               "--json", path, "--", sys.executable, os.path.join(HERE, "train.py"), "--model", args.model, "--size",
               args.size, "--optimizer", args.optimizer, "--iterations", "1000", "--batch-size", "{batch}"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        print(done.stdout, done.stderr, file=sys.stderr)
    if done.returncode > 1:
        sys.exit(done.returncode)
    with open(path) as file:
        return json.load(file)


def real_run(one, batch):
    """The real run of a batch in words."""
    runs = [trial for trial in one["trials"] if trial["batch"] == batch and trial["kind"] == "real run"]
    if not runs:
        return "no real run"
    return {True: "runs", False: "no memory", None: f"fails: {runs[-1]['why']}"}[runs[-1]["fits"]]


def main():
    args = arguments()
    good = True
    print(f"{'GiB':>4} {'batch':>6} {'real':>10} {'next':>6} {'real':>10} {'trials':>6} {'seconds':>8} {'items/s':>8}")
    with tempfile.TemporaryDirectory() as folder:
        for gib in args.gib:
            answer = fit(args, gib, os.path.join(folder, f"{gib}.json"))
            one = answer["combinations"][0]
            rehearsals = [trial for trial in one["trials"] if trial["kind"] == "rehearsal"]
            first, second = real_run(one, one["largest"]), real_run(one, one["next"])
            good = good and one["answer"] == "found" and first in ("runs", "no real run") and second != "runs"
            print(f"{gib:4} {one['largest']!s:>6} {first:>10} {one['next']!s:>6} {second:>10} {len(rehearsals):6} "
                  f"{answer['seconds']:8.1f} {one['items_per_second'] or 0:8.0f}", flush=True)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
