"""Check that PyTorch's allocations, as recorded by gpuwhy, are those that PyTorch itself counts. Run by hand on a
GPU:

    python3 tests/gpu/torch_course.py [--build build]

Trains a small network under `gpuwhy run`, with and without expandable segments, until a request beyond
set_per_process_memory_fraction() fails. Compares the recording with torch.cuda.memory_stats() and
torch.cuda.memory_snapshot() at that moment: requests, frees, live and peak bytes, and each live block. Then runs a
training that leaks and does not catch the exception, and prints the verdict. Prints one line per comparison; exits 1
if one differs. Needs PyTorch and a build; --child is for internal use.
"""

import argparse
import collections
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
LISTED = 16384


# ---- the program under gpuwhy --------------------------------------------------------------------------------------

def trainer(batch=64):
    import torch
    import torch.nn as nn
    model = nn.Sequential(
        nn.Conv2d(3, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(6272, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    x, y = torch.randn(batch, 3, 28, 28, device="cuda"), torch.randint(0, 10, (batch,), device="cuda")

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


def child_counts(result):
    import torch
    step = trainer()
    torch.cuda.set_per_process_memory_fraction(2048 * MIB / torch.cuda.get_device_properties(0).total_memory)
    kept = [torch.empty(1000 * i, device="cuda") for i in range(300)]
    for i in range(200):
        step()
        if i % 3 == 0:
            kept.append(torch.empty(3000 + i, device="cuda"))
        if i % 5 == 0:
            kept.pop(7)
    try:
        torch.empty(4096 * MIB, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        pass
    stats = torch.cuda.memory_stats()
    blocks = {}
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                blocks[block.get("address", address)] = block["size"]
            address += block["size"]
    with open(result, "w") as out:
        json.dump({"requests": stats["allocation.all.allocated"], "frees": stats["allocation.all.freed"],
                   "live": stats["allocation.all.current"], "live_bytes": stats["allocated_bytes.all.current"],
                   "peak_bytes": stats["allocated_bytes.all.peak"], "blocks": list(blocks.items()),
                   "version": torch.__version__}, out)


def child_leak(result):
    import torch
    step = trainer()
    torch.cuda.set_per_process_memory_fraction(2048 * MIB / torch.cuda.get_device_properties(0).total_memory)
    losses = []
    while True:
        losses.append(step())  # with its whole graph
        losses.append(torch.empty(4 * MIB, device="cuda"))


# ---- reading the recording -------------------------------------------------------------------------------------------

def numbers(text):
    value, shift = 0, 0
    for letter in text:
        digit = LETTERS.index(letter)
        value |= (digit & 31) << shift
        shift += 5
        if digit < 32:
            yield value
            value, shift = 0, 0


def requests_of(first, text):
    """Return {order: (bytes, freed_after, launches, waits, site)}; the encoding is in src/format/gw_requests.h."""
    stream, order, launches, waits = numbers(text), first, 0, 0
    for size, freed, _, more_launches, more_waits, site in zip(*[stream] * 6):
        launches, waits = (launches + more_launches) & 0xffffffff, (waits + more_waits) & 0xffffffff
        yield order, (size // 2 if size % 2 else size // 2 * 512, freed, launches, waits, site)
        order += 1


FIELDS = ("COURSE_REQUESTS", "COURSE_FREES", "COURSE_LIVE", "COURSE_LIVE_COUNT", "COURSE_PEAK", "COURSE_MISSED")


def fields():
    """Read the fields' numbers from the header."""
    text = (ROOT / "src/format/gw_event.h").read_text()
    table = re.search(r"#define GW_ALLOCATOR_FIELDS\(X\)(.*?)\n\ntypedef", text, re.S).group(1)
    return {i: name for i, name in enumerate(re.findall(r"X\((\w+),", table))}


def read(gpuwhy, recording):
    """Return the last report of an out-of-memory error."""
    text = subprocess.run([gpuwhy, "export", recording, "--to", "csv"], capture_output=True, text=True, check=True).stdout
    csv.field_size_limit(1 << 20)
    names, report = fields(), None
    for row in csv.DictReader(text.splitlines()):
        kind, argument = row["kind"], [int(row[f"arg{i}"] or 0) for i in range(4)]
        if kind == "ALLOCATOR_OOM":
            report = {"blocks": {}, "requests": {}, "site": int(row["site"]), "sited": 0, "rest": 0}
        elif report is None:
            continue
        elif kind == "ALLOCATOR_STATE":
            name = names.get(argument[0])
            if name == "WHEN" and argument[1] != 0:
                return report  # the next report is the one at the end
            report[name] = argument[1]
        elif kind == "ALLOCATOR_BLOCK" and argument[3] & 0xff == 0:
            report["blocks"][argument[0]] = (argument[1], argument[3] >> 8)
            report["sited"] += row["site"] != "0"
        elif kind == "ALLOCATOR_BLOCK" and argument[3] & 0xff == 3:
            report["rest"] = argument[0]
        elif kind == "ALLOCATOR_REQUESTS":
            report["requests"].update(requests_of(argument[0], row["value"]))
    return report


def run(gpuwhy, folder, what, variables):
    place = pathlib.Path(folder)
    result, recording = place / "result.json", place / "run.gpuwhy"
    environment = dict(os.environ, XDG_STATE_HOME=str(place / "state"), **variables)
    done = subprocess.run([gpuwhy, "run", "--quiet", "-o", recording, "--", sys.executable, "-B", __file__, "--child", what,
                           result], env=environment, capture_output=True, text=True)
    report = read(gpuwhy, recording) if recording.exists() else None
    truth = json.loads(result.read_text()) if result.exists() else None
    return done, report, truth


def line(name, mine, theirs):
    equal = mine == theirs
    print(f"  {name:34} {mine!s:>16} {theirs!s:>16}  {'' if equal else 'UNEQUAL'}")
    return equal


def compare(gpuwhy, name, variables):
    with tempfile.TemporaryDirectory() as folder:
        done, report, truth = run(gpuwhy, folder, "counts", variables)
    if truth is None or report is None or "COURSE_REQUESTS" not in report:
        print(f"{name}: {'no report' if truth else done.stderr[-2000:]}")
        return False
    print(f"{name}, PyTorch {truth['version']}{'':15}gpuwhy          PyTorch")
    live = {address: size for address, (size, _) in report["blocks"].items()}
    theirs = {int(address): size for address, size in truth["blocks"]}
    good = line("allocations", report["COURSE_REQUESTS"], truth["requests"])
    good &= line("frees", report["COURSE_FREES"], truth["frees"])
    good &= line("live blocks", report["COURSE_LIVE_COUNT"], truth["live"])
    good &= line("live bytes", report["COURSE_LIVE"], truth["live_bytes"])
    good &= line("peak bytes", report["COURSE_PEAK"], truth["peak_bytes"])
    good &= line("events missed", report["COURSE_MISSED"], 0)
    good &= line("listed blocks that are PyTorch's", sum(theirs.get(a) == s for a, s in live.items()),
                 min(len(theirs), LISTED))
    good &= line("of these with the number of a request", sum(order > 0 for _, order in report["blocks"].values()), len(live))
    good &= line("requests one by one", len(report["requests"]), min(truth["requests"], 1 << 16))
    alive = sum(freed == 0 for _, freed, *_ in report["requests"].values())
    if len(report["requests"]) == truth["requests"]:
        good &= line("of these alive", alive, truth["live"])
    print(f"  refused request's site {report['site']}; sites of {report['sited']} of {len(live)} live blocks, of "
          f"{sum(r[4] != 0 for r in report['requests'].values())} requests")
    last = list(report["requests"].values())[-2000:]
    gaps = collections.Counter(b[3] - a[3] for a, b in zip(last, last[1:]))
    print(f"  launches in the last {len(last)} requests: {last[-1][2] - last[0][2]}; waits: {sum(gaps.elements())}")
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--child", nargs=2)
    options = parser.parse_args()
    if options.child:
        return {"counts": child_counts, "leak": child_leak}[options.child[0]](options.child[1])
    gpuwhy, good = str(pathlib.Path(options.build).resolve() / "gpuwhy"), True
    for name, config in (("native", ""), ("expandable segments", "expandable_segments:True")):
        good &= compare(gpuwhy, name, {"PYTORCH_CUDA_ALLOC_CONF": config} if config else {})
    with tempfile.TemporaryDirectory() as folder:
        done, report, _ = run(gpuwhy, folder, "leak", {})
        said = subprocess.run([gpuwhy, "explain", pathlib.Path(folder) / "run.gpuwhy"], capture_output=True, text=True)
    print("\na training that keeps its losses and 16 MiB a step, until it dies:")
    print(said.stdout)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
