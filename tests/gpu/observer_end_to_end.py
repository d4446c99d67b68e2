"""A Python process on the virtual GPU, with a torch made of Python objects: check that its allocator's data reaches
the verdict.

usage: observer_end_to_end.py BUILD SOURCE     (needs no GPU)
"""

import ctypes
import json
import os
import subprocess
import sys
import tempfile

MIB = 1 << 20


def program(source):
    """The program under gpuwhy: a driver call installs the observer, then the fake allocator runs out of memory."""
    sys.path.insert(0, os.path.join(source, "src", "inside", "hook", "torch"))
    import observer_test
    fake = observer_test.FakeTorch()
    driver = ctypes.CDLL("libcuda.so.1")
    context, address = ctypes.c_void_p(), ctypes.c_uint64()

    def call(name, *arguments):
        result = getattr(driver, name)(*arguments)
        observer_test.run_pending()
        return result

    for name, arguments in (("cuInit", (0,)), ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), 0)),
                            ("cuCtxSetCurrent", (context,)),
                            ("cuMemAlloc_v2", (ctypes.byref(address), ctypes.c_size_t(2 * MIB)))):
        result = call(name, *arguments)
        if result != 0:
            sys.exit(f"{name}: {result}")
    if len(fake.attached) != 1 or fake.history_calls:
        sys.exit(f"attached {len(fake.attached)} times, history on {len(fake.history_calls)} times")
    # A sixteenth of the GPU's memory (1 GiB) is 64 MiB: two blocks are taken, 60 MiB are just below the limit, two more
    # exceed it.
    for mib, switched_on in ((60, 0), (2, 1)):
        block = ctypes.c_uint64()
        result = call("cuMemAlloc_v2", ctypes.byref(block), ctypes.c_size_t(mib * MIB))
        if result != 0 or len(fake.history_calls) != switched_on:
            sys.exit(f"cuMemAlloc_v2: {result}; history on {len(fake.history_calls)} times")
        call("cuMemFree_v2", block)
    result = call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(64 * MIB))
    if result != 0:
        sys.exit(f"cuMemAlloc_v2: {result}")
    free, total, rest = ctypes.c_size_t(), ctypes.c_size_t(), ctypes.c_uint64()
    call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
    call("cuMemAlloc_v2", ctypes.byref(rest), ctypes.c_size_t(free.value - 20 * MIB))
    fake.fill()
    # 34 of 64 MiB are free in the segments, at most 22 MiB contiguous; the GPU has no more memory.
    blocks, base = fake.snapshot["segments"][0]["blocks"], address.value
    fake.snapshot["segments"][0]["address"] = base
    del fake.snapshot["segments"][1]
    if len(fake.attached) != 1:
        sys.exit(f"attached {len(fake.attached)} times")
    wanted = 30 * MIB
    result = call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(wanted))
    if result != 2:
        sys.exit(f"the card had room: {result}")
    fake.attached[0](0, wanted, total.value, 18 * MIB)
    print("blocks", len(blocks), flush=True)
    raise MemoryError("CUDA out of memory. Tried to allocate 30.00 MiB.")


def main():
    build, source = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    if len(sys.argv) > 3:
        return program(source)
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "verdict.json")
        recording = os.path.join(folder, "run.gpuwhy")
        done = subprocess.run(
            [os.path.join(build, "gpuwhy"), "run", "--gpu", "virtual:h200,memory=1GiB", "--json", path, "-o", recording,
             "--", sys.executable, "-B", os.path.abspath(__file__), build, source, "program"],
            capture_output=True, text=True, timeout=120, env={**os.environ, "XDG_STATE_HOME": os.path.dirname(path)})
        if done.returncode != 1 or done.stdout != "blocks 5\n" or "MemoryError" not in done.stderr:
            print(f"exit {done.returncode}\n{done.stdout}\n{done.stderr}")
            return 1
        with open(path) as f:
            verdict = json.load(f)
    wrong = []
    if verdict["cause"] != "gpu-oom-fragmentation" or verdict["certainty"] not in ("established", "supported"):
        wrong.append(f"verdict {verdict['cause']} {verdict['certainty']}")
    said = {e.get("value") for e in verdict["evidence"] if e.get("source") == "observer" and e.get("unit") == "bytes"}
    for bytes_, words in ((22 * MIB, "largest free block"), (34 * MIB, "bytes cached and not in use")):
        if bytes_ not in said:
            wrong.append(f"the {words} is not in the evidence")
    if wrong:
        print("\n".join(wrong))
        print(done.stderr)
        print(json.dumps(verdict, indent=1))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
