"""`gpuwhy whatif` on recordings of real runs, on saved snapshots, and on damaged files. Needs no PyTorch and no GPU.

Every recording with all allocations must be replayed exactly: each call to the driver, and the addresses of the blocks
that were live at the end. Scenario S07 (fragmentation) was also run with the setting that the replay names.

Environment: GPUWHY_BUILD: the build folder.
"""

import csv
import io
import json
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
import json_schemas
import snapshots

HERE = os.path.dirname(os.path.abspath(__file__))
GPUWHY = os.path.join(os.environ["GPUWHY_BUILD"], "gpuwhy")
REAL = os.path.join(HERE, "..", "fixtures", "real")
MIB, GIB = 1 << 20, 1 << 30
# recording: requests, calls to the driver, addresses, cure
EXACT = {
    "fragmented": (63, 9, 28, "expandable_segments:True"),
    "leak_expandable": (406, 668, 119, None),  # with expandable segments; PyTorch ran out of memory 43 times
    "caught_finder": (792, 26, 27, None),  # empty_cache() after a caught out-of-memory error
    "capacity_own_limit": (11, 7, 10, None),  # set_per_process_memory_fraction()
    "capacity_retried": (30, 12, 21, None),  # the cache was released before the failure
    "healthy_run_twice_deep": (2599, 15, 3, None),
    "capacity_batch": (30, 9, 30, None),  # from PyTorch's history
    "leak_kept_exception": (21, 5, 21, None),  # from PyTorch's history; 25 times out of memory
}
# recording: part of the reason
IMPOSSIBLE = {
    "leak_second_run": "only the last 512 of 3453 entries",
    "healthy_training": "gpuwhy run --allocations",
    "preallocation_jax_torch": "does not begin with the first allocation",
    "illegal_address": "nothing about PyTorch's allocator",
}
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def whatif(*arguments):
    return subprocess.run([GPUWHY, "whatif", *arguments], capture_output=True, text=True, timeout=240, check=False)


def answer(path, *options, code=0):
    done = whatif("--json", *options, path)
    check(done.returncode == code, f"{path}: exit status {done.returncode}: {done.stderr}")
    return json_schemas.check(json.loads(done.stdout))


def fixture(name):
    return os.path.join(REAL, name + ".gpuwhy")


def tried(result, name):
    return next(row for row in result["tried"] if row["name"] == name)


def test_real_recordings():
    for name, (requests, calls, addresses, cure) in EXACT.items():
        result = answer(fixture(name))
        recorded = result["recorded"]
        got = (recorded["requests"], recorded["driver_calls"], recorded["addresses"], result["cure"])
        check(got == (requests, calls, addresses, cure), f"{name}: {got}")
        check(len(result["tried"]) >= 9, f"{name}: {len(result['tried'])} settings tried")
        ran_out = recorded["wanted_bytes"] is not None
        check(result["same"]["outcome"] == ("refused" if ran_out else None), f"{name}: {result['same']}")
    for name, reason in IMPOSSIBLE.items():
        result = answer(fixture(name), code=1)
        check(not result["possible"] and reason in result["reason"], f"{name}: {result}")
        check("tried" not in result, f"{name}: a table without a replay")


def peak_of(recording):
    """PyTorch's own peak of reserved memory, from its report at the end."""
    reserved_peak = "7"  # GW_ALLOCATOR_RESERVED_PEAK
    done = subprocess.run([GPUWHY, "export", recording, "--to", "csv"], capture_output=True, text=True, check=True)
    rows = csv.DictReader(io.StringIO(done.stdout))
    return next(int(row["arg1"]) for row in rows if row["kind"] == "ALLOCATOR_STATE" and row["arg0"] == reserved_peak)


def test_fragmentation_is_cured_as_replayed():
    result = answer(fixture("fragmented"))
    row = tried(result, "expandable_segments:True")
    check(row["outcome"] == "granted", row)
    real = peak_of(fixture("fragmented_expandable"))  # the same program on the same card with that setting
    check(real == 3600 * MIB, f"the real peak is {real}")
    check(row["reserved_peak_least_bytes"] <= real <= row["reserved_peak_most_bytes"], f"{real}: not in {row}")
    check(result["unlimited_peak_bytes"] == 7 * 512 * MIB + GIB, result["unlimited_peak_bytes"])
    text = whatif(fixture("fragmented")).stdout
    check("With expandable_segments:True this run peaks at 3.50 to 3.52 GiB reserved" in " ".join(text.split()), text)


def test_verdicts():
    for name, words, not_words in (
            ("fragmented", ["Set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True: replayed, this run peaks at 3.52 GiB "
                            "instead of 4.50 GiB reserved and is not refused"], ["(PyTorch 2.1 or later)"]),
            ("capacity_retried", ["None of PyTorch's settings would have helped: the program needs 7.65 GiB at once"], []),
            ("leak_kept_exception", ["None of PyTorch's settings would have helped"], ["ALLOC_CONF="]),
            ("leak_expandable", [], ["PyTorch's settings", "ALLOC_CONF="]),  # later reports have no allocations
            ("leak_second_run", [], ["None of PyTorch's settings", "replayed"])):
        done = subprocess.run([GPUWHY, "explain", "--all", fixture(name)], capture_output=True, text=True, check=False)
        text = " ".join(done.stdout.split())
        for word in words:
            check(word in text, f"{name}: '{word}' is not in the verdict:\n{done.stdout}")
        for word in not_words:
            check(word not in text, f"{name}: '{word}' is in the verdict:\n{done.stdout}")


def test_options(folder):
    large = answer(fixture("fragmented"), "--memory", "80GiB")
    check(large["other_card"] and large["same"]["outcome"] == "granted" and large["cure"] is None, large["same"])
    small = answer(fixture("fragmented"), "--memory", "2GiB", "--set", "max_split_size_mb:300")
    check(tried(small, "max_split_size_mb:300")["is_own"], small)
    check(all(row["outcome"] == "refused earlier" for row in small["tried"]), small["tried"])
    for wrong in (["--set", "max_split_size_mb:4", fixture("fragmented")], [], [fixture("fragmented"), "other"],
                  [os.path.join(folder, "missing.gpuwhy")]):
        done = whatif(*wrong)
        check(done.returncode == 2 and done.stderr.startswith("gpuwhy: whatif: ") and done.stdout == "",
              f"{wrong}: {done.returncode} {done.stderr}")


def test_damaged_recordings(folder):
    """A part of a recording never gives a table: events are missing, so the replay cannot be equal."""
    path = os.path.join(folder, "damaged.gpuwhy")
    for name in ("fragmented", "capacity_retried"):
        with open(fixture(name), "rb") as file:
            whole = file.read()
        for part in range(1, 12):
            cut = whole[:len(whole) * part // 12]
            hole = bytearray(whole)
            at = len(whole) * part // 12
            hole[at:at + 64] = bytes(64)
            for data in (cut, bytes(hole)):
                with open(path, "wb") as file:
                    file.write(data)
                done = whatif("--json", path)
                check(done.returncode in (0, 1, 2), f"{name}: exit status {done.returncode}")
                result = json.loads(done.stdout) if done.stdout else {"possible": False}
                if result["possible"]:  # the damage is elsewhere: everything must still be there
                    check(result["recorded"]["requests"] == EXACT[name][0], f"{name} at {at}: {result['recorded']}")
                    check(result["recorded"]["driver_calls"] == EXACT[name][1], f"{name} at {at}")


def test_snapshots(folder):
    """The small allocator of snapshots.py follows the same rules, so its snapshots are replayed exactly."""
    for name, make in snapshots.CASES.items():
        path = os.path.join(folder, name + ".pickle")
        snapshots.write(path, make().snapshot())
        result = answer(path)
        check(result["recorded"]["unknown_sizes"] == 0, f"{name}: {result['recorded']}")
    allocator = snapshots.CASES["tiny"]()
    allocator.trace = allocator.trace[7:]  # a ring that wrapped around
    snapshots.write(path, allocator.snapshot())
    result = answer(path, code=1)
    check("does not begin with the first allocation" in result["reason"], result["reason"])
    allocator = snapshots.CASES["tiny"]()
    allocator.trace = [(a, b, c + (2 * MIB if a == "segment_alloc" else 0), d, e) for a, b, c, d, e in allocator.trace]
    snapshots.write(path, allocator.snapshot())
    result = answer(path, code=1)
    check("the recording has cudaMalloc" in result["reason"], result["reason"])


with tempfile.TemporaryDirectory() as place:
    test_real_recordings()
    test_fragmentation_is_cured_as_replayed()
    test_verdicts()
    test_options(place)
    test_damaged_recordings(place)
    test_snapshots(place)
if failures:
    sys.exit(f"{len(failures)} failures")
