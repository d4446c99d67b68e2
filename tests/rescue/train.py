"""A small trainer for rescue.py, with the driver API by ctypes. Its result depends on what it trained, not on how often it
was started: each step adds up a value for each sample, and the state goes through the GPU's memory and back.

Everything that a step needs on the GPU is proportional to batch, precision and size, so a row of rescue.py can compute what
fits. `--fault` is a mistake that this program makes at a step; with `--once` only the first start makes it."""
import argparse
import ctypes
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import threading
import time
from ctypes import byref, c_int, c_size_t, c_uint, c_ulonglong, c_void_p

MIB = 1 << 20
MASK = (1 << 64) - 1
RECORDED = ("BATCH", "CUDA_VISIBLE_DEVICES", "LD_LIBRARY_PATH", "NCCL_CUMEM_ENABLE", "PYTORCH_CUDA_ALLOC_CONF",
            "TF_FORCE_GPU_ALLOW_GROWTH", "TF_USE_LEGACY_KERAS", "XLA_PYTHON_CLIENT_PREALLOCATE")
# Kernels that fail on the virtual card: include/gpuwhy/kernel_model.h.
FAULTS = {"address": 1, "misaligned": 2, "assert": 3, "trap": 4}
PTX = ".version 7.0\n.target sm_70\n.address_size 64\n" + "".join(
    f".visible .entry {name}(.param .u64 p)\n{{\nret;\n}}\n" for name in ("step", *FAULTS)) + "".join(
    f".visible .global .align 8 .u64 gpuwhy_model_{name}[3] = {{0x4D4B594857555047, 1, {number}}};\n"
    for name, number in FAULTS.items())


def record_start(argv=None):
    """Append one line to the file $RESCUE_STARTS: how, the pid, variables, and the arguments."""
    path = os.environ.get("RESCUE_STARTS")
    if path:
        words = ["rehearsal" if "GPUWHY_REHEARSE" in os.environ else "run", str(os.getpid())]
        words += [f"{name}={os.environ[name]}" for name in RECORDED if name in os.environ]
        try:
            with open(path, "a") as file:
                file.write("\x1f".join([*words, "--", *(sys.argv[1:] if argv is None else argv)]) + "\n")
        except OSError:
            if words[0] == "run":  # a rehearsal need not be able to write there
                raise


class CudaError(RuntimeError):
    pass


class Gpu:
    def __init__(self, options):
        self.cu = ctypes.CDLL(options.driver)
        self.context, self.device, self.module = c_void_p(), c_int(), c_void_p()
        self.call("cuInit", c_uint(0))
        self.call("cuDeviceGet", byref(self.device), c_int(self.visible(options.device)))
        self.make_context(options)
        self.call("cuModuleLoadData", byref(self.module), ctypes.c_char_p(PTX.encode()))
        self.block = self.take(8)

    def visible(self, number):
        """Return the driver's number of a card. The virtual driver does not read CUDA_VISIBLE_DEVICES."""
        chosen = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
        return int(chosen[number]) if number < len(chosen) and chosen[number].isdigit() else number

    def make_context(self, options):
        if options.own_context and is_faulty(options):
            self.call("cuCtxCreate_v2", byref(self.context), c_uint(0), self.device)
            return
        self.call("cuDevicePrimaryCtxRetain", byref(self.context), self.device)
        self.call("cuCtxSetCurrent", self.context)

    def call(self, name, *arguments):
        result = getattr(self.cu, name)(*arguments)
        if result == 0:
            return
        text = ctypes.c_char_p()
        self.cu.cuGetErrorString(c_int(result), byref(text))
        raise CudaError(f"{name}: CUDA error {result}: {(text.value or b'unknown').decode()}")

    def take(self, count):
        address = c_ulonglong()
        self.call("cuMemAlloc_v2", byref(address), c_size_t(max(count, 512)))
        return address

    def give(self, address):
        self.call("cuMemFree_v2", address)

    def launch(self, name, threads=128):
        kernel = c_void_p()
        self.call("cuModuleGetFunction", byref(kernel), self.module, ctypes.c_char_p(name.encode()))
        argument = (c_void_p * 1)(ctypes.addressof(self.block))
        self.call("cuLaunchKernel", kernel, c_uint(64), c_uint(1), c_uint(1), c_uint(threads), c_uint(1), c_uint(1),
                  c_uint(0), c_void_p(), argument, None)

    def synchronize(self):
        self.call("cuCtxSynchronize")

    def through(self, value):
        """Copy a number to the GPU and back."""
        number = c_ulonglong(value)
        self.call("cuMemcpyHtoD_v2", self.block, byref(number), c_size_t(8))
        number.value = 0
        self.call("cuMemcpyDtoH_v2", byref(number), self.block, c_size_t(8))
        return number.value


def newest(pattern):
    """Return the checkpoint with the most steps, as programs do that resume by themselves; None: there is none."""
    path = pathlib.Path(pattern.replace("%", "*"))
    steps = {int("".join(filter(str.isdigit, found.name))): found for found in path.parent.glob(path.name)}
    return steps[max(steps)] if steps else None


class Trainer:
    def __init__(self, options):
        self.options, self.kept, self.state, self.first = options, [], 1, 0
        last = options.resume or (newest(options.checkpoint) if options.auto else None)
        if last:
            saved = json.loads(pathlib.Path(last).read_text())
            self.state, self.first = saved["state"], saved["step"]
        self.gpu = Gpu(options)
        self.weights = [self.gpu.take(options.weights * MIB // 4) for _ in range(4)] if options.weights else []

    def sample_bytes(self):
        options = self.options
        wide = {"fp32": 4, "bf16": 2, "fp8": 1}[options.precision]
        each = options.sample * MIB * wide * options.size ** 2 // (4 * 224 ** 2)
        return each * 4 if options.attention == "full" else each

    def forward(self, step):
        """Hold what one micro-batch needs, in two blocks, as a layer's input and output."""
        options = self.options
        count = options.batch * self.sample_bytes()
        if step == options.peak_at:
            count *= 2
        blocks = [self.gpu.take(count // 2), self.gpu.take(count - count // 2)]
        if options.meet:
            meet(pathlib.Path(options.meet), step)
        self.gpu.launch("step")
        self.gpu.synchronize()
        for block in blocks:
            self.gpu.give(block)

    def step(self, step):
        options = self.options
        if options.leak:
            self.kept.append(self.gpu.take(options.leak * MIB))
        total, micro = 0, options.batch * options.accumulate
        for part in range(options.accumulate):
            self.forward(step)
            first = step * micro + part * options.batch
            total += sum((first + i) * 2654435761 & MASK for i in range(options.batch))
        variant = sum(map(ord, options.precision + options.attention)) + options.size
        value = (self.state * 6364136223846793005 + total + variant) & MASK
        self.state = self.gpu.through(value)
        if options.check and self.state != value:
            raise RuntimeError("the state that came back from the GPU is wrong")

    def save(self, step):
        path = pathlib.Path(self.options.checkpoint.replace("%", str(step)))
        path.with_suffix(".new").write_text(json.dumps({"step": step, "state": self.state}))
        path.with_suffix(".new").replace(path)

    def train(self):
        options = self.options
        for step in range(self.first, options.iterations):
            if step == options.at and options.fault and is_faulty(options):
                fail(self, options.fault)
            self.step(step)
            time.sleep(options.pause)
            if options.checkpoint and (step + 1) % options.every == 0:
                self.save(step + 1)


def meet(folder, step):
    """Wait until all ranks are here, as in a collective."""
    (folder / f"{step}.{os.environ['RANK']}").touch()
    while len(list(folder.glob(f"{step}.*"))) < int(os.environ["WORLD_SIZE"]):
        time.sleep(0.01)


def is_faulty(options):
    """True in each start, or with --once only in the first one. A rehearsal is no start: its kernels do not run."""
    if "GPUWHY_REHEARSE" in os.environ:
        return False
    if not options.once:
        return True
    seen = pathlib.Path(options.once)
    if seen.exists():
        return False
    seen.touch()
    return True


def fail(trainer, fault):
    if fault in FAULTS:
        trainer.gpu.launch(fault)
        trainer.gpu.synchronize()
    elif fault in ("kill", "segv", "term", "abort"):
        os.kill(os.getpid(), {"kill": signal.SIGKILL, "segv": signal.SIGSEGV, "term": signal.SIGTERM,
                              "abort": signal.SIGABRT}[fault])
        time.sleep(60)
    else:
        OF_HOST[fault](trainer)


def network(_):
    sys.stderr.write("[E ProcessGroupNCCL.cpp:552] NCCL WARN NET/IB : Got completion from peer 10.0.0.2<4791> with status=12 "
                     "opcode=0 len=0 vendor err 129\n")
    raise RuntimeError("NCCL error: unhandled system error, NCCL version 2.21.5")


def wait_for_a_signal(_):
    pathlib.Path("ready").touch()
    time.sleep(600)


def disk(_):
    with open("/dev/full", "w") as file:
        file.write("checkpoint\n" * 10000)


def files(_):
    import resource
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
    [open("/dev/null") for _ in range(100)]  # all stay open


def deadlock(_):
    lock = threading.Lock()
    with lock:
        lock.acquire()


def fork(trainer):
    pid = os.fork()
    if pid == 0:
        try:
            trainer.gpu.call("cuMemAlloc_v2", byref(c_ulonglong()), c_size_t(MIB))
        except CudaError as error:
            print(error, file=sys.stderr, flush=True)
            os._exit(1)
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))


OF_HOST = {
    "key": lambda _: {"loss": 1}["accuracy"],
    "path": lambda _: open("/nowhere/labels.csv"),
    "import": lambda _: __import__("a_module_that_is_not_there"),
    "nan": lambda _: sys.exit("FloatingPointError: loss is nan, stopping training"),
    "usage": lambda _: argparse.ArgumentParser(prog="train.py").parse_args(["--learning-rate"]),
    "exit": lambda _: sys.exit(7),
    "threads": lambda trainer: trainer.gpu.launch("step", threads=4096),
    "device": lambda trainer: trainer.gpu.call("cuDeviceGet", byref(c_int()), c_int(9)),
    "destroyed": lambda trainer: (trainer.gpu.call("cuDevicePrimaryCtxReset_v2", trainer.gpu.device), trainer.forward(0)),
    "missing": lambda trainer: ctypes.CDLL("libnvrtc-builtins.so.77.7"),
    "child": lambda _: subprocess.run([sys.executable, "-c", "raise ValueError('wrong labels')"], check=True),
    "network": network, "wait": wait_for_a_signal, "disk": disk, "files": files, "deadlock": deadlock, "fork": fork,
}


def listen(port, words):
    """Bind the port of the rendezvous, as rank 0 does. `words`: whose message it prints."""
    store = socket.socket()
    try:
        store.bind(("127.0.0.1", port))
        store.listen()
    except OSError as error:
        if words == "python":
            raise
        failed = "The server socket has failed to listen on any local network address. "
        if words == "newer":
            raise RuntimeError(f"{failed}port: {port}, useIpv6: false, code: -{error.errno}, name: EADDRINUSE, message: address "
                               "already in use") from None
        raise RuntimeError(f"{failed}The server socket has failed to bind to 127.0.0.1:{port} (errno: {error.errno} - Address "
                           "already in use).") from None
    return store


def preallocate(gpu):
    """Take most of the card at the start, as frameworks do unless a variable forbids it."""
    off = os.environ.get("XLA_PYTHON_CLIENT_PREALLOCATE") == "false" or os.environ.get("TF_FORCE_GPU_ALLOW_GROWTH") == "true"
    free, total = c_size_t(), c_size_t()
    gpu.call("cuMemGetInfo_v2", byref(free), byref(total))
    return None if off else gpu.take(free.value * 3 // 4)


def load_cudnn(folder):
    """Load cuDNN from its package, and the part of it that the loader finds first, as cuDNN does. They must fit together."""
    main, part = (pathlib.Path(folder) / name for name in ("libcudnn.so.9", "libcudnn_test.so.9"))
    ctypes.CDLL(str(main))
    try:
        ctypes.CDLL(part.name)
    except OSError:
        ctypes.CDLL(str(part))  # by the run path of the package
    if str(part.resolve()) not in pathlib.Path("/proc/self/maps").read_text():
        raise RuntimeError("cuDNN error: CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH")


def take_more(gpu, setting, says):
    """Take memory as a library with a known problem does, which a variable switches off."""
    name, value = setting.split("=")
    print(says, file=sys.stderr)
    return gpu.take((64 if os.environ.get(name) == value else 1536) * MIB)


def read_options():
    parser = argparse.ArgumentParser()
    for name, value in (("batch", 8), ("accumulate", 1), ("iterations", 4), ("sample", 4), ("weights", 64), ("size", 224),
                        ("device", 0), ("leak", 0), ("every", 2), ("at", 2), ("peak-at", -1), ("port", 0),
                        ("workers", 0)):
        parser.add_argument("--" + name, type=int, default=value)
    for name, value in (("precision", "fp32"), ("attention", "flash"), ("driver", "libcuda.so.1"), ("says", ""),
                        ("words", "older")):
        parser.add_argument("--" + name, default=value)
    for name in ("fault", "once", "checkpoint", "resume", "load", "config", "shape", "meet", "cudnn", "setting"):
        parser.add_argument("--" + name)
    for name in ("check", "own-context", "preallocate", "auto"):
        parser.add_argument("--" + name, action="store_true")
    parser.add_argument("--pause", type=float, default=0)
    options = parser.parse_args()
    for name, value in (json.loads(options.config) if options.config else {}).items():
        setattr(options, name, value)
    if options.shape:
        options.batch, options.size = map(int, options.shape.split("x"))
    options.batch = int(os.environ.get("BATCH", options.batch))
    return options


def main():
    record_start()
    options = read_options()
    if options.workers > 5:
        raise RuntimeError(f"DataLoader worker (pid {os.getpid()}) is killed by signal: Bus error. It is possible that "
                           "dataloader's workers are out of shared memory. Please try to raise your shared memory limit.")
    for name in options.load.split(",") if options.load else ():
        ctypes.CDLL(name)
    store = listen(options.port, options.words) if options.port else None
    trainer = Trainer(options)
    if options.cudnn:
        load_cudnn(options.cudnn)
    time.sleep(2.5 if options.load else 0)  # frameworks compile for seconds, and gpuwhy looks for libraries every two seconds
    pool = preallocate(trainer.gpu) if options.preallocate else None
    more = take_more(trainer.gpu, options.setting, options.says) if options.setting else None
    trainer.train()
    del store, pool, more
    print(f"result {trainer.state:016x}", flush=True)


if __name__ == "__main__":
    main()
