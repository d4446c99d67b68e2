"""A refused request is handled on the host, and something on the host ends the program.  host_ends.py KIND [--repaired]

key, file, chained: an exception about a key or a file; `chained` raises it in the handler of the refusal.
thread, thread-key: an exception ends a thread, and the program still exits with status 0."""
import ctypes
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()


class NoRoom(RuntimeError):
    pass


def begin():
    cuda.cuInit(0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
    cuda.cuCtxSetCurrent(context)


def take(mib):
    address = ctypes.c_uint64()
    result = cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20))
    if result == 2:
        raise NoRoom(f"out of memory: {mib} MiB")
    return address


def on_gpu_or_host(mib):
    try:
        return take(mib)
    except NoRoom as error:
        print(f"using the host: {error}", file=sys.stderr)
        return bytearray(1 << 20)


def chained(repaired):
    try:
        take(1 if repaired else 8192)
    except NoRoom:
        open("/nowhere/plan.json")


def key(repaired):
    on_gpu_or_host(8192)
    print({"mean": 1, "std": 2}["std" if repaired else "variance"])


def file(repaired):
    on_gpu_or_host(8192)
    open(__file__ if repaired else "/nowhere/labels.csv")


def evaluate(repaired):
    cuda.cuCtxSetCurrent(context)
    take(1 if repaired else 8192)  # mark: thread


def thread(repaired):
    run_thread(evaluate, repaired)
    for _ in range(100):
        address = take(64)
        cuda.cuMemsetD8_v2(address, ctypes.c_ubyte(0), ctypes.c_size_t(4096))
        cuda.cuCtxSynchronize()
        cuda.cuMemFree_v2(address)


def thread_key(repaired):
    run_thread(lambda _: {"loss": 1}["loss" if repaired else "accuracy"], repaired)


def run_thread(target, repaired):
    worker = threading.Thread(target=target, args=(repaired,))
    worker.start()
    worker.join()


begin()
take(100)
kinds = {"key": key, "file": file, "chained": chained, "thread": thread, "thread-key": thread_key}
kinds[sys.argv[1]]("--repaired" in sys.argv)
