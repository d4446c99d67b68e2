"""Record a program that makes driver calls for a long time, and look at gpuwhy meanwhile.

    soak.py [SECONDS]       (10; GPUWHY_SOAK_S)

The memory of the supervisor stays flat, the recording stays within its limit, the program's output and status are its
own, every call is counted, and the verdict at the end is right.
"""
import json
import os
import pathlib
import statistics
import subprocess
import sys
import threading
import time

from harness import GPUWHY, SCENARIOS, Workplace, base_environment, expect, gpuwhy, main, new_folder

SECONDS = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("GPUWHY_SOAK_S", "10"))
LIMIT_BYTES = 16 << 20  # reached in the first third of the run, also on a slow machine
GROWTH_BYTES_MAX = 4 << 20  # of the supervisor's usual memory, from the middle third of the run to the last one
PEAK_BYTES_MAX = 64 << 20  # while it rewrites the recording


def resident_bytes(pid):
    try:
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) << 10
    except (FileNotFoundError, ProcessLookupError):
        pass
    return None


class Watch(threading.Thread):
    """Sample the supervisor's memory and the size of its recording."""

    def __init__(self, process, recording):
        super().__init__()
        self.process, self.recording, self.memory, self.largest, self.over = process, recording, [], 0, False

    def run(self):
        while not self.over:
            memory = resident_bytes(self.process.pid)
            if memory is not None:
                self.memory.append(memory)
            if self.recording.exists():
                self.largest = max(self.largest, self.recording.stat().st_size)
            time.sleep(min(1, SECONDS / 50))


def usual(memory, third):
    """The median in a third of the run, because the supervisor takes more while it rewrites the recording."""
    part = memory[len(memory) * third // 3:len(memory) * (third + 1) // 3]
    return statistics.median(part)


def mib(count):
    return f"{count / (1 << 20):.1f} MiB"


def test():
    with Workplace() as place:
        folder = new_folder(place, "soak")
        recording = folder / "run.gpuwhy"
        argv = [GPUWHY, "run", "--gpu", "virtual:h200", "--record-limit", str(LIMIT_BYTES), "--json",
                folder / "verdict.json", "-o", recording, "--", SCENARIOS / "soak", "--seconds", int(max(1, SECONDS)),
                "--truth", folder / "truth"]
        began = time.monotonic()
        process = subprocess.Popen(list(map(str, argv)), cwd=folder / "work", env=base_environment(folder),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watch = Watch(process, recording)
        watch.start()
        out, err = process.communicate(timeout=SECONDS * 2 + 600)
        watch.over = True
        watch.join()
        took = time.monotonic() - began
        truth = dict(line.split(" ", 1)[1].split("=", 1) for line in (folder / "truth").read_text().splitlines())
        made, frees = int(truth["allocations"]), int(truth["frees"])
        print(f"{made + frees:,} allocations and frees in {took:.0f} s; recording {mib(watch.largest)} of "
              f"{mib(LIMIT_BYTES)}; supervisor {mib(usual(watch.memory, 1))}, at the end {mib(usual(watch.memory, 2))}, "
              f"at most {mib(max(watch.memory))}")
        expect(process.returncode == 1, f"exit {process.returncode}: {err.decode(errors='replace')}")
        expect(out.startswith(f"{made} allocations".encode()), f"the program printed {out!r}")
        expect(watch.largest <= LIMIT_BYTES, f"the recording had {watch.largest} bytes")
        growth = usual(watch.memory, 2) - usual(watch.memory, 1)
        expect(growth <= GROWTH_BYTES_MAX, f"the supervisor grew by {mib(growth)}")
        expect(max(watch.memory) <= PEAK_BYTES_MAX, f"the supervisor had {mib(max(watch.memory))}")
        verdict = json.loads((folder / "verdict.json").read_text())
        check_verdict(verdict, made, frees)
        status, again, err = gpuwhy("explain", "--json", recording, folder=folder, timeout=600)
        expect(status == 0, f"explain: {err}")
        check_verdict(json.loads(again), made, frees)


def check_verdict(verdict, made, frees):
    said = f"{verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    expect(verdict["status"] == "fault" and verdict["cause"] == "gpu-oom-capacity", f"the verdict is {said}")
    expect(any(e["value"] == 1 << 40 for e in verdict["evidence"]) or "1.00 TiB" in json.dumps(verdict),
           f"the refused tebibyte is not named: {said}")


if __name__ == "__main__":
    main(test)
