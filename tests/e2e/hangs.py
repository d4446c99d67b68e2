"""S27: programs that hang, and programs that only look like it. --hang-after, --kill-on-hang, gpuwhy poke.

The programs wait at the same time, so that everything takes only seconds. The only timing requirement is that
programs which wait for a minute are still alive when gpuwhy reports."""
import concurrent.futures
import functools
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from harness import (GPUWHY, REAL, SANITIZE, SCENARIOS, Card, Failure, Workplace, base_environment, behind_sanitizer, expect,
                     expect_screens, fill_in, gpuwhy, main, new_folder, wait_until)
from sites import VERSIONS, line_of, with_version

HANG = SCENARIOS / "s27_hang"
HANG_SOURCE = pathlib.Path(__file__).parents[1] / "scenarios" / "driver" / "s27_hang.c"
WAIT_S = 200  # limit for things that happen at once on an idle machine
STANDS = pathlib.Path(__file__).parents[1] / "scenarios" / "sites" / "stands.py"


def place_in(source, mark, function):
    return f"{source.name}:{line_of(source, mark)} in {function}"


def start(place, name, argv, *options, ours=None):
    folder = new_folder(place, name)
    command = [str(GPUWHY), "run", *Card().options(), "--json", str(folder / "verdict.json"), "-o",
               str(folder / "run.gpuwhy"), *options, "--", *behind_sanitizer(fill_in(argv, folder), ours)]
    process = subprocess.Popen(command, cwd=folder, env=base_environment(folder), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    return folder, process


def finish(folder, process):
    try:
        out, err = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure("not over after 240 s")
    verdict = json.loads((folder / "verdict.json").read_text())
    return process.returncode, out.decode(), err.decode(errors="replace"), verdict


def evidence(verdict):
    return "\n".join(e["text"] for e in verdict["evidence"])


def hangs(place, name, cause, *patterns, argv=None, ours=None, where=None, after="1", ends=-signal.SIGTERM):
    """`where`: the verdict's place must be one of these. `ends`: the status with which the program takes SIGTERM."""
    folder, process = start(place, name, argv or [HANG, "--kind", name, "--truth", "{truth}"], "--hang-after", after,
                            "--kill-on-hang", ours=ours)
    status, _, err, verdict = finish(folder, process)
    found = f"{verdict['status']}, {verdict['cause']}, exit {status}:\n{err}"
    expect(verdict["cause"] == cause and status == ends, f"expected {cause}; found {found}")
    expect(err.count(f"Verdict  {cause}") == 2, f"not said once while it lived and once at its end: {found}")
    expect_screens(err, 2, verdict)
    expect("is running" in " ".join(err.split()), f"not said while it lived: {found}")
    for pattern in patterns:
        expect(re.search(pattern, evidence(verdict)), f"no evidence like {pattern}: {found}")
    expect(verdict["next"], "no fix is offered")
    if where is not None:
        found = verdict["where"] and verdict["where"]["text"]
        expect(found in where, f"the place is {found}, not {where}: {verdict['where_reason']}\n{err}")
        user = verdict["where"]
        expect(found == f"{pathlib.Path(user['file']).name}:{user['line']} in {user['function']}", f"{user} is not {found}")
        expect(err.count(f"Where    {found}") == 2, f"the place was not told while it lived and at its end:\n{err}")
    out = json.loads(gpuwhy("explain", "--json", folder / "run.gpuwhy", folder=folder)[1])
    expect(out["cause"] == cause and out["where"] == verdict["where"], f"explain says {out}")


def goes_on(place, name, argv, said, ours=None):
    # Longer than the longest rest of a program that goes on, even on a busy machine, and shorter than its total time.
    folder, process = start(place, name + "-twin", argv, "--hang-after", "2", ours=ours)
    status, out, err, verdict = finish(folder, process)
    expect(status == 0 and re.fullmatch(said, out), f"exit {status}: {out}{err}")
    expect(verdict["status"] == "clean", f"{verdict['status']}, {verdict['cause']}: {err}")
    expect("is running" not in err and "never-ends" not in err and "deadlock" not in err, f"something was said of a hang: {err}")


def in_c(*marks):
    """Places in the C program."""
    return [place_in(HANG_SOURCE, mark, function) for mark, function in marks]


# Kernels that never end: patterns of the evidence, and the possible places as (mark, function).
ASKED = r"queried the GPU, or waited for finished work, \d+ times"
NEVER_ENDS = {
    "kernel": ([r"inside cuStreamSynchronize for \d", r"spin was launched on stream 0x",
                r"is in s27_hang.c:\d+ in wait_for_kernel <- "], ["kernel wait_for_kernel"]),
    "ask": ([ASKED, r"spin was launched"], ["ask ask_kernel", "between ask_kernel"]),
    # a wait for one stream says nothing about a kernel on another stream
    "other": ([r"inside cuCtxSynchronize for \d", r"spin was launched on stream 0x"], ["other wait_for_both"]),
    # waits that return at once are not progress
    "again": ([ASKED, r"spin was launched"], ["again wait_again", "again_asks wait_again", "again_rests wait_again"]),
    # the launch of the awaited kernel is no longer among the last calls
    "left": ([r"inside cuStreamSynchronize for \d", r"older than the last 2048 calls",
              r"spin was launched on stream 0x\S+ at s27_hang.c:\d+ in wait_too_late .* it may have ended"],
             ["left wait_too_late"]),
    "left-asked": ([ASKED, r"older than the last 2048 calls"], None),
}


def never_ends(place, kind):
    patterns, places = NEVER_ENDS[kind]
    hangs(place, kind, "kernel-never-ends", *patterns, where=places and in_c(*map(str.split, places)))


# A launcher as torchrun: on SIGTERM, it ends its ranks and raises an exception, or it ends well.
RAISES_ON_SIGTERM = """
import signal, subprocess, sys, time
def stop(number, frame):
    rank.terminate()
    rank.wait()
    if sys.argv[1] == "well":
        sys.exit(0)
    raise RuntimeError("CUDA error: out of memory" if sys.argv[1] == "memory" else f"got signal: {number}")
signal.signal(signal.SIGTERM, stop)
rank = subprocess.Popen(sys.argv[2:])
while rank.poll() is None:
    time.sleep(0.01)
"""


def own_stop(place):
    """What gpuwhy's own stop causes takes the place of no verdict that was reached before."""
    for how, ends in (("signal", 1), ("memory", 1), ("well", 0)):
        hangs(place / how, "kernel", "kernel-never-ends", r"inside cuStreamSynchronize for \d", ends=ends,
              argv=[sys.executable, "-c", RAISES_ON_SIGTERM, how, HANG, "--kind", "kernel", "--truth", "{truth}"],
              where=in_c(("kernel", "wait_for_kernel")))


# ---- a stream that nothing waits for while the program goes on ----

ALONE = r"spin was launched on stream 0x\S+( at s27_hang.c:\d+ in \w+)? \d+\.\d s before the program ended"


def end_of_alone(place, kind, how, *options):
    """Stop the program from outside after the kernel has run alone for some seconds."""
    folder, process = start(place, kind + "-" + how.name, [HANG, "--kind", kind, "--truth", "{truth}"], *options)
    pid = int(re.search(r"pid=(\d+)\n", wait_for_text(folder / "truth", "steps="))[1])
    time.sleep(6)
    poked = gpuwhy("poke", str(pid), folder=folder)[1] if how == signal.SIGTERM else None
    os.kill(pid, how)
    status, _, err, verdict = finish(folder, process)
    expect(status == -how, f"exit {status}: {err}")
    expect("is running" not in err, f"told as a hang while it ran: {err}")
    expect(verdict["cause"] == "killed-by-scheduler-or-user", f"{verdict['cause']}: {err}")
    expect(not any("the GPU" in line for line in verdict["ruled_out"]), f"the GPU is ruled out: {verdict['ruled_out']}")
    return verdict, poked


def alone(place):
    """Reported as an observation when the program is stopped. --kill-on-hang does not kill a program that goes on."""
    for how in (signal.SIGTERM, signal.SIGINT):
        verdict, poked = end_of_alone(place, "alone", how, "--hang-after", "1", "--kill-on-hang")
        text = ALONE + r", and the program has not waited for that stream since; meanwhile it waited for other work \d+ times"
        expect(re.search(text, evidence(verdict)), f"not told: {evidence(verdict)}")
        expect(verdict["certainty"] == "supported", "who ended it may have had a reason")
        found = [a["certainty"] for a in verdict["alternatives"] if a["cause"] == "kernel-never-ends"]
        expect(found == ["hypothesis"], f"{verdict['alternatives']}")
        if poked is not None:
            expect("(making progress)" in poked and re.search(r"no wait: spin was launched on stream 0x.* \d+\.\d s ago", poked), poked)


def alone_fast(place):
    """The launch is no longer on record: this is reported, and no conclusion is drawn from it."""
    verdict, poked = end_of_alone(place, "alone-fast", signal.SIGTERM)
    expect(re.search(ALONE + "; it may have ended", evidence(verdict)), f"not told: {evidence(verdict)}")
    expect("it may have ended" in poked, poked)
    expect(not any(a["cause"] == "kernel-never-ends" for a in verdict["alternatives"]), f"{verdict['alternatives']}")


def alone_below_a_launcher(place):
    """timeout(1) stops the program: how the process itself ended is not known, and the launcher made no driver call."""
    argv = ["timeout", "20", HANG, "--kind", "alone"]
    folder, process = start(place, "timeout", argv)
    status, _, err, verdict = finish(folder, process)
    expect(status == 124 and verdict["status"] == "undetermined", f"exit {status}, {verdict['status']}: {err}")
    expect(re.search(r"pid \d+: spin was launched on stream 0x.*the program has not waited for that stream since", evidence(verdict)), err)
    expect("the GPU is ruled out" not in err, err)


def kernel_that_is_meant_to_run_on(place):
    for kind in ("alone", "alone-fast"):
        folder, process = start(place, kind + "-twin", [HANG, "--kind", kind, "--repaired"], "--hang-after", "2")
        status, out, err, verdict = finish(folder, process)
        expect(status == 0 and verdict["status"] == "clean", f"exit {status}, {verdict['status']}: {err}")
        expect("waited for" not in err and "is running" not in err and "never-ends" not in err, f"something is said: {err}")


def locks(place):
    marks = ("trainer", "apply_gradients"), ("collector", "collect_gradients")
    hangs(place, "locks", "host-deadlock", r"waits for a lock that thread \d+ \(\S+\) holds",
          *[f"is in {re.escape(where)} <- .* in {caller}"
            for where, caller in zip(in_c(*marks) or [], ("trainer", "collector"))], where=in_c(*marks))


def late_locks(place):
    """When the supervisor first looks, one thread only rests with a lock in its hands, and the other one waits for it."""
    hangs(place, "late-locks", "host-deadlock", r"waits for a lock that thread \d+ \(\S+\) holds",
          where=in_c(("trainer", "apply_gradients"), ("collector", "collect_gradients")))


def rest_locks(place):
    """A long rest, at which the supervisor looks several times, does not use up its looks at what comes later."""
    hangs(place, "rest-locks", "host-deadlock", r"waits for a lock that thread \d+ \(\S+\) holds", after="0.1")


# ---- Python, every version that is installed ----

PYTHON_PLACES = {"trainer": ("Trainer.step", "step"), "collector": ("collect.<locals>.take", "take"), "kernel": ("Gpu.wait", "wait"),
                 "join": ("use_locks", "use_locks")}


def python_place(version, mark):
    """Functions have qualified names from 3.11 on."""
    return place_in(STANDS, mark, PYTHON_PLACES[mark][0 if tuple(map(int, version.split("."))) >= (3, 11) else 1])


def python_locks(place, version, python):
    """Python's locks have no owner, but every thread waits for something that only the others could do."""
    places = [python_place(version, mark) for mark in ("trainer", "collector")]
    hangs(place, "python", "host-deadlock", r"waits, without a time limit, for another thread",
          *[f"(is in|process at) {re.escape(where)}" for where in places + [python_place(version, "join")]],
          argv=[python, "-B", STANDS, "locks"], ours=False, where=places)


def python_kernel(place, version, python):
    where = python_place(version, "kernel")
    hangs(place, "python", "kernel-never-ends", r"inside cuCtxSynchronize for \d", r"spin was launched",
          f"is in {re.escape(where)} <- stands.py:\\d+ in main <- stands.py:\\d+ in <module>",
          argv=[python, "-B", STANDS, "kernel"], ours=False, where=[where])


def python_twins(place, version, python):
    for kind in ("locks", "kernel"):
        goes_on(place, kind, [python, "-B", STANDS, kind, "--repaired"], r"pid \d+\nit went on\n", ours=False)


def python_stacks(text, line, head):
    """Return the Python frames of each thread, as (file, line), sorted."""
    stacks = []
    for row in text.splitlines():
        if re.match(head, row):
            stacks.append([])
        frame = re.match(line, row)
        if frame and stacks:
            stacks[-1].append((pathlib.Path(frame[1]).name, int(frame[2])))
    return sorted(stack for stack in stacks if stack)


def python_poke(place, version, python):
    """poke shows the same lines as the interpreter itself."""
    for kind, cause in (("locks", "host-deadlock"), ("kernel", "kernel-never-ends")):
        folder, process = start(place, "poke-" + kind, [python, "-B", STANDS, kind], "--hang-after", "off", ours=False)
        try:
            pid = int(process.stdout.readline().decode().removeprefix("pid "))
            out = poke_until(folder, pid, f"Verdict  {cause}")
            os.kill(pid, signal.SIGUSR1)
            said = wait_for_text(folder / "said", "in <module>")
            shown = python_stacks(out, r"    [> ] (\S+\.py):(\d+) in ", r"  thread \d+ ")
            wanted = python_stacks(said, r'  File "(.*)", line (\d+) in ', r"(Current thread|Thread) 0x")
            expect(shown == wanted, f"poke shows {shown}, faulthandler says {wanted}\n{out}\n{said}")
            status, out, err = gpuwhy("poke", "--json", str(pid), folder=folder)
            where = json.loads(out)["where"]["text"]
            marks = ("trainer", "collector") if kind == "locks" else ("kernel",)
            expect(where in [python_place(version, mark) for mark in marks], f"poke --json says {where}")
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def poke_until(folder, pid, text):
    """Return poke's output once the program has reached its hang."""
    deadline = time.monotonic() + WAIT_S
    while True:
        status, out, err = gpuwhy("poke", str(pid), folder=folder)
        if status == 0 and text in out:
            return out
        expect(time.monotonic() < deadline, f"poke does not say {text!r}; exit {status}: {out}{err}")


def wait_for_text(path, text):
    deadline = time.monotonic() + WAIT_S
    while time.monotonic() < deadline:
        found = path.read_text() if path.exists() else ""
        if text in found:
            time.sleep(0.1)  # more output may follow
            return path.read_text()
        time.sleep(0.05)
    raise Failure(f"{path.name} does not hold {text!r}")


# Programs that only look like a hang: the arguments of each.
NO_HANGS = {
    "slow_kernels": [("kernel", "--repaired")],
    "asked_kernel_ends": [("ask", "--repaired")],
    "other_kernel_ends": [("other", "--repaired")],
    "waits_again_until_it_ends": [("again", "--repaired")],
    "late_waits_that_end": [("left", "--repaired"), ("left-asked", "--repaired")],
    # the kernel of the other stream has ended, because the stream that waited for it has
    "joined_by_an_event": [("join", "--seconds", "4")],
    "locks_in_order": [("locks", "--repaired"), ("late-locks", "--repaired")],
    "waits_for_input": [("input", "--seconds", "4")],
    "sleeps": [("sleep", "--seconds", "4")],
    "loads_data": [("load", "--seconds", "4")],
    "pool_waits": [("pool", "--seconds", "4")],
}


def no_hangs(place, programs):
    for kind, *options in programs:
        goes_on(place, kind, [HANG, "--kind", kind, *options], r"it went on\n")


def hang_that_passes(place):
    """Reported while it lasts; the run ends well."""
    folder, process = start(place, "passes", [HANG, "--seconds", "6"], "--hang-after", "1")
    status, _, err, verdict = finish(folder, process)
    expect(status == 0 and verdict["status"] == "clean", f"exit {status}, {verdict['status']}: {err}")
    expect(err.count("kernel-never-ends") == 1, f"not told once: {err}")
    expect(any("made no GPU progress" in line for line in verdict["advice"]), f"not told in the end: {verdict['advice']}")


def off_says_nothing(place):
    folder, process = start(place, "off", [HANG, "--seconds", "3"], "--hang-after", "off")
    status, _, err, verdict = finish(folder, process)
    expect(status == 0 and "is running" not in err and verdict["status"] == "clean", f"exit {status}: {err}")


def poke(place):
    folder, process = start(place, "poke", [HANG, "--kind", "locks", "--truth", "{truth}"], "--hang-after", "off")
    try:
        truth = folder / "truth"
        pid = wait_until(lambda: truth.exists() and re.search(r"pid=(\d+)\n", truth.read_text()), "no pid", WAIT_S)
        out = poke_until(folder, pid[1], "host-deadlock")
        expect(re.search(r"waiting for a lock of thread \d+", out), f"the threads are not shown: {out}")
        status, out, err = gpuwhy("poke", "--json", pid[1], folder=folder)
        expect(json.loads(out)["cause"] == "host-deadlock", f"exit {status}: {out}{err}")
        expect(process.poll() is None, "poke ended the run")
        os.kill(int(pid[1]), signal.SIGTERM)
        status, _, err, verdict = finish(folder, process)
        expect(verdict["cause"] == "killed-by-scheduler-or-user", f"poke left something in the recording: {err}")
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def poke_says_why_not(place):
    for argument, word in (("4194304", "does not exist"), ("x", "one process id"), ("-1", "option"),
                           ("0", "one process id")):
        status, out, err = gpuwhy("poke", argument, folder=place)
        expect(status == 2 and word in err and not out, f"poke {argument}: exit {status}: {out}{err}")


def bad_options(place):
    for options in (["--hang-after", "soon"], ["--hang-after", "-5"], ["--hang-after", "nan"], ["--hang-after", "0"],
                    ["--hang-after", "off", "--kill-on-hang"]):
        status, out, err = gpuwhy("run", *options, "--", "true", folder=place)
        expect(status == 2 and len(err.splitlines()) == 1, f"{options}: exit {status}: {err}")


def named(name, function, **arguments):
    """Return the function with these arguments as a case of this name."""
    case = functools.partial(function, **arguments)
    case.__name__ = name
    return case


CASES = [named(kind.replace("-", "_"), never_ends, kind=kind) for kind in NEVER_ENDS]
CASES += [alone, alone_fast, kernel_that_is_meant_to_run_on, locks, late_locks]
CASES += [named(name, no_hangs, programs=programs) for name, programs in NO_HANGS.items()]
CASES += [hang_that_passes, off_says_nothing, poke, poke_says_why_not, bad_options]
LAUNCHER_CASES = [alone_below_a_launcher, own_stop]
PYTHON_CASES = [python_locks, python_kernel, python_twins, python_poke]


def locks_twice():
    if SANITIZE == "thread":
        print("  skipped  rest_locks: ThreadSanitizer reports that the order of the locks changes, and ends the program")
        return []
    return [rest_locks]


def launcher_cases():
    if SANITIZE:
        print("  skipped  programs below a launcher: it is not sanitized")
        return []
    return LAUNCHER_CASES


def python_cases():
    """Run for every version that is installed; print the others."""
    if REAL or SANITIZE:  # the system's interpreter cannot load sanitized libraries
        print("  skipped  Python: " + ("for the virtual card" if REAL else "these interpreters are not sanitized"))
        return []
    cases = []
    for version in VERSIONS:
        python = with_version.find(version)
        if python is None:
            print(f"  skipped  Python {version}: there is none here")
        cases += [named(f"{case.__name__}_{version}", case, version=version, python=python)
                  for case in PYTHON_CASES if python]
    return cases


def run_case(place, case):
    try:
        case(new_folder(place, case.__name__))
        return f"  ok       {case.__name__}", True
    except Failure as failure:
        return f"  FAILED   {case.__name__}: {failure}", False


def test():
    words = sys.argv[1:]
    cases = [c for c in locks_twice() + CASES + launcher_cases() + python_cases() if not words or any(c.__name__.startswith(word) for word in words)]
    with Workplace() as place, concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda case: run_case(place, case), cases))
    print("\n".join(line for line, _ in results))
    expect(all(good for _, good in results), "see above")


if __name__ == "__main__":
    main(test)
