"""The programs of rescue.py: what each is started with, what is around it, and what is true about it.

A row is true by construction. The memory that a program needs is computed from its arguments, so a batch that fits is known;
a fault that happens once is made by the program itself in its first start only; whatever is around it is started by
rescue.py. `act` is what gets the program through, and None means that nothing does."""

RESUME = ("--resume-with", "--resume {last}", "--checkpoints", "step-*.json")
# A program that cannot tell its first start from the others itself.
AGAIN = 'if [ ! -e seen ]; then touch seen; set -- "$@" --bad-address; fi; exec "$@"'


class Row:
    """`program` is python, c, ranks or other; `words` are its arguments, with the placeholders of its user.

    cause      causes that the first verdict may name; None: not determined
    act        wait-memory, wait-port, pause, restart, values (placeholders), setting, folder, fewer-gpus; None: hopeless
    same       the result is that of the command as it was written, although values were changed
    least      (name, number): the least value that must be found, because it fits
    setting    NAME=VALUE, or several, that only the last start sees; the first one is what helps
    options    more options of `gpuwhy run`
    leak       --rescue=leak
    resumes    the last start must resume from a checkpoint
    succeeds   it ends with status 0 although something failed, so it must not be started again
    starts     the most starts for a hopeless row (1). 2 where nobody can know beforehand that a second start fails, too
    memory, card, more  the card of the run: its memory, model or number, and faults
    beside     arguments of beside.py; PORT stands for a free port
    wrap       words before the program, such as env NAME=VALUE
    signal     sent to the process group when the program has created the file `ready`, or when gpuwhy waits or rehearses
    wrong      a folder of LD_LIBRARY_PATH that must not be searched: a driver library from Tools.drivers, or LIB/..
    libraries  empty libraries that are made for the row, as relative paths; LIB stands for their folder
    quick      one of the rows of --quick"""

    def __init__(self, name, program, words, cause, act=None, *, same=None, least=None, setting=None, options=(), leak=False,
                 resumes=False, starts=1, memory="3GiB", card="h200", more="", beside=None, wrap=(),
                 signal=None, wrong=None, libraries=(), quick=False, succeeds=False):
        self.name, self.program, self.words = name, program, list(words)
        self.causes = cause if isinstance(cause, tuple) else (cause,)
        self.act, self.least, self.settings = act, least, setting.split() if setting else []
        self.same = act not in ("values", "fewer-gpus") if same is None else same
        self.options, self.leak, self.resumes, self.starts = list(options), leak, resumes, starts
        self.memory, self.card, self.more = memory, card, more
        self.beside, self.wrap = beside, list(wrap)
        self.signal, self.wrong, self.libraries, self.quick, self.succeeds = signal, wrong, libraries, quick, succeeds


def python(name, words, *more, **others):
    return Row(name, "python", words.split(), *more, **others)


def compiled(name, words, *more, **others):
    return Row(name, "c", words.split(), *more, **others)


def ranks(name, words, *more, **others):
    return Row(name, "ranks", words.split(), *more, **others)


def other(name, words, *more, **others):
    return Row(name, "other", words, *more, **others)


def fits(memory_mib, sample_mib, weights_mib=64):
    """A batch that certainly fits: context, weights and a margin of 48 MiB are left out."""
    return (memory_mib - 527 - weights_mib - 48) // sample_mib


CAPACITY = ("gpu-oom-capacity", "gpu-oom-peak-phase")


def others_hold():
    """Something else is in the way, and goes away."""
    big = "--batch 100 --sample 16"
    memory = ("memory", "1200", "3")
    yield python("neighbour-python", big, "gpu-oom-other-process", "wait-memory", beside=("memory", "1200", "1"), quick=True)
    yield compiled("neighbour-c", big, "gpu-oom-other-process", "wait-memory", beside=memory)
    yield python("neighbour-placeholder", "--batch {batch:100} --sample 16", "gpu-oom-other-process", "wait-memory",
                 beside=memory)
    yield python("neighbour-later", "--batch 60 --sample 16 --peak-at 2", "gpu-oom-other-process", "wait-memory",
                 beside=("memory", "900", "2"))
    yield ranks("neighbour-ranks", "2 0 --one-card --weights 900", "gpu-oom-other-process", "wait-memory", memory="4GiB",
                beside=("memory", "2300", "3"))
    yield other("neighbour-cnn", ["CNN", "--batch", "4096"], "gpu-oom-other-process", "wait-memory", memory="4GiB",
                beside=("memory", "2000", "3"))
    yield python("neighbour-resume", "--batch 60 --sample 16 --peak-at 3 --checkpoint step-%.json", "gpu-oom-other-process",
                 "wait-memory", beside=("memory", "900", "2"), options=RESUME, resumes=True)
    port = ("port", "PORT", "3")
    yield python("port-python", "--port PORT", "rendezvous-port-clash", "wait-port", beside=("port", "PORT", "1"), quick=True)
    yield python("port-longer", "--port PORT --words newer", "rendezvous-port-clash", "wait-port", beside=("port", "PORT", "6"))
    yield python("port-unnamed", "--port PORT --words python", "rendezvous-port-clash", "pause", beside=port)
    yield ranks("port-ranks", "2 0 --port PORT", "rendezvous-port-clash", "wait-port", card="2xh200", beside=port)
    yield python("port-shell", "--port PORT", "rendezvous-port-clash", "wait-port", beside=port,
                 wrap=["/bin/sh", "-c", '"$@"; exit $?', "sh"])
    yield python("busy-once", "--own-context --once seen", "device-busy-or-partition", "pause", more="fault=46@cuCtxCreate_v2")


def transient():
    """Faults of the first start alone."""
    once = "--once seen --fault "
    yield python("address-python", once + "address", "illegal-address", "restart")
    yield compiled("address-c", once + "address", "illegal-address", "restart")
    yield ranks("address-ranks", "2 1 --once seen --fault address", "illegal-address", "restart", card="2xh200")
    yield other("address-cnn", ["/bin/sh", "-c", AGAIN, "sh", "CNN", "--runs", "2"], "illegal-address", "restart",
                memory="16GiB")
    yield python("trap-python", once + "trap", "kernel-fault-other", "restart")
    yield compiled("trap-c", once + "trap", "kernel-fault-other", "restart")
    yield python("ecc-once", "--iterations 30 --pause 0.05", "ecc-uncorrectable", "restart",
                 more="fault=ecc@cuLaunchKernel:20")
    yield python("network-once", once + "network", "network-or-ib-fault", "restart")
    yield ranks("network-ranks", "2 1 --once seen --fault network", "network-or-ib-fault", "restart", card="2xh200")
    yield python("deadlock-once", once + "deadlock", "host-deadlock", "restart",
                 options=("--hang-after", "1", "--kill-on-hang"))
    saves = " --iterations 9 --at 5 --checkpoint step-%.json"
    yield python("address-resume", once + "address" + saves, "illegal-address", "restart", options=RESUME, resumes=True,
                 quick=True)
    yield python("network-resume", once + "network" + saves, "network-or-ib-fault", "restart", options=RESUME, resumes=True)
    yield compiled("address-resume-c", once + "address --iterations 9 --at 5 --checkpoint step-%d.txt", "illegal-address",
                   "restart", options=("--resume-with", "--resume {last}", "--checkpoints", "step-*.txt"), resumes=True)
    yield python("address-shell", once + "address", "illegal-address", "restart", wrap=["/bin/sh", "-c", '"$@"; exit $?', "sh"])
    yield python("address-placeholder", once + "address --batch {batch:8}", "illegal-address", "restart")


def batches():
    """Too large a batch, which the user allows to change."""
    found = ("batch", fits(3072, 16))
    yield python("batch-python", "--batch {batch:256} --sample 16", CAPACITY, "values", least=found)
    yield compiled("batch-c", "--batch {batch:256} --sample 16", CAPACITY, "values", least=found)
    yield other("batch-cnn", ["CNN", "--batch", "{batch:16384}"], CAPACITY, "values", memory="4GiB", least=("batch", 4500))
    steps = " --accumulate {steps:1} --sample 16"
    yield python("steps-python", "--batch {batch:256}" + steps, CAPACITY, "values", same=True, least=("batch", 128), quick=True)
    yield compiled("steps-c", "--batch {batch:256}" + steps, CAPACITY, "values", same=True, least=("batch", 128))
    yield python("steps-three", "--batch {batch:240} --accumulate {steps:3} --sample 16", CAPACITY, "values", same=True,
                 least=("batch", 144))
    yield python("steps-prime", "--batch {batch:251} --iterations 2" + steps, CAPACITY, "values", same=True)
    yield python("batch-environment", "--sample 16", CAPACITY, "values", least=found, wrap=["env", "BATCH={batch:256}"])
    yield Row("batch-json", "python", ["--sample", "16", "--config", '{"batch": {batch:256}}'], CAPACITY, "values", least=found)
    yield python("batch-shell", "--batch {batch:256} --sample 16", CAPACITY, "values", least=found,
                 wrap=["/bin/sh", "-c", '"$@"; exit $?', "sh"])
    yield Row("batch-literal", "python", ["--batch", "{batch:256}", "--sample", "16", "--once", "{{batch:256}}"], CAPACITY,
              "values", least=found)
    yield python("batch-equals", "--batch={batch:256} --sample=16", CAPACITY, "values", least=found)
    yield python("batch-peak", "--batch {batch:128} --sample 16 --iterations 6 --peak-at 3", CAPACITY, "values",
                 least=("batch", fits(3072, 32)))
    yield python("batch-peak-resume", "--batch {batch:128} --sample 16 --accumulate {steps:1} --iterations 8 --peak-at 5 "
                 "--checkpoint step-%.json", CAPACITY, "values", same=True, options=RESUME, resumes=True, least=("batch", 64))
    yield ranks("batch-ranks", "2 0 --batch {batch:256} --sample 16", CAPACITY, "values", card="2xh200", least=("batch", 128))
    yield ranks("steps-ranks", "2 0 --batch {batch:256}" + steps, CAPACITY, "values", same=True, card="2xh200",
                least=("batch", 128))
    # Each rank alone has room for more than its half of the card.
    yield ranks("batch-one-card", "2 0 --one-card --batch {batch:128} --sample 16", ("gpu-oom-other-process", *CAPACITY),
                "values", least=("batch", 16))
    # It stops if the GPU computes nothing, so it cannot be rehearsed.
    yield python("trial-python", "--batch {batch:256} --sample 16 --check", CAPACITY, "values", least=("batch", 128), quick=True)
    yield python("trial-steps", "--batch {batch:512} --check" + steps, CAPACITY, "values", same=True, least=("batch", 128))
    yield python("batch-shape", "--shape {batch:256}x{size:224} --sample 16", CAPACITY, "values", least=found)
    # Only rehearsals have written checkpoints when the second start begins.
    yield python("batch-checkpoint", "--batch {batch:256} --checkpoint step-%.json --iterations 8" + steps, CAPACITY, "values",
                 same=True, options=RESUME, least=("batch", 128))
    yield python("batch-address-checkpoint", "--batch {batch:256} --checkpoint step-%.json --iterations 8 --once seen "
                 "--fault address --at 1" + steps, CAPACITY, "values", same=True, options=RESUME, least=("batch", 128))
    yield python("batch-port", "--batch {batch:256} --sample 16 --port PORT", CAPACITY, "values", least=("batch", 128))
    # It resumes by itself, and must not find what a rehearsal wrote.
    yield python("batch-resumes-itself", "--batch {batch:256} --auto --checkpoint step-%.json --iterations 8" + steps, CAPACITY,
                 "values", same=True, least=("batch", 128))
    yield python("batch-resumes-elsewhere", "--batch {batch:256} --auto --checkpoint LIB/step-%.json --iterations 8" + steps,
                 CAPACITY, "values", same=True, least=("batch", 128), libraries=("empty/libempty.so",))
    yield python("address-then-batch", "--batch {batch:256} --sample 16 --once seen --fault address --at 0", "illegal-address",
                 "values", least=found)
    yield python("batch-weights", "--batch {batch:64} --sample 16 --weights 2048", CAPACITY, "values",
                 least=("batch", fits(3072, 16, 2048)))


def other_values():
    """Other numbers that the user allows to change."""
    yield python("precision-python", "--batch 200 --sample 16 --precision {precision:fp32,bf16}", CAPACITY, "values", quick=True)
    yield compiled("precision-c", "--batch 200 --sample 16 --precision {precision:fp32,bf16}", CAPACITY, "values")
    yield python("precision-three", "--batch 400 --sample 16 --precision {precision:fp32,bf16,fp8}", CAPACITY, "values")
    yield python("attention", "--batch 100 --sample 16 --attention {attention:full,flash}", CAPACITY, "values")
    yield python("batch-of-1", "--batch {batch:1} --sample 4000 --precision {precision:fp32,bf16}", CAPACITY, "values")
    yield python("size-python", "--batch 200 --sample 16 --size {size:224}", CAPACITY, "values", least=("size", 112))
    yield python("batch-first", "--batch {batch:256} --sample 16 --precision {precision:fp32,bf16}", CAPACITY, "values",
                 least=("batch", fits(3072, 16)))
    yield python("workers-python", "--workers {workers:8}", "shm-exhausted", "values")
    lost = "fault=lost#{}@cuLaunchKernel:20"
    words = " --iterations 40 --pause 0.05"
    yield ranks("lost-second", "{gpus:2} 9" + words, "gpu-off-bus", "fewer-gpus", card="2xh200", more=lost.format(1), quick=True)
    yield ranks("lost-first", "{gpus:2} 9" + words, "gpu-off-bus", "fewer-gpus", card="2xh200", more=lost.format(0))


def settings():
    """Variables and folders."""
    jax, torch, tensorflow = "jaxlib/libjax_common.so", "torch/lib/libtorch_cuda.so", "tensorflow/libtensorflow_cc.so.2"
    xla, growth = "XLA_PYTHON_CLIENT_PREALLOCATE=false", "TF_FORCE_GPU_ALLOW_GROWTH=true"
    words = "--preallocate --batch 60 --sample 16 --load "
    yield python("prealloc-jax", words + f"LIB/{jax},LIB/{torch}", "gpu-oom-preallocation", "setting",
                 setting=f"{xla} {growth}", libraries=(jax, torch))
    yield python("prealloc-tensorflow", words + f"LIB/{tensorflow},LIB/{torch}", "gpu-oom-preallocation", "setting",
                 setting=f"{growth} {xla}", libraries=(tensorflow, torch))
    nccl = "nvidia/nccl/lib/libnccl.so.2.19.3"
    keras = ("site-packages/tensorflow/libtensorflow_cc.so.2", "site-packages/tensorflow-2.16.1.dist-info/METADATA")
    # the cure of Keras needs another package, too, so gpuwhy does not set it
    for name, act, setting, says, libraries, more in (
            ("nccl-graphs", "setting", "NCCL_CUMEM_ENABLE=0", "capturing the model for CUDA graphs", (nccl,), "driver=12020"),
            ("keras-legacy", None, "TF_USE_LEGACY_KERAS=1", "in keras/src/layers/layer.py", keras, "")):
        yield Row(name, "python", ["--setting", setting, "--says", says, "--batch", "100", "--sample", "16",
                                   "--load", "LIB/" + libraries[0]], CAPACITY, act, setting=setting, libraries=libraries, more=more)
    yield python("stub-python", "--iterations 3", "stub-or-wrong-libcuda", "folder", wrong="stubs", quick=True)
    yield compiled("stub-c", "--iterations 3", "stub-or-wrong-libcuda", "folder", wrong="stubs")
    yield python("compat-python", "--iterations 3", "forward-compat-misuse", "folder", wrong="compat")
    package, old = "nvidia/cudnn/lib", "old"
    cudnn = (f"{package}/libcudnn.so.9.3.0", f"{package}/libcudnn_test.so.9.3.0", f"{old}/libcudnn_test.so.9.1.0")
    yield python("cudnn-python", f"--cudnn LIB/{package}", "cudnn-mixed-libraries", "folder", wrong=f"LIB/{old}",
                 libraries=cudnn)


def leaks():
    """A leak: in pieces, from one checkpoint to the next, if the user asks for it."""
    words = "--leak 300 --iterations 20 --checkpoint step-%.json"
    yield python("leak-python", words, "gpu-oom-leak", "restart", leak=True, options=RESUME, resumes=True, quick=True)
    yield compiled("leak-c", "--leak 300 --iterations 20 --checkpoint step-%d.txt", "gpu-oom-leak", "restart", leak=True,
                   options=("--resume-with", "--resume {last}", "--checkpoints", "step-*.txt"), resumes=True)
    yield python("leak-placeholder", words + " --batch {batch:8}", "gpu-oom-leak", "restart", leak=True, options=RESUME,
                 resumes=True)
    yield python("leak-no-progress", words + " --every 100", "gpu-oom-leak", leak=True, options=RESUME)
    yield python("leak-not-asked", words, "gpu-oom-leak", quick=True, options=RESUME)
    yield python("leak-no-checkpoints", "--leak 300 --iterations 20", "gpu-oom-leak", leak=True)
    yield compiled("leak-plain", "--leak 300 --iterations 20", "gpu-oom-leak")
    yield compiled("leak-streams", "--streams 400 --iterations 40 --batch 1", "gpu-oom-leak")
    yield python("leak-batch", "--leak 300 --iterations 20 --batch {batch:8}", "gpu-oom-leak")


def hopeless():
    """Nothing but a person helps."""
    def fault(kind, cause, **more):
        return python("bug-" + kind, "--fault " + kind, cause, **more)
    for kind in ("key", "path", "import", "child"):
        yield fault(kind, "script-exception", quick=kind == "key")
    yield fault("nan", ("numeric-divergence", None))
    yield fault("usage", ("script-exception", None))
    yield fault("exit", None)
    yield fault("assert", "device-assert-index")
    yield fault("misaligned", "misaligned-access")
    yield fault("threads", "launch-config-invalid")
    yield fault("device", "invalid-device-ordinal")
    yield fault("destroyed", "context-destroyed")
    yield fault("missing", "library-not-found")
    yield fault("disk", "disk-or-quota-full")
    yield fault("files", "fd-or-process-limit")
    yield fault("fork", "fork-after-init")
    yield fault("segv", "host-crash-of-process")
    yield fault("abort", "host-crash-of-process")
    yield fault("kill", ("killed-by-scheduler-or-user", "host-oom-kill"))
    yield fault("term", "killed-by-scheduler-or-user")
    yield compiled("threads-c", "--fault threads", "launch-config-invalid")
    yield compiled("segv-c", "--fault segv", "host-crash-of-process")
    yield ranks("key-ranks", "2 1 --fault key", "script-exception", card="2xh200")
    yield ranks("assert-ranks", "2 1 --fault assert", "device-assert-index", card="2xh200")
    yield python("assert-placeholder", "--fault assert --batch {batch:8} --precision {precision:fp32,bf16}",
                 "device-assert-index")
    for name, cause, fault_ in (("architecture", "arch-not-in-binary", "209@cuModuleLoadData"),
                                ("ptx", "ptx-too-new", "222@cuModuleLoadData"),
                                ("jit", "jit-library-missing", "221@cuModuleLoadData"),
                                ("none", "no-device-visible", "init:100"), ("mismatch", "driver-library-mismatch", "init:803"),
                                ("compat", "forward-compat-misuse", "init:804")):
        yield python("versions-" + name, "--iterations 3", cause, more="fault=" + fault_)
    yield python("ctrl-c", "--fault wait", ("killed-by-scheduler-or-user", "script-exception", None), signal="SIGINT")
    yield python("sigterm", "--fault wait", "killed-by-scheduler-or-user", signal="SIGTERM")
    yield python("too-large", "--batch 256 --sample 16", CAPACITY, quick=True)
    yield compiled("too-large-c", "--batch 256 --sample 16", CAPACITY)
    yield other("too-large-cnn", ["CNN", "--batch", "16384"], CAPACITY, memory="4GiB")
    yield python("precision-fixed", "--batch 200 --sample 16 --precision fp32", CAPACITY)
    yield python("batch-1-too-large", "--batch {batch:1} --sample 4000", CAPACITY)
    yield python("trial-batch-1", "--batch {batch:1} --sample 4000 --check", CAPACITY)
    yield python("precision-too-large", "--batch 800 --sample 16 --precision {precision:fp32,bf16}", CAPACITY)
    yield python("ctrl-c-rehearsal", "--batch {batch:256} --sample 16 --pause 3", CAPACITY, signal="SIGINT")
    # The second start has another fault, which ends it.
    yield python("batch-then-key", "--batch {batch:256} --sample 16 --fault key --at 2", CAPACITY, starts=2)
    yield python("weights-too-large", "--batch {batch:64} --sample 4 --weights 4000", CAPACITY)
    yield python("neighbour-stays", "--batch 100 --sample 16", "gpu-oom-other-process", beside=("memory", "1200", "-1"),
                 signal="SIGINT")
    yield python("port-stays", "--port PORT", "rendezvous-port-clash", beside=("port", "PORT", "-1"), signal="SIGINT")
    yield ranks("lost-not-allowed", "2 9 --iterations 40 --pause 0.05", "gpu-off-bus", card="2xh200",
                more="fault=lost#1@cuLaunchKernel:20")
    yield other("status-0", ["python3", "-B", "ROOT/tests/scenarios/driver/host_ends.py", "thread"], None, memory="4GiB",
                succeeds=True)
    # Nobody can know that the second start fails, too; a third one has no reason.
    yield python("address-always", "--fault address", "illegal-address", starts=2)
    yield compiled("trap-always", "--fault trap", "kernel-fault-other", starts=2)
    yield python("prealloc-too-large", "--preallocate --batch 200 --sample 16 --load LIB/jaxlib/libjax_common.so,"
                 "LIB/torch/lib/libtorch_cuda.so", "gpu-oom-preallocation", starts=2,
                 libraries=("jaxlib/libjax_common.so", "torch/lib/libtorch_cuda.so"))
    yield python("fabric-always", "--iterations 3", "fabric-not-ready", more="fault=init:802", starts=2)
    yield python("network-always", "--fault network", "network-or-ib-fault", starts=2)


ROWS = [row for part in (others_hold, transient, batches, other_values, settings, leaks, hopeless) for row in part()]
