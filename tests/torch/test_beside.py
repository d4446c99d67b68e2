"""Flight Recorder dumps that PyTorch writes during a run are read into its verdict; needs no PyTorch and no GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

GPUWHY = str(pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")).resolve() / "gpuwhy")
HERE = pathlib.Path(__file__).resolve().parent
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def run(folder, case, variables, stem):
    environment = {key: value for key, value in os.environ.items() if not key.startswith("TORCH_")}
    environment.update(HOME=str(folder), XDG_STATE_HOME=str(folder / "state"), **variables)
    environment.pop("XDG_CACHE_HOME", None)
    recording = pathlib.Path(tempfile.mkdtemp(dir=folder)) / "run.gpuwhy"
    done = subprocess.run([GPUWHY, "run", "--gpu", "virtual:h200", "-o", recording, "--no-history", "--json", folder / "verdict.json",
                           "--", sys.executable, HERE / "beside.py", case, stem],
                          cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    check(done.returncode == 1, f"{case}: exit {done.returncode}: {done.stderr}")
    return json.loads((folder / "verdict.json").read_text()), recording


def again(recording):
    return json.loads(subprocess.run([GPUWHY, "explain", "--no-history", "--json", recording], capture_output=True, text=True, timeout=300).stdout)


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        stems = {"named": ({"TORCH_FR_DUMP_TEMP_FILE": str(folder / "trace_")}, folder / "trace_"),
                 "old name": ({"TORCH_NCCL_DEBUG_INFO_TEMP_FILE": str(folder / "old_")}, folder / "old_"),
                 "default": ({}, folder / ".cache/torch/comm_lib_trace_rank_")}
        for name, (variables, stem) in stems.items():
            stem.parent.mkdir(parents=True, exist_ok=True)
            verdict, recording = run(folder, "other_op", variables, str(stem))
            check(verdict["cause"] == "collective-desync", f"{name}: {verdict['cause']}: {verdict['headline']}")
            check(verdict["certainty"] == "supported", f"{name}: {verdict['certainty']}")
            check("train.py:60" in verdict["headline"] and "train.py:57" in verdict["headline"], f"{name}: {verdict['headline']}")
            check(again(recording)["cause"] == "collective-desync", f"{name}: not after the run")
        # a dump of a later run is not read
        os.utime(f"{stem}1")
        os.utime(f"{stem}0")
        check(again(recording)["cause"] != "collective-desync", "a changed dump was read")
        # ranks that agree, and dumps that are damaged
        verdict, _ = run(folder, "agree", *stems["named"][:1], str(stems["named"][1]))
        check(verdict["cause"] != "collective-desync", f"ranks that agree: {verdict['headline']}")
        verdict, recording = run(folder, "behind", *stems["named"][:1], str(stems["named"][1]))
        check(verdict["cause"] == "straggler", f"behind: {verdict['cause']}: {verdict['headline']}")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
