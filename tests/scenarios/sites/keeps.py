"""A generator inside a class keeps each batch; called through a recursion, on a thread if requested. Uses ctypes."""
import ctypes
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    if result != 0:
        print(f"no room: {result}", file=sys.stderr)
        sys.exit(1)


def begin():
    device, context = ctypes.c_int(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))


def allocate(size):
    address = ctypes.c_uint64()
    return cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(size)), address  # mark: helper


class Loader:
    def __init__(self):
        self.kept = []

    def __iter__(self):
        while True:
            address = ctypes.c_uint64()
            check(cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(64 << 20)))  # mark: kept
            self.kept.append(address)
            yield address


def train(depth):
    if depth > 0:
        return train(depth - 1)  # mark: deeper
    for _ in Loader():  # mark: loop
        result, scratch = allocate(32 << 20)
        check(result)
        check(cuda.cuMemFree_v2(scratch))


def work():
    begin()
    train(3)  # mark: train


if sys.argv[1:] == ["thread"]:
    failed = []
    thread = threading.Thread(target=lambda: (begin(), [train(3)]))
    thread.start()
    thread.join()
    sys.exit(1)
work()  # mark: main
