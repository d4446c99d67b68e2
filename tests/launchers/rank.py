"""A rank that uses the driver API: `rank.py ATTEMPT:RANK:STEP:HOW,..` says where a rank fails, and how."""
import ctypes
import os
import signal
import sys
import time

STEPS = 20
cu = ctypes.CDLL("libcuda.so.1")


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cu.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0


def allocate(size):
    pointer = ctypes.c_uint64()
    result = cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(size))
    if result != 0:
        raise RuntimeError(f"cuMemAlloc of {size}: {result}")


def fail(how):
    if how == "oom":
        allocate(1 << 50)
    elif how == "segv":
        os.kill(os.getpid(), signal.SIGSEGV)
    else:
        sys.exit(int(how))


def work(rank, attempt, plan):
    begin()
    for step in range(STEPS):
        allocate(1 << 20)
        for a, r, s, how in plan:
            if (int(a), int(r), int(s)) == (attempt, rank, step):
                fail(how)
        time.sleep(0.05)


if __name__ == "__main__":
    work(int(os.environ.get("RANK") or os.environ.get("OMPI_COMM_WORLD_RANK") or 0),
         int(os.environ.get("TORCHELASTIC_RESTART_COUNT", 0)), [part.split(":") for part in sys.argv[1].split(",")])
