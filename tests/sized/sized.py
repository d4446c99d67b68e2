#!/usr/bin/env python3
"""Check that time and memory of the commands grow no faster than the recording that they read.

For each shape of make_sized.c, a recording of COUNT items and one of ten times as many are judged. The processor time
above that of an empty recording must grow at most 30 times, and so must the memory. Sorting and cache misses take more
than 10 times, a loop inside a loop takes 100 times. What else the machine does can only add processor time, so a slow
result is measured again, and the least time of each recording counts.

    sized.py BUILD [--all] [--sound] [--count N] [--steps N] [--seconds S] [SHAPE..]

--sound measures nothing: every command reads one recording of each shape and ends normally. That is for a build with
sanitizers. Without --all, one shape stands for all kinds of events in each role, and only `explain` runs."""
import argparse
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time

GROWTH_MAX = 30
PROCESSES_MAX = 100_000
NOISE_S = 0.010  # less time than this is noise
NOISE_KIB = 8192
COMMANDS = {
    "explain": ["explain", "FILE"],
    "json": ["explain", "--json", "FILE"],
    "diff": ["diff", "FILE", "FILE"],
    "export": ["export", "FILE", "--to", "json"],
}


def least(*costs):
    return tuple(min(values) for values in zip(*costs))


class Sized:
    def __init__(self, build, folder):
        self.make = build / "tests/sized/make_sized"
        self.gpuwhy = build / "gpuwhy"
        self.folder = folder
        self.base = {}

    def write(self, shape, count):
        path = self.folder / f"{count}.gpuwhy"
        path.unlink(missing_ok=True)
        subprocess.run([self.make, path, shape, str(count)], check=True)
        return path

    def cost(self, command, path):
        """Processor time in seconds and memory in KiB of one command."""
        argv = [self.gpuwhy] + [str(path) if word == "FILE" else word for word in COMMANDS[command]]
        child = subprocess.Popen(argv, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        if child.returncode not in (0, 1, 3):
            raise AssertionError(f"{' '.join(map(str, argv[1:]))}: ended with {child.returncode}")
        return used.ru_utime + used.ru_stime, used.ru_maxrss

    def base_of(self, command):
        if command not in self.base:
            empty = self.write("meta", 0)
            self.base[command] = least(*(self.cost(command, empty) for _ in range(3)))
        return self.base[command]

    def growth(self, command, costs):
        """How many times more the larger of two recordings costs: in time and in memory."""
        base = self.base_of(command)
        few, many = ((max(spent - base[0], NOISE_S), max(memory - base[1], NOISE_KIB)) for spent, memory in costs)
        return many[0] / few[0], many[1] / few[1], many

    def check(self, shape, commands, count, steps):
        """Return a line of text for each command whose cost grows too fast."""
        wrong = []
        counts = [count * 10**step for step in range(steps + 1)]
        if "processes" in shape:  # the model needs up to 20 KiB for each, and a machine has at most 4 M pids
            counts = [n for n in counts if n <= PROCESSES_MAX]
        paths = [self.write(shape, n) for n in counts]
        for small, large in zip(paths, paths[1:]):
            for command in commands:
                costs = [(float("inf"), float("inf"))] * 2
                for _ in range(5):
                    try:
                        costs = [least(known, self.cost(command, path)) for known, path in zip(costs, (small, large))]
                        in_time, in_memory, many = self.growth(command, costs)
                    except AssertionError as error:
                        raise AssertionError(f"{shape}: {error}")
                    if max(in_time, in_memory) <= GROWTH_MAX:
                        break
                else:
                    wrong.append(f"{shape}: {command} of {large.stem} items: {in_time:.0f} times the time, {in_memory:.0f} "
                                 f"times the memory of {small.stem} items ({many[0]:.2f} s, {many[1] // 1024} MiB)")
        return wrong


    def check_sound(self, shape, commands, count):
        """Run each command once. Return a line for each one that a sanitizer or a signal ended."""
        path = self.write(shape, count)
        wrong = []
        for command in commands:
            try:
                self.cost(command, path)
            except AssertionError as error:
                wrong.append(f"{shape}: {error}")
        return wrong


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--all", action="store_true", help="every kind of event, and every command")
    parser.add_argument("--sound", action="store_true", help="measure nothing; every command has to end normally")
    parser.add_argument("--shuffle", action="store_true", help="take the shapes in random order")
    parser.add_argument("--count", type=int, default=2000, help="items of the smallest recording")
    parser.add_argument("--steps", type=int, default=1, help="how often the number is multiplied by ten")
    parser.add_argument("--seconds", type=float, help="begin no new shape after that time")
    parser.add_argument("shapes", nargs="*")
    args = parser.parse_args()
    listed = subprocess.run([args.build / "tests/sized/make_sized", "--list"], check=True, capture_output=True, text=True)
    shapes = args.shapes or [s for s in listed.stdout.split() if args.all or ":" not in s or s.startswith("ANY:")]
    if args.shuffle:
        random.shuffle(shapes)
    commands = list(COMMANDS) if args.all or args.sound else ["explain"]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-sized-"))
    wrong, done, begin = [], 0, time.monotonic()
    try:
        sized = Sized(args.build, folder)
        for shape in shapes:
            if args.seconds is not None and time.monotonic() - begin > args.seconds:
                break
            found = (sized.check_sound(shape, commands, args.count) if args.sound else
                     sized.check(shape, commands, args.count, args.steps))
            for line in found:
                print(line, flush=True)
                wrong.append(line)
            done += 1
    finally:
        shutil.rmtree(folder)
    print(f"{done} of {len(shapes)} shapes: {len(wrong)} {'end badly' if args.sound else 'grow too fast'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
