"""`gpuwhy report` about many recordings needs about as much memory as about few: at each time, it keeps the model of one
recording. The peak of the resident memory is compared, not the time.

    memory_test.py FOLDER
"""
import os
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
import harness  # noqa: E402
from harness import expect  # noqa: E402

FEW, MANY, RATIO_MAX = 2, 10, 1.5
BLOCKS = 100000
PROGRAM = f"""
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(device), 0) == 0
assert cu.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
size = ctypes.c_size_t(4096)
for i in range({BLOCKS}):
    assert cu.cuMemAlloc_v2(ctypes.byref(pointer), size) == 0
"""


def peak_kib(recordings, folder):
    """Write a page, and return the peak of the resident memory."""
    page = folder / "page.html"
    command = [str(harness.GPUWHY), "report", "--no-history", "-o", str(page), *map(str, recordings)]
    child = subprocess.Popen(command, stdout=subprocess.DEVNULL, env=harness.base_environment(folder))
    status, usage = os.wait4(child.pid, 0)[1:]
    child.returncode = os.waitstatus_to_exitcode(status)
    expect(child.returncode in (0, 1), f"gpuwhy report: exit status {child.returncode}")
    text = page.read_text()
    expect(text.count("<article") == len(recordings), "a chapter is missing")
    return usage.ru_maxrss


def check(folder):
    shutil.rmtree(folder, ignore_errors=True)
    (folder / "work").mkdir(parents=True)
    run = harness.run_observed([sys.executable, "-c", PROGRAM], harness.Card(), folder)
    copies = [folder / f"copy-{i}.gpuwhy" for i in range(MANY)]
    for copy in copies:
        shutil.copy(run.recording, copy)
    few, many = peak_kib(copies[:FEW], folder), peak_kib(copies, folder)
    print(f"{few} KiB for {FEW} recordings, {many} KiB for {MANY}")
    expect(many < few * RATIO_MAX, f"{many} KiB for {MANY} recordings, {few} KiB for {FEW}")


def main():
    if not (harness.BUILD / "lib" / "gpuwhy" / "report" / "dygraph.min.js").exists():
        harness.skip("this build has no dygraphs")
    harness.main(lambda: check(pathlib.Path(sys.argv[1]).resolve()))


if __name__ == "__main__":
    main()
