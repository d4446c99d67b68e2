#!/usr/bin/env python3
"""Run the trainer on a real GPU, in about two and a half minutes:

    trainer_on_gpu.py --build BUILD [--out FOLDER] [--only losses,speed] [--seconds 150] [--list]

Each part has its own time limit and fails alone. FOLDER receives trainer.json, trainer.md and the programs' output.
BUILD is build/trainer, with the targets trainer and trainer_steps in a Release build. cuDNN, cuBLAS, NVRTC and NCCL are
loaded from PyTorch's folders unless LD_LIBRARY_PATH is set.

Exit status: 0: no part failed (parts that could not run are named), 1: a part failed, 2: no GPU."""
import argparse
import ctypes
import glob
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TESTS = os.path.dirname(HERE)
MIB = 1 << 20
GIB = 1 << 30


# ---- programs ----

class Bench:
    def __init__(self, args):
        self.build, self.out = os.path.abspath(args.build), os.path.abspath(args.out)
        self.deadline = time.monotonic() + args.seconds
        self.trainer = os.path.join(self.build, "trainer")
        self.environment = dict(os.environ, LD_LIBRARY_PATH=library_path(args.python))
        self.python, self.count, self.modes, self.models = args.python, 0, args.modes.split(","), args.models
        os.makedirs(self.out, exist_ok=True)

    def left(self, limit):
        return max(1.0, min(limit, self.deadline - time.monotonic()))

    def run(self, command, limit, **environment):
        """Run a command; return its output, exit status (None: time limit exceeded) and seconds. All its processes
        are killed at the end."""
        begin, self.count = time.monotonic(), self.count + 1
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   env=dict(self.environment, **environment), start_new_session=True)
        try:
            out, err = process.communicate(timeout=self.left(limit))
            status = process.returncode
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
            status = None
        with open(os.path.join(self.out, "said.txt"), "a") as file:
            file.write("== %s\nstatus %s, %.1f s\n%s%s\n" % (" ".join(command), status, time.monotonic() - begin, out,
                                                            err[-60000:]))
        return {"status": status, "out": out, "err": err, "seconds": time.monotonic() - begin}

    def train(self, limit, *options, log=True, **environment):
        """Run a training; return the result of run() with `runs` (one line per run) and `steps` (from the log)."""
        name = os.path.join(self.out, "log-%d.jsonl" % self.count)
        command = [self.trainer, "--backend", "cuda"] + [str(option) for option in options]
        if log:
            command += ["--log", name]
        answer = self.run(command, limit, **environment)
        answer["steps"] = read_log(name) if log else []
        answer["runs"] = [numbers(line) for line in answer["out"].splitlines() if line.startswith("run ")]
        if os.path.exists(name):
            os.unlink(name)
        return answer


def library_path(python):
    code = ("import sysconfig, glob; print(':'.join(sorted(glob.glob(sysconfig.get_paths()['purelib'] + "
            "'/nvidia/*/lib'))))")
    found = subprocess.run([python, "-c", code], capture_output=True, text=True).stdout.strip()
    own = os.environ.get("LD_LIBRARY_PATH", "")
    return ":".join(part for part in (own, found, "/usr/local/cuda/lib64") if part)


def read_log(name):
    steps = []
    if os.path.exists(name):
        for line in open(name):
            try:
                record = json.loads(line)
            except ValueError:
                continue
            if "step" in record:
                steps.append(record)
    return steps


def numbers(line):
    """Parse the numbers of a run's line."""
    patterns = {"loss": r" loss (\S+?),", "images_per_s": r", ([\d.e+-]+) images/s", "wait": r"loader wait ([\d.]+) %", "plan": r"plan (\d+) bytes",
                "peak": r"peak (\d+) bytes", "free_before": r"card free before (\d+) ",
                "free_after": r"card free before [^,]*, after (\d+) bytes"}
    found = {}
    for key, pattern in patterns.items():
        match = re.search(pattern, line)
        if match:
            found[key] = float(match.group(1))
    return found


def losses(answer):
    return [step["loss"] for step in answer["steps"]]


def apart(ones, others):
    """Return the largest relative difference; None if they cannot be compared."""
    if not ones or len(ones) != len(others) or None in ones or None in others:
        return None
    return max(abs(a - b) / max(abs(b), 1e-12) for a, b in zip(ones, others))


def trouble(answer):
    lines = answer["err"].strip().splitlines()
    return "%s: %s" % ("out of time" if answer["status"] is None else "status %s" % answer["status"],
                       lines[-1] if lines else "it said nothing")


# ---- the GPU, through NVML ----

class Card:
    """The used bytes of device 0, and their maximum while something runs."""

    class Memory(ctypes.Structure):
        _fields_ = [(name, ctypes.c_ulonglong) for name in ("total", "free", "used")]

    def __init__(self):
        self.nvml = ctypes.CDLL("libnvidia-ml.so.1")
        self.handle, count = ctypes.c_void_p(), ctypes.c_uint()
        if self.nvml.nvmlInit_v2() != 0 or self.nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0 or count.value == 0:
            raise OSError("NVML knows no card")
        self.count = count.value
        if self.nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.handle)) != 0:
            raise OSError("NVML does not give card 0")

    def used(self):
        memory = self.Memory()
        if self.nvml.nvmlDeviceGetMemoryInfo(self.handle, ctypes.byref(memory)) != 0:
            return 0
        return memory.used

    def name(self):
        text = ctypes.create_string_buffer(96)
        self.nvml.nvmlDeviceGetName(self.handle, text, 96)
        return text.value.decode()

    def most_while(self, function):
        """Return (result of the function, bytes used before, maximum bytes used meanwhile)."""
        before, most, is_over = self.used(), [0], threading.Event()

        def look():
            while not is_over.wait(0.01):
                most[0] = max(most[0], self.used())

        thread = threading.Thread(target=look)
        thread.start()
        try:
            result = function()
        finally:
            is_over.set()
            thread.join()
        return result, before, most[0]


# ---- parts: each returns (verdict, rows of a table, remarks); verdict: True, False, or None if it could not run ----

def part_losses(bench, card):
    """Ten steps in fp32, compared with NumPy in double: small CNN, residual blocks, and the layers of mobile networks"""
    rows, good = [], True
    steps = os.path.join(bench.build, "tests", "trainer_steps")
    trainer = TESTS
    small = os.path.join(bench.build, "models", "small.net")
    residual, mobile = os.path.join(trainer, "residual.net"), os.path.join(trainer, "mobile.net")
    for model, optimizer, images, parts, more, interface in (
            (residual, "sgd", 6, 2, ["checkpointing"], ""), (residual, "adam", 6, 2, [], ""), (small, "sgd", 4, 1, [], ""),
            (small, "adam", 4, 1, [], ""), (residual, "sgd", 6, 2, [], "graph"),
            (residual, "sgd", 6, 2, ["recipe", "cosine", "0.9"], ""),
            (residual, "adam", 6, 2, ["recipe", "step:2", "0.9"], ""),
            (residual, "adamw", 6, 2, ["recipe", "steps:1,4", "0.9"], ""),
            (mobile, "sgd", 8, 2, ["checkpointing"], ""), (mobile, "adam", 8, 2, [], ""),
            (mobile, "sgd", 8, 2, [], "legacy")):
        answer = bench.run(["sh", os.path.join(trainer, "compare.sh"), "reference.py", steps, "cuda", model, optimizer, str(images),
                            str(parts), "10"] + more, 20, TRAINER_CUDNN=interface)
        lines = (answer["out"] + answer["err"]).strip().splitlines()
        found = re.findall(r"^\s*\d+\s+\S+\s+\S+\s+(\S+e[-+]\d+)", answer["out"], re.M)
        good = good and answer["status"] == 0
        rows.append({"model": os.path.basename(model), "optimizer": optimizer, "cuDNN": interface or "as it is", "steps": len(found),
                     "losses apart, at most": max((float(x) for x in found), default=None),
                     "said": lines[-1] if lines else trouble(answer)})
    return good, rows, []


def part_cpu(bench, card):
    """The same training on the CPU back end (oneDNN), if the build has it"""
    options = ("--model", "small", "--batch", 64, "--steps", 10, "--images", 640, "--quiet")
    gpu = bench.train(20, *options)
    if gpu["status"] != 0:
        return False, [], [trouble(gpu)]
    log = os.path.join(bench.out, "cpu.jsonl")
    if os.path.exists(log):
        os.unlink(log)
    cpu = bench.run([bench.trainer, "--backend", "cpu"] + [str(x) for x in options] + ["--log", log], 30)
    if cpu["status"] == 2:
        return None, [], ["the build has no CPU back end: " + trouble(cpu)]
    off = apart(losses(gpu), [step["loss"] for step in read_log(log)])
    return off is not None and off < 1e-4, [{"steps": len(gpu["steps"]), "losses apart, at most": off}], []


def part_runs(bench, card):
    """A hundred runs in one process: the driver's free memory before and after each run, except the first"""
    answer = bench.train(60, "--model", "small", "--batch", 256, "--steps", 4, "--images", 2560, "--runs", 100,
                         "--quiet", log=False)
    runs = answer["runs"]
    later = runs[1:]
    if not later:
        return False, [], [trouble(answer)]
    before = {run.get("free_before") for run in later}
    after = {run.get("free_after") for run in later}
    # A context keeps 0.55 MiB for each stream it had, in pages of 2 MiB. It must not keep more, and not more after each
    # run.
    same = len(before) == 1 and len(after) == 1 and None not in before | after and 0 <= min(before) - min(after) <= 4 * MIB
    row = {"runs": len(runs), "free before, runs 2 on": sorted(before, key=str), "free after": sorted(after, key=str),
           "peaks": sorted({run.get("peak") for run in later}, key=str), "run 1": [runs[0].get("free_before"), runs[0].get("free_after")],
           "seconds": round(answer["seconds"], 1)}
    remarks = [] if answer["status"] == 0 else [trouble(answer)]
    # Fewer than a hundred runs because of the time limit are mentioned, but they are not a failure.
    return same and (answer["status"] in (0, None)), [row], remarks


def part_batch(bench, card):
    """Batch 12,800 within 8 GiB and without a limit: the same losses, and the limit is kept"""
    options = ("--model", "small", "--batch", 12800, "--steps", 4, "--images", 25600, "--quiet")
    tight, before, most = card.most_while(lambda: bench.train(25, *options, "--memory", 8 * GIB))
    room = bench.train(25, *options)
    if tight["status"] != 0 or room["status"] != 0:
        return False, [], [trouble(tight), trouble(room)]
    off = apart(losses(tight), losses(room))
    held = most - before
    row = {"losses apart, at most": off, "held GiB": round(held / GIB, 3), "plan GiB": round(tight["runs"][0]["plan"] / GIB, 3),
           "plan with room GiB": round(room["runs"][0]["plan"] / GIB, 3)}
    return off is not None and off < 1e-4 and held <= 8 * GIB, [row], ["fp32; sums in another order: 1e-4 is allowed"]


def taken(answer):
    """Memory of context and libraries, as printed before the training."""
    match = re.search(r"memory: .* for the plan, ([\d.]+) (\w+) for context", answer["err"])
    units = {"B": 1, "KiB": 1 << 10, "MiB": MIB, "GiB": GIB}
    return float(match.group(1)) * units[match.group(2)] if match else None


def part_memory(bench, card):
    """ResNet-50: memory by plan compared with NVML's value for the whole process"""
    rows, good, remarks = [], True, []
    for precision, checkpointing, batch in (("bf16", "off", 256), ("bf16", "on", 256), ("bf16", "off", 64),
                                            ("bf16", "on", 64), ("fp32", "off", 128), ("fp32", "on", 128),
                                            ("fp32", "off", 32), ("fp16", "off", 128), ("fp16", "on", 32)):
        if bench.left(100) < 4:
            remarks.append("no time was left for the rest")
            break
        answer, before, most = card.most_while(lambda: bench.train(
            15, "--model", "resnet50", "--precision", precision, "--checkpointing", checkpointing, "--batch", batch,
            "--micro-batch", batch, "--steps", 3, "--images", batch, "--progress-every", 0))
        row = {"precision": precision, "checkpointing": checkpointing, "batch": batch}
        rows.append(row)
        if answer["status"] != 0 or not answer["runs"]:
            good = False
            row["said"] = trouble(answer)
            continue
        plan, before_plan, measured = answer["runs"][0]["plan"], taken(answer), most - before
        own = [step["memory_bytes"] for step in answer["steps"] if step["memory_bytes"]]
        row.update({"plan GiB": round(plan / GIB, 3), "taken before GiB": round((before_plan or 0) / GIB, 3),
                    "measured GiB": round(measured / GIB, 3), "own GiB by NVML": round(max(own) / GIB, 3) if own else None,
                    "driver, peak GiB": round(answer["runs"][0].get("peak", 0) / GIB, 3)})
        if before_plan:
            error = (measured - plan - before_plan) / measured
            row["error %"] = round(100 * error, 2)
            good = good and abs(error) <= 0.02
    return good, rows, remarks + ["error: measured less plan and what was taken before it, of measured"]


class Peer:
    """PyTorch, which waits for the number of seconds to train."""

    def __init__(self, bench, model, batch, precision, mode="eager"):
        self.process = subprocess.Popen(
            [bench.python, os.path.join(HERE, "trainer_peer.py"), model, str(batch), precision, mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)

    def answer(self, limit):
        lines = []
        thread = threading.Thread(target=lambda: lines.append(self.process.stdout.readline()), daemon=True)
        thread.start()
        thread.join(limit)
        if not lines or not lines[0]:
            raise RuntimeError("PyTorch did not answer: " + self.end()[-300:])
        return lines[0].strip()

    def measure(self, seconds):
        self.process.stdin.write("%g\n" % seconds)
        self.process.stdin.flush()
        return float(self.answer(seconds + 20))

    def end(self):
        if self.process.returncode is not None:  # ended before
            return ""
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        return self.process.communicate()[1]


def compare_speed(bench, model, batch, precision, seconds, guess):
    """Alternate: PyTorch, trainer, PyTorch, trainer, PyTorch, trainer. `guess`: images per second, to choose the
    number of steps."""
    row = {"model": model, "batch": batch, "precision": precision}
    peer, theirs, ours, said = Peer(bench, model, batch, precision), [], [], None
    try:
        peer.answer(bench.left(40))
        for _ in range(3):
            theirs.append(peer.measure(seconds))
            steps = max(20, int(seconds * guess / batch))
            answer = bench.train(seconds * 3 + 12, "--model", model, "--batch", batch, "--micro-batch", batch,
                                 "--checkpointing", "off", "--precision", precision, "--steps", steps, "--images",
                                 4 * batch, "--results-every", 20, "--tune", "--quiet", log=False)
            if answer["status"] != 0 or not answer["runs"] or "images_per_s" not in answer["runs"][0]:
                said = trouble(answer)
                break
            ours.append(answer["runs"][0]["images_per_s"])
            guess = ours[-1]
    except RuntimeError as error:
        said = str(error)
    finally:
        peer.end()
    row.update({"images/s": [round(x) for x in ours], "PyTorch": [round(x) for x in theirs]})
    if ours and theirs:
        ratios = [a / b for a, b in zip(ours, theirs)]
        row["ratio"] = round(sorted(ratios)[len(ratios) // 2], 3)
        row["ratio from, to"] = [round(min(ratios), 3), round(max(ratios), 3)]
    if said:
        row["said"] = said
    return row


def part_speed(bench, card):
    """Images per second compared with PyTorch in alternating runs, and where the time goes"""
    rows = []
    for model, batch, precision, seconds, guess in (("resnet50", 256, "bf16", 3, 2500), ("small", 32, "bf16", 1.5, 60000),
                                                    ("small", 256, "bf16", 1.5, 150000)):
        if bench.left(100) > 8:
            rows.append(compare_speed(bench, model, batch, precision, seconds, guess))
    answer = bench.train(15, "--model", "resnet50", "--batch", 256, "--micro-batch", 256, "--checkpointing", "off",
                         "--precision", "bf16", "--steps", 6, "--images", 256, "--tune", "--verbose", "--progress-every",
                         0, log=False, TRAINER_TELL_TIMES="5", TRAINER_TELL_CONVOLUTIONS="1")
    remarks = ["ResNet-50: " + line.split("times: ", 1)[1] for line in answer["err"].splitlines() if "times: " in line]
    return all("ratio" in row for row in rows) and bool(rows), rows, remarks or ["no times: " + trouble(answer)]


def speed_of(bench, model, batch, steps):
    """The line of a run of the trainer in bf16."""
    answer = bench.train(40, "--model", model, "--batch", batch, "--micro-batch", batch, "--checkpointing", "off",
                         "--precision", "bf16", "--rate", "0.001", "--steps", steps, "--images", 2 * batch, "--results-every", 20,
                         "--tune", "--quiet", log=False)
    if answer["status"] != 0 or not answer["runs"] or "images_per_s" not in answer["runs"][0]:
        raise RuntimeError(trouble(answer))
    return answer["runs"][0]


def compare_compiled(bench, model, steps):
    """A row of the comparison with torch.compile: the modes and the trainer in turn, three times."""
    peers, theirs, runs, rounds = {}, {mode: [] for mode in bench.modes}, [], 3
    row = {"model": model}
    try:
        for mode in bench.modes:  # all compile at the same time; while one is measured, the others wait
            peers[mode] = Peer(bench, model, 256, "bf16", mode)
        for peer in peers.values():
            peer.answer(bench.left(600))
        for _ in range(rounds):
            for mode, peer in peers.items():
                theirs[mode].append(peer.measure(1.5))
            runs.append(speed_of(bench, model, 256, steps))
    except RuntimeError as error:
        row["said"] = str(error)
    finally:
        for peer in peers.values():
            peer.end()
    row["images/s"] = [round(run["images_per_s"]) for run in runs]
    row.update({mode: [round(x) for x in values] for mode, values in theirs.items()})
    row["GPU waited, %"] = [run.get("wait") for run in runs]
    row["losses"] = ["%.3g" % run.get("loss", float("nan")) for run in runs]
    if len(runs) == rounds:
        ratios = sorted(run["images_per_s"] / max(values[i] for values in theirs.values()) for i, run in enumerate(runs))
        row["ratio to the best"] = ["%.3f" % ratio for ratio in ratios]
    return row


def part_compiled(bench, card):
    """Images per second compared with torch.compile, bf16, 256 images: the best of its modes counts"""
    steps = {"resnet50": 80, "vgg11": 60, "resnet18": 150, "mobilenetv2": 100, "efficientnet-b0": 80}
    models = bench.models.split(",") if bench.models else ["resnet50", "vgg11", "resnet18", "mobilenetv2"]
    rows = []
    for model in models:
        if bench.left(100) > 20:
            rows.append(compare_compiled(bench, model, steps[model]))
            print(json.dumps(rows[-1]), flush=True)
    return len(rows) == len(models) and all("ratio to the best" in row for row in rows), rows, []


def part_predict(bench, card):
    """Predictions of the test images compared with the evaluation after the training"""
    rows, good = [], True
    for model, batch, images in (("small", 256, 20480), ("efficientnet-b0", 64, 1280), ("mobilenetv2", 64, 1280)):
        checkpoint = os.path.join(bench.out, "checkpoint")
        options = ("--model", model, "--batch", batch, "--images", images, "--precision", "bf16")
        answer = bench.train(40, *options, "--epochs", 3, "--evaluate", "--checkpoint", checkpoint, "--quiet", log=False)
        found = re.search(r"test accuracy ([\d.]+)", answer["out"])
        told = bench.train(40, *options, "--checkpoint", checkpoint, "--predict", "test", log=False)
        predicted = re.search(r"are right: accuracy ([\d.]+)", told["out"])
        row = {"model": model, "evaluated": found and found.group(1), "predicted": predicted and predicted.group(1)}
        if answer["status"] != 0 or told["status"] != 0:
            row["said"] = trouble(answer) + "; " + trouble(told)
        good = good and found is not None and predicted is not None and row["evaluated"] == row["predicted"]
        rows.append(row)
    return good, rows, []


def part_fp16(bench, card):
    """fp16 with a fixed loss scale of 128, and with a dynamic one"""
    rows, good = [], True
    ends = {}
    for precision, scale in (("fp32", "none"), ("fp16", "128"), ("fp16", "dynamic")):
        answer = bench.train(60, "--model", "small", "--batch", 256, "--steps", 60, "--images", 15360, "--precision",
                             precision, "--loss-scale", scale, "--scale-after", 20, "--quiet")
        steps = answer["steps"]
        if answer["status"] != 0 or not steps:
            good = False
            rows.append({"precision": precision, "loss scale": scale, "said": trouble(answer)})
            continue
        known = [step["loss"] for step in steps if step["loss"] is not None]
        ends[precision + scale] = sum(known[-10:]) / 10
        rows.append({"precision": precision, "loss scale": scale, "first loss": known[0],
                     "loss of the last ten": round(ends[precision + scale], 5),
                     "broken steps": sum(step["broken"] for step in steps),
                     "scale from, to": [steps[0]["scale"], steps[-1]["scale"]],
                     "images/s": round(answer["runs"][0].get("images_per_s", 0))})
        good = good and known[-1] < known[0]
    return good and len(ends) == 3, rows, []


def part_gpus(bench, card):
    """Two GPUs: the same losses as one GPU with twice the batch, and the memory of a single GPU on each"""
    if card.count < 2:
        return None, [], ["there is one card"]
    options = ("--model", "small", "--micro-batch", 256, "--steps", 10, "--images", 10240, "--quiet")
    two = bench.train(40, *options, "--batch", 512, "--gpus", 2)
    one = bench.train(20, *options, "--batch", 512)
    half = bench.train(20, *options, "--batch", 256)
    if any(answer["status"] != 0 for answer in (two, one, half)):
        return False, [], [trouble(answer) for answer in (two, one, half)]
    off = apart(losses(two), losses(one))
    row = {"losses apart, at most": off, "plan of each of two": two["runs"][0]["plan"],
           "plan of one alone": half["runs"][0]["plan"], "images/s": [x["runs"][0].get("images_per_s") for x in (two, one, half)]}
    return off is not None and off < 1e-4 and row["plan of each of two"] == row["plan of one alone"], [row], []


PARTS = {"losses": part_losses, "cpu": part_cpu, "predict": part_predict, "speed": part_speed, "batch": part_batch, "memory": part_memory,
         "fp16": part_fp16, "gpus": part_gpus, "runs": part_runs}
EXTRA_PARTS = {"compiled": part_compiled}  # only if named with --only: needs many minutes, if nothing is compiled yet


# ---- the report ----

def cell(value):
    if isinstance(value, float):
        return "%.3g" % value if abs(value) < 1e6 else "%.0f" % value
    if isinstance(value, list):
        return ", ".join(cell(x) for x in value)
    return "-" if value is None else " ".join(str(value).replace("|", "/").split())


def table(rows):
    keys = []
    for row in rows:
        keys += [key for key in row if key not in keys]
    if not keys:
        return ""
    lines = ["| " + " | ".join(keys) + " |", "|" + "---|" * len(keys)]
    lines += ["| " + " | ".join(cell(row.get(key)) for key in keys) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def write(bench, card, results):
    with open(os.path.join(bench.out, "trainer.json"), "w") as file:
        json.dump({"card": card.name(), "cards": card.count, "parts": results}, file, indent=1)
    words = {True: "holds", False: "FAILS", None: "not run"}
    with open(os.path.join(bench.out, "trainer.md"), "w") as file:
        file.write("%s, %d of them\n\n" % (card.name(), card.count))
        for name, result in results.items():
            file.write("## %s: %s (%.0f s)\n%s\n\n%s\n" % (name, words[result["verdict"]], result["seconds"],
                                                          result["what"], table(result["rows"])))
            file.writelines("- %s\n" % remark for remark in result["remarks"])
            file.write("\n")


def run_part(bench, card, name):
    begin, function = time.monotonic(), {**PARTS, **EXTRA_PARTS}[name]
    try:
        verdict, rows, remarks = function(bench, card)
    except Exception as error:  # after any error the other parts still run
        verdict, rows, remarks = False, [], ["%s: %s" % (type(error).__name__, error)]
    return {"what": function.__doc__, "verdict": verdict, "rows": rows, "remarks": remarks,
            "seconds": time.monotonic() - begin}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    parser.add_argument("--out", default="trainer-on-gpu")
    parser.add_argument("--only", default=",".join(PARTS))
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--python", default=sys.executable, help="that has PyTorch")
    parser.add_argument("--modes", default="default,reduce-overhead,max-autotune", help="the modes of torch.compile")
    parser.add_argument("--models", help="compare only these with torch.compile")
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list:
        for name, function in {**PARTS, **EXTRA_PARTS}.items():
            print("%-8s %s" % (name, function.__doc__))
        return 0
    bench = Bench(args)
    try:
        card = Card()
    except OSError as error:
        print("no card: %s" % error)
        return 2
    results = {}
    for name in args.only.split(","):
        if bench.left(1e9) <= 1:
            results[name] = {"what": {**PARTS, **EXTRA_PARTS}[name].__doc__, "verdict": None, "rows": [], "remarks": ["no time was left"],
                             "seconds": 0}
        else:
            results[name] = run_part(bench, card, name)
        write(bench, card, results)
    sys.stdout.write(open(os.path.join(bench.out, "trainer.md")).read())
    return any(result["verdict"] is False for result in results.values())


if __name__ == "__main__":
    sys.exit(main())
