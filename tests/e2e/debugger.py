"""Compare stacks with gdb's at the same stop. The recording's native frames are checked one by one, for C, C++ with
everything inlined, without frame pointers, and CPython. So are the names, lines and inlined frames of the verdict's
place.

gdb runs the program under `gpuwhy run` and prints its stack inside the virtual driver's cuMemAlloc_v2. Skipped, with
the reason, if there is no gdb with Python or processes may not be traced.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from harness import SANITIZE, VIRT_LIB, Card, CaseSkipped, Failure, expect, main, new_folder, run_cases, run_observed, skip
from sites import SOURCES, VERSIONS, build, with_version
from walks import Sites, rows_of

SCRIPT = pathlib.Path(__file__).with_name("debugger_script.py")
CARD = Card("5GiB")
FRAME_PYTHON = 1 << 63


def find_gdb():
    gdb = shutil.which("gdb")
    if gdb is None:
        skip("no gdb")
    batch = [gdb, "-nx", "-batch"]
    said = subprocess.run([*batch, "-ex", "python print(40 + 2)"], capture_output=True, text=True)
    if said.stdout.strip() != "42":
        skip("this gdb has no Python")
    said = subprocess.run([*batch, "-iex", "set startup-with-shell off", "-ex", "run", "--args", "/bin/true"],
                          capture_output=True, text=True, timeout=240)
    if "exited normally" not in said.stdout:
        lines = (said.stderr.strip() or said.stdout.strip() or "it said nothing").splitlines()
        skip(f"gdb cannot run a program here: {lines[-1]}")
    return gdb


def observe(place, name, argv, gdb):
    """Return gdb's output for each stop, the finished run, and its verdict."""
    folder = new_folder(place, name)
    stacks = folder / "stacks"
    os.environ.update(GW_STACKS=str(stacks), GW_DRIVER=str(VIRT_LIB.resolve()), DEBUGINFOD_URLS="")
    run = run_observed([gdb, "-nx", "-batch", "-x", SCRIPT, "--args", *argv], CARD, folder)
    expect(stacks.exists(), f"gdb never stopped: {run.stdout.decode()} {run.stderr.decode(errors='replace')}")
    return [json.loads(line) for line in stacks.read_text().splitlines()], run, run.verdict()


def is_ours(frame):
    """Whether the frame is between the program and the driver."""
    module = os.path.realpath(frame["module"] or "")
    return module == str(VIRT_LIB.resolve()) or os.path.basename(module).startswith("libgpuwhy") or \
        os.path.basename(frame["module"] or "").startswith("libcuda.so")


def programs_frames(stop):
    stack = list(stop["stack"])
    while stack and is_ours(stack[0]):
        stack.pop(0)
    return stack


def compare_addresses(stops, run):
    """Each stop is one allocation of the process, in order, and its native frames are exactly gdb's."""
    rows = rows_of(run)
    sites = Sites(rows)
    pid = stops[0]["pid"]
    made = [int(row["site"]) for row in rows if row["kind"] == "ALLOC" and int(row["pid"]) == pid]
    expect(len(made) >= len(stops), f"{len(stops)} stops, {len(made)} allocations in the recording")
    for number, (stop, site) in enumerate(zip(stops, made)):
        wanted = [f["pc"] for f in programs_frames(stop) if not f["inlined"]]
        found = [a for a in sites.stack(pid, site) if not a & FRAME_PYTHON]
        expect(found == wanted, f"allocation {number}: recorded {[hex(a) for a in found]}, gdb says "
               f"{[(hex(f['pc']), f['name']) for f in programs_frames(stop)]}")
    return sum(len(programs_frames(stop)) for stop in stops)


def plain(name):
    """Return gdb's name in our form: without parameters and compiler suffixes; only the operator of a lambda."""
    name = re.sub(r"\.(part|constprop|isra|cold|lto_priv)\b.*", "", name or "")
    return re.sub(r".*::operator\(\)", "operator()", re.sub(r"\((?!\)).*?\)(?= const|$)", "", name))


def is_at(frame, other):
    """Whether both are the same code. Files are mapped at page boundaries."""
    return (frame["address"] ^ (other["pc"] - 1)) & 0xfff == 0


def compare_names(stops, verdict, with_lines):
    """The place's own frames, including inlined ones, have gdb's names, files and lines at the same stop."""
    ours = [f for f in verdict["where"]["frames"] if f["whose"] == "own"]
    there = [stack for stack in map(programs_frames, stops) if is_at(ours[0], stack[0])]
    expect(len(ours) > 0 and len(there) > 0, f"gdb saw no stop at {ours[:1]}")
    theirs = there[0][:len(ours)]
    for mine, other in zip(ours, theirs):
        same = plain(mine["function"]).endswith(plain(other["name"])) or plain(other["name"]).endswith(plain(mine["function"]))
        expect(same and mine["inlined"] == other["inlined"], f"{mine} is not gdb's {other}")
        if with_lines:
            expect(os.path.basename(mine["file"]) == os.path.basename(other["file"]) and mine["line"] == other["line"],
                   f"{mine} is not at gdb's {other}")
    return len(ours)


def compare_order(stop, verdict):
    """Python frames are where gdb shows the evaluation loop; every other frame is the same."""
    ours, at = [f for f in verdict["where"]["frames"] if not f["inlined"]], 0
    loops = 0
    before = None
    for frame in programs_frames(stop):
        is_loop = (frame["name"] or "").startswith("_PyEval_EvalFrameDefault")
        if is_loop and before == "loop":
            continue  # one loop entered directly from the other
        if is_loop:
            begin = at
            while at < len(ours) and ours[at]["kind"] == "python":
                at += 1
            expect(at > begin, f"gdb sees the evaluation loop where we have {ours[at:at + 1]}")
            before, loops = "loop", loops + 1
            continue
        if frame["inlined"]:
            continue  # the lines of the interpreter itself are not looked up
        expect(at < len(ours) and ours[at]["kind"] == "native", f"gdb sees {frame} where we have {ours[at:at + 1]}")
        if is_at(ours[at], frame):
            before, at = plain(frame["name"]), at + 1
        else:  # gdb shows two frames for a function and the part of it that the compiler moved away; we show one
            expect(plain(frame["name"]) == before, f"gdb sees {frame} where we have {ours[at]}")
    expect(at == len(ours) and loops > 0, f"{len(ours) - at} frames that gdb does not see, {loops} loops")
    return loops


def compare_order_at_one(stops, verdict):
    """The verdict's place is one of several stacks: a loop over a generator enters it through C at first, and
    directly later."""
    reasons = []
    for stop in stops:
        try:
            return compare_order(stop, verdict)
        except Failure as reason:
            reasons.append(str(reason))
    raise Failure(reasons[-1])


# ---- the programs ----------------------------------------------------------------------------------------------------

def native_program(source, option):
    def case(place, gdb):
        stops, run, verdict = observe(place, "native", [build(place, "program", option, source=source)], gdb)
        names = compare_names(stops, verdict, with_lines=option == "-g")
        return f"{compare_addresses(stops, run)} frames, {names} by name" + (" and line" if option == "-g" else "")
    return case


def is_program(path):
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def python_program(version, *arguments):
    def case(place, gdb):
        interpreter = with_version.find(version, is_program)
        if interpreter is None:
            raise CaseSkipped(f"no CPython {version} here that is a program: gdb does not see through scripts and loaders")
        stops, run, verdict = observe(place, "python", [os.path.realpath(interpreter), "-B", str(SOURCES / "keeps.py"), *arguments], gdb)
        return f"{compare_addresses(stops, run)} frames, {compare_order_at_one(stops, verdict)} evaluation loops"
    return case


CASES = {"c": native_program("cold.c", "-g"), "inlined C++": native_program("deep.cpp", "-g"),
         "without frame pointers": native_program("deep.cpp", "-fomit-frame-pointer")}
CASES.update({f"python {version}": python_program(version) for version in VERSIONS})
CASES["python on a thread"] = python_program("%d.%d" % sys.version_info[:2], "thread")


def all_cases():
    if SANITIZE:
        skip("a debugger of the system loads no sanitized libraries")
    run_cases(CASES, find_gdb())


if __name__ == "__main__":
    main(all_cases)
