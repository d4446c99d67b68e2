"""Measure the cost of recording and print it as tables: always on the virtual GPU, and on a real GPU if there is one.

usage: bench.py [--build DIR] [--write FILE] [--seconds S] [--real]

--write puts the tables into a file (docs/benchmarks.md), with machine, GPU, driver and date. A part that cannot run
prints the reason instead. --real fails if there is no real GPU.
"""

import argparse
import datetime
import json
import os
import platform
import random
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)


class CannotRun(Exception):
    pass


def run_json(argv, limit_s):
    try:
        done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise CannotRun(f"took more than {limit_s:.0f} s")
    except OSError as error:
        raise CannotRun(str(error))
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise CannotRun(f"exit {done.returncode}: {last[:200]}")
    try:
        return json.loads(done.stdout[done.stdout.index("{"):])
    except ValueError:
        raise CannotRun("printed no numbers")


def interval(values, rounds=2000):
    """Median and its 95 % bootstrap interval."""
    rng = random.Random(1)
    medians = sorted(statistics.median(rng.choices(values, k=len(values))) for _ in range(rounds))
    return statistics.median(values), medians[int(0.025 * rounds)], medians[int(0.975 * rounds) - 1]


def paired(on, off, relative=False):
    """Compare neighbouring blocks: they are in the order on off off on."""
    pairs = list(zip(on, off))
    return [a / b if relative else a - b for a, b in pairs]


def machine():
    model = platform.machine()
    try:
        with open("/proc/cpuinfo") as f:
            model = next((line.split(":", 1)[1].strip() for line in f if line.startswith("model name")), model)
    except OSError:
        pass
    release = ".".join(platform.release().split(".")[:2])
    return f"{model}, {os.cpu_count()} cores, kernel {release}, {' '.join(platform.libc_ver())}"


def card():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60)
        lines = done.stdout.splitlines()
        return lines[0].strip() if done.returncode == 0 and lines else None
    except (OSError, subprocess.TimeoutExpired):
        return None


class Bench:
    def __init__(self, options):
        self.build = os.path.abspath(options.build)
        self.options = options
        self.gpuwhy = os.path.join(self.build, "gpuwhy")
        self.card = card()
        self.lines = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def under_gpuwhy(self, gpu, argv):
        return [self.gpuwhy, "run", "--quiet", "--gpu", gpu, "--"] + argv

    # ---- the parts ----

    def hook_cost(self, gpu):
        program = os.path.join(self.build, "bench", "bench-hook-cost")
        with_us = run_json(self.under_gpuwhy(gpu, [program]), self.options.seconds)
        if not with_us["recorded"]:
            raise CannotRun("the process was not recorded")
        name = with_us["card"] + (" (virtual)" if gpu != "real" else "")
        median, low, high = interval(paired(with_us["launch_on_ns"], with_us["launch_off_ns"]))
        off = statistics.median(with_us["launch_off_ns"])
        self.say(f"| a launch | {name} | {off:.0f} ns | **{median:+.1f} ns** | {low:+.1f} to {high:+.1f} | "
                 f"{100 * median / off:+.2f} % | {len(with_us['launch_on_ns'])} x {with_us['launches_a_block']} |")
        median, low, high = interval(paired(with_us["launch_cold_on_ns"], with_us["launch_cold_off_ns"]))
        off = statistics.median(with_us["launch_cold_off_ns"])
        self.say(f"| a launch after other work on 256 KiB | {name} | {off:.0f} ns | **{median:+.1f} ns** | "
                 f"{low:+.1f} to {high:+.1f} | {100 * median / off:+.2f} % | {len(with_us['launch_cold_on_ns'])} blocks |")
        for key, words in (("alloc", "cuMemAlloc of 4 KiB"), ("alloc_async", "cuMemAllocAsync of 4 KiB, warm pool")):
            if key + "_on" not in with_us:
                continue
            on, off = with_us[key + "_on"], with_us[key + "_off"]
            median, low, high = interval(paired(with_us[key + "_block_on_ns"], with_us[key + "_block_off_ns"]))
            tail, tail_low, tail_high = interval(paired(with_us[key + "_tail_on_ns"], with_us[key + "_tail_off_ns"]))
            self.say(f"| {words} | {name} | {off['median_ns']:.0f} ns | **{on['median_ns'] - off['median_ns']:+.0f} ns** "
                     f"(median) | mean of a block {low:+.0f} to {high:+.0f} | - | {on['calls']} calls |")
            self.say(f"| the same, p99.9 | {name} | {off['p999_ns']:.0f} ns | **{tail:+.0f} ns** | {tail_low:+.0f} to "
                     f"{tail_high:+.0f} | - | {len(with_us[key + '_tail_on_ns'])} x 2000 calls |")
        for key, words in (("site_known", "call site of an allocation, 60 native frames, known"),
                           ("site_new", "call site of an allocation, 60 native frames, new")):
            on, off = with_us[key + "_on"], with_us[key + "_off"]
            median, low, high = interval(paired(with_us[key + "_block_on_ns"], with_us[key + "_block_off_ns"]))
            self.say(f"| {words} | {name} | {off['median_ns']:.0f} ns, recorded without site | "
                     f"**{on['median_ns'] - off['median_ns']:+.0f} ns** (median) | mean of a block {low:+.0f} to "
                     f"{high:+.0f} | - | {on['calls']} calls |")
        if with_us["lost"]:
            self.say(f"| events lost meanwhile | {name} | | {with_us['lost']} | | | |")
        return with_us, median

    def start_cost(self, gpu):
        program = os.path.join(self.build, "bench", "bench-start-cost")
        numbers = run_json(self.under_gpuwhy(gpu, [program]), self.options.seconds)
        if not numbers["preloaded"]:
            raise CannotRun("nothing was preloaded")
        median, low, high = interval([a - b for a, b in zip(numbers["with_us"], numbers["without_us"])])
        base = statistics.median(numbers["without_us"])
        self.say(f"| start and end of `true` | - | {base / 1e3:.3f} ms | **{median / 1e3:+.3f} ms** | "
                 f"{low / 1e3:+.3f} to {high / 1e3:+.3f} | {100 * median / base:+.1f} % | {len(numbers['with_us'])} pairs |")

    def nccl_cost(self, gpu):
        """From C, from C below Python functions, and from Python. The stand-in for NCCL refuses the calls at once."""
        library = os.path.join(self.build, "bench", "libbench-nccl-cost.so")
        script = [sys.executable, "-B", os.path.join(HERE, "nccl_python.py")]
        for words, argv in (("a call of NCCL", [os.path.join(self.build, "bench", "bench-nccl-cost")]),
                            ("the same below 20 Python functions", [*script, "extension", library]),
                            ("the same from Python by ctypes", [*script, "ctypes", library])):
            path = os.path.join(self.build, "tests", "nccl")
            numbers = run_json(["env", f"LD_LIBRARY_PATH={path}", *self.under_gpuwhy(gpu, argv)], self.options.seconds)
            for key, how in (("burst", "one after the other"), ("rested", "each 30 us, with call site")):
                if key + "_on_ns" not in numbers:
                    continue
                on, off = numbers[key + "_on_ns"], numbers[key + "_off_ns"]
                median, low, high = interval(paired(on, off))
                calls = numbers["calls_a_block"] if key == "burst" else 1
                self.say(f"| {words}, {how} | stand-in | {statistics.median(off):.0f} ns | **{median:+.0f} ns** | "
                         f"{low:+.0f} to {high:+.0f} | - | {len(on)} x {calls} |")

    def training(self, work, words, launch_ns, sites_only=False, settings=()):
        layout = run_json([os.path.join(self.build, "bench", "bench-hook-cost"), "--layout"], 10)
        argv = [sys.executable, "-B", os.path.join(HERE, "gpu", "training.py"), work, "--slots",
                ",".join(map(str, layout["slots"])), "--seconds", str(self.options.seconds)]
        if sites_only:
            argv += ["--sites-switch", str(layout["sites_switch"])]
        numbers = run_json(self.under_gpuwhy("real", ["env", *settings, *argv]), self.options.seconds + 90)
        if not numbers["recorded"]:
            raise CannotRun("the process was not recorded")
        median, low, high = interval(paired(numbers["on_ms"], numbers["off_ms"], relative=True))
        off = statistics.median(numbers["off_ms"])
        calls = numbers["calls_an_iteration"]
        bound = "-"
        if calls is not None and launch_ns is not None:
            bound = f"{calls:.0f} calls x {launch_ns:.1f} ns = {100 * calls * launch_ns / (off * 1e6):.3f} %"
        self.say(f"| {words} | {off:.3f} ms | **{100 * (median - 1):+.2f} %** | {100 * (low - 1):+.2f} to "
                 f"{100 * (high - 1):+.2f} % | {bound} | {len(numbers['on_ms'])} |")

    def reading(self):
        for argv in (("gw_reader_bench", "5000000", "100000"), ("gw_judge_bench", "100000"), ("gw_judge_bench", "1000000"),
                     ("gw_report_bench", "10000000")):
            path = os.path.join(self.build, "bench", argv[0])
            try:
                done = subprocess.run([path, *argv[1:]], capture_output=True, text=True, timeout=300)
            except (OSError, subprocess.TimeoutExpired) as error:
                raise CannotRun(str(error))
            for line in (done.stdout + done.stderr).rstrip().splitlines():
                self.say("    " + line)
            if done.returncode != 0:
                raise CannotRun(f"{argv[0]}: exit status {done.returncode}")

    def logs(self):
        """Read a gigabyte of text from tests/logs/healthy on one core: ordinary training, and lines of every kind."""
        training = ("torch-tqdm", "lightning", "hf-trainer", "keras", "torchrun", "slurm", "megatron", "fairseq", "fsdp-interleaved",
                    "mpi-tagged")
        folder = os.path.join(ROOT, "tests", "logs")
        everything = sorted(n[:-4] for n in os.listdir(os.path.join(folder, "healthy")) if n.endswith(".log") and n != "utf16.log")
        for words, names in (("training: progress of ten kinds", training), ("start-up noise, warnings and all else", everything)):
            text = b"".join(self.text_of(os.path.join(folder, "healthy", name + ".log")) for name in names)
            end = self.text_of(os.path.join(folder, "produced", "torch-label.log"))
            with tempfile.NamedTemporaryFile(suffix=".log", dir=self.log_folder()) as file:
                for _ in range((1 << 30) // len(text) + 1):
                    file.write(text)
                file.write(end)
                file.flush()
                self.read_log(words, file.name)

    @staticmethod
    def text_of(path):
        try:
            with open(path, "rb") as file:
                return file.read()
        except OSError as error:
            raise CannotRun(str(error))

    @staticmethod
    def log_folder():
        """A folder in memory if there is room, so that the speed of the disk is not measured."""
        room = os.statvfs("/dev/shm") if os.path.isdir("/dev/shm") else None
        return "/dev/shm" if room is not None and room.f_bavail * room.f_frsize > 4 << 30 else None

    def read_log(self, words, path):
        rates = []
        for _ in range(5):
            process = subprocess.Popen([self.gpuwhy, "explain", "--json", path], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
            answer = process.stdout.read()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = status
            if status != 0 and not answer:
                raise CannotRun(f"gpuwhy explain: exit status {os.waitstatus_to_exitcode(status)}")
            rates.append(os.path.getsize(path) / (used.ru_utime + used.ru_stime) / 1e6)
        cause = json.loads(answer)["cause"]
        self.say(f"    {words}: {statistics.median(rates):.0f} MB/s of processor time ({min(rates):.0f} to {max(rates):.0f}), at most "
                 f"{used.ru_maxrss / 1024:.0f} MiB of memory; the fault at the end: {cause}")

    # ---- the page ----

    def part(self, function, *arguments, columns):
        """Print one or more rows; a part that cannot run prints a row with the reason."""
        try:
            return function(*arguments)
        except CannotRun as reason:
            what = " ".join(str(a) for a in arguments[:1])
            self.say(f"| {function.__name__.replace('_', ' ')} {what} | did not run: {reason} |" + " |" * (columns - 2))
            self.failed = True
            return None

    def all(self):
        self.failed = False
        self.say("# What recording costs")
        self.say()
        self.say(f"Written by `bench/bench.py` (`make bench` prints the same) on {datetime.date.today().isoformat()}: "
                 f"{machine()}; {self.card or 'no real card'}.")
        self.say()
        self.say("On and off are compared inside one process, in blocks on off off on: for single calls \"off\" is the "
                 "driver's own function, called past the facade; for a training the facade's jumps "
                 "lead straight into the driver. The difference is the median over neighbouring blocks, with the 95 % "
                 "bootstrap interval of that median.")
        self.say()
        self.say("## A call")
        self.say()
        self.say("| call | card | bare driver | with gpuwhy | 95 % interval | share | blocks x calls |")
        self.say("|---|---|---|---|---|---|---|")
        self.part(self.hook_cost, "virtual:h200", columns=7)
        launch_ns = None
        if self.card:
            found = self.part(self.hook_cost, "real", columns=7)
            if found is not None:
                launch_ns = interval(paired(found[0]["launch_on_ns"], found[0]["launch_off_ns"]))[0]
        self.part(self.nccl_cost, "virtual:h200", columns=7)
        self.part(self.start_cost, "real" if self.card else "virtual:h200", columns=7)
        self.say()
        self.say("## A training")
        self.say()
        if self.card:
            self.say("| work | off, an iteration | recorder on | 95 % interval | computed bound | blocks |")
            self.say("|---|---|---|---|---|---|")
            self.part(self.training, "cnn", "small CNN, batch 32, bound by launches", launch_ns, columns=6)
            self.part(self.training, "resnet50", "ResNet-50, batch 256, bf16, channels_last", launch_ns, columns=6)
            self.part(self.training, "resnet50", "the same with backend:cudaMallocAsync, some 1,100 allocations an "
                      "iteration: on and off are call sites alone", None, True,
                      ("PYTORCH_CUDA_ALLOC_CONF=backend:cudaMallocAsync",), columns=6)
        else:
            self.say("Needs a real card: not measured here.")
        self.say()
        self.say("## Reading, modelling, judging")
        self.say()
        self.say("One core; the mix of events is stated in `bench/made_recording.h`.")
        self.say()
        self.part(self.reading, columns=2)
        self.say()
        self.say("## Text logs")
        self.say()
        self.say("A gigabyte each, made of `tests/logs/healthy`, with a device assert as its end.")
        self.say()
        self.part(self.logs, columns=2)
        return not self.failed


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--write", help="file for the tables")
    parser.add_argument("--seconds", type=float, default=90, help="limit of each part")
    parser.add_argument("--real", action="store_true", help="fail if there is no real GPU")
    options = parser.parse_args()
    bench = Bench(options)
    if options.real and bench.card is None:
        print("bench: there is no NVIDIA GPU here (nvidia-smi names none), so nothing was measured", file=sys.stderr)
        return 2
    if not os.access(bench.gpuwhy, os.X_OK):
        print(f"bench: {bench.gpuwhy} is not built")
        return 2
    good = bench.all()
    if options.write:
        with open(options.write, "w") as f:
            f.write("\n".join(bench.lines) + "\n")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
