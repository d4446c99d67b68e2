"""Launches kernels with ctypes; an error in one of them is only checked at the end."""
import ctypes
import sys

PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .entry good(.param .u64 data) { ret; }
.visible .entry bad(.param .u64 data) { ret; }
"""
cuda = ctypes.CDLL("libcuda.so.1")


def check(result):
    if result != 0:
        print(f"failed: {result}", file=sys.stderr)
        sys.exit(1)


def kernels():
    device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
    check(cuda.cuInit(0))
    check(cuda.cuDeviceGet(ctypes.byref(device), 0))
    check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
    check(cuda.cuCtxSetCurrent(context))
    check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
    for name in (b"good", b"bad"):
        function = ctypes.c_void_p()
        check(cuda.cuModuleGetFunction(ctypes.byref(function), module, name))
        yield function


def launch(function):
    data = ctypes.c_uint64()
    parameters = (ctypes.c_void_p * 1)(ctypes.addressof(data))
    check(cuda.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, None, parameters, None))


def work():
    good, bad = kernels()
    for step in range(10):
        launch(good)
    launch(bad)  # mark: fault
    for step in range(10):
        launch(good)
    check(cuda.cuCtxSynchronize())  # mark: report


work()
