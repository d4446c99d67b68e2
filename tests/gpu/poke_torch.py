#!/usr/bin/env python3
"""gpuwhy poke on PyTorch programs that gpuwhy did not start, on a real GPU.

    python3 tests/gpu/poke_torch.py GPUWHY

Needs PyTorch in this interpreter; with two GPUs, also pokes a job of two ranks, of which one does not join a collective
for a while. Each program must end well after it was poked. Prints one line per check, and exits 1 if a check failed.
"""
import json
import os
import pathlib
import re
import subprocess
import sys
import time

ME = pathlib.Path(__file__).resolve()
WAIT_S = 120
failed = []


# ---- the programs ----

def alone():
    import torch
    work = torch.ones(256 << 18, device="cuda")
    torch.mm(torch.randn(500, 500), torch.randn(500, 500))  # starts the threads of the linear algebra library
    print("ready", flush=True)

    def wait_for_gpu():
        torch.cuda._sleep(int(30e9))  # about 15 s
        torch.cuda.synchronize()
    wait_for_gpu()
    print("done" if int(work.sum()) == 256 << 18 else "wrong", flush=True)


def rank():
    import torch
    import torch.distributed as dist
    dist.init_process_group("nccl", device_id=torch.device("cuda", int(os.environ["LOCAL_RANK"])))
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    one = torch.ones(1, device="cuda")
    dist.all_reduce(one)
    torch.cuda.synchronize()
    print("ready", flush=True)

    def loads_data():
        time.sleep(20)

    def reduces():
        dist.all_reduce(one)
        torch.cuda.synchronize()
    if dist.get_rank() == 1:
        loads_data()
    reduces()
    print("done" if int(one) == 4 else "wrong", flush=True)
    dist.destroy_process_group()


# ---- the checks ----

def check(what, good, text=""):
    print("%s  %s" % ("ok    " if good else "FAILED", what), flush=True)
    if not good:
        failed.append(what)
        print(text, flush=True)


def start(*argv, ready):
    process = subprocess.Popen([sys.executable, *argv], stdout=subprocess.PIPE, text=True)
    for _ in range(ready):
        assert process.stdout.readline() == "ready\n"
    return process


def poke(gpuwhy, pid, *options):
    done = subprocess.run([gpuwhy, "poke", *options, str(pid)], capture_output=True, text=True, timeout=WAIT_S, check=False)
    return done.stdout if done.returncode == 0 else "status %d\n%s%s" % (done.returncode, done.stdout, done.stderr)


def poke_until(gpuwhy, pid, pattern, *options):
    deadline = time.monotonic() + WAIT_S
    said = ""
    while not re.search(pattern, said, re.M | re.S) and time.monotonic() < deadline:
        said = poke(gpuwhy, pid, *options)
    return said


def stops(gpuwhy, pid, *options):
    processes = json.loads(poke(gpuwhy, pid, "--json", *options))["processes"]
    return [one["stops"] for one in processes], processes


def one_process(gpuwhy):
    process = start(ME, "alone", ready=1)
    said = poke_until(gpuwhy, process.pid, r"inside \w+.*> poke_torch.py:\d+ in alone.<locals>.wait_for_gpu$|> poke_torch.py:\d+ in wait_for_gpu$")
    print(said)
    check("the call of CUDA and the user's line", re.search(r"main thread .*inside (cu|cuda)\w*Synchronize\w*, .*wait_for_gpu$", said, re.M | re.S), said)
    check("the memory on the GPU", re.search(r"GPU \d+: [\d.]+ (MiB|GiB)", said), said)
    found, _ = stops(gpuwhy, process.pid)
    check("stops below 10 ms: %s" % found, all(one["longest_ms"] < 10 for one in found))
    check("the program ends well", process.communicate(timeout=WAIT_S)[0] == "done\n" and process.returncode == 0)


def two_ranks(gpuwhy):
    process = start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", ME, "rank", ready=2)
    said = poke_until(gpuwhy, process.pid, r"rank 1 of 2.*in loads_data|loads_data.*rank 1 of 2", "--job")
    print(said)
    check("each rank's line", re.search(r"in (rank.<locals>.)?loads_data$", said, re.M) and re.search(r"in (rank.<locals>.)?reduces$", said, re.M), said)
    found, processes = stops(gpuwhy, process.pid, "--job")
    check("stops below 10 ms: %s" % found, all(one["longest_ms"] < 10 for one in found if one))
    check("the job has three processes: %s" % [one["rank"] for one in processes], len(processes) >= 3)
    check("the job ends well", process.communicate(timeout=WAIT_S)[0] == "done\ndone\n" and process.returncode == 0)


def main():
    if sys.argv[1] in ("alone", "rank"):
        return {"alone": alone, "rank": rank}[sys.argv[1]]()
    one_process(sys.argv[1])
    import torch
    if torch.cuda.device_count() >= 2:
        two_ranks(sys.argv[1])
    else:
        print("skipped: one GPU only, so no job of two ranks")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
