#!/usr/bin/env python3
"""How long `gpuwhy explain FOLDER` takes for jobs of several sizes, and how much memory all its processes take together.

    bench_ranks.py GPUWHY [--waiting] [RANKS...]

Sizes default to 300, 3,000 and 10,000 ranks. make_ranks.py makes the recordings; --waiting: of ranks that wait for one of them
in a call of NCCL.
"""
import json
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


def tree(pid):
    """The process and its children."""
    try:
        children = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *map(int, children)]


def memory_kib(pid):
    """The memory of a process; what it shares with others is divided among them."""
    try:
        for line in pathlib.Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1])
    except OSError:
        pass
    return 0


def processor_s():
    """Processor time of all children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def measure(gpuwhy, folder, environment):
    begin, before_s, peak = time.monotonic(), processor_s(), 0
    with open(folder / "answer.json", "wb") as out:
        process = subprocess.Popen([gpuwhy, "explain", "--json", folder], stdout=out, env=environment)
        while process.poll() is None:
            peak = max(peak, sum(map(memory_kib, tree(process.pid))))
            time.sleep(0.05)
    seconds = time.monotonic() - begin
    cpu_s = processor_s() - before_s
    if process.returncode != 0:
        sys.exit(f"gpuwhy explain: exit status {process.returncode}")
    return seconds, cpu_s, peak, json.loads((folder / "answer.json").read_text())


def record_pair(gpuwhy, folder, environment):
    """Two ranks, each with its recording: rank 1 sleeps, and rank 0 waits for it until gpuwhy ends it."""
    nccl = gpuwhy.parent / "tests" / "nccl"
    ranks = []
    for rank in (0, 1):
        own = {"LD_LIBRARY_PATH": str(nccl), "RANK": str(rank), "WORLD_SIZE": "2"}
        ranks.append(subprocess.Popen(
            [gpuwhy, "run", "--gpu", "virtual:h200", "--hang-after", "1", *(["--kill-on-hang"] if rank == 0 else []), "-o",
             folder / f"rank{rank}.gpuwhy", "--", nccl / "ranks", "--script", "sleep", "--ranks", "2", "--culprit", "1", "--rank",
             str(rank), "--key", folder.name], env=environment | own, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    ranks[0].wait()
    ranks[1].terminate()
    ranks[1].wait()


def main():
    words = [word for word in sys.argv[2:] if word != "--waiting"]
    gpuwhy, sizes = pathlib.Path(sys.argv[1]).resolve(), [int(size) for size in words] or [300, 3000, 10000]
    place = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-ranks-"))
    environment = {**os.environ, "XDG_STATE_HOME": str(place / "state")}
    print(f"{'ranks':>6} {'MiB read':>9} {'seconds':>8} {'processor s':>12} {'MiB':>6}  answer   ({os.cpu_count()} processors)")
    try:
        waiting = ["--waiting", place] if "--waiting" in sys.argv else []
        if waiting:
            record_pair(gpuwhy, place, environment)
        for ranks in sizes:
            folder = place / str(ranks)
            subprocess.run([sys.executable, "-B", HERE / "make_ranks.py", folder, "--gpuwhy", gpuwhy, "--ranks",
                            str(ranks), *waiting, *(f"--{what}={ranks // 100}" for what in ("missing", "unreadable", "damaged",
                                                                                  "cut"))], check=True)
            size = sum(file.stat().st_size for file in folder.glob("*.gpuwhy"))
            seconds, cpu_s, peak, verdict = measure(gpuwhy, folder, environment)
            truth = json.loads((folder / "truth.json").read_text())
            right = verdict["cause"] == truth["cause"] and f"rank {truth['first']} " in verdict["headline"]
            print(f"{ranks:6} {size / 2**20:9.0f} {seconds:8.1f} {cpu_s:12.1f} {peak / 1024:6.0f}  {'right' if right else 'WRONG'}: "
                  f"{verdict['headline'][:60]}")
            shutil.rmtree(folder)
            if not right:
                sys.exit(1)
    finally:
        shutil.rmtree(place)


if __name__ == "__main__":
    main()
