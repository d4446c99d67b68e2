#!/usr/bin/env python3
"""Train on a real GPU for a long time, and check that no memory grows:

    trainer_soak.py --build BUILD --out FOLDER [--seconds 1700] [--images N] [--under GPUWHY] [-- options of the trainer]

ResNet-50 in bf16 with all that a training uses: JPEG files (made first, N of them; 0: synthetic images), augmentation, a
moving average, clipping, evaluations, checkpoints, a log and TensorBoard. With --under, the trainer runs under `gpuwhy run`.
After --seconds, or on SIGTERM, the trainer gets SIGTERM and must end with status 4. FOLDER/soak.md is written every 30 s, so
that an unfinished run can be seen. LD_LIBRARY_PATH must name the folders of cuDNN, cuBLAS and NVRTC.

Checked: the process's memory on the GPU (from the log) does not change after the first quarter. Of the second and of the
last quarter, medians are compared: threads and open files must be the same; resident memory (of gpuwhy, too) may grow by at
most 1 % and 8 MiB.

Exit status: 0: nothing grew, 1: something grew or the training failed."""
import argparse
import concurrent.futures
import json
import os
import signal
import statistics
import subprocess
import sys
import time

MIB = 1 << 20


def make_image(job):
    import numpy
    from PIL import Image
    path, seed = job
    dice = numpy.random.default_rng(seed)
    width, height = int(dice.integers(300, 501)), int(dice.integers(300, 501))
    rough = dice.integers(0, 256, (height // 16, width // 16, 3), dtype=numpy.uint8)
    Image.fromarray(rough).resize((width, height), Image.BICUBIC).save(path, quality=90)


def make_images(folder, count):
    """JPEG files of ten classes, a tenth of them for tests."""
    jobs = []
    for i in range(count):
        place = os.path.join(folder, "val" if i % 10 == 0 else "train", "class%d" % (i // 10 % 10))
        os.makedirs(place, exist_ok=True)
        jobs.append((os.path.join(place, "%d.jpg" % i), i))
    with concurrent.futures.ProcessPoolExecutor() as pool:
        list(pool.map(make_image, jobs, chunksize=64))


def trainer_of(process, under):
    """The pid of the trainer: with gpuwhy, the child of `process`."""
    if not under:
        return process.pid
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        with open("/proc/%d/task/%d/children" % (process.pid, process.pid)) as file:
            for child in map(int, file.read().split()):
                with open("/proc/%d/comm" % child) as name:
                    if name.read().strip() == "trainer":
                        return child
        time.sleep(0.05)
    process.kill()
    raise RuntimeError("the trainer did not start")


def look(pid):
    values = {}
    with open("/proc/%d/status" % pid) as file:
        for line in file:
            key, _, value = line.partition(":")
            if key in ("RssAnon", "VmRSS"):
                values[key] = int(value.split()[0]) * 1024
            elif key == "Threads":
                values[key] = int(value)
    values["files"] = len(os.listdir("/proc/%d/fd" % pid))
    return values


class Log:
    """The newest step of the trainer's log. Lines of earlier runs do not count."""

    def __init__(self, path):
        self.path, self.last = path, {}
        self.at = os.path.getsize(path) if os.path.exists(path) else 0

    def read(self):
        if os.path.exists(self.path):
            with open(self.path) as file:
                file.seek(self.at)
                for line in iter(file.readline, ""):
                    if not line.endswith("\n"):
                        break
                    self.at = file.tell()
                    if line == "\n":  # ends the cut line of an earlier run
                        continue
                    record = json.loads(line)
                    if "step" in record and "memory_bytes" in record:
                        self.last = record
        return self.last


def judge(samples):
    """(what, before, after, whether it grew)"""
    count = len(samples)
    if count < 12:
        return [("samples", 12, count, True)]
    later, second, last = samples[count // 4:], samples[count // 4:count // 2], samples[count * 3 // 4:]
    gpu = [s["gpu"] for s in later]
    rows = [("memory on the GPU, bytes (least and largest)", min(gpu), max(gpu), max(gpu) != min(gpu) or min(gpu) <= 0)]
    for key, text in (("VmRSS", "resident memory, MiB (medians)"), ("RssAnon", "of it anonymous, MiB (medians)"),
                      ("gpuwhy", "resident memory of gpuwhy, MiB (medians)")):
        if key in samples[-1]:
            a, b = statistics.median(s[key] for s in second), statistics.median(s[key] for s in last)
            rows.append((text, "%.1f" % (a / MIB), "%.1f" % (b / MIB), b > a * 1.01 + 8 * MIB))
    for key, text in (("Threads", "threads"), ("files", "open files")):
        rows.append((text + " (medians)", statistics.median(s[key] for s in second), statistics.median(s[key] for s in last),
                     statistics.median(s[key] for s in second) != statistics.median(s[key] for s in last)))
    return rows


def write(path, command, samples, end):
    rows = judge(samples)
    last = samples[-1] if samples else {}
    with open(path + ".new", "w") as file:
        file.write("`%s`\n\n%.0f s, %s steps, epoch %s, %d samples; GPU waited for inputs: %s of the time; %s\n\n" % (
            command, last.get("s", 0), last.get("step"), last.get("epoch"), len(samples), last.get("wait"), end))
        file.write("| | before | after | |\n|---|---|---|---|\n")
        for what, before, after, grew in rows:
            file.write("| %s | %s | %s | %s |\n" % (what, before, after, "DIFFERENT" if grew else "as before"))
    os.rename(path + ".new", path)
    return not any(row[3] for row in rows)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", required=True)
    parser.add_argument("--seconds", type=float, default=1700)
    parser.add_argument("--images", type=int, default=8192)
    parser.add_argument("--every", type=float, default=5, help="seconds between samples")
    parser.add_argument("--loaders", type=int, default=min(48, max(1, (os.cpu_count() or 2) - 4)))
    parser.add_argument("--under", help="the gpuwhy program under which the trainer runs")
    parser.add_argument("more", nargs="*")
    args = parser.parse_args()
    os.makedirs(args.out, exist_ok=True)
    begin, set_folder = time.monotonic(), os.path.join(args.out, "set")
    data = ["--images", "25600"]
    if args.images > 0:
        make_images(set_folder, args.images)
        print("%d files made in %.1f s" % (args.images, time.monotonic() - begin), flush=True)
        data = ["--data", "images:" + set_folder, "--augment", "zoom,flip", "--loaders", str(args.loaders), "--queue", "8"]
    log = Log(os.path.join(args.out, "log.jsonl"))
    command = [os.path.join(args.build, "trainer"), "--backend", "cuda", "--model", "resnet50", "--precision",
               "bf16", "--batch", "256", "--micro-batch", "256", "--checkpointing", "off", *data, "--epochs", "1000000",
               "--rate", "0.01", "--clip", "1", "--average", "0.999", "--label-smoothing", "0.1", "--evaluate-every", "1000",
               "--checkpoint", os.path.join(args.out, "checkpoint"), "--every", "1000", "--results-every", "20", "--tune",
               "--log", log.path, "--tensorboard", os.path.join(args.out, "events"), "--quiet", *args.more]
    if args.under:
        command = [args.under, "run", "--quiet", "-o", os.path.join(args.out, "soak.gpuwhy"), "--"] + command
    process = subprocess.Popen(command, stdout=open(os.path.join(args.out, "said.txt"), "w"), stderr=subprocess.STDOUT)
    stop = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    samples, path, told = [], os.path.join(args.out, "soak.md"), 0
    pid, started = trainer_of(process, args.under), time.monotonic()
    while process.poll() is None and not stop and time.monotonic() - started < args.seconds:
        time.sleep(args.every)
        step = log.read()
        try:
            values = look(pid)
            if args.under:
                values["gpuwhy"] = look(process.pid)["VmRSS"]
        except (OSError, KeyError):  # it has just ended
            break
        if step:
            samples.append({**values, "s": time.monotonic() - started, "step": step["step"], "epoch": step.get("epoch"),
                            "gpu": step.get("memory_bytes") or -1, "wait": step.get("loader_wait")})
        if time.monotonic() - told > 30 and samples:
            told = time.monotonic()
            write(path, " ".join(command), samples, "still running")
    is_early = process.poll() is not None
    if not is_early:
        try:
            os.kill(pid, signal.SIGTERM)
        except ProcessLookupError:  # gpuwhy outlives the trainer
            is_early = True
    status = process.wait()
    with open(os.path.join(args.out, "samples.json"), "w") as file:
        json.dump(samples, file)
    good = write(path, " ".join(command), samples, "ended with status %d%s" % (status, ", too early" if is_early else ""))
    sys.stdout.write(open(path).read() + open(os.path.join(args.out, "said.txt")).read()[-2000:])
    return 0 if good and not is_early and status == 4 else 1


if __name__ == "__main__":
    sys.exit(main())
