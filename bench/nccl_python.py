"""Measure the cost of recording a call of NCCL that a Python program makes, and print the times as JSON.

usage: gpuwhy run --quiet --gpu virtual:h200 -- python3 nccl_python.py extension|ctypes LIBRARY

extension: the library (nccl_cost.c) makes the calls from C, below 20 Python functions, as PyTorch does.
ctypes: this program makes them, as vLLM does. The library has only prepared the driver."""
import ctypes
import json
import sys
import time

ROUNDS, CALLS, DEPTH = 400, 50, 20


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def below(depth, function):
    """Call the function with this many more Python functions on the stack."""
    return function() if depth == 0 else below(depth - 1, function)


def by_ctypes():
    cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    cuda.cuInit(0)
    cuda.cuDeviceGet(ctypes.byref(device), 0)
    cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device)
    cuda.cuCtxSetCurrent(context)
    nccl, unique, communicator = ctypes.CDLL("libnccl.so.2"), UniqueId(), ctypes.c_void_p()
    assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
    assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
    arguments = (None, None, ctypes.c_size_t(1), 99, 0, communicator, None)
    times = {"burst_off_ns": [], "burst_on_ns": []}
    for _ in range(ROUNDS):
        for function, one in zip((nccl.pncclAllReduce, nccl.ncclAllReduce), times.values()):
            begin = time.perf_counter_ns()
            for _ in range(CALLS):
                function(*arguments)
            one.append((time.perf_counter_ns() - begin) / CALLS)
    print(json.dumps({**times, "calls_a_block": CALLS}))


if __name__ == "__main__":
    below(DEPTH, by_ctypes if sys.argv[1] == "ctypes" else ctypes.CDLL(sys.argv[2]).bench_nccl_cost)
