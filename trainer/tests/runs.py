"""Run the trainer like a user: it learns, keeps its memory limit, leaves nothing behind, and survives being killed.

    runs.py [NAME]    one of CASES; exit 77: not possible with this build or on this machine

GPUWHY_TRAINER_CPU tells whether the build has the back end on the CPU.
"""
import csv
import json
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from harness import (PRODUCT, SANITIZE, Card, Workplace, base_environment, behind_sanitizer, expect, main, new_folder,
                     run_observed, skip)

TRAINER = PRODUCT / "trainer"
HAS_CPU = os.environ.get("GPUWHY_TRAINER_CPU", "0") == "1"
TINY = "input 1 12 12\nconv 8 3 pad 1 relu\nmaxpool 2\nsegment\nconv 8 3 pad 1 relu\nmaxpool 2\nlinear 10\n"
NORMALISED = ("input 1 12 12\nconv 8 3 pad 1 nobias\nbatchnorm relu\nmaxpool 2\nsegment\nconv 8 3 pad 1 nobias\n"
              "batchnorm relu\nmaxpool 2\nlinear 10\n")
GIB = 1 << 30
RUNS = 20 if SANITIZE else 100 # more runs would execute the same code


def need_cpu():
    if not HAS_CPU:
        skip("this build has no back end on the CPU (oneDNN was not found)")


class Place:
    """A folder with models, in which trainers are started."""

    def __init__(self, path):
        self.path = path
        self.environment = base_environment(path)
        self.environment["OMP_NUM_THREADS"] = "1"
        (path / "tiny.net").write_text(TINY)
        (path / "normalised.net").write_text(NORMALISED)

    def start(self, *options, **more):
        return subprocess.Popen(behind_sanitizer([TRAINER, *options]), cwd=self.path, env=self.environment, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def run(self, *options, status=0):
        process = self.start(*options)
        out, err = process.communicate(timeout=200)
        expect(process.returncode == status, f"{options}: exit {process.returncode} instead of {status}: {out}{err}")
        return out, err

    def cpu(self, *options, status=0):
        return self.run("--backend", "cpu", "--model", "tiny.net", *options, status=status)

    def log(self, name):
        """Read the log. Each line is an object; the last one of a killed run may be incomplete."""
        lines = (self.path / name).read_text().split("\n")
        return [json.loads(line) for line in lines if line.endswith("}")]

    def losses(self, name):
        """Return the losses by step. A step that was made twice must have the same loss."""
        losses = {}
        for line in self.log(name):
            if "loss" in line:
                before = losses.setdefault(line["step"], line["loss"])
                expect(before == line["loss"], f"step {line['step']}: loss {before}, then {line['loss']}")
        return losses


def accuracy(out):
    return float(re.search(r"test accuracy ([0-9.]+)", out).group(1))


# ---- it learns -----------------------------------------------------------------------------------------------------

FONT = ("01110 10001 10011 10101 11001 10001 01110", "00100 01100 00100 00100 00100 00100 01110",
        "01110 10001 00001 00010 00100 01000 11111", "11111 00010 00100 00010 00001 10001 01110",
        "00010 00110 01010 10010 11111 00010 00010", "11111 10000 11110 00001 00001 10001 01110",
        "00110 01000 10000 11110 10001 10001 01110", "11111 00001 00010 00100 01000 01000 01000",
        "01110 10001 10001 01110 10001 10001 01110", "01110 10001 10001 01111 00001 00010 01100")
SIDE = 12


def digit(number, luck):
    """Draw 5x7 dots somewhere in 12x12, brighter or darker, with noise."""
    image = [luck.randrange(60) for _ in range(SIDE * SIDE)]
    top, left, light = luck.randrange(SIDE - 7), luck.randrange(SIDE - 5), luck.randrange(120, 196)
    for y, row in enumerate(FONT[number].split()):
        for x, dot in enumerate(row):
            if dot == "1":
                image[(top + y) * SIDE + left + x] += light
    return bytes(image)


def write_digits(folder, part, count, luck, shuffles=False):
    numbers = [luck.randrange(10) for _ in range(count)]
    images = b"".join(digit(number, luck) for number in numbers)
    if shuffles:
        luck.shuffle(numbers)
    (folder / f"{part}-images-idx3-ubyte").write_bytes(struct.pack(">4I", 0x803, count, SIDE, SIDE) + images)
    (folder / f"{part}-labels-idx1-ubyte").write_bytes(struct.pack(">2I", 0x801, count) + bytes(numbers))


def learns_synthetic(place):
    need_cpu()
    options = ["--images", "1000", "--batch", "50", "--steps", "60", "--rate", "0.02", "--evaluate", "--quiet",
               "--deterministic"]
    out, _ = place.cpu(*options)
    expect(accuracy(out) > 0.9, f"a test accuracy above 0.9 was expected: {out}")
    out, _ = place.cpu(*options, "--random-labels")
    expect(accuracy(out) < 0.3, f"nothing could be learned, but the accuracy is high: {out}")


def learns_digits(place):
    need_cpu()
    few = SANITIZE != ""
    good, shuffled = place.path / "good", place.path / "shuffled"
    for folder in (good, shuffled):
        luck = random.Random(5)
        folder.mkdir()
        write_digits(folder, "train", 500 if few else 2000, luck, shuffles=folder == shuffled)
        write_digits(folder, "t10k", 100 if few else 500, luck)
    for model in ("tiny.net", "normalised.net"):
        options = ["--backend", "cpu", "--model", model, "--batch", "50", "--epochs", "6", "--optimizer", "adam", "--rate", "0.01", "--evaluate", "--quiet", "--deterministic"]
        out, _ = place.run(*options, "--data", "mnist:good")
        line = 0.5 if few else 0.9
        expect(accuracy(out) > line, f"{model}: a test accuracy above {line} was expected: {out}")
        out, _ = place.run(*options, "--data", "mnist:shuffled")
        expect(accuracy(out) < 0.3, f"{model}: nothing could be learned, but the accuracy is high: {out}")


# ---- run after run -------------------------------------------------------------------------------------------------

def run_lines(out):
    """Return what each run printed about memory."""
    return [re.sub(r".*?; plan", "plan", line) for line in out.splitlines() if line.startswith("run ")]


def hundred_runs_dry(place):
    run = run_observed([TRAINER, "--backend", "dry", "--model", place.path / "normalised.net", "--runs", str(RUNS),
                        "--images", "100", "--batch", "20", "--steps", "3", "--evaluate", "--quiet", "--clip", "1",
                        "--average", "0.9", "--decay", "weights", "--weight-decay", "0.1", "--optimizer", "adamw"],
                       Card("2GiB"), new_folder(place.path, "runs"))
    expect(run.status == 0, f"exit {run.status}: {run.stdout.decode()}{run.stderr.decode(errors='replace')}")
    lines = [line.split(", heap")[0] for line in run_lines(run.stdout.decode())]
    expect(len(lines) == RUNS and len(set(lines[1:])) == 1, f"runs 2 to {RUNS} differ: {set(lines[1:])}")
    expect("card free" in lines[1], lines[1])
    expect(re.search(r"plan (\d+) bytes \([^)]*\), peak \1 bytes", lines[1]), f"the plan is not the peak: {lines[1]}")
    verdict = run.verdict()
    expect(verdict["status"] == "clean", f"{verdict['status']}: {verdict['headline']}")


NEIGHBOURS = """
"$@" --runs 1000000 >out 2>err & runs=$!
until grep -q '^run 3:' out; do kill -0 $runs && sleep 0.1 || exit 9; done
"$@" --steps 1000000 >/dev/null 2>&1 & neighbour=$!
until grep -q 'bytes less free than after run 2' err; do kill -0 $neighbour $runs && sleep 0.1 || exit 8; done
kill $neighbour
wait $neighbour
kill $runs
wait $runs
"""


def neighbours_do_not_count(place):
    """Another process that uses the card does not make the runs differ, but it is mentioned."""
    folder = new_folder(place.path, "runs")
    run = run_observed(["sh", "-c", f"cd {place.path}\n{NEIGHBOURS}", "sh", *behind_sanitizer([TRAINER]), "--backend",
                        "dry", "--model", place.path / "normalised.net", "--images", "100", "--batch", "20", "--quiet"],
                       Card("2GiB"), folder)
    said = (place.path / "err").read_text()
    expect(run.status == 4, f"exit {run.status}: {said}{run.stderr.decode(errors='replace')}")
    expect("used a different amount" not in said, said)


def runs_of_cuda(place):
    """The back end for GPUs with libraries that compute nothing: on one GPU and on two."""
    fakes = os.environ.get("GPUWHY_TRAINER_FAKES", "")
    if fakes == "":
        skip("this build has no libraries that stand for CUDA's")
    names = [f"GPUSCOPE_{name}" for name in ("CUDNN", "CUBLAS", "CUBLASLT", "NCCL")] + ["TRAINER_NVRTC"]
    for gpus in (1, 2):
        command = ["env", *(f"{name}={fakes}" for name in names), *behind_sanitizer([TRAINER]), "--backend", "cuda",
                   "--model", place.path / "normalised.net", "--runs", "20", "--images", "100", "--batch", "20", "--steps", "3",
                   "--precision", "bf16", "--evaluate", "--quiet", "--workspace", "1MiB", "--gpus", str(gpus), "--clip", "1",
                   "--average", "0.9", "--decay", "weights", "--weight-decay", "0.1", "--nesterov"]
        # 2 GiB, because ThreadSanitizer does not have enough addresses for two large GPUs.
        run = run_observed(command, Card("2GiB", name=f"{gpus}xh200"), new_folder(place.path, f"cuda{gpus}"))
        expect(run.status == 0, f"exit {run.status}: {run.stdout.decode()}{run.stderr.decode(errors='replace')}")
        lines = [line.split(", heap")[0] for line in run_lines(run.stdout.decode())]
        expect(len(lines) == 20 and len(set(lines[1:])) == 1, f"runs 2 to 20 differ: {set(lines[1:])}")
        expect(re.search(r"plan (\d+) bytes \([^)]*\), peak \1 bytes", lines[1]), f"the plan is not the peak: {lines[1]}")
        verdict = run.verdict()
        expect(verdict["status"] == "clean", f"{verdict['status']}: {verdict['headline']}")


def hundred_runs_cpu(place):
    """The heap does not grow. The C library's per-thread caches are off, because they count as used memory."""
    need_cpu()
    place.environment["GLIBC_TUNABLES"] = "glibc.malloc.tcache_count=0"
    out, _ = place.run("--backend", "cpu", "--model", "normalised.net", "--runs", str(RUNS), "--images", "100", "--batch",
                       "20", "--steps", "3", "--evaluate", "--quiet", "--deterministic")
    lines = run_lines(out)
    plans = {line.split(", heap")[0] for line in lines}
    expect(len(lines) == RUNS and len(plans) == 1, f"the plans differ: {plans}")
    numbers = {re.search(r"loss ([^,]+)", line).group(1) for line in out.splitlines()}
    expect(len(numbers) == 1, f"the same run ends with {numbers}")
    heaps = [int(re.search(r"heap (\d+)", line).group(1)) for line in lines]
    half = RUNS // 2
    expect(heaps[-1] - heaps[half - 1] < half * 16, f"{half} runs leave {heaps[-1] - heaps[half - 1]} bytes on the heap")


# ---- the memory limit ----------------------------------------------------------------------------------------------

def keeps_the_promise(place):
    """On a GPU that has only as much memory as the limit; without the limit the same training fails there."""
    rows = (("small", "6400", "2GiB"), ("resnet18", "64", "2GiB"), ("efficientnet-b0", "64", "2GiB"))
    for model, batch, size in rows:
        options = ["--backend", "dry", "--model", model, "--batch", batch, "--images", batch, "--steps", "2",
                   "--optimizer", "adam"]
        run = run_observed([TRAINER, *options, "--memory", size], Card(size), new_folder(place.path, model))
        said = run.stderr.decode(errors="replace")
        expect(run.status == 0 and "refused: micro-batch" in said and "chosen: micro-batch" in said,
               f"{model}: exit {run.status}: {said}")
        expect(run.verdict()["status"] == "clean", f"{model}: {run.verdict()['headline']}")
        # The limit also holds on a larger GPU: the memory of the scope, with context and reserve, stays below it.
        folder = new_folder(place.path, model + "-room")
        run = run_observed([TRAINER, *options, "--memory", size, "--quiet"], Card(), folder)
        expect(run.status == 0, f"{model}: exit {run.status}: {run.stderr.decode(errors='replace')}")
        peak = int(re.search(r"peak (\d+) bytes", run.stdout.decode()).group(1))
        expect(peak <= int(size[0]) * GIB - (256 << 20), f"{model}: peak {peak}")
    run = run_observed([TRAINER, "--backend", "dry", "--model", "small", "--batch", "6400", "--images", "6400",
                        "--steps", "2", "--micro-batch", "6400", "--checkpointing", "off"], Card("2GiB"),
                       new_folder(place.path, "forced"))
    expect(run.status == 1 and "nothing fits: the plan needs at least " in run.stderr.decode(), run.stderr.decode())


def libraries_of(path):
    return subprocess.run(["ldd", path], capture_output=True, text=True, check=True).stdout


def prints_plans(place):
    for model in ("small", "vgg11", "vgg16", "resnet18", "resnet34", "resnet50", "mobilenetv2", "efficientnet-b0"):
        run = run_observed([TRAINER, "--backend", "dry", "--model", model, "--batch", "32", "--plan"], Card(),
                           new_folder(place.path, model))
        said = run.stdout.decode()
        expect(run.status == 0 and "parameters" in said and re.search(r"^  taken +\d+", said, re.M), said[:2000])
        taken = int(re.search(r"^  taken +(\d+)", said, re.M).group(1))
        # A sum of two normalised branches has the gradients of both.
        both = re.findall(r"^ +\d+ backward add +line \d+ +-> (\S+ \S+) at (\d+) and (\S+ \S+) at (\d+)$", said, re.M)
        branches = {"resnet18": 3, "resnet34": 3, "resnet50": 4}.get(model, 0)
        expect(len(both) == branches and all(one[0] == one[2] and one[1] != one[3] for one in both), said)
        if model not in ("small", "resnet18", "mobilenetv2", "efficientnet-b0"):
            continue # initialising that many parameters takes time
        run = run_observed([TRAINER, "--backend", "dry", "--model", model, "--batch", "32", "--images", "32", "--steps",
                            "1", "--quiet"], Card(), new_folder(place.path, model + "-taken"))
        peak = int(re.search(r"peak (\d+) bytes", run.stdout.decode()).group(1))
        expect(taken == peak, f"{model}: {taken} planned, {peak} taken")
    out, _ = place.run("--backend", "dry", "--plan", "--model", "tiny.net") # without a GPU
    expect("planned without it" in out and "taken" in out, out)
    out, _ = place.run("--backend", "dry", "--plan", "--model", "tiny.net", "--batch", "735134400", "--memory", "3GiB")
    expect("chosen: micro-batch" in out, out) # it has 1,344 divisors
    _, err = place.run("--backend", "dry", "--plan", "--model", "tiny.net", "--batch", "9000000000000000", status=1)
    expect("a batch of 9000000000000000 images; a data set has at most 1073741824" in err, err)
    if HAS_CPU:
        _, err = place.run("--model", "tiny.net", status=1)
        expect("; --backend cpu trains without a GPU" in err, err)
        expect("dnnl" not in libraries_of(TRAINER), "the program is linked to oneDNN, not only the module of the back end cpu")
        expect("dnnl" in libraries_of(TRAINER.with_name("trainer-cpu.so")), "the module is not linked to oneDNN")


# ---- what is refused -----------------------------------------------------------------------------------------------

def refuses_damage(place):
    need_cpu()
    data, luck = place.path / "data", random.Random(1)
    data.mkdir()
    write_digits(data, "train", 100, luck)
    write_digits(data, "t10k", 20, luck)
    options = ["--data", "mnist:data", "--batch", "20", "--steps", "3", "--checkpoint", "c", "--quiet"]
    place.cpu(*options)
    images = data / "train-images-idx3-ubyte"
    whole = images.read_bytes()
    images.write_bytes(whole[:-1])
    _, err = place.cpu(*options, status=1)
    expect("data/train-images-idx3-ubyte: byte 4: 100 images of 12x12 are 14400 bytes, but the header is followed by "
           "14399" in err, err)
    images.write_bytes(whole)
    checkpoint = place.path / "c"
    kept = checkpoint.read_bytes()
    damaged = bytearray(kept)
    damaged[len(kept) // 2] ^= 1
    checkpoint.write_bytes(damaged)
    _, err = place.cpu(*options, "--resume", status=1)
    expect("c: damaged: the checksum is " in err, err)
    checkpoint.write_bytes(kept)
    _, err = place.cpu(*options, "--resume", "--seed", "2", status=1)
    expect("c: the checkpoint is for seed 1, not 2" in err, err)
    (place.path / "bad.net").write_text("input 1 12 12\nconvolution 8\n")
    _, err = place.run("--backend", "cpu", "--model", "bad.net", status=1)
    expect("bad.net:2: " in err, err)
    for options in (["--backend", "tpu"], ["--precision", "fp8"], ["--rate", "-1"], ["--loss-scale", "0"],
                    ["--steps", "nan"], ["--predict", "a", "--quiet", "--predict", "b"], ["--data"], ["--log", "/nowhere/log", "--backend", "cpu"]):
        place.run(*options, status=2)
    for options in ("--log c --checkpoint ./c", "--log c.csv --save-weights c.csv", "--export c --save-weights c",
                    "--tensorboard c --log c", "--log tiny.net", "--checkpoint d --export d.best --evaluate-every 2",
                    "--log d.best.new --checkpoint d --patience 1"):
        before = sorted(os.listdir(place.path))
        _, err = place.cpu(*options.split(), status=2)
        expect(": use another name" in err and sorted(os.listdir(place.path)) == before, f"{options}: {err}")
    for interface, is_known in (("fast", False), ("Graph", False), ("graph", True), ("legacy", True), ("", True)):
        place.environment.update(TRAINER_CUDNN=interface, CUDA_VISIBLE_DEVICES="") # the trainer sees no GPU
        _, err = place.run("--backend", "cuda", "--model", "tiny.net", status=1)
        expect((f'TRAINER_CUDNN is "{interface}"; use legacy or graph' not in err) == is_known, err)
        expect(("--backend cpu trains without a GPU" in err) == is_known, err)
    _, err = place.cpu("--data", "svhn", status=1)
    expect('unknown data "svhn"' in err, err)


# ---- predictions --------------------------------------------------------------------------------------------------

def python_with_numpy():
    for python in (sys.executable, "/usr/bin/python3"):
        if subprocess.run([python, "-c", "import numpy"], capture_output=True).returncode == 0:
            return python
    return None


def predictions(text):
    return re.findall(r"^(\S+) (\d+): class (\d+), probability ([0-9.]+)(?:, label (\d+))?$", text, re.M)


def predicts(place):
    """The predictions for the test images are as good as the evaluation, and the same when they come from files."""
    need_cpu()
    folder, luck = place.path / "digits", random.Random(5)
    folder.mkdir()
    write_digits(folder, "train", 300, luck)
    write_digits(folder, "t10k", 70, luck)
    common = ["--backend", "cpu", "--model", "normalised.net", "--data", "mnist:digits", "--batch", "30", "--checkpoint", "c"]
    out, _ = place.run(*common, "--epochs", "6", "--rate", "0.02", "--average", "0.9", "--evaluate", "--quiet")
    told, _ = place.run(*common, "--predict", "test")
    rows = predictions(told)
    right = sum(row[2] == row[4] for row in rows)
    expect(len(rows) == 70 and f"test: {right} of 70 are right: accuracy {accuracy(out):.4f}" in told,
           f"{out}{told[-200:]}")
    pixels = (folder / "t10k-images-idx3-ubyte").read_bytes()[16:]
    names = []
    for i in (3, 69):
        names.append(f"{i}.pgm")
        (place.path / names[-1]).write_bytes(b"P5\n# a digit\n12 12 255\n" + pixels[144 * i:144 * (i + 1)])
    more, _ = place.run("--predict", *names, "digits/t10k-images-idx3-ubyte", *common)
    by_file = predictions(more)
    expect([row[2:4] for row in by_file] == [rows[i][2:4] for i in (3, 69, *range(70))], f"other predictions: {more}")
    expect(all(row[4] == "" for row in by_file), f"a file without labels has some: {more}")
    (place.path / "bad.ppm").write_bytes(b"P6 12 12 255\n" + bytes(3 * 144))
    _, err = place.run(*common, "--predict", "3.pgm", "bad.ppm", status=1)
    expect("bad.ppm: the file's images have 3 channels of 12x12, but the model takes 1 of 12x12" in err, err)
    _, err = place.run(*common, "--model", "tiny.net", "--predict", "test", status=1)
    expect("c: the checkpoint is for model normalised, whose layers differ from those of tiny" in err, err)
    idx = ["--data", "idx:digits/train-images-idx3-ubyte,digits/train-labels-idx1-ubyte"]
    _, err = place.run(*common, *idx, "--predict", "test", status=1)
    expect("there are no test images" in err, err)
    _, err = place.run(*common, "--backend", "dry", "--predict", "test", status=1)
    expect("the back end dry computes nothing" in err, err)
    python = python_with_numpy()
    if python is None:
        print("skipped: no Python with NumPy, so the probabilities were not compared with it")
        return
    (place.path / "told").write_text(told)
    script = pathlib.Path(__file__).with_name("predictions.py")
    done = subprocess.run([python, "-B", script, "normalised.net", "c", "digits", "told"], cwd=place.path, text=True,
                          capture_output=True)
    expect(done.returncode == 0, done.stdout + done.stderr)
    print(done.stdout, end="")


def write_npy(path, kind, shape, data):
    head = f"{{'descr': '{kind}', 'fortran_order': False, 'shape': {tuple(shape)}, }}"
    head += " " * (-(len(head) + 11) % 64) + "\n"
    path.write_bytes(b"\x93NUMPY\x01\0" + struct.pack("<H", len(head)) + head.encode() + data)


def predicts_no_number(place):
    """An image for which the network overflows has no class."""
    need_cpu()
    folder, luck = place.path / "reals", random.Random(5)
    folder.mkdir()
    for part, count in (("train", 30), ("test", 3)):
        images = [[luck.random() for _ in range(144)] for _ in range(count)]
        if part == "test":
            images[1] = [3e38] * 144
        write_npy(folder / f"{part}-images.npy", "<f4", (count, 12, 12), b"".join(struct.pack("<144f", *image) for image in images))
        write_npy(folder / f"{part}-labels.npy", "<i8", (count,), struct.pack(f"<{count}q", *[0] * count))
    common = ["--data", "npy:reals", "--batch", "30", "--checkpoint", "c"]
    place.cpu(*common, "--steps", "2", "--quiet")
    out, _ = place.cpu(*common, "--predict", "test", "reals/test-images.npy")
    lines = out.splitlines()
    expect(len(lines) == 9 and lines[1] == "test 1: no class: the result is not a number, label 0", out)
    right = sum(line.startswith("test ") and ": class 0," in line for line in lines)
    expect(f"test: {right} of 3 are right: accuracy {right / 3:.4f}" in lines, out)
    expect("test: 1 of 3 results are not numbers" in lines, out)
    expect(lines[6] == "reals/test-images.npy 1: no class: the result is not a number", out)
    expect(lines[8] == "reals/test-images.npy: 1 of 3 results are not numbers", out)


# ---- curves ---------------------------------------------------------------------------------------------------------

def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def masked(data):
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


def records(path):
    """Return the records of an event file; the checksums must be right, and nothing may be left over."""
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        size, crc = struct.unpack_from("<QI", data, at)
        record = data[at + 12:at + 12 + size]
        expect(masked(data[at:at + 8]) == crc, f"{path}: byte {at}: a wrong checksum of the size")
        expect(struct.unpack_from("<I", data, at + 12 + size)[0] == masked(record), f"{path}: byte {at}: a wrong checksum")
        found.append(record)
        at += 16 + size
    return found


READ_EVENTS = """
import json, sys
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0})
events.Reload()
print(json.dumps({tag: [(s.step, s.value) for s in events.Scalars(tag)] for tag in events.Tags()["scalars"]}))
"""


def tensorboard(folder):
    """Read a folder with TensorBoard's own reader. Returns None if TensorBoard is not installed."""
    for python in (os.environ.get("GPUWHY_TENSORBOARD_PYTHON"), sys.executable, "/usr/bin/python3"):
        if python and subprocess.run([python, "-c", "import tensorboard"], capture_output=True).returncode == 0:
            read = subprocess.run([python, "-c", READ_EVENTS, folder], capture_output=True, text=True)
            expect(read.returncode == 0, read.stderr)
            return json.loads(read.stdout)
    return None


def writes_curves(place):
    """A training that goes back to an older checkpoint: its CSV has the repeated steps twice, TensorBoard once."""
    need_cpu()
    options = ["--images", "300", "--batch", "50", "--evaluate-epochs", "1", "--clip", "1", "--schedule", "step:1e",
               "--deterministic", "--quiet"]
    curves = ["--checkpoint", "c", "--resume", "--log", "a.csv", "--tensorboard", "board", "--steps"]
    place.cpu(*options, *curves, "5")
    kept = (place.path / "c").read_bytes()
    place.cpu(*options, *curves, "10")
    (place.path / "c").write_bytes(kept)
    place.cpu(*options, *curves, "18")
    place.cpu(*options, "--log", "json", "--steps", "18")
    want = {line["step"]: line for line in place.log("json") if "loss" in line}
    expect(sorted(want) == list(range(1, 19)), f"steps {sorted(want)}")
    with open(place.path / "a.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    steps = [row for row in rows if row["loss"]]
    expect([int(row["step"]) for row in steps] == [*range(1, 11), *range(6, 19)],
           f"steps {[row['step'] for row in steps]}")
    for row in steps:
        line = want[int(row["step"])]
        for name in ("epoch", "loss", "accuracy", "top5", "rate", "gradient_norm", "scale"):
            expect(float(row[name]) == line[name], f"step {row['step']}: {name} is {row[name]}, not {line[name]}")
        expect(0 <= float(row["loader_wait"]) <= 1, f"step {row['step']}: loader_wait is {row['loader_wait']}")
    rates = [float(row["rate"]) for row in steps]
    expect(abs(rates[0] - 0.01) < 1e-12 and abs(rates[-1] - 0.0001) < 1e-12, f"rates {rates}")
    tests = [line for line in place.log("json") if "test_loss" in line]
    expect([line["step"] for line in tests] == [6, 12, 18], f"evaluations {tests}")
    expect([float(row["test_loss"]) for row in rows if row["test_loss"]][-2:] == [line["test_loss"] for line in tests][-2:],
           "the evaluations differ")
    files = sorted((place.path / "board").iterdir())
    expect(len(files) == 3, f"{files}")
    for file in files:
        expect(b"brain.Event:2" in records(file)[0], f"{file}: no version")
    scalars = tensorboard(place.path / "board")
    if scalars is None:
        print("skipped: TensorBoard is not installed; only the checksums of its files were checked")
        return
    for tag, name in (("train/loss", "loss"), ("train/rate", "rate"), ("train/gradient_norm", "gradient_norm")):
        expect([step for step, _ in scalars[tag]] == list(range(1, 19)), f"{tag}: {scalars[tag]}")
        for step, value in scalars[tag]:
            expect(abs(value - want[step][name]) <= 1e-6 * abs(value), f"{tag}: {value} at step {step}")
    expect([step for step, _ in scalars["test/accuracy"]] == [5, 6, 12, 18], f"{scalars['test/accuracy']}")


# ---- killed --------------------------------------------------------------------------------------------------------

STEADY = ["--backend", "cpu", "--model", "normalised.net", "--images", "400", "--batch", "16", "--micro-batch", "8",
          "--optimizer", "adamw", "--rate", "0.003", "--deterministic", "--quiet", "--schedule", "step:7",
          "--rate-factor", "0.97", "--warmup", "5", "--weight-decay", "0.01", "--decay", "weights", "--clip", "0.5",
          "--label-smoothing", "0.1", "--average", "0.9", "--evaluate-every", "4"]


def resumes_dropout(place):
    """A resumed run drops the same numbers as an uninterrupted one, and another micro-batch drops them, too."""
    need_cpu()
    (place.path / "drops.net").write_text(
        "input 1 12 12\nconv 8 3 pad 1 silu\nmaxpool 2\nsegment\na = conv 8 3 pad 1\ndropout 0.3 images\nadd a relu6\n"
        "dropout 0.4\nsegment\nconv 8 3 pad 1 groups 8\nlinear 10\n")
    options = ["--backend", "cpu", "--model", "drops.net", "--images", "64", "--batch", "16", "--deterministic", "--quiet",
               "--checkpointing", "on"]
    place.run(*options, "--steps", "12", "--log", "whole")
    place.run(*options, "--steps", "5", "--checkpoint", "c", "--log", "first")
    place.run(*options, "--steps", "12", "--checkpoint", "c", "--resume", "--log", "second")
    out, _ = place.run(*options, "--steps", "12", "--checkpoint", "c", "--resume") # nothing is left to do
    expect("run 1: 12 steps; plan" in out, f"without a step there is no loss: {out}")
    whole, both = place.losses("whole"), {**place.losses("first"), **place.losses("second")}
    expect(len(whole) == 12 and whole == both, f"{whole} and {both}")
    place.run(*options, "--steps", "12", "--micro-batch", "4", "--log", "parts")
    apart = max(abs(loss / whole[step] - 1) for step, loss in place.losses("parts").items())
    expect(apart < 1e-4, f"losses with another micro-batch are {apart} apart")
    place.run(*options, "--steps", "12", "--seed", "2", "--log", "other")
    expect(place.losses("other")[1] != whole[1], "another seed changes nothing")


def ends_well_at_a_signal(place):
    need_cpu()
    for number in (signal.SIGTERM, signal.SIGINT):
        name = f"{number}"
        process = place.start(*STEADY, "--steps", "1000000", "--checkpoint", name, "--log", name + ".log")
        log, until = place.path / (name + ".log"), time.monotonic() + 100
        while not (log.exists() and log.read_text().count("\n") > 20) and time.monotonic() < until:
            time.sleep(0.02)
        process.send_signal(number)
        out, err = process.communicate(timeout=100)
        expect(process.returncode == 4 and "; stopped" in out, f"exit {process.returncode}: {out}{err}")
        steps = int(re.search(r"run 1: (\d+) steps", out).group(1))
        more = str(steps + 20)
        place.run(*STEADY, "--steps", more, "--checkpoint", name, "--resume", "--log", name + ".log")
        place.run(*STEADY, "--steps", more, "--log", name + ".whole")
        losses = place.losses(name + ".log")
        expect(losses == place.losses(name + ".whole") and len(losses) == steps + 20,
               f"{len(losses)} losses differ from those of a run without a break")


def wait_for_more(log, process):
    """Wait until the log has grown, which means that the process has made a step."""
    size, until = log.stat().st_size if log.exists() else 0, time.monotonic() + 100
    while process.poll() is None and time.monotonic() < until:
        if log.exists() and log.stat().st_size > size and '"step"' in log.read_text()[size:]:
            return
        time.sleep(0.002)
    expect(process.poll() is None, f"it ended by itself: {process.communicate()}")
    expect(False, "no step in 100 s")


def outlives_kills(place, kills=200):
    """Kill the training again and again at random places; the losses are bit for bit those of an undisturbed run."""
    need_cpu()
    luck, killed, log = random.Random(9), 0, place.path / "log"
    options = [*STEADY, "--checkpoint", "c", "--every", "3", "--resume", "--log", "log", "--steps"]
    resumed = []
    while killed < kills or (len(set(resumed)) < 4 and killed < 5 * kills):
        process = place.start(*options, "1000000")
        if luck.random() < 0.8: # otherwise kill it while it starts
            wait_for_more(log, process)
        time.sleep(luck.uniform(0, 0.06))
        process.kill()
        _, err = process.communicate(timeout=100)
        expect(process.returncode == -signal.SIGKILL, f"exit {process.returncode}: {err}")
        killed += 1
        if log.exists():
            log.write_text("".join(line for line in log.read_text().splitlines(True) if line.endswith("}\n")))
            resumed = [line["resumed"] for line in place.log("log") if "resumed" in line]
    expect(resumed == sorted(resumed), f"it went back behind a checkpoint: {resumed}")
    expect(len(set(resumed)) >= 4, f"{killed} kills, and it resumed from {set(resumed)} alone")
    steps = max(place.losses("log"))
    place.run(*options, str(steps + 5))
    place.run(*STEADY, "--steps", str(steps + 5), "--log", "whole", "--checkpoint", "w")
    expect(place.losses("log") == place.losses("whole"), "the losses are not those of a run without a kill")
    for name in ("", ".best"):
        expect((place.path / ("c" + name)).read_bytes() == (place.path / ("w" + name)).read_bytes(),
               f"the checkpoint c{name} is not that of a run without a kill")
    print(f"{killed} kills, {steps} steps, resumed from {len(set(resumed))} different checkpoints")


def outlives_some_kills(place):
    outlives_kills(place, 10)


CASES = {f.__name__: f for f in (learns_synthetic, learns_digits, predicts, predicts_no_number, writes_curves, hundred_runs_dry, neighbours_do_not_count, runs_of_cuda, hundred_runs_cpu,
                                 keeps_the_promise,
                                 prints_plans, refuses_damage, resumes_dropout, ends_well_at_a_signal, outlives_kills,
                                 outlives_some_kills)}


def test():
    for name in sys.argv[1:] or list(CASES):
        with Workplace() as path:
            CASES[name](Place(path))


if __name__ == "__main__":
    main(test)
