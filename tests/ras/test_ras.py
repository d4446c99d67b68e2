"""`gpuwhy explain` on answers of NCCL's RAS; needs no NCCL and no GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import answers
import json_schemas

GPUWHY = os.path.join(os.environ.get("GPUWHY_BUILD", "build"), "gpuwhy")
failures = []
EIGHT = {rank: 6650 for rank in range(8)}
TWO = {0: 51, 1: 50}

# name: answer, texts of the verdict, texts that must not be in it
CASES = {
    "two": (answers.text(2, TWO), ["rank 1 has launched 50 ncclAllReduce, and rank 0 51", "pid 4701 on node 127.0.0.1"], []),
    "outliers": (answers.text(8, {**EIGHT, 3: 6649, 5: 6649}), ["ranks 3, 5 have launched 6649", "ranks 0-2, 4, 6, 7 6650", "pid 4703"], []),
    "half": (answers.text(4, {0: 9, 1: 9, 2: 8, 3: 8}), [], ["launched"]),  # the text does not say which ranks
    "none": (answers.text(4, {0: 3, 1: 3, 2: 3, 3: 0}), ["rank 3 has launched 0 ncclAllReduce"], []),
    "kind": (answers.text(2, TWO, kind="ReduceScatter"), ["50 ncclReduceScatter"], []),
    "old": (answers.text(2, TWO, kind="collective", version="2.24.3"), ["rank 1 has launched 50 collectives"], []),
    "fine": (answers.text(2), ["no difference"], ["launched"]),
    "missing": (answers.text(2, missing=[1], never=range(500, 900)), ["rank 1 did not answer"], ["rank 500"]),
    "json": (answers.as_json(2, TWO), ["rank 1 has launched 50 ncclAllReduce, and rank 0 51", "pid 4701"], []),
    "json_fine": (answers.as_json(2, {0: 51, 1: 51}), [], ["has launched"]),
    "json_missing": (answers.as_json(2, {0: 51}, missing=[1], never=range(500, 900)), ["rank 1 did not answer"], ["rank 500"]),
}


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def explain(*words):
    return subprocess.run([GPUWHY, "explain", "--all", *words], capture_output=True, text=True, timeout=240)


def put(folder, name, content):
    path = os.path.join(folder, name)
    with open(path, "w", encoding="utf-8") as file:
        file.write(content)
    return path


def verdict_of(*paths):
    done = explain("--json", *paths)
    check(done.stderr == "", f"{paths}: {done.stderr}")
    return json_schemas.check(json.loads(done.stdout))


def test_one(folder):
    """One answer proves nothing: in a program that works, counts differ for a moment."""
    for name, (content, wanted, unwanted) in CASES.items():
        path = put(folder, name, content)
        verdict = verdict_of(path)
        check(verdict["status"] == "undetermined", f"{name}: {verdict['status']}: {verdict['headline']}")
        text = " ".join(explain(path).stdout.split())
        for part in wanted:
            check(part in text, f"{name}: no '{part}' in: {text}")
        for part in unwanted:
            check(part not in text, f"{name}: '{part}' in: {text}")


def test_two(folder):
    """Equal answers show that ranks are stuck; others do not."""
    for make in (lambda counts: answers.text(2, counts), lambda counts: answers.as_json(2, counts)):
        first, same, later = put(folder, "first", make(TWO)), put(folder, "same", make(TWO)), put(folder, "later", make({0: 61, 1: 60}))
        check(verdict_of(first, same)["cause"] == "peer-died", "two equal answers show no cause")
        check(verdict_of(first, same)["certainty"] == "supported", "two equal answers are more than supported")
        check(verdict_of(first, later)["cause"] is None, "a program that goes on is stuck")
    dead = put(folder, "dead", answers.as_json(2, {0: 51}, missing=[1], dead=True))
    check(verdict_of(dead)["cause"] == "peer-died", "a dead rank shows no cause")


def test_damaged(folder):
    """A damaged answer gives a verdict or one line that names the file."""
    dice = random.Random(7)
    for name in ("outliers", "json_missing"):
        sound = CASES[name][0]
        for _ in range(40):
            at, count = dice.randrange(len(sound)), dice.randrange(1, 40)
            broken = sound[:at] + dice.choice(["", "{", "99999999999999999999", "\n  Rank 3 -- x\n"]) + sound[at + count:]
            path = put(folder, "broken", broken)
            done = explain(path)
            check(done.returncode in (0, 1) or (done.returncode == 2 and done.stderr.count("\n") == 1 and path in done.stderr),
                  f"{name} broken at {at}: {done.returncode} {done.stderr}")


def main():
    with tempfile.TemporaryDirectory() as folder:
        test_one(folder)
        test_two(folder)
        test_damaged(folder)
    print(f"{len(CASES)} cases, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
