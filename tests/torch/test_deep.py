"""`gpuwhy run --deep` on the virtual GPU, with a torch made of Python objects whose history is that of snapshots.py:
check that the lines of its allocations reach the verdict. Needs no PyTorch and no GPU.

Environment: GPUWHY_BUILD: the build folder.
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(ROOT, "src", "inside", "hook", "torch"),
                os.path.join(ROOT, "python")]

import gpuwhy  # noqa: E402
import observer_test  # noqa: E402
import snapshots  # noqa: E402

MIB, GIB = 1 << 20, 1 << 30


def call(driver, name, *arguments):
    result = getattr(driver, name)(*arguments)
    observer_test.run_pending()
    return result


def program(case, deep):
    """The program under gpuwhy. The history covers the time from this process's first memory until now, however long
    that took. The driver's used memory is what the fake allocator reserved."""
    make = snapshots.CASES[case]
    fake = observer_test.FakeTorch()
    driver = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()
    for name, arguments in (("cuInit", (0,)), ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), 0)),
                            ("cuCtxSetCurrent", (context,)),
                            ("cuMemAlloc_v2", (ctypes.byref(address), ctypes.c_size_t(2 * MIB)))):
        if call(driver, name, *arguments) != 0:
            sys.exit(name)
    first = time.time_ns() // 1000
    wanted = "alloc" if deep else None
    if fake.history_calls and fake.history_calls[0][1] != wanted or deep and not fake.history_calls:
        sys.exit(f"history: {fake.history_calls}")
    allocator = make()
    time.sleep(0.2)
    begin, now = allocator.trace[0][3], time.time_ns() // 1000
    scale = (now - first) / (allocator.trace[-1][3] - begin)
    allocator.trace = [(a, b, c, int(first + (t - begin) * scale), f) for a, b, c, t, f in allocator.trace]
    allocator.stacks = deep
    fake.snapshot = allocator.snapshot()
    live = sum(block[2] for _, block in allocator.live.values())
    for name, value in (("allocated_bytes", live), ("requested_bytes", live), ("active_bytes", live),
                        ("reserved_bytes", allocator.reserved())):
        fake.stats[name] = {"all": {"current": value, "peak": value}}
    gpuwhy.phase("training")
    if call(driver, "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(allocator.reserved())) != 0:
        sys.exit("the card is too small")
    if allocator.trace[-1][0] != "oom":
        print("well", flush=True)
        return 0
    free, total, rest = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    call(driver, "cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    size = allocator.trace[-1][2]
    left = min(40 * MIB, size // 2)
    call(driver, "cuMemAlloc_v2", ctypes.byref(rest), ctypes.c_size_t(free.value - left))
    if call(driver, "cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size)) != 2:
        sys.exit("the card had room")
    fake.attached[0](0, size, total.value, left)
    raise MemoryError("CUDA out of memory.")


def environment(folder, more):
    """The runs are not added to the user's past runs."""
    return {**os.environ, "XDG_STATE_HOME": os.path.join(folder, "state"), **more}


def verdict_of(folder, case, deep):
    path = os.path.join(folder, "verdict.json")
    options = ["--deep"] if deep else []
    done = subprocess.run(
        [os.path.join(os.environ["GPUWHY_BUILD"], "gpuwhy"), "run", "--gpu", "virtual:h200,memory=" + ("1600MiB" if case == "tiny" else "20GiB"), *options,
         "--json", path, "-o", os.path.join(folder, f"{case}-{deep}.gpuwhy"), "--", sys.executable, "-B",
         os.path.abspath(__file__), "program", case, str(int(deep))], capture_output=True, text=True, timeout=240,
        env=environment(folder, {} if deep else {"GPUWHY_HISTORY": "100000"}))  # the same history without stacks
    with open(path) as f:
        return done, json.load(f)


def words_of(verdict):
    return "\n".join([verdict["headline"]] + [e["text"] for e in verdict["evidence"]] + verdict["advice"])


def main():
    if sys.argv[1:2] == ["program"]:
        return program(sys.argv[2], sys.argv[3] == "1")
    wrong = []
    # case: cause, expected texts of the verdict with --deep
    expected = (("tiny", "gpu-oom-leak", ("train.py:44 in train", "phase training")),
                ("validation", "gpu-oom-peak-phase", ("train.py:71 in validate",)),
                ("fragmented", "gpu-oom-fragmentation", ("train.py:52 in keep",)),
                ("healthy", None, ("peaked at", "train.py:40 in train", "train.py:14 in build")))
    with tempfile.TemporaryDirectory() as folder:
        for case, cause, words in expected:
            for deep in (True, False):
                done, verdict = verdict_of(folder, case, deep)
                said = words_of(verdict)
                if verdict["cause"] != cause:
                    wrong.append(f"{case}, deep {deep}: {verdict['status']} {verdict['cause']}\n{done.stderr}")
                for word in words:
                    if (word in said) != (deep or word.startswith("phase ")):
                        wrong.append(f"{case}, deep {deep}: '{word}' {'missing' if deep else 'out of nothing'}\n{done.stderr}")
                print(f"{case}, {'deep' if deep else 'plain'}: {verdict['status']} {verdict['cause']}")
    done = subprocess.run([os.path.join(os.environ["GPUWHY_BUILD"], "gpuwhy"), "run", "--deep", "--no-attach", "--", "true"],
                          capture_output=True, text=True, timeout=240)
    if done.returncode != 2 or "--no-attach" not in done.stderr:
        wrong.append(f"--deep --no-attach: {done}")
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
