#!/usr/bin/env python3
"""Known problems of libraries: each row of data/regressions.tsv on a case that is made for it, and on its healthy twin.

    regressions.py [--gpuwhy FILE]

A case is a log or a list of packages (for `gpuwhy doctor`), in which {v} is replaced by the value that decides: most often
a version. With `bad` the row must be reported, and with `good` it must not. No log of this folder may match a row.
"""
import argparse
import csv
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import json_schemas

OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.25 GiB. GPU 0 has a total capacity of 23.55 GiB of " \
      "which 2.11 GiB is free. Including non-PyTorch memory, this process has 21.43 GiB memory in use. Of the allocated memory " \
      "20.90 GiB is allocated by PyTorch, and 210.11 MiB is reserved by PyTorch but unallocated.\n"
TRACE = 'Traceback (most recent call last):\n  File "/home/user/brain/train.py", line 88, in <module>\n    main()\n'
CONV3D = TRACE + '  File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/conv.py", line 717, in _conv_forward\n' \
         "    return F.conv3d(\n" + OOM


def log(bad, good, text):
    return "log", bad, good, text


def packages(bad, good, text, card="NVIDIA H100 80GB HBM3", capability="9.0"):
    """The packages of an interpreter, one `name version` a line, and a card."""
    return "packages", bad, good, (text, card, capability)


# Key: library and first version, with words of the row's text if there are several.
CASES = {
    "PyTorch 2.9.0 computes conv3d": log("2.9.0+cu128", "2.8.0+cu128", "[pip3] torch=={v}\n[pip3] triton==3.5.0\n" + CONV3D),
    "PyTorch 2.9.1": log("9.10.2.21", "9.15.1.9", "PyTorch version: 2.9.1+cu128\n[pip3] nvidia-cudnn-cu12=={v}\n" + CONV3D),
    "NCCL 2.29.2": log("2.29.2", "2.29.3", "node7:311:311 [0] NCCL INFO NCCL version {v}+cuda13.0\nstep 40 loss 2.1\n"
                       "[rank0]:[E1201 03:11:19 ProcessGroupNCCL.cpp:688] [Rank 0] Watchdog caught collective operation timeout: "
                       "WorkNCCL(SeqNum=911, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for "
                       "600081 milliseconds before timing out.\n"),
}


def rows():
    lines = [line for line in (HERE.parents[1] / "data" / "regressions.tsv").read_text().splitlines() if not line.startswith("#")]
    return list(csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))


def row_of(key, table):
    """The row that a key means: its library and first version, and words of its text."""
    found = [row for row in table if key.startswith(f"{row['library']} {row['first']}")
             and f"{row['library']} {row['first']} {row['text']}".startswith(key)]
    if len(found) != 1:
        raise AssertionError(f"{key}: {len(found)} rows")
    return found[0]


def of_log(gpuwhy, folder, text):
    path = folder / "train.log"
    path.write_text(text)
    done = subprocess.run([gpuwhy, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    verdict = json_schemas.check(json.loads(done.stdout))
    return [(known["text"], known["cure"]) for known in verdict["known"]], verdict["next"]


def of_packages(gpuwhy, folder, text, card, capability):
    lines = ["python.version=3.11.9"]
    for name, version in (line.split() for line in text.splitlines()):
        lines.append(f"driver.module={version}" if name == "driver" else f"python.package.{name}={version}")
    (folder / "proc").mkdir(exist_ok=True)
    (folder / "sys/module/nvidia").mkdir(parents=True, exist_ok=True)
    module = folder / "sys/module/nvidia/version"
    module.write_text(next((line.split()[1] for line in text.splitlines() if line.startswith("driver ")), "580.95.05") + "\n")
    (folder / "python.answers").write_text("\n".join(line for line in lines if not line.startswith("driver.")) + "\n")
    (folder / "nvml.answers").write_text(f"nvml.cards=1\ncard.0.name={card}\ncard.0.capability={capability}\n")
    done = subprocess.run([gpuwhy, "doctor", "--json", "--root", folder], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    page = json_schemas.check(json.loads(done.stdout))
    found = [(check["text"], check["todo"]) for check in page["checks"] if check["id"] == "known-problem"]
    return found, [cure for _, cure in found]


def report(gpuwhy, kind, text, value):
    """Return the (sentence, cure) pairs that are reported for a case with this value, and the steps."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        if kind == "log":
            return of_log(gpuwhy, folder, text.replace("{v}", value))
        return of_packages(gpuwhy, folder, *(part.replace("{v}", value) for part in text))


def differences(gpuwhy, key, row, case):
    kind, bad, good, text = case
    found, steps = report(gpuwhy, kind, text, bad)
    if not any(row["text"] in said for said, _ in found) or row["cure"] not in steps:
        yield f"{key} with {bad}: not reported; reported: {found}"
    for words in row["withdraws"].split("|"):
        if words != "-" and any(words in step for step in steps if step != row["cure"]):
            yield f"{key} with {bad}: {words} is still advised: {steps}"
    found, _ = report(gpuwhy, kind, text, good)
    if any(row["text"] in said for said, _ in found):
        yield f"{key} with {good}: reported, although this is the healthy twin"


def accidents(gpuwhy):
    """Yield the logs of this folder in which a row is found by accident."""
    for path in sorted(HERE.glob("*/*.log")):
        done = subprocess.run([gpuwhy, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        for known in json.loads(done.stdout)["known"]:
            yield f"{path.name}: {known['text']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    gpuwhy = parser.parse_args().gpuwhy
    table, wrong = rows(), []
    keys = {key: row_of(key, table) for key in CASES}
    for row in table:
        if row not in keys.values():
            wrong.append(f"{row['library']} {row['first']} {row['text']}: no case")
    for key, row in keys.items():
        wrong += differences(gpuwhy, key, row, CASES[key])
    wrong += accidents(gpuwhy)
    print(f"{len(table)} rows, {len(CASES)} cases, {len(wrong)} wrong")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
