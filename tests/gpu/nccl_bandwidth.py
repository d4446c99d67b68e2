"""Time of all_reduce between two GPUs, from 1 KiB to 1 GiB, with and without gpuwhy, in turn.

usage: nccl_bandwidth.py GPUWHY [PAIRS]. Prints a line for each size: microseconds a call without and with (medians over
the pairs), and the ratio."""

import json
import os
import statistics
import subprocess
import sys
import tempfile

SIZES = [1 << shift for shift in range(10, 31, 2)]


def rank():
    import torch
    import torch.distributed as dist

    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl", device_id=torch.device("cuda", torch.cuda.current_device()))
    start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    found = {}
    for size in SIZES:
        data, calls = torch.ones(size // 4, device="cuda"), 1000 if size < 1 << 20 else 200 if size < 1 << 28 else 40
        for _ in range(20):
            dist.all_reduce(data)
        torch.cuda.synchronize()
        start.record()
        for _ in range(calls):
            dist.all_reduce(data)
        end.record()
        torch.cuda.synchronize()
        found[size] = start.elapsed_time(end) * 1000 / calls
    if os.environ["RANK"] == "0":
        with open(os.environ["FOUND"], "w") as file:
            json.dump(found, file)
    dist.destroy_process_group()


def measure(prefix, port):
    with tempfile.NamedTemporaryFile() as file:
        subprocess.run([*prefix, sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(port), __file__],
                       check=True, env={**os.environ, "FOUND": file.name}, stdout=sys.stderr)
        return json.load(open(file.name))


def main():
    pairs = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    bare, under = [], []
    for pair in range(pairs):
        both = [(bare, []), (under, [sys.argv[1], "run", "--quiet", "--no-history", "--"])]
        for results, prefix in both if pair % 2 == 0 else reversed(both):
            results.append(measure(prefix, 21000 + os.getpid() % 10000 + len(bare) * 2 + len(under)))
    print(f"{'bytes':>12} {'without us':>12} {'with us':>12} {'ratio':>7}")
    for size in map(str, SIZES):
        without, observed = (statistics.median(r[size] for r in results) for results in (bare, under))
        print(f"{int(size):>12,} {without:>12.1f} {observed:>12.1f} {observed / without:>7.3f}")


if __name__ == "__main__":
    rank() if "RANK" in os.environ else main()
