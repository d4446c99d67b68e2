"""Check Python stacks from end to end: a program on the virtual GPU writes where it allocated memory, and the
recording must have the same places.

stacks_test.py GPUWHY LINES_LIBRARY CHILDREN   (run by the interpreter to be tested)"""
import collections
import ctypes
import json
import os
import shutil
import subprocess
import sys
import tempfile

GPUWHY, LINES, CHILDREN = sys.argv[1:4]
PROGRAM = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stacks_prog.py")
PYTHON = os.environ.get("GPUWHY_TEST_PYTHON", sys.executable)
FRAME_PYTHON = 1 << 63
CUT, UNKNOWN, BORROWED = 4, 8, 16

line_of = ctypes.CDLL(LINES).gw_python_line
line_of.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int32]


class Process:
    def __init__(self):
        self.codes, self.sites = {}, {}


def read(recording):
    """Read the processes' codes and sites, and all events that have a site."""
    processes, events = collections.defaultdict(Process), []
    listing = subprocess.run([GPUWHY, "export", recording, "--to", "json"], capture_output=True, check=True)
    for event in json.loads(listing.stdout.decode("utf-8"))["items"]:
        if event.get("item") != "event":
            continue
        process, kind, args = processes[event["pid"]], event["kind"], event["args"]
        if kind == "PYTHON_CODE":
            name, file = event["text"].split("\n")
            assert args["code"] not in process.codes, "code %d was given twice" % args["code"]
            process.codes[args["code"]] = dict(args, name=name, file=file, table=b"")
        elif kind == "PYTHON_LINES":
            process.codes[args["code"]]["table"] += bytes.fromhex(event["text"])
        elif kind == "SITE":
            process.sites[args["site"]] = dict(args, frames=[])
        elif kind == "SITE_FRAMES":
            site = process.sites[args["site_and_first"] & 0xffffffff]
            site["frames"] += [args["frame_%d" % i] for i in range(3)]
        if event.get("site"):
            events.append(event)
    return processes, events


def python_frames(process, number):
    site, found = process.sites[number], []
    for frame in site["frames"][:site["frame_count"]]:
        if not frame & FRAME_PYTHON:
            continue
        code = process.codes[frame >> 32 & 0x3fffffff]
        assert len(code["table"]) == code["table_bytes"], "%s: a part of the table is missing" % code["name"]
        line = line_of(code["version"], code["table"], len(code["table"]), code["first_line"],
                       ctypes.c_int32(frame & 0xffffffff).value)
        found.append([code["file"], line, code["name"]])
    return found, site


def compare(said, processes, events):
    by_place = {}
    for event in events:
        if event["kind"] in ("ALLOC", "FREE"):
            by_place[event["pid"], event["kind"], event["args"]["address"]] = event
    cut = borrowed = unknown = 0
    for line in said:
        kind = "FREE" if "freed_without_python" in line else "ALLOC"
        event = by_place.get((line["pid"], kind, line["address"]))
        assert event is not None, "no %s of %#x in process %d" % (kind, line["address"], line["pid"])
        process = processes[line["pid"]]
        got, site = python_frames(process, event["site"])
        if kind == "FREE":
            assert site["flags"] & BORROWED and got == [], "flags %#x of a thread without Python" % site["flags"]
            got, _ = python_frames(process, site["python_site"])
            names = [frame[2] for frame in got]
            assert names[1:] == line["borrowed"], "%s borrowed, not %s" % (names, line["borrowed"])
            borrowed += 1
            continue
        if line.get("sub_interpreter"):
            assert site["flags"] & UNKNOWN and got == [], "%s of a sub-interpreter, flags %#x" % (got, site["flags"])
            unknown += 1
            continue
        assert not site["flags"] & (UNKNOWN | BORROWED), "flags %#x" % site["flags"]
        want = line["frames"]
        if site["flags"] & CUT:
            want = want[:len(got)]
            cut += 1
        assert got == want, "%s\nis not\n%s" % (got, want)
    assert (cut, borrowed, unknown) == (1, 1, 1), "%d cut, %d borrowed, %d unknown" % (cut, borrowed, unknown)


def main():
    folder = tempfile.mkdtemp(prefix="gpuwhy-stacks-")
    try:
        recording, report = os.path.join(folder, "r.gpuwhy"), os.path.join(folder, "said")
        run = subprocess.run([GPUWHY, "run", "--quiet", "--gpu", "virtual:h200", "-o", recording, "--", PYTHON, "-B",
                              PROGRAM, report, CHILDREN], capture_output=True, text=True, check=False,
                             env={**os.environ, "XDG_STATE_HOME": folder})
        assert run.returncode == 0, "status %d: %s" % (run.returncode, run.stderr)
        with open(report, encoding="utf-8") as file:
            said = [json.loads(line) for line in file]
        processes, events = read(recording)
        compare(said, processes, events)
        pids = set(line["pid"] for line in said)
        assert len(pids) == int(CHILDREN) + 1, "%d processes" % len(pids)
        print("CPython %s: %d stacks of %d processes, %d sites, %d code objects" % (
            sys.version.split()[0], len(said), len(pids), sum(len(p.sites) for p in processes.values()),
            sum(len(p.codes) for p in processes.values())))
    finally:
        shutil.rmtree(folder)


main()
