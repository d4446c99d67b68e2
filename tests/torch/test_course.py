"""Following PyTorch's allocations: a program calls libraries that replace libc10.so and libc10_cuda.so, and the
recorded allocations are compared with the real ones. Needs no PyTorch and no GPU.

usage: test_course.py PART    Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

BUILD = pathlib.Path(os.environ["GPUWHY_BUILD"])
SANITIZE = os.environ.get("GPUWHY_SANITIZE", "")
PROGRAM, READER = BUILD / "tests/torch/course_prog", BUILD / "tests/torch/course_read"
CUDA = BUILD / "tests/torch/c10/libc10_cuda.so"
RING, LISTED = 1 << 16, 16384


def check(condition, text):
    if not condition:
        sys.exit(f"test_course: {text}")


def numbers(line):
    return tuple(int(word) for word in line.split()[1:])


class Truth:
    """What the program did: totals by device, and its requests by order."""

    def __init__(self, path):
        self.devices, self.requests = {}, {}
        for line in path.read_text().splitlines():
            if line.startswith("device"):
                device, *self.devices[int(line.split()[1])] = numbers(line)
            elif line.startswith("request"):
                order, device, *rest = numbers(line)
                self.requests.setdefault(device, {})[order] = tuple(rest)
            elif line.startswith("passed"):
                self.passed = numbers(line)
            elif line.startswith("made"):
                self.made = numbers(line)


class Report:
    """The model's data for a report of an out-of-memory error."""

    def __init__(self, line):
        (self.device, self.is_oom, self.has_course, self.wanted, self.wanted_site, self.count, self.frees,
         self.live_count, self.live_bytes, self.peak, self.missed) = numbers(line)
        self.live, self.requests, self.spans, self.sizes, self.rest = [], [], [], [], (0, 0)


def run(folder, scenario, number, environment=(), events=True):
    """Return the program's truth, the reports, and the number of lost events."""
    place = pathlib.Path(folder)
    variables = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
    variables.update(XDG_STATE_HOME=str(place / "state"), XDG_CACHE_HOME=str(place / "cache"), **dict(environment))
    recording = place / "run.gpuwhy"
    done = subprocess.run([BUILD / "gpuwhy", "run", "--quiet", "--gpu", "virtual:h200,memory=8GiB", "-o", recording, "--",
                           PROGRAM, place / "truth", CUDA, scenario, str(number)],
                          env=variables, capture_output=True, text=True, timeout=250)
    check(done.returncode == 0, f"{scenario}: exit {done.returncode}: {done.stdout}{done.stderr}")
    check(recording.exists(), f"no recording: {done.stderr}")
    read = subprocess.run([READER, recording], capture_output=True, text=True)
    check(read.returncode == 0, read.stderr)
    reports, lost = [], None
    for line in read.stdout.splitlines():
        word = line.split()[0]
        if word == "report":
            reports.append(Report(line))
        elif word == "lost":
            lost = int(line.split()[1])
        elif word == "rest":
            reports[-1].rest = numbers(line)
        else:
            getattr(reports[-1], {"request": "requests"}.get(word, word + ("s" if word != "live" else ""))).append(numbers(line))
    truth = Truth(place / "truth")
    check(truth.passed[:2] == truth.made, f"passed on {truth.passed}, made {truth.made}")
    check(truth.passed[2] == 0, f"{truth.passed[2]} calls came with other arguments")
    check(lost == 0, f"{lost} events were lost")
    return truth, reports


def compare(truth, report):
    """All values must be equal, to the byte."""
    requests, frees, live_count, live_bytes, peak = truth.devices[report.device]
    check((report.is_oom, report.has_course, report.missed) == (1, 1, 0), f"report {vars(report)}"[:300])
    check(report.wanted == 3 << 20, f"wanted {report.wanted}")
    totals = (report.count, report.frees, report.live_count, report.live_bytes, report.peak)
    check(totals == (requests, frees, live_count, live_bytes, peak), f"{totals} instead of {truth.devices[report.device]}")
    mine = truth.requests[report.device]
    alive = {order: (address, bytes_) for order, (address, bytes_, freed, *_) in mine.items()
             if freed == 0 and order in mine}
    # A block that was freed before the next request has the order of its own request, so it is not 0.
    check(len(alive) == live_count, "the program's own books")
    listed = {order: (address, bytes_) for order, address, bytes_, *_ in report.live}
    check(len(listed) == min(live_count, LISTED), f"{len(listed)} listed of {live_count}")
    check(all(alive.get(order) == block for order, block in listed.items()), "another list of live blocks")
    check(report.rest == (live_count - len(listed), live_bytes - sum(b for _, b in listed.values())),
          f"the rest is {report.rest}")
    check([o for o, *_ in report.live] == sorted(listed), "live blocks in the order of their requests")
    times = [t for *_, has_time, t, _ in report.live if has_time]
    check(len(times) == len(listed) and times == sorted(times), "times of live blocks")
    check(len(report.requests) == min(requests, RING), f"{len(report.requests)} requests")
    for order, bytes_, freed, freed_order, *_ in report.requests:
        _, true_bytes, true_freed, *_ = mine[order]
        check((bytes_, freed, freed_order) == (true_bytes, int(true_freed != 0), true_freed), f"request {order}")
    ring_times = [r[6] for r in report.requests]
    check(ring_times == sorted(ring_times), "times of requests")
    check(max(high for _, _, high in report.spans) == peak, "the highest span is the peak")
    check(all(low <= high for _, low, high in report.spans) and len(report.spans) <= 512, "spans")
    check(sum(s[1] for s in report.sizes) == requests and sum(s[2] for s in report.sizes) == frees, "sizes")
    lived = sum(freed - order + 1 for order, (_, _, freed, *_) in mine.items() if freed != 0)
    check(sum(s[3] for s in report.sizes) == lived, "lifetimes")


def of_scenario(scenario, number):
    with tempfile.TemporaryDirectory() as folder:
        truth, reports = run(folder, scenario, number)
        check(len(reports) == len(truth.devices), f"{len(reports)} reports of {len(truth.devices)} devices")
        for report in reports:
            compare(truth, report)
        return truth, reports


def random():
    of_scenario("random", 20000)


def global_():
    of_scenario("global", 5000)


def long():
    of_scenario("random", 300000 if SANITIZE else 1000000)


def many():
    _, reports = of_scenario("many", 200000)
    check(reports[0].rest[0] > 0, "some blocks are not listed")


def threads():
    truth, _ = of_scenario("threads", 50000)
    check(len(truth.devices) == 4, "four devices")


def alone():
    """Without a driver call, calls are passed through and nothing is followed."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        variables = dict(os.environ, XDG_STATE_HOME=str(place / "state"), XDG_CACHE_HOME=str(place / "cache"))
        done = subprocess.run([BUILD / "gpuwhy", "run", "--quiet", "--gpu", "virtual:h200", "--", PROGRAM, place / "truth",
                               CUDA, "alone", "5000"], env=variables, capture_output=True, text=True)
        check(done.returncode == 0, done.stderr)
        truth = Truth(place / "truth")
        check(truth.passed == truth.made + (0,), f"passed on {truth.passed}, made {truth.made}")


def training():
    """Launches, waits, and the memory that an iteration keeps."""
    truth, (report,) = of_scenario("training", 50)
    for order, _, freed, _, launches, waits, _, _ in report.requests:
        check((launches, waits) == truth.requests[0][order][3:], f"request {order}: {launches} launches, {waits} waits")
        check(freed == ((order - 1) % 18 != 0), f"request {order} is freed: {freed}")


def shared():
    with tempfile.TemporaryDirectory() as folder:
        truth, (report,) = run(folder, "shared", 20000)
        held = 16 << 30
        check((report.count, report.frees, report.live_bytes, report.missed) == (40001, 40000, held, 0),
              str(vars(report))[:300])
        check(report.peak <= held + 4 * 4096, f"peak {report.peak}")


def unlocked():
    """PyTorch does not do this; allocations that were not followed are counted."""
    with tempfile.TemporaryDirectory() as folder:
        truth, (report,) = run(folder, "unlocked", 20000)
        check(report.missed > 0 or (report.count, report.frees, report.live_bytes) == (40001, 40000, 16 << 30),
              str(vars(report))[:300])


def rests():
    """A small program whose memory does not grow is not followed all the time. The memory it has when it grows is
    the base: bytes without blocks. All later blocks are recorded, and none count as missed."""
    with tempfile.TemporaryDirectory() as folder:
        truth, (report,) = run(folder, "rests", 2000)
        requests, _, _, live_bytes, _ = truth.devices[0]
        check(20000 < report.count < requests - 54 * 1000, f"followed {report.count} of {requests} requests")
        check((report.missed, report.live_bytes) == (0, live_bytes), f"missed {report.missed}, live {report.live_bytes}")
        kept = {address: bytes_ for address, bytes_, freed, *_ in truth.requests[0].values() if freed == 0 and bytes_ == 15 << 20}
        listed = {address: bytes_ for _, address, bytes_, *_ in report.live}
        check(kept.items() <= listed.items(), f"{len(listed)} blocks are known, {len(kept)} were kept")
        check(all(bytes_ >= 15 << 20 or bytes_ == 0 for bytes_ in listed.values()) and len(listed) == 200, "other blocks")
        check(report.rest == (0, 0), f"the rest is {report.rest}")
        check(len(report.requests) >= 200 * 54, f"{len(report.requests)} requests since")
        check(sum(s[1] - s[2] for s in report.sizes) == 200, "sizes since")


def calm():
    """An allocation fails while nothing is followed: the bytes are known, but no requests."""
    with tempfile.TemporaryDirectory() as folder:
        truth, (report,) = run(folder, "calm", 2000)
        requests, _, _, live_bytes, _ = truth.devices[0]
        check((report.missed, report.live_bytes, report.live, report.requests) == (0, live_bytes, [], []), str(vars(report))[:300])
        check(report.count < requests, f"followed {report.count} of {requests} requests")


def fork():
    """A child records nothing, and its parent's record is complete."""
    truth, reports = of_scenario("fork", 5000)
    check(len(reports) == 1, f"{len(reports)} reports")


def switched_off():
    with tempfile.TemporaryDirectory() as folder:
        _, reports = run(folder, "random", 2000, {"GPUWHY_COURSE": "0"})
        check(reports == [], "a report of a course that is off")


def sites():
    """The failed request and large blocks have a call site; so have some of the others."""
    _, (report,) = of_scenario("random", 20000)
    check(report.wanted_site != 0, "the refused request has no site")
    large = [r for r in report.requests if r[1] > 1 << 30]
    check(large and any(r[7] != 0 for r in large), "no large block has a site")
    known = sum(r[7] != 0 for r in report.requests)
    check(known > 0, "no request has a site")
    check(any(block[5] != 0 for block in report.live), "no live block has a site")


def judge(scenario):
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        variables = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
        variables.update(XDG_STATE_HOME=str(place / "state"), XDG_CACHE_HOME=str(place / "cache"))
        subprocess.run([BUILD / "gpuwhy", "run", "--quiet", "--gpu", "virtual:h200,memory=8GiB", "-o", place / "run.gpuwhy",
                        "--", PROGRAM, place / "truth", CUDA, scenario], env=variables, capture_output=True, timeout=250)
        said = subprocess.run([BUILD / "gpuwhy", "explain", place / "run.gpuwhy"], env=variables, capture_output=True,
                              text=True)
        return said.stdout


def verdicts():
    """A program in C++, and so without PyTorch's observer: the followed allocations alone show the leak and its
    line, and nothing is reported if the same bytes were allocated before the iterations."""
    leak, late, full = judge("leak"), judge("late"), judge("full")
    for said in leak, late:
        check("Verdict  gpu-oom-leak" in said and "course_prog.c" in said.split("Where", 1)[1].splitlines()[0], said)
    check("Verdict  gpu-oom-capacity" in full, full)


def idle():
    """`watch` shows the memory in use as it is, although the program has done nothing since it freed 4 GiB."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        variables = {k: v for k, v in os.environ.items()
                     if not k.startswith("GPUWHY_") and k not in ("LD_PRELOAD", "XDG_RUNTIME_DIR")}
        variables.update(XDG_STATE_HOME=str(place / "state"), XDG_CACHE_HOME=str(place / "cache"))
        program = subprocess.Popen([BUILD / "gpuwhy", "run", "--quiet", "--gpu", "virtual:h200,memory=8GiB", "-o",
                                    place / "run.gpuwhy", "--", PROGRAM, place / "truth", CUDA, "idle"],
                                   env=variables, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        shown, deadline = None, time.monotonic() + 120
        while shown != 1 << 30 and time.monotonic() < deadline:
            said = subprocess.run([BUILD / "gpuwhy", "watch", "--once", "--json"], env=variables, capture_output=True)
            runs = [run for run in json.loads(said.stdout)["runs"] if run["supervisor_pid"] == program.pid]
            shown = runs[0]["memory"][0]["used_by_framework_bytes"] if runs and runs[0]["memory"] else None
            time.sleep(0.1)
        program.communicate()
        check(shown == 1 << 30, f"the last value shown was {shown}")


if __name__ == "__main__":
    {"global": global_}.get(sys.argv[1], globals().get(sys.argv[1]))()
