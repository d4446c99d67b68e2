#!/usr/bin/env python3
"""The form of a log must not change the verdict: `GPUWHY_BUILD=build python3 -B tests/logs/shapes.py`.

Reads the logs of tests/logs/produced again with Windows line ends, colours, invalid UTF-8, as UTF-16, compressed,
with launchers' prefixes, after the output of other ranks, and split into a job's two files, given in either order.
Also checks that a long log needs no more memory than a short one.

GPUWHY_EVERY=N reads only every Nth log and leaves out the memory: for builds with sanitizers, which start slowly and
need more memory.
"""
import gzip
import json
import lzma
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from corpus import read_cases
import json_schemas

HERE = pathlib.Path(__file__).resolve().parent
GPUWHY = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy"
EVERY = int(os.environ.get("GPUWHY_EVERY", 1))
HEALTHY = b"".join(b"step %d loss %.3f\n" % (i, 3 / (i + 1)) for i in range(40))


def explain(*paths, stdin=None):
    """Return the cause. `stdin`: a text to be read instead of files."""
    source = {"stdin": subprocess.DEVNULL} if stdin is None else {"input": stdin}
    done = subprocess.run([GPUWHY, "explain", "--json", *map(str, paths)], stdout=subprocess.PIPE, **source)
    if not done.stdout:
        sys.exit(f"gpuwhy explain {' '.join(map(str, paths))}: no answer, status {done.returncode}")
    return json_schemas.check(json.loads(done.stdout))["cause"]


def is_wrong(what, got, wanted):
    """True, with a line that says so, if another cause was found."""
    if got != wanted:
        print(f"wrong: {what}: {wanted}, taken for {got}")
    return got != wanted


def lines(text, change):
    return b"\n".join(change(line) if line else line for line in text.split(b"\n"))


SHAPES = {
    "Windows line ends": lambda t: t.replace(b"\n", b"\r\n"),
    "colours": lambda t: lines(t, lambda line: b"\x1b[31m" + line + b"\x1b[0m"),
    "bytes that are no UTF-8": lambda t: b"\xfd\xc3\x28 is no text\n" + t.replace(b"...", b"\xe2\x80") + b"\xf0\x28\x8c\n",
    "UTF-16": lambda t: b"\xff\xfe" + t.decode(errors="replace").encode("utf-16-le"),
    "gzip": gzip.compress,
    "xz": lzma.compress,
    "torchrun's prefix": lambda t: lines(t, lambda line: b"[rank2]: " + line),
    "a progress bar before": lambda t: b"\r".join(b"Epoch 1: %d%%|##| %d/100 [00:01<00:09]" % (i, i) for i in range(40)) + b"\n" + t,
}
# With a prefix "5: " or "[rank2]: ", "Killed" and a loader's message are no longer recognised as a shell's; Python's
# are.
PREFIXES = ("torchrun's prefix",)


def cases():
    for row in read_cases(HERE / "produced", EVERY):
        yield row["id"], (HERE / "produced" / f"{row['id']}.log").read_bytes()


def check_shapes(folder):
    wrong = 0
    for number, (name, text) in enumerate(cases()):
        wanted = explain(HERE / "produced" / f"{name}.log")
        for index, (shape, change) in enumerate(SHAPES.items()):
            if (number + index) % len(SHAPES) > 1:  # a quarter of the logs for each form, two forms for each log
                continue
            if shape in PREFIXES and (b"Traceback" not in text or b"ranks" in name.encode()):
                continue
            path = folder / "shaped.log"
            path.write_bytes(change(text))
            wrong += is_wrong(f"{name}, {shape}", explain(path), wanted)
    return wrong


def check_two_files(folder):
    """A job's output, which continues in its own file, and its errors."""
    wrong = 0
    out, err = folder / "slurm-1.out", folder / "slurm-1.err"
    out.write_bytes(HEALTHY)
    for name in ("torch-label", "torch-bad-address", "key-error", "files-limit", "cuda-assert"):
        path = HERE / "produced" / f"{name}.log"
        wanted = explain(path)
        err.write_bytes(b"".join(line for line in path.read_bytes().splitlines(True) if not line.startswith(b"step ")))
        for order in ((out, err), (err, out)):
            wrong += is_wrong(f"{name}, {' '.join(p.name for p in order)}", explain(*order), wanted)
    return wrong


def check_ranks(folder):
    """Rank 1 fails. The others only report that it is gone, before and after it in the file, with mixed lines."""
    echo = b"Traceback (most recent call last):\n  File \"/project/train.py\", line 40, in <module>\n    dist.all_reduce(loss)\n" \
           b"torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1, remote process exited or there was a network error\n"
    wrong = 0
    for name in ("torch-label", "torch-bad-address", "key-error", "nan-raised", "files-limit"):
        text = (HERE / "produced" / f"{name}.log").read_bytes()
        wanted = explain(HERE / "produced" / f"{name}.log")
        root = [b"[rank1]: " + line for line in text.splitlines(True)]
        others = [b"[rank%d]: " % rank + line for rank in (0, 2, 3) for line in echo.splitlines(True)]
        woven = root[:1] + [line for pair in zip(others, root[1:] + [b""] * len(others)) for line in pair[::-1]] + root[1 + len(others):]
        for shape, content in (("one after the other", root + others), ("woven", woven)):
            path = folder / "ranks.log"
            path.write_bytes(b"".join(content))
            wrong += is_wrong(f"{name}, ranks {shape}", explain(path), wanted)
    return wrong


def check_pipe():
    text = (HERE / "produced" / "torch-label.log").read_bytes()
    return is_wrong("a pipe", explain(stdin=HEALTHY + text), "device-assert-index")


def notebooks(text):
    """The same text as the outputs of a notebook: as a stream, as a traceback, in version 3, with and without line breaks."""
    lines_of = text.decode(errors="replace").splitlines(True)
    stream = {"output_type": "stream", "name": "stderr", "text": lines_of}
    error = {"output_type": "error", "ename": "Error", "evalue": "", "traceback": [line.rstrip("\n") for line in lines_of]}
    new = lambda output: {"nbformat": 4, "cells": [{"cell_type": "markdown", "source": ["out of memory"]},
                                                   {"cell_type": "code", "source": ["train()"], "outputs": [output]}]}
    old = {"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "outputs": [dict(stream, text="".join(lines_of))]}]}]}
    # torchrun's error file: the exception with its traceback, or a message alone
    stack = {"message": {"message": "Error: of torchrun", "extraInfo": {"py_callstack": text.decode(errors="replace"), "timestamp": "1785000000"}}}
    alone = {"message": {"message": text.decode(errors="replace"), "errorCode": 1, "extraInfo": {"py_callstack": "", "timestamp": "1785000000"}}}
    return {"a stream": json.dumps(new(stream)), "a traceback": json.dumps(new(error), indent=1),
            "version 3": json.dumps(old), "cut off": json.dumps(new(stream), indent=1)[:-40],
            "an error file": json.dumps(stack), "a message in an error file": json.dumps(alone),
            "an error file that was cut off": json.dumps(dict(stack, more="x" * 50))[:-40]}


def check_sources(folder):
    """Notebooks, folders, named pipes, and bytes that are no text."""
    wrong = 0
    for name in ("torch-label", "key-error", "files-limit"):
        path = HERE / "produced" / f"{name}.log"
        text, wanted = path.read_bytes(), explain(path)
        for shape, content in notebooks(text).items():
            (folder / "run.ipynb").write_text(content)
            wrong += is_wrong(f"{name} in JSON, {shape}", explain(folder / "run.ipynb"), wanted)
        run = folder / f"{name}.d"
        run.mkdir()
        (run / "slurm-12.out").write_bytes(HEALTHY)
        (run / "slurm-12.err").write_bytes(text)
        (run / "notes.md").write_text("NVRM: Xid (PCI:0000:18:00): 79, GPU has fallen off the bus\n")
        wrong += is_wrong(f"{name} in a folder", explain(run), wanted)
        os.mkfifo(folder / f"{name}.fifo")
        with subprocess.Popen(["cp", path, folder / f"{name}.fifo"]):
            wrong += is_wrong(f"{name} in a named pipe", explain(folder / f"{name}.fifo"), wanted)
        (folder / "wide.log").write_bytes(text.decode(errors="replace").encode("utf-16-le"))
        wrong += is_wrong(f"{name} in UTF-16 without a mark", explain(folder / "wide.log"), wanted)
    (folder / "noise").write_bytes(random.Random(5).randbytes(5000))
    (folder / "empty").mkdir()
    for word, meant in ((folder / "noise", "noise"), (folder / "empty", "empty"),
                        ("cudaErrorIllegalAdress", "cudaErrorIllegalAddress"), ("gpu-oom-capcity", "gpu-oom-capacity"),
                        ("CUDNN_STATUS_NOT_INITIALISED", "CUDNN_STATUS_NOT_INITIALIZED"), (folder / "wide.lgo", "wide.log"), ("99999", "99999")):
        done = subprocess.run([GPUWHY, "explain", word], capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode != 2 or meant not in done.stderr:
            print(f"wrong: {word}: exit {done.returncode}: {done.stdout}{done.stderr}")
            wrong += 1
    return wrong


def check_memory():
    """A text eight times as long, with a line of every healthy log, needs no more memory."""
    text = b"".join(p.read_bytes() for p in sorted((HERE / "healthy").glob("*.log")) if p.stem != "utf16")
    kib = []
    for times in (32, 256):
        process = subprocess.Popen([GPUWHY, "explain"], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
        for _ in range(times):
            process.stdin.write(text)
        process.stdin.flush()
        status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
        kib.append(int(status.split("VmHWM:")[1].split()[0]))
        process.communicate()
    print(f"memory: {kib[0]} KiB for {32 * len(text) >> 20} MiB of text, {kib[1]} KiB for {256 * len(text) >> 20} MiB")
    return kib[1] > kib[0] * 1.25 + 1024


def main():
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        wrong = check_shapes(folder) + check_two_files(folder) + check_ranks(folder) + check_pipe() + check_sources(folder)
        if EVERY == 1:
            wrong += check_memory()
    print(f"{wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
