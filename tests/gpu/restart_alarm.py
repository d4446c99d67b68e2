#!/usr/bin/env python3
"""--restart, --wait-memory and --alarm-at with PyTorch on a real GPU.

    python3 tests/gpu/restart_alarm.py BUILD [CASE..]

Needs PyTorch in this interpreter. Prints one line per case with the numbers that matter, and exits 1 if a case failed.
The programs are below; each one runs as `python this_file --program NAME`.
"""
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
ME = pathlib.Path(__file__).resolve()


# ---- the programs --------------------------------------------------------------------------------------------------

def small_step(torch, model, optimizer, size):
    loss = model(torch.randn(size, 1024, device="cuda")).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def make_model(torch):
    model = torch.nn.Sequential(*[torch.nn.Linear(1024, 1024) for _ in range(8)]).cuda()
    return model, torch.optim.Adam(model.parameters())


def leaks(torch):
    """Each step keeps 64 MiB."""
    model, optimizer = make_model(torch)
    kept = []
    for _ in range(100000):
        small_step(torch, model, optimizer, 256)
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
        time.sleep(0.02)


def caches(torch):
    """The allocator reserves more and more for steps of different sizes, and everything is freed."""
    model, optimizer = make_model(torch)
    for step in range(600):
        small_step(torch, model, optimizer, 256)
        block = torch.empty((64 + 16 * (step % 300)) << 20, dtype=torch.uint8, device="cuda")
        del block
        time.sleep(0.01)


def warms_up(torch):
    """Takes nearly all of the card in the first steps, and keeps it."""
    model, optimizer = make_model(torch)
    kept = []
    for step in range(600):
        small_step(torch, model, optimizer, 256)
        if step < 20:
            kept.append(torch.empty(int(torch.cuda.mem_get_info()[1] * 0.046), dtype=torch.uint8, device="cuda"))
        time.sleep(0.01)


def needs(torch, batch=1):
    """Needs a tenth of the card for each unit of the batch."""
    block = torch.ones(int(torch.cuda.mem_get_info()[1] * 0.1) * batch, dtype=torch.uint8, device="cuda")
    print("sum", block[:1000].sum().item())


def holds(torch, share=0.6):
    block = torch.ones(int(torch.cuda.mem_get_info()[1] * share), dtype=torch.uint8, device="cuda")
    torch.cuda.synchronize()
    print("ready", block.numel(), flush=True)
    time.sleep(1000)


# ---- running them --------------------------------------------------------------------------------------------------

def program(name, *words):
    return [sys.executable, str(ME), "--program", name, *map(str, words)]


def run(gpuwhy, place, options, argv):
    folder = pathlib.Path(tempfile.mkdtemp(dir=place))
    command = [gpuwhy, "run", "--json", str(folder / "verdict.json"), "-o", str(folder / "run.gpuwhy"), *options, "--", *argv]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
    return done.returncode, json.loads((folder / "verdict.json").read_text()), done.stderr


def expect(condition, text):
    if not condition:
        raise AssertionError(text)


def alarm_on_a_leak(gpuwhy, place):
    # the alarm's command ends the leaking program, long before the card is full
    options = ["--alarm-at", "20%:kill -TERM $GPUWHY_ALARM_PID"]
    status, verdict, err = run(gpuwhy, place, options, program("leaks"))
    said = " ".join(verdict["interventions"])
    expect(status == -signal.SIGTERM and "the program held" in said, f"{status}: {said}: {err[-2000:]}")
    return said


def no_alarm(name, threshold):
    def case(gpuwhy, place):
        status, verdict, err = run(gpuwhy, place, ["--alarm-at", threshold], program(name))
        expect(status == 0 and verdict["interventions"] == [] and "alarm: " not in err, f"{status}: {err[-2000:]}")
        return "silent"
    return case


def batch_is_halved(gpuwhy, place):
    status, verdict, err = run(gpuwhy, place, ["--restart", "9", "--on", "gpu-oom:batch=/2"], program("needs", "--batch", 40))
    changes = [attempt["change"] for attempt in verdict["attempts"]]
    expect(status == 0 and changes[-1] is None and len(changes) == 4, f"{status}, {verdict['attempts']}: {err[-2000:]}")
    return "; ".join(filter(None, changes))


def other_process(options):
    """Another process holds 60 % until gpuwhy says that it waits for it."""
    def case(gpuwhy, place):
        holder = subprocess.Popen(program("holds"), stdout=subprocess.PIPE, text=True)
        expect(holder.stdout.readline().startswith("ready"), "the other process holds nothing")
        folder = pathlib.Path(tempfile.mkdtemp(dir=place))
        command = [gpuwhy, "run", "--json", str(folder / "verdict.json"), *options, "--", *program("needs", "--batch", 6)]
        waits = subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True)
        try:
            said = []
            for line in waits.stderr:
                said.append(line)
                if "waiting for" in line:
                    holder.kill()
            status = waits.wait(60)
        finally:
            holder.kill()
            waits.kill()
        verdict = json.loads((folder / "verdict.json").read_text())
        text = " ".join(verdict["interventions"])
        expect(status == 0 and any("waiting for" in line for line in said), f"{status}: {''.join(said)[-2000:]}")
        return text + " " + str([a["cause"] for a in verdict["attempts"]])
    return case


CASES = {"alarm on a leak": alarm_on_a_leak,
         "no alarm: caches": no_alarm("caches", "2%"),
         "no alarm: warm-up": no_alarm("warms_up", "50%"),
         "batch is halved": batch_is_halved,
         "wait for memory": other_process(["--wait-memory", "70GiB"]),
         "wait before the restart": other_process(["--restart", "2"])}


def main():
    if sys.argv[1] == "--program":
        import torch
        words = {word.lstrip("-"): int(value) for word, value in zip(sys.argv[3::2], sys.argv[4::2])}
        globals()[sys.argv[2]](torch, **words)
        return 0
    gpuwhy, only = str(pathlib.Path(sys.argv[1]).resolve() / "gpuwhy"), sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory() as place:
        os.environ["XDG_STATE_HOME"] = place
        for name, case in CASES.items():
            if only and name not in only:
                continue
            began = time.monotonic()
            try:
                result = case(gpuwhy, place)
                print(f"  ok      {name} ({time.monotonic() - began:.0f} s): {result}", flush=True)
            except (AssertionError, OSError, subprocess.SubprocessError, ValueError) as reason:
                failed += 1
                print(f"  FAILED  {name}: {reason}", flush=True)
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
