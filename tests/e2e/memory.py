"""`gpuwhy run --memory` on the virtual card: the guard's count equals the card's own, and processes can share a limit."""
import os
import pathlib
import shlex
import signal
import subprocess

from harness import (BUILD, GPUWHY, REAL, Card, base_environment, behind_sanitizer, by_name, expect, gpuwhy, main, new_folder,
                     run_cases, run_observed, skip, wait_until)

RANDOM = BUILD / "tests" / "inject" / "random_memory"
KINDS = ("plain", "small", "pitch", "managed", "array", "async", "pool", "vmm", "graph", "fail")
CARD = Card(None)
LIMIT = 3 << 30
CONTEXT = 552402944  # of the virtual h200


def count(place, kinds, calls, seed=1):
    argv = [RANDOM, "--limit", str(LIMIT), "--kinds", kinds, "--calls", str(calls), "--seed", str(seed)]
    run = run_observed(argv, CARD, new_folder(place, f"{kinds}-{seed}"), ["--memory", str(LIMIT)])
    expect(run.status == 0, f"{kinds}: status {run.status}: {run.stderr.decode(errors='replace')}")
    return run.stdout.decode()


def each_kind(place):
    for kind in KINDS:
        print(kind, count(place, kind, 20000).strip())


def all_kinds(place):
    for seed in (1, 2):
        out = count(place, ",".join(KINDS), 100000, seed)
        expect(int(out.split()[2]) > 100, f"the limit was hardly reached: {out}")
        print(out.strip())


class Shared:
    """Processes of one run that hold memory, started by a shell that reads sizes from its stdin."""

    def __init__(self, place, *options):
        self.folder = new_folder(place, "shared-" + "-".join(options).strip("-"))
        one = shlex.join(behind_sanitizer([RANDOM]))
        script = f'while read size; do {one} --limit {LIMIT} --hold $size & echo pid $!; done; wait'
        self.process = subprocess.Popen(
            [str(GPUWHY), "run", *CARD.options(), "--quiet", "-o", str(self.folder / "run.gpuwhy"), "--memory", str(LIMIT),
             *options, "--", "/bin/sh", "-c", script], cwd=self.folder, env=base_environment(self.folder),
            stdin=subprocess.PIPE, stdout=open(self.folder / "out", "wb"), stderr=open(self.folder / "err", "wb"),
            start_new_session=True)

    def hold(self, size):
        """Start a process; return its pid and the result of its allocation."""
        before = (self.folder / "out").read_text().split()
        self.process.stdin.write(f"{size}\n".encode())
        self.process.stdin.flush()
        words = wait_until(lambda: self.answer(len(before)), f"no answer after {size}")
        return int(words[words.index("pid") + 1]), int(words[words.index("held") + 1])

    def answer(self, known):
        text = (self.folder / "out").read_text()
        words = text.split()[known:]
        return words if text.endswith("\n") and "held" in words and "pid" in words else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


def has_ended(pid):
    """A killed process still holds its share until it has ended; a zombie holds none."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX"
    except OSError:
        return True


def sharing(place):
    half = (LIMIT - 2 * CONTEXT) // 2
    with Shared(place, "--memory-shared") as run:
        first = run.hold(half)
        expect(first[1] == 0, "the first half is refused")
        expect(run.hold(half + (64 << 20))[1] == 2, "more than the limit is granted")
        expect(run.hold(half - (64 << 20))[1] == 0, "what is left is refused")
        expect(run.hold(half // 2)[1] == 2, "a third process gets memory that others have")
        os.kill(first[0], signal.SIGKILL)  # its share comes back
        wait_until(lambda: has_ended(first[0]), "the killed process does not end")
        expect(run.hold(half - (640 << 20))[1] == 0, "the share of a killed process is not given back")
    with Shared(place) as run:
        expect([run.hold(half)[1] for _ in range(4)] == [0, 0, 0, 0], "without --memory-shared a process is refused")


def threads(place):
    """Many threads at the limit: nothing stays counted, and nothing is counted twice."""
    argv = [BUILD / "tests" / "inject" / "thread_memory"]
    for options in (["--memory", "700MiB"], ["--memory", "2GiB", "--memory-shared"]):
        run = run_observed(argv, CARD, new_folder(place, "threads-" + options[1]), options)
        expect(run.status == 0, f"{options}: {run.stdout} {run.stderr.decode(errors='replace')}")


def usage(place):
    status, _, err = gpuwhy("run", "--memory-shared", "--", "/bin/true", folder=place)
    expect(status == 2 and "--memory-shared needs --memory" in err, err)


CASES = by_name(each_kind, all_kinds, sharing, threads, usage)


def test():
    if REAL:
        skip("the count is compared with that of a virtual card")
    run_cases(CASES)


if __name__ == "__main__":
    main(test)
