"""Record a program that makes driver calls for a long time, and look at gpuwhy meanwhile.

    soak.py [SECONDS]       GPUWHY_SOAK_S; without it, EVENTS events, however long they take

The memory of the supervisor stays flat, the recording stays within its limit, the program's output and status are its
own, every call is counted, and the verdict at the end is right.
"""
import json
import os
import pathlib
import subprocess
import sys
import threading
import time

from harness import GPUWHY, SCENARIOS, Workplace, base_environment, expect, gpuwhy, main, new_folder

SECONDS = float(sys.argv[1] if len(sys.argv) > 1 else os.environ.get("GPUWHY_SOAK_S", "0"))
EVENTS = 5_000_000  # the recording reaches its limit after two fifths of them, and twice more later
LIMIT_BYTES = 16 << 20
# Of the supervisor's memory, after the recording has reached its limit. The C library may keep the 5 MiB of a rewrite.
GROWTH_BYTES_MAX = 8 << 20
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
        self.full_at = None  # index in memory of the first sample after the recording was rewritten for the first time

    def run(self):
        while not self.over:
            memory = resident_bytes(self.process.pid)
            if memory is not None:
                self.memory.append(memory)
            if self.recording.exists():
                size = self.recording.stat().st_size
                if self.full_at is None and size < self.largest:
                    self.full_at = len(self.memory)
                self.largest = max(self.largest, size)
            time.sleep(0.2 if SECONDS == 0 else min(1, SECONDS / 50))

    def least(self):
        """The least memory in each half of the time in which the recording is at its limit. Until then, the supervisor's
        memory grows with the recording; later, it takes more while it rewrites the recording."""
        expect(self.full_at is not None, f"the recording never reached its limit; it had {mib(self.largest)}")
        full = self.memory[self.full_at:]
        expect(len(full) >= 6, f"only {len(full)} samples since the recording reached its limit")
        return min(full[:len(full) // 2]), min(full[len(full) // 2:])


def mib(count):
    return f"{count / (1 << 20):.1f} MiB"


def test():
    with Workplace() as place:
        folder = new_folder(place, "soak")
        recording = folder / "run.gpuwhy"
        argv = [GPUWHY, "run", "--gpu", "virtual:h200", "--record-limit", str(LIMIT_BYTES), "--json",
                folder / "verdict.json", "-o", recording, "--", SCENARIOS / "soak", "--truth", folder / "truth",
                *(("--seconds", int(max(1, SECONDS))) if SECONDS else ("--seconds", 3600, "--events", EVENTS))]
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
              f"{mib(LIMIT_BYTES)}; supervisor at most {mib(max(watch.memory))}")
        expect(process.returncode == 1, f"exit {process.returncode}: {err.decode(errors='replace')}")
        expect(out.startswith(f"{made} allocations".encode()), f"the program printed {out!r}")
        expect(watch.largest <= LIMIT_BYTES, f"the recording had {watch.largest} bytes")
        before, after = watch.least()
        print(f"at the limit: supervisor {mib(before)}, at the end {mib(after)}")
        expect(after - before <= GROWTH_BYTES_MAX, f"the supervisor grew by {mib(after - before)}")
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
