#!/usr/bin/env python3
"""Compare rehearsals with real runs of the same trainings, to the byte: PyTorch's allocated and reserved peak, and what the
whole process holds (real: NVML; rehearsed: the books and the driver's share). One row a case, then a summary."""
import argparse
import concurrent.futures
import json
import os
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
# xMem's protocol (the models, optimizers and batches of its evaluation; 86x86 pixels, fp32)
MODELS = ["vgg16", "vgg19", "resnet101", "resnet152", "mobilenet_v2", "mobilenet_v3_small", "mobilenet_v3_large",
          "mnasnet1_0", "convnext_tiny", "convnext_base", "regnet_x_400mf", "regnet_y_400mf"]
OPTIMIZERS = ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"]
OTHERS = [
    "--model resnet50 --size 224 --batch-size 64 --precision bf16 --channels-last",
    "--model resnet50 --size 224 --batch-size 96 --precision fp16 --optimizer Adam",
    "--model inception_v3 --size 299 --batch-size 48",
    "--model vit_b_16 --size 224 --batch-size 64 --optimizer AdamW --precision bf16",
    "--model gpt2 --size 512 --batch-size 16 --optimizer AdamW",
    "--model gpt2 --size 256 --batch-size 24 --optimizer AdamW --precision bf16 --checkpoint",
    "--model cnn --size 28 --batch-size 12800 --optimizer Adam",
    "--model timm:efficientnet_b0 --size 224 --batch-size 64 --optimizer RMSprop",
    "--model timm:convnextv2_nano --size 224 --batch-size 40 --optimizer AdamW --zero late",
    "--model resnet50 --size 224 --batch-size 64 --checkpoint",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --model resnet50 --size 86 --batch-size 200",
    "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True --model vgg16 --size 86 --batch-size 150 --optimizer Adam",
    "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync --model resnet50 --size 86 --batch-size 200",
    "PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync --model regnet_y_400mf --size 86 --batch-size 300 --optimizer Adam",
    "--model resnet18 --size 86 --batch-size 64 --graph --optimizer Adam",
    "--model resnet50 --size 86 --batch-size 100 --compile",
    "--model resnet50 --size 86 --batch-size 100 --benchmark",
    "--model resnet50 --size 224 --batch-size 64 --lightning",
    "--model gpt2 --size 256 --batch-size 16 --optimizer AdamW --precision bf16 --lightning",
]


def random_cases(count, seed):
    pick = random.Random(seed)
    for _ in range(count):
        yield "--model {} --batch-size {} --size 86 --optimizer {} --zero {}".format(
            pick.choice(MODELS), pick.randint(1, 100) * 10, pick.choice(OPTIMIZERS), pick.choice(["early", "late"]))


def split(case):
    words, env = case.split(), dict(os.environ)
    while words and "=" in words[0] and not words[0].startswith("-"):
        name, value = words.pop(0).split("=", 1)
        env[name] = value
    return words, env


def run(command, env, seconds):
    start = time.monotonic()
    try:
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return None, "timeout", time.monotonic() - start
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    tail = (done.stderr.strip().splitlines() or [""])[-1][:160]
    return (json.loads(lines[-1]) if lines else None), tail, time.monotonic() - start


def real(case, args):
    words, env = split(case)
    return run([sys.executable, "-B", os.path.join(HERE, "train.py"), *words], env, args.seconds)


def rehearsed(case, args):
    words, env = split(case)
    with tempfile.TemporaryDirectory() as folder:
        recording = os.path.join(folder, "r.gpuwhy")
        command = [args.gpuwhy, "run", "--quiet", "--no-history", "-o", recording, "--", sys.executable, "-B",
                   os.path.join(HERE, "train.py"), *words]
        command[1:3] = ["rehearse", "--until", "end", "--once"]
        if args.memory:
            command[2:2] = ["--memory", str(args.memory)]
        result, tail, took = run(command, env, args.seconds)
        if result is not None:
            result["process"], result["refused"] = facts(args.gpuwhy, recording)
        return result, tail, took


def trace(case, number, args):
    """Keep the driver's allocations of a real run and of a rehearsal, for a case where they differ."""
    words, env = split(case)
    for kind in ("run", "rehearse"):
        recording = os.path.join(args.keep, "{}-{}.gpuwhy".format(number, kind))
        subprocess.run([args.gpuwhy, kind, "--no-history", "-o", recording, *(["--until", "end"] if kind == "rehearse" else []),
                        "--", sys.executable, "-B", os.path.join(HERE, "train.py"), *words], env=env, capture_output=True)


def facts(gpuwhy, recording):
    text = subprocess.run([gpuwhy, "export", recording, "--to", "csv", "-o", "-"], capture_output=True, text=True).stdout
    peak, refused = 0, []
    for line in text.splitlines():
        part = line.split(",")
        if len(part) > 16 and part[4] == "REHEARSAL":
            if part[12] == "1":
                peak = max(peak, int(part[13]) + int(part[14]))
            if part[12] == "3":
                refused.append(part[-1])
    return peak, refused


def error_of(real_value, rehearsed_value):
    return 100.0 * (rehearsed_value - real_value) / real_value if real_value else float("inf")


def summary(rows, field, out):
    errors = [abs(error_of(a[field], b[field])) for _, a, b in rows if isinstance(a[field], int) and a[field]]
    if not errors:
        return
    errors.sort()
    out("{}: {} of {} equal to the byte; error median {:.4f} %, p90 {:.4f} %, max {:.4f} %".format(
        field, sum(e == 0 for e in errors), len(errors), statistics.median(errors),
        errors[min(len(errors) - 1, int(0.9 * len(errors)))], errors[-1]))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--gpuwhy", required=True)
    parser.add_argument("--random", type=int, default=0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--only", default="")
    parser.add_argument("--jobs", type=int, default=4, help="real runs at once")
    parser.add_argument("--rehearsals", type=int, default=6, help="rehearsals at once")
    parser.add_argument("--memory", type=int, default=0)
    parser.add_argument("--seconds", type=int, default=200)
    parser.add_argument("--results", default="-")
    parser.add_argument("--keep", default="", help="folder for recordings of the first six cases that differ")
    args = parser.parse_args()
    cases = list(random_cases(args.random, args.seed)) + (OTHERS if args.others else [])
    cases = [case for case in cases if re.search(args.only, case)]
    lines = []

    def out(text):
        print(text, flush=True)
        lines.append(text)

    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        reals = list(pool.map(lambda case: real(case, args), cases))
    for i, (result, tail, _) in enumerate(reals):
        if result is None and "memory" in tail.lower():
            reals[i] = real(cases[i], args)
    with concurrent.futures.ThreadPoolExecutor(args.rehearsals) as pool:
        rehearsals = list(pool.map(lambda case: rehearsed(case, args), cases))
    rows, differ = [], []
    for case, (a, a_tail, a_took), (b, b_tail, b_took) in zip(cases, reals, rehearsals):
        if a is None or b is None:
            out("| {} | real {} | rehearsed {} |".format(case, a_tail if a is None else a, b_tail if b is None else b))
            continue
        if isinstance(a["process"], int):  # at its peak, like the rehearsal's
            a["process"] += a["reserved"] - a["reserved_now"]
        rows.append((case, a, b))
        if a["process"] != b["process"]:
            differ.append(case)
        out("| {} | {} | {} | {} | {:.1f} s {:.1f} s, {:.1f} s after imports | {} |".format(
            case, *("{} {:+d}".format(a[f], b[f] - a[f]) if isinstance(a[f], int) else a[f]
                    for f in ("allocated", "reserved", "process")), a_took, b_took, b_took - b["imports_s"], b.get("refused") or ""))
    for field in ("allocated", "reserved", "process"):
        summary(rows, field, out)
    if args.keep:
        os.makedirs(args.keep, exist_ok=True)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            list(pool.map(lambda pair: trace(pair[1], pair[0], args), list(enumerate(differ))[:6]))
    if args.results != "-":
        with open(args.results, "w") as file:
            file.write("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
