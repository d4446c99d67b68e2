"""Hangs: two threads that take two locks in different order before the next launch, or a kernel that does not end.
Uses the driver with ctypes.   stands.py locks|kernel [--repaired]

On SIGUSR1 the interpreter itself writes the stacks of its threads to the file "said"."""
import ctypes
import faulthandler
import os
import signal
import sys
import threading

cuda = ctypes.CDLL("libcuda.so.1")
# spin(unused, ns): like the kernel of s27_hang.c, without its flag.
PTX = b""".version 7.0
.target sm_70
.address_size 64
.visible .global .align 8 .u64 gpuwhy_model_spin[8] = {0x4D4B594857555047, 1, 0, 0, 0, 0, 0, 2};
.visible .entry spin(.param .u64 unused, .param .u64 ns)
{
.reg .b64 %d<4>;
.reg .pred %p;
ld.param.u64 %d1, [ns];
mov.u64 %d2, %globaltimer;
again:
mov.u64 %d3, %globaltimer;
sub.u64 %d0, %d3, %d2;
setp.lt.u64 %p, %d0, %d1;
@%p bra again;
ret;
}
"""


def check(result):
    if result != 0:
        print(f"the driver says {result}", file=sys.stderr)
        sys.exit(1)


class Gpu:
    def __init__(self):
        device, context, module = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p()
        self.spin = ctypes.c_void_p()
        check(cuda.cuInit(0))
        check(cuda.cuDeviceGet(ctypes.byref(device), 0))
        check(cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device))
        check(cuda.cuCtxSetCurrent(context))
        check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
        check(cuda.cuModuleGetFunction(ctypes.byref(self.spin), module, b"spin"))

    def launch(self, seconds):
        values = ctypes.c_uint64(0), ctypes.c_uint64(int(seconds * 1e9))
        arguments = (ctypes.c_void_p * 2)(*[ctypes.addressof(value) for value in values])
        check(cuda.cuLaunchKernel(self.spin, 1, 1, 1, 1, 1, 1, 0, None, arguments, None))

    def wait(self):
        check(cuda.cuCtxSynchronize())  # mark: kernel


weights, gradients, both = threading.Lock(), threading.Lock(), threading.Barrier(2)


class Trainer:
    def step(self, repaired):
        with weights:
            if not repaired:
                both.wait()
            with gradients:  # mark: trainer
                pass


def collect(repaired):
    first, second = (weights, gradients) if repaired else (gradients, weights)

    def take():
        first.acquire()
        if not repaired:
            both.wait()
        second.acquire()  # mark: collector
        second.release()
        first.release()
    list(map(lambda _: take(), [1]))


def use_locks(repaired):
    threads = [threading.Thread(target=Trainer().step, args=(repaired,)), threading.Thread(target=collect, args=(repaired,))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()  # mark: join


def main():
    kind, repaired = sys.argv[1], "--repaired" in sys.argv
    faulthandler.register(signal.SIGUSR1, file=open("said", "w"), all_threads=True)
    gpu = Gpu()
    print(f"pid {os.getpid()}", flush=True)
    if kind == "locks":
        use_locks(repaired)
    else:
        for _ in range(12 if repaired else 1):  # twelve slow kernels, but all end
            gpu.launch(0.3 if repaired else 60)
            gpu.wait()
    print("it went on")


main()
