"""`gpuwhy explain` on memory snapshots as PyTorch of several versions saves them; needs no PyTorch and no GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pickle
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import json_schemas
import snapshots

GPUWHY = os.path.join(os.environ.get("GPUWHY_BUILD", "build"), "gpuwhy")

# case: status, cause, exit status of explain
EXPECTED = {
    "leak": ("fault", "gpu-oom-leak", 0),
    "tiny": ("fault", "gpu-oom-leak", 0),
    "unwound": ("fault", "gpu-oom-leak", 0),
    "second_run": ("fault", "gpu-oom-leak", 0),
    "validation": ("fault", "gpu-oom-peak-phase", 0),
    "fragmented": ("fault", "gpu-oom-fragmentation", 0),
    "capacity": ("undetermined", None, 1),  # a snapshot does not show other users of the GPU
    "own_limit": ("fault", "gpu-oom-capacity", 0),
    "healthy": ("undetermined", None, 1),
    "handled": ("undetermined", None, 1),
}
# Texts of the verdict: the line that holds most memory, in the user's own file, and the line of the failed request.
LINES = {"leak": ["train.py:44 in train"], "tiny": ["train.py:44 in train"], "unwound": ["train.py:44 in train"],
         "second_run": ["train.py:12 in run"], "validation": ["train.py:71 in validate"],
         "fragmented": ["train.py:52 in keep", "train.py:60 in train"], "capacity": ["train.py:14 in build"],
         "own_limit": ["train.py:14 in build", "train.py:40 in train"],
         "healthy": ["memory use peaked at", "train.py:40 in train"], "handled": ["was refused, and a request"]}
VERSIONS = ((1, 12), (2, 0), (2, 1), (2, 2), (2, 6), (2, 7))
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def explain(path, *options):
    return subprocess.run([GPUWHY, "explain", "--all", *options, path], capture_output=True, text=True, timeout=240)


def verdict_of(path):
    done = explain(path, "--json")
    check(done.stderr == "", f"{path}: {done.stderr}")
    return json_schemas.check(json.loads(done.stdout)), done.returncode


def test_cases(folder):
    for name, (status, cause, code) in EXPECTED.items():
        path = os.path.join(folder, name + ".pickle")
        snapshots.write(path, snapshots.CASES[name]().snapshot())
        verdict, ended = verdict_of(path)
        got = (verdict["status"], verdict["cause"], ended)
        check(got == (status, cause, code), f"{name}: {got}")
        check(verdict["certainty"] in (None, "supported"), f"{name}: {verdict['certainty']}: more than a snapshot can know")
        check(verdict["snapshot"] == path, f"{name}: snapshot {verdict['snapshot']}")
        text = explain(path).stdout
        check(text.startswith("gpuwhy: PyTorch memory snapshot "), f"{name}: {text[:80]}")
        for words in LINES[name]:
            check(words in " ".join(text.split()), f"{name}: '{words}' is not said:\n{text}")
        allocator = snapshots.CASES[name]()
        allocator.stacks = False
        snapshots.write(path, allocator.snapshot())
        verdict, _ = verdict_of(path)
        check(verdict["cause"] == cause, f"{name} without stacks: {verdict['cause']}")
        check("train.py" not in json.dumps(verdict), f"{name}: a line out of nothing")


def test_versions_and_protocols(folder):
    """The same snapshot gives the same text for every version that wrote it; values that a version lacks are not
    made up."""
    allocator = snapshots.tiny()
    path = os.path.join(folder, "version.pickle")
    for version in VERSIONS:
        words = set()
        for protocol in range(2, 6):
            for python in (False, True):
                snapshots.write(path, allocator.snapshot(version), protocol, python)
                verdict, _ = verdict_of(path)
                words.add(json.dumps(verdict, sort_keys=True))
                expected = "gpu-oom-leak" if version >= (2, 2) else None
                check(verdict["cause"] == expected, f"{version}, protocol {protocol}: {verdict['cause']}")
        check(len(words) == 1, f"{version}: {len(words)} different verdicts")
    for protocol in (0, 1):
        snapshots.write(path, allocator.snapshot(), protocol)
        done = explain(path)
        check(done.returncode == 2 and path in done.stderr, f"protocol {protocol}: {done}")


def test_without_sharing(folder):
    """Equal texts and stacks are written out each time, as after a conversion to JSON and back."""
    snapshot = snapshots.leak().snapshot()
    path = os.path.join(folder, "unshared.pickle")
    snapshots.write(path, json.loads(json.dumps(snapshot)))
    verdict, _ = verdict_of(path)
    check(verdict["cause"] == "gpu-oom-leak", f"unshared: {verdict['cause']}")


class Attack:
    def __reduce__(self):
        return os.system, ("touch /tmp/gpuwhy-test-was-executed",)


def test_refusals(folder):
    path = os.path.join(folder, "refused.pickle")
    snapshot = snapshots.tiny().snapshot()
    snapshot["allocator_settings"]["evil"] = Attack()
    for protocol in range(2, 6):
        snapshots.write(path, snapshot, protocol)
        done = explain(path)
        check(done.returncode == 2 and done.stdout == "", f"attack, protocol {protocol}: {done}")
        check(done.stderr.count("\n") == 1 and "GLOBAL" in done.stderr and path in done.stderr and "at byte " in done.stderr,
              f"attack: {done.stderr}")
        check(not os.path.exists("/tmp/gpuwhy-test-was-executed"), "the pickle was executed")
    for value in ({"a": 1}, [1, 2], "text", {"segments": [{"blocks": 5}]}, {"segments": 7, "device_traces": []},
                  {1, 2}, b"bytes", {"segments": [], "device_traces": [[{"action": "alloc"}]]}):
        with open(path, "wb") as f:
            pickle.dump(value, f)
        done = explain(path)
        check(done.returncode == 2 and done.stderr.count("\n") == 1 and path in done.stderr, f"{value}: {done}")
    data = b"\x80\x04" + b"]" * 100_000 + b"a" * 99_999 + b"."
    with open(path, "wb") as f:
        f.write(data)
    done = explain(path)
    check(done.returncode == 2 and done.stderr.count("\n") == 1, f"deep nesting: {done}")


def test_large(folder):
    """A history of two hundred thousand entries is read in a window, and its entries are merged on arrival."""
    allocator = snapshots.Allocator(ring=1 << 18)
    snapshots.build_model(allocator)
    for i in range(18000):
        snapshots.step(allocator, 4, 64 * snapshots.MIB, line=40 + i % 7)
    path = os.path.join(folder, "large.pickle")
    snapshots.write(path, allocator.snapshot(), 2)
    size = os.path.getsize(path)
    with open(path, "rb") as f:
        start = f.read(1)
    limit = "ulimit -v 400000; "
    if os.environ.get("GPUWHY_SANITIZE"):
        limit = ""
        print("skipped  large: its limit of address space, which a sanitizer's own exceeds")
    done = subprocess.run(["/bin/sh", "-c", limit + "exec \"$0\" explain --json \"$1\"", GPUWHY, path],
                          capture_output=True, text=True, timeout=240)
    check(start == b"\x80" and done.returncode == 1, f"large, {size} bytes: {done.returncode} {done.stderr}")
    print(f"large: {size >> 20} MiB, {len(allocator.trace)} entries")


def main():
    with tempfile.TemporaryDirectory() as folder:
        for test in (test_cases, test_versions_and_protocols, test_without_sharing, test_refusals, test_large):
            test(folder)
            print(f"{test.__name__}: done")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
