#!/usr/bin/env python3
"""Record three PyTorch programs on a real GPU, make their pages, and watch the third one while it runs.

    python3 tests/gpu/report_card.py BUILD FOLDER

Needs PyTorch and torchvision in this interpreter, and nvidia-smi. The recordings, the pages and the texts of `gpuwhy
watch` go to FOLDER. Prints one line per check with the numbers that matter, and exits 1 if a check failed.
"""
import html
import json
import pathlib
import re
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
WAIT_S = 120
PROGRAMS = {
    "s01": (["--memory", "8GiB"], ["torch/s01_run_twice.py"], "gpu-oom-leak"),
    "s07": (["--memory", "5000MiB"], ["torch/s07_fragmented.py"], "gpu-oom-fragmentation"),
    "resnet50": ([], ["rehearse/train.py", "--model", "resnet50", "--batch-size", "128", "--size", "224",
                      "--iterations", "150"], None),
}


class Checks:
    def __init__(self, build, folder):
        self.gpuwhy, self.folder, self.failed = str(build / "gpuwhy"), folder, 0

    def check(self, good, text):
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + text, flush=True)

    def output(self, *words):
        return subprocess.run([self.gpuwhy, *map(str, words)], stdout=subprocess.PIPE, check=True, text=True).stdout

    def start(self, name):
        options, (program, *arguments), _ = PROGRAMS[name]
        return subprocess.Popen([self.gpuwhy, "run", "--quiet", *options, "-o", self.folder / f"{name}.gpuwhy", "--",
                                 sys.executable, HERE / program, *arguments],
                                stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def page(self, name):
        """The page has the verdict that `gpuwhy explain` gives."""
        recording, page, cause = self.folder / f"{name}.gpuwhy", self.folder / f"{name}.html", PROGRAMS[name][2]
        verdict = json.loads(self.output("explain", "--json", "--no-history", recording))
        self.output("report", "-o", page, recording)
        text = page.read_text()
        held = json.loads(html.unescape(re.search(r'id="verdict-json"[^>]*>(.*?)</', text, re.DOTALL)[1]))
        held.pop("history", None), verdict.pop("history", None)
        self.check(held == verdict and verdict["cause"] == (cause or verdict["cause"]) and
                   (verdict["status"] == "clean") == (cause is None) and len(text) < 3 << 20,
                   f"{name}: {verdict['status']} {verdict['cause']}, page of {len(text) / 1024:.0f} KiB, "
                   f"recording of {recording.stat().st_size / 1024:.0f} KiB")

    def watched(self, process):
        """While the program trains, `watch` shows its memory and the card's as nvidia-smi does."""
        deadline, memory = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline and process.poll() is None and not memory:
            state = json.loads(self.output("watch", "--once", "--json"))
            memory = next((m for run in state["runs"] if run["supervisor_pid"] == process.pid
                           for m in run["memory"][:1] if m["needed_bytes"] and m["allocated_bytes"] > 1 << 30), None)
            time.sleep(0.2)
        used, shown = 0, 1e9  # the programs still allocate: ask again until nothing changes between the two questions
        while time.monotonic() < deadline and process.poll() is None and abs(shown - float(used)) >= 700:
            used = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                                  stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[0]
            shown = json.loads(self.output("watch", "--once", "--json"))["gpus"][0]["used_bytes"] / 2**20
        self.check(memory is not None and memory["needed_bytes"] <= state["gpus"][0]["used_bytes"] * 1.02,
                   f"watch during the training: {memory}")
        self.check(abs(shown - float(used)) < 700, f"memory in use {shown:.0f} MiB, nvidia-smi {float(used):.0f} MiB")
        for words in ("watch", "--once"), ("who",):
            (self.folder / f"{words[0]}.txt").write_text(self.output(*words))


def main():
    if len(sys.argv) != 3:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    checks = Checks(*(pathlib.Path(word).resolve() for word in sys.argv[1:]))
    checks.folder.mkdir(exist_ok=True)
    processes = {name: checks.start(name) for name in PROGRAMS}
    checks.watched(processes["resnet50"])
    for name, process in processes.items():
        process.wait()
        checks.page(name)
    ended = json.loads(checks.output("watch", "--once", "--json"))
    checks.check(all(run["supervisor_pid"] != processes["resnet50"].pid for run in ended["runs"]),
                 "a run that ended is not shown")
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
