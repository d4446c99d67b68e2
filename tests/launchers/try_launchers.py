"""Run real launchers under gpuwhy, and check that each verdict names the rank that failed first.

    python -m venv /tmp/v && /tmp/v/bin/pip install torch accelerate lightning deepspeed "ray[train]"   # some gigabytes
    python3 tests/launchers/try_launchers.py --python /tmp/v/bin/python

This is not part of `make check`. It prints the table of docs/launchers.md. A launcher that is not installed is skipped.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
GPUWHY = os.environ.get("GPUWHY", str(HERE.parents[1] / "build" / "gpuwhy"))
RANK, OOM, AGAIN = str(HERE / "rank.py"), "0:1:3:oom", "0:1:3:segv,1:2:4:oom"
NO_ROOT = ["--allow-run-as-root", "--oversubscribe"]
# name, package (None: a command of the system), command, what the headline begins with, other text of the verdict
ROWS = [
    ("torchrun", "torch", ["torchrun", "--nproc-per-node", "3", RANK, OOM], r"rank 1 \(pid \d+\): ", None),
    ("torchrun --max-restarts", "torch", ["torchrun", "--nproc-per-node", "3", "--max-restarts", "1", RANK, AGAIN],
     r"rank 2, restart 1 \(pid \d+\): ", r"before restart 1 of all ranks: rank 1 \(pid \d+\) was ended by signal 11"),
    ("mpirun", None, ["mpirun", *NO_ROOT, "-n", "3", "python", RANK, OOM], r"rank 1 \(pid \d+\): ", None),
    ("Accelerate", "accelerate", ["accelerate", "launch", "--multi_gpu", "--num_processes", "2", "--num_machines", "1",
                                  "--mixed_precision", "no", "--dynamo_backend", "no", RANK, OOM],
     r"rank 1 \(pid \d+\): ", None),
    ("Lightning", "lightning", ["python", str(HERE / "lightning_program.py")], r"rank 1 \(pid \d+\): ", None),
    ("DeepSpeed", "deepspeed", ["env", "CUDA_VISIBLE_DEVICES=0,1", "deepspeed", "--num_gpus", "2", "--no_local_rank",
                                "--no_python", "python", RANK, OOM], r"rank 1 \(pid \d+\): ", None),
    ("Ray Train", "ray", ["python", str(HERE / "ray_program.py")], r"rank 1 \(pid \d+\): ", None),
]


def version(package, command, environment):
    if package is None:
        done = subprocess.run([command, "--version"], env=environment, capture_output=True, text=True)
        return done.stdout.splitlines()[0]
    script = f"import importlib.metadata; print(importlib.metadata.version({package!r}))"
    return subprocess.run(["python", "-c", script], env=environment, capture_output=True, text=True).stdout.strip()


def try_one(row, environment, folder):
    """Return (version, what the verdict names, what is wrong or None)."""
    name, package, command, headline, other = row
    program = command[2] if command[0] == "env" else command[0]
    found = version(package, program, environment) if shutil.which(program, path=environment["PATH"]) else ""
    if not found:
        return "", "skipped: not installed", None
    path = folder / (re.sub(r"\W", "-", name) + ".json")
    done = subprocess.run([GPUWHY, "run", "--gpu", "virtual:h200", "--quiet", "--json", path, "--", *command],
                          env=environment, cwd=folder, capture_output=True, text=True, timeout=600)
    if not path.exists():
        return found, "no verdict", done.stderr[-2000:]
    verdict = json.loads(path.read_text())
    texts = "\n".join(line["text"] for line in verdict["evidence"])
    good = verdict["cause"] == "gpu-oom-capacity" and re.match(headline, verdict["headline"]) and \
        (other is None or re.search(other, texts)) and done.returncode == verdict["program"]["exit"] != 0
    return found, verdict["headline"].split(":")[0], None if good else f"{verdict['headline']}\n{texts}\n{done.stderr[-2000:]}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default=sys.executable, help="a Python that has the launchers")
    parser.add_argument("--only", default="", help="part of a name")
    arguments = parser.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory(prefix="gpuwhy-launchers-") as folder:
        environment = {**os.environ, "PATH": f"{pathlib.Path(arguments.python).parent}:{os.environ['PATH']}",
                       "XDG_STATE_HOME": str(pathlib.Path(folder) / "state")}
        print("| launcher | version | the verdict names |\n|---|---|---|")
        for row in ROWS:
            if arguments.only not in row[0]:
                continue
            found, names, problem = try_one(row, environment, pathlib.Path(folder))
            print(f"| {row[0]} | {found} | {names} |", flush=True)
            if problem is not None:
                wrong += 1
                print(f"FAILED: {row[0]}: {problem}", file=sys.stderr)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
