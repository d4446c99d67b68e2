#!/usr/bin/env python3
"""Trainings that run out of memory, and what gpuwhy says about each: healthy ones on cards that are too small for them
must never be called a leak, and those that keep something in every iteration must be. Rehearsed, and with --real also run.

    tests/gpu/rehearse/refused.py --gpuwhy build/gpuwhy [--cases 20] [--seed 1] [--real] [--keep FOLDER]"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

import compare

HERE = os.path.dirname(os.path.abspath(__file__))
MIB = 1 << 20
SHARES = (0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 0.95, 0.98)
CAPACITY = {"gpu-oom-capacity", "gpu-oom-fragmentation", "gpu-oom-workspace", "gpu-oom-library-handle"}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", required=True)
    parser.add_argument("--cases", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=10)
    parser.add_argument("--real", action="store_true")
    parser.add_argument("--keep", default="", help="folder for the recordings of wrong verdicts")
    return parser.parse_args()


def verdict(args, kind, case, memory, number):
    """Run a case on a card of that size. Returns the verdict, and keeps its recording if it is wrong."""
    words, env = compare.split(case)
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "r.gpuwhy")
        command = [args.gpuwhy, kind, "--no-history", "-o", recording, "--memory", str(memory)]
        command += ["--until", "end", "--once"] if kind == "rehearse" else ["--quiet"]
        try:
            subprocess.run([*command, "--", sys.executable, "-B", os.path.join(HERE, "train.py"), *words], env=env,
                           capture_output=True, timeout=240)
            text = subprocess.run([args.gpuwhy, "explain", "--json", recording], capture_output=True, text=True).stdout
            found = json.loads(text)
        except (OSError, ValueError, subprocess.TimeoutExpired) as reason:
            return {"cause": str(reason), "certainty": "no verdict", "headline": "", "peak": 0}
        answer = {key: found.get(key) for key in ("cause", "certainty", "headline")}
        answer["peak"] = compare.facts(args.gpuwhy, recording)[0]
        if args.keep and is_wrong(case, answer):
            os.makedirs(args.keep, exist_ok=True)
            os.replace(recording, os.path.join(args.keep, f"{number}-{kind}.gpuwhy"))
        return answer


def is_wrong(case, answer):
    sure = answer["certainty"] in ("established", "supported")
    if answer["certainty"] == "no verdict":
        return True
    if "--keep " in case:
        return sure and answer["cause"] != "gpu-oom-leak"
    return answer["cause"] is not None and not (answer["cause"] in CAPACITY or not sure)


def main():
    args = arguments()
    pick = random.Random(args.seed)
    cases = [case + " --iterations 6" for case in compare.random_cases(args.cases, args.seed)]
    cases = [pick.choice([case, case + " --keep loss --iterations 60", case + " --keep output --iterations 60", case]) for case in cases]
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        peaks = list(pool.map(lambda case: verdict(args, "rehearse", case.split(" --keep")[0], 500 << 30, "peak")["peak"], cases))
        work = []
        for case, peak in zip(cases, peaks):
            if "--keep" in case:
                work += [(case, int(peak * share) // MIB * MIB) for share in (1.7, 2.6, 4.2)]
            else:
                work += [(case, int(peak * share) // MIB * MIB) for share in pick.sample(SHARES, 4)]
        work = [(pick.choice(["rehearse", "run"]) if args.real else "rehearse", *one) for one in work if one[1] > 700 * MIB]
        if not work:
            sys.exit("no rehearsal had a peak")
        table, wrong = collections.Counter(), 0
        done = pool.map(lambda one: verdict(args, *one[1][:3], one[0]), enumerate(work))
        for number, ((kind, case, memory), answer) in enumerate(zip(work, done)):
            table["leaks " if "--keep" in case else "healthy", kind, answer["cause"], answer["certainty"]] += 1
            said = "right"
            if is_wrong(case, answer):
                wrong += 1
                said = "WRONG"
            print(f"{said} {number} of {len(work)}, {kind} {memory / MIB:.0f} MiB: {answer['cause']} ({answer['certainty']}): {case}: "
                  f"{answer['headline']}", flush=True)
    for row, count in sorted(table.items(), key=str):
        print(f"{count:4}  {'  '.join(map(str, row))}")
    print(f"{len(work)} runs, {wrong} wrong")
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main())
