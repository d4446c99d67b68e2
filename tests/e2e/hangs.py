"""S27: programs that stand still, and programs that only look like it. --hang-after, --kill-on-hang, gpuwhy poke.

The programs wait at the same time, so that the whole takes seconds. Nothing here depends on how long something took, but
that programs which wait for a minute are still alive when gpuwhy speaks."""
import concurrent.futures
import json
import os
import re
import signal
import subprocess
import sys
import time

from harness import (GPUWHY, REAL, SANITIZE, SCENARIOS, Card, Failure, Workplace, base_environment, behind_sanitizer, expect,
                     fill_in, gpuwhy, main, new_folder)

HANG = SCENARIOS / "s27_hang"
PYTHON_LOCKS = """
import ctypes, threading
driver = ctypes.CDLL("libcuda.so.1")
assert driver.cuInit(0) == 0
one, two, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(first, second):
    with first:
        both.wait()
        with second:
            pass
threads = [threading.Thread(target=take, args=pair) for pair in ((one, two), (two, one))]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
"""


def start(place, name, argv, *options, ours=None):
    folder = new_folder(place, name)
    command = [str(GPUWHY), "run", *Card().options(), "--json", str(folder / "verdict.json"), "-o",
               str(folder / "run.gpuwhy"), *options, "--", *behind_sanitizer(fill_in(argv, folder), ours)]
    process = subprocess.Popen(command, cwd=folder, env=base_environment(folder), stdin=subprocess.DEVNULL,
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
    return folder, process


def finish(folder, process):
    try:
        out, err = process.communicate(timeout=100)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure("not over after 100 s")
    verdict = json.loads((folder / "verdict.json").read_text())
    return process.returncode, out.decode(), err.decode(errors="replace"), verdict


def evidence(verdict):
    return "\n".join(e["text"] for e in verdict["evidence"])


def hangs(place, name, cause, *patterns, argv=None, ours=None):
    folder, process = start(place, name, argv or [HANG, "--kind", name, "--truth", "{truth}"], "--hang-after", "1",
                            "--kill-on-hang", ours=ours)
    status, _, err, verdict = finish(folder, process)
    found = f"{verdict['status']}, {verdict['cause']}, exit {status}:\n{err}"
    expect(verdict["cause"] == cause and status == -signal.SIGTERM, f"expected {cause}; found {found}")
    expect(err.count(f"Verdict  {cause}") == 2, f"not said once while it lived and once at its end: {found}")
    expect("is running" in err, f"not said while it lived: {found}")
    for pattern in patterns:
        expect(re.search(pattern, evidence(verdict)), f"no evidence like {pattern}: {found}")
    expect(verdict["next"], "no fix is offered")
    out = gpuwhy("explain", "--json", folder / "run.gpuwhy", folder=folder)[1]
    expect(json.loads(out)["cause"] == cause, f"explain says {out}")


def is_no_hang(place, name, *options):
    folder, process = start(place, name + "-twin", [HANG, "--kind", name, *options], "--hang-after", "1")
    status, out, err, verdict = finish(folder, process)
    expect(status == 0 and out == "it went on\n", f"exit {status}: {out}{err}")
    expect(verdict["status"] == "clean", f"{verdict['status']}, {verdict['cause']}: {err}")
    expect("is running" not in err and "never-ends" not in err and "deadlock" not in err, f"something was said of a hang: {err}")


def kernel(place):
    hangs(place, "kernel", "kernel-never-ends", r"inside cuStreamSynchronize for \d", r"spin was launched on stream 0x",
          *([r"stands in .*main"] if has_stacks() else []))


def ask(place):
    hangs(place, "ask", "kernel-never-ends", r"asked the GPU \d+ times", r"spin was launched")


def locks(place):
    hangs(place, "locks", "host-deadlock", r"waits for a lock that thread \d+ \(\S+\) holds",
          *([r"stands in .*trainer", r"stands in .*collector"] if has_stacks() else []))


def python_locks(place):
    """Python's locks know no owner, but every thread waits for what only the others could give."""
    hangs(place, "python", "host-deadlock", r"waits, without a time limit, for another thread",
          argv=[sys.executable, "-c", PYTHON_LOCKS], ours=False)


def slow_kernels(place):
    is_no_hang(place, "kernel", "--repaired")


def asked_kernel_ends(place):
    is_no_hang(place, "ask", "--repaired")


def locks_in_order(place):
    is_no_hang(place, "locks", "--repaired")


def waits_for_input(place):
    is_no_hang(place, "input", "--seconds", "4")


def sleeps(place):
    is_no_hang(place, "sleep", "--seconds", "4")


def loads_data(place):
    is_no_hang(place, "load", "--seconds", "4")


def pool_waits(place):
    is_no_hang(place, "pool", "--seconds", "4")


def hang_that_passes(place):
    """Told while it lasts; in the end all was well."""
    folder, process = start(place, "passes", [HANG, "--seconds", "4"], "--hang-after", "1")
    status, _, err, verdict = finish(folder, process)
    expect(status == 0 and verdict["status"] == "clean", f"exit {status}, {verdict['status']}: {err}")
    expect(err.count("kernel-never-ends") == 1, f"not told once: {err}")
    expect(any("did nothing on the GPU" in line for line in verdict["advice"]), f"not told in the end: {verdict['advice']}")


def off_says_nothing(place):
    folder, process = start(place, "off", [HANG, "--seconds", "3"], "--hang-after", "off")
    status, _, err, verdict = finish(folder, process)
    expect(status == 0 and "is running" not in err and verdict["status"] == "clean", f"exit {status}: {err}")


def poke(place):
    folder, process = start(place, "poke", [HANG, "--kind", "locks", "--truth", "{truth}"], "--hang-after", "off")
    try:
        pid = None
        deadline = time.monotonic() + 60
        while pid is None and time.monotonic() < deadline:
            text = (folder / "truth").read_text() if (folder / "truth").exists() else ""
            pid = re.search(r"pid=(\d+)", text)
            time.sleep(0.05)
        time.sleep(0.5)
        status, out, err = gpuwhy("poke", pid[1], folder=folder)
        expect(status == 0 and "host-deadlock" in out, f"exit {status}: {out}{err}")
        expect(re.search(r"waits for a lock of thread \d+", out), f"the threads are not shown: {out}")
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
    for argument, word in ((str(os.getpid()), "not recorded"), ("4194304", "no process"), ("x", "one process id"),
                           ("-1", "option"), ("0", "one process id")):
        status, out, err = gpuwhy("poke", argument, folder=place)
        expect(status == 2 and word in err and not out, f"poke {argument}: exit {status}: {out}{err}")


def bad_options(place):
    for options in (["--hang-after", "soon"], ["--hang-after", "-5"], ["--hang-after", "nan"], ["--hang-after", "0"],
                    ["--hang-after", "off", "--kill-on-hang"]):
        status, out, err = gpuwhy("run", *options, "--", "true", folder=place)
        expect(status == 2 and len(err.splitlines()) == 1, f"{options}: exit {status}: {err}")


def has_stacks():
    return "threads: yes" in gpuwhy("version")[1]


CASES = [kernel, ask, locks, python_locks, slow_kernels, asked_kernel_ends, locks_in_order, waits_for_input, sleeps,
         loads_data, pool_waits, hang_that_passes, off_says_nothing, poke, poke_says_why_not, bad_options]
VIRTUAL_ONLY = [python_locks]


def run_case(place, case):
    try:
        case(new_folder(place, case.__name__))
        return f"  ok       {case.__name__}", True
    except Failure as failure:
        return f"  FAILED   {case.__name__}: {failure}", False


def test():
    asked = [c for c in CASES if not sys.argv[1:] or c.__name__ in sys.argv[1:]]
    left_out = [c for c in asked if c in VIRTUAL_ONLY and (REAL or SANITIZE)]
    cases = [c for c in asked if c not in left_out]
    for case in left_out:  # an interpreter of the system loads no sanitized libraries
        print(f"  skipped  {case.__name__}: " + ("for the virtual card" if REAL else "this interpreter is not sanitized"))
    with Workplace() as place, concurrent.futures.ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda case: run_case(place, case), cases))
    print("\n".join(line for line, _ in results))
    expect(all(good for _, good in results), "see above")


if __name__ == "__main__":
    main(test)
