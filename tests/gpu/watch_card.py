#!/usr/bin/env python3
"""gpuwhy watch, who and the metrics with PyTorch on a real GPU.

    python3 tests/gpu/watch_card.py BUILD

Needs PyTorch in this interpreter and nvidia-smi. Prints one line per check with the numbers that matter, and exits 1 if
a check failed.
"""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import sys
import time

GIB = 1 << 30
ME = pathlib.Path(__file__).resolve()
WAIT_S = 40


# ---- the programs --------------------------------------------------------------------------------------------------

def cached(torch):
    """Reserves 20 GiB, frees them, and keeps 1 GiB."""
    block = torch.empty(20 * GIB, dtype=torch.uint8, device="cuda").zero_()
    del block
    kept = torch.ones(GIB // 4, device="cuda")
    torch.cuda.synchronize()
    time.sleep(600)
    return kept


def grows(torch):
    """Each step keeps 16 MiB."""
    layer, kept = torch.nn.Linear(1024, 1024).cuda(), []
    for _ in range(100000):
        layer(torch.randn(256, 1024, device="cuda")).square().mean().item()
        kept.append(torch.empty(16 << 20, dtype=torch.uint8, device="cuda"))
        time.sleep(0.05)


def busy(torch):
    matrix = torch.randn(4096, 4096, device="cuda")
    while True:
        matrix = (matrix @ matrix).clamp(-1, 1)
        torch.cuda.synchronize()


# ---- the checks ----------------------------------------------------------------------------------------------------

class Checks:
    def __init__(self, gpuwhy):
        self.gpuwhy, self.failed, self.started = str(gpuwhy), 0, []

    def check(self, good, text):
        self.failed += not good
        print(("ok      " if good else "FAILED  ") + text, flush=True)

    def start(self, name, recorded=True):
        command = [sys.executable, str(ME), "--program", name]
        if recorded:
            command = [self.gpuwhy, "run", "--quiet", "--", *command]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        self.started.append(process)
        return process

    def json(self, *words):
        return json.loads(subprocess.run([self.gpuwhy, *words], stdout=subprocess.PIPE, check=True).stdout)

    def run_of(self, process, condition):
        """The run's memory on its first device, once the condition holds; None, with a line that says so, if it never
        does."""
        deadline, last = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline:
            snapshot = self.json("watch", "--once", "--json")
            for run in snapshot["runs"]:
                if run["supervisor_pid"] != process.pid or not run["memory"]:
                    continue
                last = run["memory"][0]
                if condition(last):
                    return last
            time.sleep(1)
        print(f"        the last seen in {WAIT_S} s: {last}", flush=True)
        return None

    def card(self):
        fields = "memory.used,memory.total,temperature.gpu,power.draw"
        text = subprocess.run(["nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader,nounits"],
                              stdout=subprocess.PIPE, check=True, text=True).stdout.splitlines()[0]
        used, total, temperature, power = (float(word) for word in text.split(","))
        card = self.json("watch", "--once", "--json")["gpus"][0]
        self.check(abs(card["used_bytes"] / 2**20 - used) < 700 and abs(card["total_bytes"] / 2**20 - total) < 1,
                   f"memory {card['used_bytes'] / 2**20:.0f} MiB, nvidia-smi {used:.0f} MiB")
        self.check(abs(card["temperature_c"] - temperature) < 8,
                   f"{card['temperature_c']} C, nvidia-smi {temperature:.0f} C")
        self.check(card["power_mw"] > 0, f"{card['power_mw'] / 1000:.0f} W, nvidia-smi {power:.0f} W")

    def cache(self):
        memory = self.run_of(self.start("cached"),
                             lambda m: (m["allocated_bytes"] >= 20 * GIB and m["held_by_driver_bytes"] and
                                        m["used_by_framework_bytes"] < 20 * GIB))
        self.check(memory is not None and memory["gpu"] == 0 and GIB <= memory["needed_bytes"] < 3 * GIB,
                   f"20 GiB are only cached: {memory}")

    def growth(self):
        memory = self.run_of(self.start("grows"), lambda m: m["growth_bytes_per_minute"])
        wanted = 16 * 2**20 * 60 / 0.05  # at most: a step takes longer than its pause
        self.check(memory is not None and wanted / 4 < memory["growth_bytes_per_minute"] < wanted * 1.1 and
                   memory["full_in_s"] > 0, f"it grows: {memory}")

    def others(self):
        process = self.start("busy", recorded=False)
        deadline, found = time.monotonic() + WAIT_S, None
        while time.monotonic() < deadline:
            found = next((p for p in self.json("who", "--json")["processes"] if p["pid"] == process.pid), None)
            if found and found["idle_s"] is not None and not found["idle_at_least"]:
                break
            time.sleep(1)
        self.check(found is not None and found["run"] is None and found["idle_s"] is not None and found["idle_s"] < 10,
                   f"a busy program that is not recorded: {found}")

    def scrapes(self):
        server = subprocess.Popen([self.gpuwhy, "watch", "--listen", "127.0.0.1:0"], stderr=subprocess.PIPE, text=True)
        self.started.append(server)
        address = re.search(r"http://([\d.]+):(\d+)", server.stderr.readline())
        slowest = 0
        for _ in range(200):
            begin = time.perf_counter()
            with contextlib.closing(http.client.HTTPConnection(address[1], int(address[2]))) as connection:
                connection.request("GET", "/metrics")
                connection.getresponse().read()
            slowest = max(slowest, time.perf_counter() - begin)
            time.sleep(0.05)
        self.check(slowest < 0.05, f"the slowest of 200 scrapes took {slowest * 1e3:.1f} ms")

    def end(self):
        for process in self.started:
            process.terminate()
        for process in self.started:
            process.wait()


def main():
    if len(sys.argv) == 3 and sys.argv[1] == "--program":
        import torch
        globals()[sys.argv[2]](torch)
        return 0
    if len(sys.argv) != 2:
        print(__doc__.strip(), file=sys.stderr)
        return 2
    checks = Checks(pathlib.Path(sys.argv[1]).resolve() / "gpuwhy")
    try:
        for step in checks.cache, checks.growth, checks.others, checks.card, checks.scrapes:
            step()
        print(subprocess.run([checks.gpuwhy, "watch", "--once"], stdout=subprocess.PIPE, text=True).stdout)
        print(subprocess.run([checks.gpuwhy, "who"], stdout=subprocess.PIPE, text=True).stdout)
    finally:
        checks.end()
    return 1 if checks.failed else 0


if __name__ == "__main__":
    sys.exit(main())
