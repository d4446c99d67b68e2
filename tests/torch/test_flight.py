"""`gpuwhy explain` on Flight Recorder dumps of PyTorch; needs no PyTorch and no GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import flight
import json_schemas

GPUWHY = os.path.join(os.environ.get("GPUWHY_BUILD", "build"), "gpuwhy")

DESYNC, BEHIND = "collective-desync", "straggler"
# case: cause, texts of the verdict
EXPECTED = {
    "other_op": (DESYNC, ["rank 1 called broadcast #41 (4.00 MiB, float32) at train.py:60 in step; rank 0 waits in all_reduce #41"]),
    "other_size": (DESYNC, ["rank 1 called all_reduce #41 (1000 elements, float32) at train.py:60", "1048576"]),
    "other_type": (DESYNC, ["bfloat16", "float32", "train.py:60"]),
    "parted": (DESYNC, ["rank 1 called all_gather #38", "train.py:60", "train.py:57"]),
    "barrier": (DESYNC, ["#41", "train.py:60"]),
    "one_of_eight": (DESYNC, ["rank 3 called broadcast #10", "ranks 0-2, 4-7 wait in all_reduce #10"]),
    "second_group": (DESYNC, ["rank 1 called reduce #8"]),
    "old": (DESYNC, ["rank 1 called broadcast #41", "train.py:60"]),
    "behind": (BEHIND, ["rank 1 has not called all_reduce #41", "rank 0 waits in all_reduce #41 (4.00 MiB, float32) at train.py:58",
                        "the last call of rank 1 on this communicator is all_reduce #40"]),
    "behind_of_eight": (BEHIND, ["rank 2 has not called all_reduce #10", "ranks 0, 1, 3, 4, 6, 7 wait", "1 other rank is equally far behind"]),
    "never_called": (BEHIND, ["rank 1 has not called all_reduce #1"]),
    "only_active": (BEHIND, ["rank 1 has not called all_reduce #41"]),
    "only_active_agree": (None, []),
    "finished": (None, ["no call is known to wait"]),
    "agree": (None, ["have not completed"]),
    "uneven_all_to_all": (None, []),
    "uneven_all_gather": (None, []),
    "grouped": (None, []),
    "unknown_names": (None, []),
    "completed_apart": (None, []),
    "send_and_receive": (None, []),
    "one_alone": (None, ["other ranks of their groups are in no file"]),
    "no_calls": (None, []),
}
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def explain(*words):
    return subprocess.run([GPUWHY, "explain", "--all", *words], capture_output=True, text=True, timeout=240)


def test_cases(folder):
    for name, (cause, texts) in EXPECTED.items():
        paths = [os.path.join(folder, f"{name}_{rank}") for rank in range(len(flight.CASES[name]))]
        done = explain("--json", *paths)
        check(done.stderr == "", f"{name}: {done.stderr}")
        verdict = json_schemas.check(json.loads(done.stdout))
        check(verdict["cause"] == cause, f"{name}: {verdict['cause']}: {verdict['headline']}")
        check(verdict["certainty"] != "established", f"{name}: established by a file")
        check(len(verdict["next"]) > 0, f"{name}: no next step")
        text = " ".join(explain(*paths).stdout.split())
        for wanted in texts:
            check(wanted in text, f"{name}: no '{wanted}' in: {text}")
        check(" ".join(explain(*reversed(paths)).stdout.split()).split("Verdict")[1] == text.split("Verdict")[1],
              f"{name}: the order of the files matters")
        # the JSON of PyTorch's control plane has the same, without stacks
        both = json.loads(explain("--json", *[f"{path}.json" for path in paths]).stdout)
        check(both["cause"] == cause and both["certainty"] == verdict["certainty"], f"{name}: JSON: {both['headline']}")
        check("train.py" not in json.dumps(both), f"{name}: JSON has no stacks")


def refused(path, why, *more):
    done = explain(*more, path)
    check(done.returncode == 2 and done.stdout == "", f"{path}: {done.returncode} {done.stdout}")
    check(done.stderr.count("\n") == 1 and why in done.stderr and path in done.stderr, f"{path}: {done.stderr}")


def test_refused(folder):
    good = os.path.join(folder, "other_op_0")
    with open(good, "rb") as file:
        data = file.read()
    cut, other, twice = (os.path.join(folder, name) for name in ("cut_0", "other_0", "twice_0"))
    with open(cut, "wb") as file:
        file.write(data[:len(data) // 2])
    refused(cut, "at byte")
    done = explain("--json", cut, os.path.join(folder, "other_op_1")) # the other file is read all the same
    check(done.returncode == 1 and done.stderr.count("\n") == 1 and "skipped: " + cut in done.stderr, f"{done.returncode} {done.stderr}")
    check("other ranks of their groups are in no file" in done.stdout, done.stdout)
    for name, content, why in (("cut.json", open(f"{good}.json").read()[:-20], "at byte"), ("two.json", '{"pg_config": {}, "entries": 5}', "without a list"),
                               ("deep.json", '{"pg_config": ' + "[" * 100, "at byte")):
        with open(os.path.join(folder, name), "w") as file:
            file.write(content)
        refused(os.path.join(folder, name), why)
    with open(other, "wb") as file:
        pickle.dump({"version": "2.10", "pg_config": {}, "entries": [1, 2]}, file, protocol=2)
    refused(other, "without a list of calls")
    with open(other, "wb") as file:
        pickle.dump({"version": "2.10", "pg_config": {}, "entries": [os.getcwd]}, file, protocol=2)
    refused(other, "GLOBAL")
    with open(twice, "wb") as file:
        file.write(data)
    refused(twice, "another dump is of rank 0", good)


def main():
    with tempfile.TemporaryDirectory() as folder:
        flight.write(folder)
        test_cases(folder)
        test_refused(folder)
    print(f"{len(EXPECTED)} cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
