"""What filled the card when a GPU library got no memory for its handle: a program allocates through a library that
replaces libc10_cuda.so, and then stands for cuBLAS. Needs no PyTorch and no GPU.

usage: test_handle.py PART    Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

BUILD = pathlib.Path(os.environ["GPUWHY_BUILD"])
TESTS = BUILD / "tests/torch"
GIB = 1 << 30


def check(condition, text):
    if not condition:
        sys.exit(f"test_handle: {text}")


class Run:
    """A recorded run of handle_prog: its verdict, and the reports about PyTorch's allocator."""

    def __init__(self, *words, environment=()):
        with tempfile.TemporaryDirectory() as folder:
            place = pathlib.Path(folder)
            variables = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
            variables.update(XDG_STATE_HOME=str(place / "state"), XDG_CACHE_HOME=str(place / "cache"), **dict(environment))
            recording = place / "run.gpuwhy"
            done = subprocess.run([BUILD / "gpuwhy", "run", "--quiet", "--gpu", "virtual:h200,memory=8GiB", "-o", recording,
                                   "--", TESTS / "handle_prog", TESTS / "c10/libc10_cuda.so", *words],
                                  env=variables, capture_output=True, text=True, timeout=250)
            check(done.returncode in (0, 1), f"{words}: exit {done.returncode}: {done.stderr}")
            self.name, self.exit = " ".join(words), done.returncode
            said = subprocess.run([BUILD / "gpuwhy", "explain", "--json", recording], env=variables, capture_output=True,
                                  text=True)
            self.verdict = json.loads(said.stdout)
            read = subprocess.run([TESTS / "course_read", recording], capture_output=True, text=True)
            lines = [line.split() for line in read.stdout.splitlines()]
            self.reports = [[int(word) for word in line[1:]] for line in lines if line[0] == "report"]
            self.listed = [0] * len(self.reports)  # live blocks in each report
            report = -1
            for word, *_ in lines:
                report += word == "report"
                if word == "live":
                    self.listed[report] += 1
            check(["lost", "0"] in lines, f"{words}: events were lost")

    def text(self, part):
        values = self.verdict[part]
        return "\n".join(value["text"] if isinstance(value, dict) else value for value in values)

    def expect(self, cause, certainty="supported"):
        found = (self.verdict["cause"], self.verdict["certainty"])
        check(found == (cause, certainty), f"{self.name}: {found}\n{json.dumps(self.verdict, indent=1)[:3000]}")

    def expect_text(self, part, *texts):
        found = self.text(part) if part != "headline" else self.verdict[part]
        for text in texts:
            check(text in found, f"{self.name}: no '{text}' in {part}:\n{found}")

    def expect_clean(self):
        check((self.exit, self.verdict["status"], self.reports) == (0, "clean", []),
              f"{self.name}: {self.exit}, {self.verdict['status']}, {len(self.reports)} reports")

    def expect_one_report(self):
        """The report is not about a request that PyTorch refused, and is complete."""
        check(len(self.reports) == 1, f"{self.name}: {len(self.reports)} reports")
        _, is_oom, has_course, wanted, *_, missed = self.reports[0]
        check((is_oom, has_course, wanted, missed) == (0, 1, 0, 0), f"{self.name}: {self.reports[0]}")


def of_both(scenario):
    """The repaired program is clean. Return the run of the other one."""
    Run(scenario, "repaired").expect_clean()
    run = Run(scenario)
    run.expect_one_report()
    return run


def leak():
    run = of_both("leak")
    run.expect("gpu-oom-leak")
    run.expect_text("headline", "every iteration keeps", "15.00 MiB that it never frees")
    run.expect_text("evidence", "cuMemAlloc of 64.00 MiB failed", "was not made by PyTorch's allocator")
    run.expect_text("consequences", "CUBLAS_STATUS_NOT_INITIALIZED")
    check("handle_prog.c" in run.verdict["where"]["text"], run.verdict["where"]["text"])


def cache():
    run = of_both("cache")
    run.expect("gpu-oom-library-handle")
    run.expect_text("headline", "PyTorch's cache kept 6.")
    run.expect_text("evidence", "of the cache was in segments without a live tensor")
    run.expect_text("next", "Call torch.cuda.empty_cache() before the first operation that uses the library")
    # A leak beside a larger cache: each of the two explains the refusal, so the leak alone is not the verdict.
    mixed = Run("mixed")
    mixed.expect_one_report()
    mixed.expect("gpu-oom-library-handle")
    mixed.expect_text("headline", "PyTorch's cache kept 4.")
    check({"cause": "gpu-oom-leak", "certainty": "hypothesis"}.items() <= mixed.verdict["alternatives"][0].items(),
          mixed.verdict["alternatives"])


def pieces():
    """The cache is large, but its segments are in use: emptying it would not have helped."""
    run = of_both("pieces")
    run.expect("gpu-oom-library-handle")
    run.expect_text("headline", "PyTorch's cache kept 6.")
    run.expect_text("next", "expandable_segments:True")
    check("Call torch.cuda.empty_cache()" not in run.text("next"), run.text("next"))


def full():
    """The live tensors are what the program needs, or a small leak does not explain why the card is full."""
    run = of_both("full")
    run.expect_text("ruled_out", "a leak (the last ")
    check("gpu-oom-leak" not in str(run.verdict["alternatives"]), run.verdict["alternatives"])
    small = Run("small")
    small.expect_one_report()
    for one in run, small:
        one.expect("gpu-oom-library-handle")
        one.expect_text("headline", "PyTorch's live tensors held 6.9")
        one.expect_text("evidence", "of PyTorch's live memory, ", "handle_prog.c")


def other():
    run = of_both("other")
    run.expect("gpu-oom-other-process", "established")
    run.expect_text("evidence", "was not made by PyTorch's allocator", "other processes held 6.")
    check("gpu-oom-leak" not in str(run.verdict["alternatives"]), run.verdict["alternatives"])


def caught():
    """The memory that a caught out-of-memory error kept. The root is the later refusal, not the caught one."""
    repaired, run = Run("caught", "repaired"), Run("caught")
    check((repaired.exit, repaired.verdict["status"]) == (0, "clean"), f"repaired: {repaired.verdict['status']}")
    check([report[1] for report in run.reports] == [1, 0], f"reports {run.reports}")
    run.expect("gpu-oom-leak")
    run.expect_text("headline", "the first run failed for lack of memory, and 6.9", "is still referenced")
    run.expect_text("evidence", "cuMemAlloc of 64.00 MiB failed")


def both():
    """Two threads are refused at once. The parts of their reports are not mixed: each lists all live blocks or none, and
    every refusal by PyTorch has its report."""
    run = Run("both")
    live = {report[7] for report in run.reports}
    check(len(live) == 1, f"numbers of live blocks: {live}")
    check(set(run.listed) <= live | {0}, f"listed {sorted(set(run.listed))} instead of {live}")
    check(sum(report[1] for report in run.reports) == 100, f"{sum(r[1] for r in run.reports)} reports about PyTorch")


def quiet():
    """PyTorch's own refused requests are no reason for a report, nor are those of a program without call sites or
    without a course. A library that is refused often and goes on is no fault."""
    Run("own").expect_clean()
    for variable in "GPUWHY_SITES", "GPUWHY_COURSE":
        run = Run("full", environment={variable: "0"})
        check(run.reports == [], f"{variable}=0: {len(run.reports)} reports")
        run.expect("gpu-oom-library-handle")
        run.expect_text("headline", "its message names another problem")
    probe = Run("probe")
    check((probe.exit, probe.verdict["status"]) == (0, "clean"), f"probe: {probe.verdict['status']}")
    check(probe.reports and all(report[1] == 0 for report in probe.reports), f"probe: {probe.reports[:3]}")


if __name__ == "__main__":
    globals()[sys.argv[1]]()
