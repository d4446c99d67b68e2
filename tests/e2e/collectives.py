"""Ranks that wait for each other in NCCL: which rank is at fault, and why. Each script of tests/nccl/ranks.c with several
numbers of ranks, and its repaired twin; one recording of all ranks, and one of each rank.

The ranks use a library that stands in for NCCL and waits like it. The only timing requirement is that ranks which wait
for ever are still alive when gpuwhy reports."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import sys

from harness import BUILD, Card, Failure, Workplace, GPUWHY, base_environment, behind_sanitizer, expect, gpuwhy, main, new_folder
from sites import line_of

NCCL = BUILD / "tests" / "nccl"
LESS = BUILD / "src" / "judge" / "verdict_less_test"
SOURCE = pathlib.Path(__file__).parents[1] / "nccl" / "ranks.c"
TIMEOUT_S = 200

DESYNC, STRAGGLER = "collective-desync", "straggler"


def at(mark, function):
    return re.escape(f" at ranks.c:{line_of(SOURCE, mark)} in {function}")


REDUCE = at("reduce", "reduce")
# Script: cause, certainty, what the headline says of the rank at fault ({rank}) and of those that wait ({waiting}).
SCRIPTS = {
    "sleep": (STRAGGLER, "established", r"^{rank} has not called all_reduce #6: it is .*\(in \w*pause\w*\).*; {waiting} in all_reduce #6 "
              r"\(256.00 KiB, float32\)" + REDUCE),
    "stop": (STRAGGLER, "established", r"^{rank} has not called all_reduce #6: .*signal_stop.*; {waiting} in all_reduce #6"),
    "other-op": (DESYNC, "established", r"^{rank} called all_gather #6 \(256.00 KiB, float32\)" + at("other-op", "deviate") +
                 r"; {waiting} in all_reduce #6 \(256.00 KiB, float32\)" + REDUCE),
    "other-size": (DESYNC, "established", r"^{rank} called all_reduce #6 \(32768 elements, float32\).*; {waiting} in all_reduce #6 "
                   r"\(65536 elements, float32\)"),
    "other-type": (DESYNC, "established", r"^{rank} called all_reduce #6 \(65536 elements, bfloat16\).*; {waiting} in all_reduce #6 "
                   r"\(65536 elements, float32\)"),
    "lock": (DESYNC, "established", r"waits in all_reduce #6 .* of another communicator at ranks.c:\d+ in two_orders; .* in all_reduce #6"),
    "send": (DESYNC, "established", r"^{rank} has not made the matching send: it exited with status 0; .* in recv from rank \d"),
    "missing": (DESYNC, "established", r"^{rank} has not called all_reduce #10: it exited with status 0; {waiting} in all_reduce #10"),
    # another rank has ended before, and the others went on without it
    "shrunk": (STRAGGLER, "established", r"^{rank} has not called all_reduce #6: it is .*\(in \w*pause\w*\).*; {waiting} in all_reduce #6 "
               r"\(256.00 KiB, float32\)"),
    "late": (STRAGGLER, "supported", r"^rank {number} has not joined the communicator, and is in no recording; {waiting} in the creation "
             r"of the communicator" + at("init", "open_all")),
    # an error of one rank is the root, and the others only waited
    "exit": (None, None, r"^{rank}(?:: the program)? exited with status 3"),
    "crash": ("host-crash-of-process", "supported", r"^{rank}: the program crashed"),
    "fault": ("illegal-address", "established", r"^{rank}: a kernel accessed an illegal address"),
}
ERRORS = ("exit", "crash", "fault")
# How many ranks, and which of them is at fault. Counts of sends are known only between two ranks.
JOBS = {script: [(2, 1), (4, 2)] for script in SCRIPTS}
JOBS |= {"send": [(2, 1)], "shrunk": [(4, 1)], "lock": [(2, 1), (3, 1)], "other-op": [(2, 1), (3, 0), (8, 5)], "sleep": [(2, 1), (3, 0), (8, 5)]}


def environment_of(folder):
    environment = base_environment(folder)
    environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, [str(NCCL), environment.get("LD_LIBRARY_PATH")]))
    return environment


def start(folder, program, script, *words, options=(), name="run", variables=None):
    command = [str(GPUWHY), "run", *Card().options(), "--json", str(folder / f"{name}.json"), "-o", str(folder / f"{name}.gpuwhy"),
               *options, "--", *behind_sanitizer([NCCL / program, "--script", script, *map(str, words)])]
    return subprocess.Popen(command, cwd=folder, env=environment_of(folder) | (variables or {}), stdin=subprocess.DEVNULL,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)


def finish(process):
    try:
        _, err = process.communicate(timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failure(f"not over after {TIMEOUT_S} s") from None
    return process.returncode, err.decode(errors="replace")


def numbers(ranks):
    """As in a verdict: 0, 2-4."""
    parts = []
    for rank in ranks:
        if parts and rank == parts[-1][1] + 1:
            parts[-1][1] = rank
        else:
            parts.append([rank, rank])
    return ", ".join(str(a) if a == b else f"{a}, {b}" if b == a + 1 else f"{a}-{b}" for a, b in parts)


def check(verdict, script, ranks, culprit, err="", host="", launched=True):
    cause, how, headline = SCRIPTS[script]
    found = f"{verdict['cause']} ({verdict['certainty']}): {verdict['headline']}\n{err}"
    expect(verdict["cause"] == cause and verdict["certainty"] == how, f"expected {cause}; found {found}")
    others = [rank for rank in range(ranks - (script == "shrunk")) if rank != culprit]
    waiting = ("rank " if len(others) == 1 else "ranks ") + numbers(others) + (" waits" if len(others) == 1 else " wait")
    rank = rf"rank {culprit}" + ("" if launched else " of the communicator") + r" \(pid \d+\)"
    pattern = headline.replace("^", "^" + re.escape(host))
    for word, text in (("{rank}", rank), ("{number}", str(culprit)), ("{waiting}", waiting)):
        pattern = pattern.replace(word, text)
    expect(re.search(pattern, verdict["headline"]), f"no headline like {pattern}: {found}")
    expect(verdict["next"], f"no next step: {found}")
    if cause in (DESYNC, STRAGGLER):
        expect(not verdict["alternatives"] or verdict["certainty"] != "established", f"it has alternatives: {found}")
    if script in ERRORS:
        expect(any("waited in all_reduce #6" in line for line in verdict["consequences"]), f"nobody waited: {verdict['consequences']}")
        times = [float(line.split(" s:")[0]) for line in verdict["consequences"] if re.match(r"[\d.]+ s:", line)]
        expect(times == sorted(times), f"not in order of time: {verdict['consequences']}")


def read(folder, name="run"):
    return json.loads((folder / f"{name}.json").read_text())


def job(place, program, script, ranks, culprit):
    """All ranks in one recording. gpuwhy ends them, and that changes nothing about the verdict."""
    process = start(place, program, script, "--ranks", ranks, "--culprit", culprit, options=("--hang-after", "1", "--kill-on-hang"))
    _, err = finish(process)
    verdict = read(place)
    check(verdict, script, ranks, culprit, err)
    expect(err.count("Verdict  ") == 2 and "--kill-on-hang: SIGTERM" in err, f"not said while it lived and at its end:\n{err}")
    again = json.loads(gpuwhy("explain", "--json", place / "run.gpuwhy", folder=place)[1])
    expect(again["headline"] == verdict["headline"], f"explain says {again['headline']}")
    if LESS.exists():  # with less evidence, nothing is more certain
        done = subprocess.run([LESS, "--few", place / "run.gpuwhy"], stdout=subprocess.PIPE, text=True, timeout=TIMEOUT_S)
        expect(done.returncode == 0, done.stdout)


def twin(place, program, script, ranks, culprit):
    process = start(place, program, script, "--ranks", ranks, "--culprit", culprit, "--repaired", options=("--hang-after", "5"))
    status, err = finish(process)
    verdict = read(place)
    expect(status == 0 and verdict["status"] == "clean", f"exit {status}, {verdict['status']}, {verdict['cause']}: {err}")


def apart(place, program, script, ranks, culprit):
    """Each rank has a recording of its own. Those that wait are ended by their own gpuwhy, a rank that does not by us.
    Without a launcher's variables, a rank has the number of its communicator."""
    launched = script != "missing"
    processes = [start(place, program, script, "--ranks", ranks, "--culprit", culprit, "--rank", rank, "--key", place.name,
                       options=("--hang-after", "1", "--kill-on-hang"), name=f"rank{rank}",
                       variables={"RANK": str(rank), "WORLD_SIZE": str(ranks)} if launched else None) for rank in range(ranks)]
    for rank, process in enumerate(processes):
        if rank != culprit:
            finish(process)
    if processes[culprit].poll() is None and script == "sleep":
        os.kill(processes[culprit].pid, signal.SIGTERM)
    finish(processes[culprit])
    verdict = json.loads(gpuwhy("explain", "--json", place, folder=place)[1])
    host = verdict["headline"].split(": ")[0] + ": "
    if script == "sleep":  # supported: nobody looked at its threads
        expect(re.search(rf"rank {culprit} \(pid \d+\) has not called all_reduce #6", verdict["headline"]), verdict["headline"])
        expect((verdict["cause"], verdict["certainty"]) == (STRAGGLER, "supported"), f"{verdict['cause']}, {verdict['certainty']}")
    else:
        check(verdict, script, ranks, culprit, host=host, launched=launched)


def cases():
    for script, jobs in JOBS.items():
        for ranks, culprit in jobs:
            yield f"{script}-{ranks}-{culprit}", job, ("ranks", script, ranks, culprit)
            yield f"{script}-{ranks}-{culprit}-twin", twin, ("ranks", script, ranks, culprit)
    yield "two-in-one-twin", twin, ("ranks", "two-in-one", 2, 1)  # each process drives two ranks, in a group
    for script in ("other-op", "sleep", "late"):
        yield f"dlopen-{script}", job, ("ranks_dlopen", script, 2, 1)
    for script, ranks, culprit in (("other-op", 2, 1), ("other-size", 4, 2), ("missing", 2, 0), ("sleep", 3, 1)):
        yield f"apart-{script}", apart, ("ranks", script, ranks, culprit)


def run_case(place, case):
    name, function, arguments = case
    try:
        function(new_folder(place, name), *arguments)
        return f"  ok       {name}", True
    except Failure as failure:
        return f"  FAILED   {name}: {failure}", False


def test():
    words = sys.argv[1:]
    wanted = [case for case in cases() if not words or any(case[0].startswith(word) for word in words)]
    with Workplace() as place, concurrent.futures.ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda case: run_case(place, case), wanted))
    print("\n".join(line for line, _ in results))
    expect(all(good for _, good in results), "see above")


if __name__ == "__main__":
    main(test)
