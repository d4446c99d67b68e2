"""The programs for a real GPU, and the requirements for the verdict on each.

A row says how to run one program and what the verdict must be. A row with `cause` None and `status` "clean" is a
repaired twin; it is also compared with a run without gpuwhy, unless its output depends on a small GPU (`compare`
False). Facts are searched in the evidence by value and unit, or by words that must not be missing.
"""

import os
import re

GIB = 1 << 30
MIB = 1 << 20

TWO_GPUS = ("2 GPUs",)
CERTAIN = ("established", "supported")


class Bytes:
    """Some evidence has a number of bytes between the two."""

    def __init__(self, low, high):
        self.low, self.high = low, high

    def holds(self, verdict):
        return any(e.get("unit") == "bytes" and isinstance(e.get("value"), (int, float)) and
                   self.low <= e["value"] <= self.high for e in verdict.get("evidence", []))

    def __str__(self):
        return f"bytes between {self.low / MIB:.0f} and {self.high / MIB:.0f} MiB"


class Says:
    """The pattern is in the evidence, the headline, the consequences or the causes ruled out."""

    def __init__(self, pattern, where=("headline", "evidence", "consequences", "ruled_out")):
        self.pattern, self.where = pattern, where

    def holds(self, verdict):
        words = []
        for name in self.where:
            part = verdict.get(name) or ""
            for item in part if isinstance(part, list) else [part]:
                words.append(item.get("text", "") if isinstance(item, dict) else str(item))
        return re.search(self.pattern, "\n".join(words), re.IGNORECASE) is not None

    def __str__(self):
        return f"/{self.pattern}/"


class Row:
    def __init__(self, id, kind, program, arguments=(), cause=None, status=None, memory=None, env=None, facts=(),
                 compare=None, needs=(), note="", options=(), at=None, alone=False, certain=CERTAIN, merged=False):
        self.id, self.kind, self.program, self.arguments = id, kind, program, tuple(arguments)
        self.causes = (cause,) if isinstance(cause, (str, type(None))) else tuple(cause)
        self.status = status or ("clean" if cause is None else "fault")
        # If `cause` includes None besides other causes, "undetermined" is right, too.
        self.statuses = (self.status, "undetermined") if None in self.causes and len(self.causes) > 1 else (self.status,)
        self.certain = certain         # allowed certainties of a fault
        self.merged = merged           # both outputs are written to one pipe
        self.memory, self.env, self.facts, self.needs, self.note = memory, dict(env or {}), tuple(facts), needs, note
        self.options = tuple(options)  # options of gpuwhy run
        self.alone = alone             # needs a whole GPU
        self.at = at                   # pattern for the verdict's place
        # Outputs differ: with a dump the driver aborts, a second run prints everything twice, gpuwhy prints on stderr.
        if options or merged:
            compare = False
        # With a memory limit the fault exists only under gpuwhy, so there is no run to compare with.
        self.compare = compare if compare is not None else (memory is None or self.status == "clean")

    def name(self):
        variant = " ".join(self.arguments)
        options = "".join(f" {option}" for option in self.options)
        return f"{self.id} {self.kind} {self.program}" + (f" {variant}" if variant else "") + options + self.note

    def modules(self):
        """The Python modules that it needs."""
        of_kind = {"torch": ["torch"], "snapshot": ["torch"], "jax": ["torch", "jax"], "numba": ["numba"], "cupy": ["cupy"],
                   "keras": ["torch", "jax", "keras"]}
        return of_kind.get(self.kind, []) + [need for need in self.needs if need not in TWO_GPUS]


def clean(id, kind, program, arguments=(), **more):
    return Row(id, kind, program, arguments, None, "clean", **more)


EXPANDABLE = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "PYTORCH_ALLOC_CONF": "expandable_segments:True"}
ASYNC = {"PYTORCH_CUDA_ALLOC_CONF": "backend:cudaMallocAsync", "PYTORCH_ALLOC_CONF": "backend:cudaMallocAsync"}
DETERMINISTIC = {"CUBLAS_WORKSPACE_CONFIG": ":4096:8"}
NO_PREALLOCATION = {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"}

TORCH = [
    Row("S01", "torch", "s01_run_twice", (), "gpu-oom-leak", memory="8GiB", facts=[Bytes(4.0 * GIB, 7.0 * GIB)], at=r"cnn\.py:\d+ in "),
    clean("S01", "torch", "s01_run_twice", ("repaired",), memory="8GiB"),
    clean("S02", "torch", "s01_run_twice", ("released",), memory="8GiB"),
    Row("S03", "torch", "s03_caught", ("same_site",), "gpu-oom-capacity", memory="4GiB", at=r"cnn\.py:\d+ in "),
    Row("S03", "torch", "s03_caught", ("unwritten",), "gpu-oom-capacity", memory="4GiB", at=r"cnn\.py:\d+ in "),
    clean("S03", "torch", "s03_caught", ("smaller",), memory="4GiB", compare=False),
    clean("S03", "torch", "s03_caught", ("finder",), memory="4GiB", compare=False),
    Row("S03", "torch", "s03_caught", ("value_error",), "script-exception", memory="4GiB"),
    Row("S03", "torch", "s03_caught", ("illegal",), "illegal-address", memory="4GiB", at=r"(s03_caught|bad_kernel|cnn)\.py:\d+ in "),
    Row("S04", "torch", "s04_other", (), "gpu-oom-other-process", alone=True,
        facts=[Says(r"pid \d+"), Says(r"s04_other\.py"), Bytes(20 * GIB, 1024 * GIB)], at=r"(cnn|s04_other)\.py:\d+ in "),
    clean("S04", "torch", "s04_other", ("repaired",), alone=True),
    Row("S05", "torch", "s05_loader", (), "gpu-oom-leak", memory="6GiB",
        facts=[Bytes(4.5 * GIB, 5.7 * GIB), Says(r"each of the last \d+ iterations .* left \d")],
        at=r"(cnn|s05_loader)\.py:\d+ in "),
    clean("S05", "torch", "s05_loader", ("repaired",), memory="6GiB"),
    Row("L01", "torch", "l01_hidden", (), "gpu-oom-leak", memory="3GiB", at=r"l01_hidden\.py:\d+ in "),
    clean("L01", "torch", "l01_hidden", ("repaired",), memory="3GiB"),
    Row("L02", "torch", "l02_losses", (), "gpu-oom-leak", memory="6GiB", at=r"(cnn|l02_losses)\.py:\d+ in "),
    clean("L02", "torch", "l02_losses", ("repaired",), memory="6GiB"),
    Row("L03", "torch", "l03_growing", (), "gpu-oom-capacity", memory="6GiB", at=r"(cnn|l03_growing)\.py:\d+ in "),
    clean("L03", "torch", "l03_growing", ("repaired",), memory="6GiB"),
    Row("L04", "torch", "l04_cupy", (), "gpu-oom-leak", memory="4GiB", needs=("cupy",), at=r"l04_cupy\.py:\d+ in "),
    clean("L04", "torch", "l04_cupy", ("repaired",), memory="4GiB", needs=("cupy",)),
    Row("L05", "torch", "l05_triton", (), "illegal-address", facts=[Says(r"scatter (launched|on) .*; first launched at \S*l05_triton\.py:\d+ in scatter_rows")],
        needs=("triton",), at=r"l05_triton\.py:\d+ in "),
    clean("L05", "torch", "l05_triton", ("repaired",), needs=("triton",)),
    # 3.5 GiB of segments and a context of 0.5 to 1.1 GiB fit, but not 1 GiB more.
    Row("S07", "torch", "s07_fragmented", (), "gpu-oom-fragmentation", memory="5000MiB",
        facts=[Bytes(1024 * MIB, 1024 * MIB), Bytes(60 * MIB, 70 * MIB), Bytes(1.6 * GIB, 2.0 * GIB)], at=r"s07_fragmented\.py:13 in allocate"),
    clean("S07", "torch", "s07_fragmented", (), memory="5000MiB", env=EXPANDABLE, note=" (expandable)"),
    Row("S09", "torch", "s09_handle", (), "gpu-oom-library-handle", alone=True, at=r"s09_handle\.py:\d+ in "),
    clean("S09", "torch", "s09_handle", ("repaired",), alone=True),
    Row("S12", "torch", "s12_bad_address", (), "illegal-address", facts=[Says(r"write_far_away (launched|on) .*; first launched at \S*bad_kernel\.py:\d+ in launch")],
        at=r"(cnn|s1[23]_\w+|bad_kernel)\.py:\d+ in "),
    clean("S12", "torch", "s12_bad_address", ("repaired",)),
    Row("S13", "torch", "s13_label", (), "device-assert-index", at=r"cnn\.py:\d+ in ",  # the assertion names the kernel
        facts=[Says("assert"), Says(r"nll_loss\S* (launched|on) .*; first launched at \S*cnn\.py:\d+ in ")]),
    clean("S13", "torch", "s13_label", ("repaired",)),
    # The dump names the kernel, and block and thread if the warp has not left; the second run names the launch and the
    # Python line.
    Row("S12", "torch", "s12_bad_address", (), "illegal-address", options=["--core"],
        facts=[Says(r"_ILLEGAL_ADDRESS in kernel write_far_away"), Says(r"^kernel write_far_away", ("headline",))]),
    Row("S13", "torch", "s13_label", (), "device-assert-index", options=["--core"],
        facts=[Says(r"_ASSERT in kernel \S*nll_loss"), Says(r"block \(\d+,\d+,\d+\), thread \(\d+,\d+,\d+\)")]),
    Row("S12", "torch", "s12_bad_address", (), "illegal-address", options=["--blame"],
        facts=[Says(r"of write_far_away on .* itself.*this launch is at fault"),
               Says(r"(bad_kernel|s12_bad_address)\.py")], at=r"(bad_kernel|s12_bad_address)\.py:\d+ in "),
    Row("S13", "torch", "s13_label", (), "device-assert-index", options=["--blame"],
        facts=[Says(r"of \S*nll_loss\S* on .* itself.*this launch is at fault"), Says(r"(cnn|s13_label)\.py|functional\.py")],
        at=r"(cnn|s13_label)\.py:\d+ in "),
    clean("S12", "torch", "s12_bad_address", ("repaired",), options=["--core", "--blame"]),
    Row("S14", "torch", "s14_faults", ("misaligned",), "misaligned-access", facts=[Says(r"read_wide (launched|on) .*; first launched at \S*s14_faults\.py:\d+ in launch")],
        at=r"(cnn|s14_faults)\.py:\d+ in "),
    Row("S14", "torch", "s14_faults", ("trap",), "kernel-fault-other", facts=[Says("trap_when")],
        at=r"(cnn|s14_faults)\.py:\d+ in "),
    clean("S14", "torch", "s14_faults", ("repaired",)),
    Row("S14", "torch", "s14_faults", ("misaligned",), "misaligned-access", options=["--core"],
        facts=[Says(r"_MISALIGNED_ADDRESS in kernel read_wide"), Says(r"^kernel read_wide", ("headline",))]),
    Row("S14", "torch", "s14_faults", ("misaligned",), "misaligned-access", options=["--blame"],
        facts=[Says(r"of read_wide on .* itself.*this launch is at fault")], at=r"s14_faults\.py:\d+ in (launch|main)"),
    Row("S14", "torch", "s14_faults", ("trap",), "kernel-fault-other", options=["--blame"],
        facts=[Says(r"of trap_when on .* itself.*this launch is at fault")], at=r"s14_faults\.py:\d+ in (launch|main)"),
    Row("S17", "torch", "s17_dataset", (), "gpu-oom-capacity", memory="8GiB", facts=[Bytes(5.9 * GIB, 6.0 * GIB)], at=r"(s17_dataset|cnn)\.py:\d+ in "),
    clean("S17", "torch", "s17_dataset", ("repaired",), memory="8GiB"),
    Row("S18", "torch", "s18_batch", (), ("gpu-oom-capacity", "gpu-oom-library-handle"), memory="8GiB", facts=[Bytes(6.0 * GIB, 10.0 * GIB)], at=r"cnn\.py:\d+ in "),
    # PyTorch's own limit of 10 GiB is enough, but on a GPU of 10 GiB the context and its modules need memory as well.
    clean("S18", "torch", "s18_batch", (), memory="11GiB", note=" (11 GiB)"),
    Row("S19", "torch", "s19_validation", (), "gpu-oom-peak-phase", memory="6GiB", at=r"cnn\.py:\d+ in "),
    clean("S19", "torch", "s19_validation", ("repaired",), memory="6GiB"),
    Row("S28", "torch", "s28_host", ("exception",), "script-exception"),
    Row("S28", "torch", "s28_host", ("segfault",), "host-crash-of-process"),
    Row("S28", "torch", "s28_host", ("exit3",), None, "undetermined"),
    clean("S30", "torch", "s30_healthy", ("plain",), env=DETERMINISTIC),
    clean("S30", "torch", "s30_healthy", ("plain",), env={**DETERMINISTIC, **EXPANDABLE}, note=" (expandable)"),
    clean("S30", "torch", "s30_healthy", ("plain",), env={**DETERMINISTIC, **ASYNC}, note=" (asynchronous)"),
    clean("S30", "torch", "s30_healthy", ("graphs",), env=DETERMINISTIC),
    clean("S30", "torch", "s30_healthy", ("workers",), env=DETERMINISTIC),
    clean("S30", "torch", "s30_healthy", ("profiler",), env=DETERMINISTIC),
    Row("S31", "torch", "s31_kept_exception", (), "gpu-oom-leak", memory="8GiB", facts=[Bytes(4.0 * GIB, 6.5 * GIB)], at=r"cnn\.py:\d+ in "),
    clean("S31", "torch", "s31_kept_exception", ("repaired",), memory="8GiB", compare=False),
    # With PyTorch's stacks the verdict has the line where the tensor was made, and its callers.
    Row("S01", "torch", "s01_run_twice", (), "gpu-oom-leak", memory="8GiB", options=["--deep"],
        facts=[Bytes(4.0 * GIB, 7.0 * GIB), Says(r"allocated at cnn\.py:25 in (Trainer\.)?loss"),
               Says(r"s01_run_twice\.py:23")]),
    Row("S19", "torch", "s19_validation", (), "gpu-oom-peak-phase", memory="6GiB", options=["--deep"],
        facts=[Says(r"allocated at cnn\.py:25 in (Trainer\.)?loss"), Says(r"s19_validation\.py:19")]),
    Row("S31", "torch", "s31_kept_exception", (), "gpu-oom-leak", memory="8GiB", options=["--deep"],
        facts=[Bytes(4.0 * GIB, 6.5 * GIB), Says(r"allocated at cnn\.py:(25|30)")]),
    Row("S18", "torch", "s18_batch", (), ("gpu-oom-capacity", "gpu-oom-library-handle"), memory="8GiB", options=["--deep"],
        facts=[Bytes(6.0 * GIB, 10.0 * GIB), Says(r"allocated at cnn\.py:(15|25|30)")]),
    clean("S01", "torch", "s01_run_twice", ("repaired",), memory="8GiB", options=["--deep"]),
    # Many processes in one recording with one verdict.
    Row("S21", "torch", "s21_fork", (), "fork-after-init", facts=[Says(r"s21_fork\.py")], at=r"s21_fork\.py:15 in main"),
    clean("S21", "torch", "s21_fork", ("repaired",)),
    Row("S21", "torch", "s21_loader", (), "fork-after-init", at=r"s21_loader\.py:17 in Numbers\.__getitem__"),
    clean("S21", "torch", "s21_loader", ("repaired",)),
    Row("S22", "torch", "s22_pileup", (), "gpu-context-pileup", needs=TWO_GPUS, alone=True, facts=[Says(r"GPU 1")]),
    clean("S22", "torch", "s22_pileup", ("repaired",), needs=TWO_GPUS, alone=True),
    Row("S36", "torch", "s36_spawned", (), "illegal-address",
        facts=[Says(r"command still exited with status 0"), Says("write_far_away")]),
    clean("S36", "torch", "s36_spawned", ("repaired",)),
    Row("-", "torch", "nccl_pair", (), "killed-by-scheduler-or-user", needs=TWO_GPUS,
        facts=[Says(r"rank 1 \(pid \d+\) was the first"), Says(r"rank 0 \(pid \d+\)", ("consequences",))]),
    clean("-", "torch", "nccl_pair", ("repaired",), needs=TWO_GPUS),
    Row("S35", "torch", "s35_whole_array", (), "gpu-oom-capacity", memory="8GiB", facts=[Bytes(9.9 * GIB, 10.1 * GIB)], at=r"s35_whole_array\.py:13 in <module>"),
    clean("S35", "torch", "s35_whole_array", ("repaired",), memory="8GiB"),
]

# Snapshots saved by PyTorch itself: passed to explain, not run under gpuwhy.
SNAPSHOTS = [
    Row("-", "snapshot", "save_snapshot", ("leak",), "gpu-oom-leak", facts=[Says(r"cnn\.py:25")],
        at=r"cnn\.py:25 in loss"),
    Row("-", "snapshot", "save_snapshot", ("validation",), ("gpu-oom-peak-phase", "gpu-oom-leak"),
        facts=[Says(r"cnn\.py:25")], at=r"cnn\.py:25 in loss"),
    Row("-", "snapshot", "save_snapshot", ("capacity",), "gpu-oom-capacity", facts=[Says(r"cnn\.py:(15|25|30)")]),
    Row("-", "snapshot", "save_snapshot", ("healthy",), None, "undetermined", facts=[Says(r"no out-of-memory")]),
]

LIGHTNING, ACCELERATE = ("lightning",), ("accelerate",)
# Libraries on top of PyTorch. The place is in the program's own file, never in the framework's.
FRAMEWORKS = [
    Row("L09", "torch", "l09_lightning_outputs", (), "gpu-oom-leak", memory="4GiB", needs=LIGHTNING, facts=[Bytes(2.0 * GIB, 3.6 * GIB)],
        at=r"l09_lightning_outputs\.py:\d+ in (Model\.)?training_step"),
    clean("L09", "torch", "l09_lightning_outputs", ("repaired",), memory="4GiB", needs=LIGHTNING),
    Row("L10", "torch", "l10_lightning_batch", (), "gpu-oom-capacity", memory="4GiB", needs=LIGHTNING, facts=[Bytes(1.8 * GIB, 2.0 * GIB)],
        at=r"l10_lightning_batch\.py:\d+ in (Model\.)?training_step"),
    # Equal layers and no finished step look like a loop that keeps its results.
    Row("L10", "torch", "l10_lightning_batch", ("layers",), ("gpu-oom-capacity", None), memory="4GiB", needs=LIGHTNING),
    clean("L10", "torch", "l10_lightning_batch", ("repaired",), memory="4GiB", needs=LIGHTNING),
    Row("L11", "torch", "l11_accelerate_outputs", (), "gpu-oom-leak", memory="4GiB", needs=ACCELERATE, facts=[Bytes(2.0 * GIB, 3.6 * GIB)],
        at=r"l11_accelerate_outputs\.py:\d+ in "),
    clean("L11", "torch", "l11_accelerate_outputs", ("repaired",), memory="4GiB", needs=ACCELERATE),
    Row("L12", "torch", "l12_accelerate_label", (), "device-assert-index", needs=ACCELERATE, at=r"l12_accelerate_label\.py:\d+ in loss_of",
        facts=[Says("assert"), Says(r"nll_loss\S* (launched|on) .*; first launched at \S*l12_accelerate_label\.py:\d+ in loss_of")]),
    clean("L12", "torch", "l12_accelerate_label", ("repaired",), needs=ACCELERATE),
    Row("L13", "torch", "l13_compile_outputs", (), "gpu-oom-leak", memory="4GiB", needs=("triton",), facts=[Bytes(2.0 * GIB, 3.6 * GIB)],
        at=r"l13_compile_outputs\.py:\d+ in "),
    clean("L13", "torch", "l13_compile_outputs", ("repaired",), memory="4GiB", needs=("triton",)),
    Row("L14", "torch", "l14_compile_index", (), "device-assert-index", needs=("triton",), facts=[Says("index out of bounds")],
        at=r"l14_compile_index\.py:\d+ in "),
    clean("L14", "torch", "l14_compile_index", ("repaired",), needs=("triton",)),
]
for how, more in ((("nccl", "1"), ()), (("gloo", "2"), ()), (("nccl", "2"), TWO_GPUS)):
    FRAMEWORKS += [
        Row("L15", "torch", "l15_ddp_kept", how, "gpu-oom-leak", memory="4GiB", needs=more, facts=[Bytes(1.5 * GIB, 3.6 * GIB)],
            at=r"l15_ddp_kept\.py:\d+ in rank"),
        # The ranks of Gloo print that they are connected, and their lines get mixed.
        clean("L15", "torch", "l15_ddp_kept", (*how, "repaired"), memory="4GiB", needs=more, compare="gloo" not in how)]

# Two ranks on two GPUs, under torchrun. Both lines must be named: that of the rank at fault, and where the other one waits.
def mark(word, program="ranks", folder="torch"):
    """A pattern for the line of a program, tests/gpu/torch/ranks.py unless named, with the comment `# word`."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), folder, program + ".py")
    with open(path) as file:
        found = [number for number, line in enumerate(file, 1) if line.rstrip().endswith("# " + word)]
    assert len(found) == 1, f"{word} marks {len(found)} lines of {path}"
    return rf"\b{program}\.py:{found[0]}\b"


HANG = ("--hang-after", "8", "--kill-on-hang")
DESYNC, LATE = "collective-desync", "straggler"
RANKS = [Row("R01", "torch", "ranks", (name,), cause, needs=TWO_GPUS, options=HANG, facts=[Says(mark(word)) for word in words], at=at,
             alone=name == "memory")
         for name, cause, at, words in (
    ("order", DESYNC, mark("OTHER"), ("REDUCE",)), ("size", DESYNC, mark("SIZES"), ()), ("kind", DESYNC, mark("TYPES"), ()),
    ("receive", DESYNC, mark("BOTH"), ()), ("evaluate", DESYNC, None, ("EVALUATED",)),
    ("uneven", (DESYNC, LATE), None, ("FINISHED", "STEP")), ("ended", DESYNC, None, ("STEP",)),
    ("sharded", (DESYNC, LATE), None, ("ABSENT",)), ("replayed", (DESYNC, LATE, "peer-died"), None, ("NOT_REPLAYED",)),
    ("sleep", LATE, mark("SLEEPS"), ("STEP",)), ("lock", (LATE, "host-deadlock"), mark("LOCKED"), ()),
    ("pipe", LATE, mark("READS"), ("STEP",)), ("connection", LATE, mark("ACCEPTS"), ("STEP",)), ("loader", LATE, mark("LOADS"), ()),
    ("kernel", (LATE, "kernel-never-ends"), mark("SPINS"), ()), ("handled_memory", (LATE, "gpu-oom-capacity"), r"ranks\.py:\d+ in handled_memory", ("STEP",)),
    ("rendezvous", ("peer-died", LATE), None, ()),
    ("exception", "script-exception", mark("KEY"), ()), ("memory", "gpu-oom-capacity", mark("FILLS"), ()),
    ("label", "device-assert-index", r"ranks\.py:\d+ in (wrong|step_of)", ()), ("watchdog", LATE, mark("WATCHED"), ("STEP",)),
    ("one_group", (DESYNC, LATE, "peer-died"), None, ("GROUP",)), ("accumulate", DESYNC, None, ()),
    ("objects", DESYNC, None, ("OBJECTS", "STEP")), ("two_groups", DESYNC, mark("GROUPS"), ()), ("busy", LATE, None, ("STEP",)),
    ("debugger", "script-exception", None, ()), ("process", LATE, mark("RUNS"), ("STEP",)), ("file_lock", LATE, mark("FILE_LOCK"), ("STEP",)),
    ("skipped", DESYNC, None, ("LAST", "STEP")),
    ("unused", "script-exception", None, ()), ("one_card", (DESYNC, "wrong-current-device", "script-exception"), mark("SAME_CARD"), ()))]
RANKS += [clean("R02", "torch", "ranks", ("healthy" + how,), needs=TWO_GPUS, options=HANG)
          for how in ("", "_slow", "_save", "_join", "_sharded", "_graph", "_groups", "_checkpoint",
                      "_objects")]
PATIENT = ("--hang-after", "20", "--kill-on-hang")  # XLA's allocator waits 10 s for memory before it gives up
# The same with JAX, whose calls of NCCL come from threads without a Python frame.
RANKS += [Row("R03", "jax", "devices", (name,), cause, needs=TWO_GPUS, options=HANG, env=NO_PREALLOCATION,
              at=mark("KEY", "devices", "jax") if name == "exception" else None, facts=[Says(mark(word, "devices", "jax")) for word in words])
          for name, cause, words in (
    ("order", DESYNC, ()), ("ended", (DESYNC, LATE), ("ENDED",)), ("sleep", LATE, ("SLEEPS", "STEP")),
    ("exception", "script-exception", ()))]
RANKS += [Row("R03", "jax", "devices", ("memory",), (LATE, "gpu-oom-capacity"), needs=TWO_GPUS, options=PATIENT, env=NO_PREALLOCATION,
              alone=True, facts=[Says("ran out of memory trying to allocate 1.00GiB")])]
RANKS += [clean("R03", "jax", "devices", (name,), needs=TWO_GPUS, options=HANG, env=NO_PREALLOCATION)
          for name in ("healthy", "healthy_slow", "one_healthy")]

# Failures that look like another one: nothing here may be established but what nothing else explains.
PERHAPS = ("supported",)
READINGS = [
    Row("M01", "torch", "m01_readings", ("sentence",), ("gpu-oom-capacity", "gpu-oom-peak-phase", "gpu-oom-leak"), memory="4GiB",
        certain=PERHAPS, at=r"m01_readings\.py:\d+ in (sentence|block)"),
    Row("M01", "torch", "m01_readings", ("buffer",), "gpu-oom-leak", memory="4GiB", certain=PERHAPS,
        facts=[Says("on purpose", ("next",))], at=r"m01_readings\.py:\d+ in (buffer|block)"),
    Row("M01", "torch", "m01_readings", ("fallback",), "script-exception", memory="4GiB", facts=[Says("KeyError")]),
    Row("M01", "torch", "m01_readings", ("file",), "script-exception", memory="4GiB", facts=[Says("FileNotFoundError")]),
    Row("M01", "torch", "m01_readings", ("crash",), "host-crash-of-process", memory="4GiB", certain=CERTAIN),
    Row("M01", "torch", "m01_readings", ("term",), "killed-by-scheduler-or-user", certain=PERHAPS),
    Row("M01", "torch", "m01_readings", ("interrupt",), "killed-by-scheduler-or-user", certain=PERHAPS),
    Row("M01", "torch", "m01_readings", ("probe",), "script-exception", facts=[Says("KeyError")]),
    Row("M01", "torch", "m01_readings", ("rebuilt",), ("gpu-oom-capacity", "gpu-oom-leak"), memory="4GiB", certain=PERHAPS,
        at=r"m01_readings\.py:\d+ in (rebuilt|build)"),
    Row("M01", "torch", "m01_readings", ("worker",), "host-crash-of-process"),
    Row("M01", "torch", "m01_readings", ("thread",), ("gpu-oom-capacity", "gpu-oom-leak"), memory="4GiB", certain=PERHAPS,
        at=r"m01_readings\.py:\d+ in (work|block|<listcomp>)"),
    Row("M01", "torch", "m01_readings", ("shapes",), ("gpu-oom-capacity", "gpu-oom-leak"), memory="4GiB", certain=PERHAPS,
        at=r"m01_readings\.py:\d+ in shapes"),
]
# Without the limit, the request of the first three is not refused.
READINGS += [clean(row.id, row.kind, row.program, (*row.arguments, "repaired"), memory=row.memory,
                   compare=row.arguments[0] not in ("fallback", "file", "crash")) for row in READINGS]

HANDLED = Says("handled: ", ("advice",))
# Which of several failures is the root.
ROOTS = [
    Row("L21", "torch", "l21_handled", ("copies",), "script-exception", memory="4GiB", facts=[Says("ValueError")]),
    Row("L21", "torch", "l21_handled", ("launches",), "script-exception", memory="4GiB", facts=[Says("ValueError")]),
    clean("L21", "torch", "l21_handled", ("repaired",), memory="4GiB", compare=False, facts=[HANDLED]),
    clean("L21", "torch", "l21_handled", ("many",), memory="4GiB", compare=False, facts=[Says(r"handled: .* was refused .*\d+ times .*\(8\.0+ GiB each", ("advice",))]),
    Row("L22", "torch", "l22_fraction", (), "gpu-oom-capacity", facts=[Says(r"PyTorch's own limit.*set_per_process_memory_fraction")],
        at=r"l22_fraction\.py:\d+ in "),
    clean("L22", "torch", "l22_fraction", ("repaired",)),
    Row("L23", "torch", "l23_other_stream", (), "kernel-never-ends", options=["--hang-after", "3", "--kill-on-hang"],
        facts=[Says("spin was launched on stream")], at=r"l23_other_stream\.py:\d+ in <module>"),
    clean("L23", "torch", "l23_other_stream", ("repaired",), options=["--hang-after", "3", "--kill-on-hang"]),
    Row("L30", "torch", "l30_impossible", (), "gpu-oom-capacity", memory="4GiB", facts=[Says(r"more than any card has|overflow")],
        at=r"l30_impossible\.py:11 in <module>"),
    clean("L30", "torch", "l30_impossible", ("repaired",), memory="4GiB"),
    Row("L31", "torch", "l31_second_gpu", (), "gpu-oom-capacity", memory="4GiB", needs=TWO_GPUS, facts=[Says("on GPU 1 of 2"), Bytes(6 * GIB, 6 * GIB)],
        at=r"l31_second_gpu\.py:11 in <module>"),
    clean("L31", "torch", "l31_second_gpu", ("repaired",), memory="4GiB", needs=TWO_GPUS),
    # Started like `gpuwhy run ... 2>&1 | tee log`.
    Row("L28", "torch", "s28_host", ("exception",), "script-exception", merged=True, facts=[Says("KeyError: .learning_rate")], note=" (one pipe)"),
    Row("L28", "torch", "s03_caught", ("value_error",), "script-exception", memory="4GiB", merged=True, facts=[Says("ValueError")], note=" (one pipe)"),
    Row("L28", "torch", "s13_label", (), "device-assert-index", merged=True, at=r"cnn\.py:\d+ in ", facts=[Says("assert")], note=" (one pipe)"),
    Row("L28", "torch", "l22_fraction", (), "gpu-oom-capacity", merged=True, facts=[Says("set_per_process_memory_fraction")], note=" (one pipe)"),
    clean("L28", "torch", "s13_label", ("repaired",), merged=True, note=" (one pipe)"),
]

# Memory that is kept by mistake, and memory that grows by design.
GROWTH = [
    Row("L02", "torch", "l02_losses", (), "gpu-oom-leak", memory="6GiB", env=EXPANDABLE, at=r"(cnn|l02_losses)\.py:\d+ in ", note=" (expandable)"),
    Row("L02", "torch", "l02_losses", (), "gpu-oom-leak", memory="6GiB", env=ASYNC, at=r"(cnn|l02_losses)\.py:\d+ in ", note=" (asynchronous)"),
    Row("L32", "torch", "l32_few_steps", (), "gpu-oom-leak", memory="4GiB", at=r"l32_few_steps\.py:\d+ in (features|<module>)"),
    clean("L32", "torch", "l32_few_steps", ("repaired",), memory="4GiB"),
    Row("L33", "torch", "l33_two_places", (), "gpu-oom-leak", memory="6GiB", at=r"l33_two_places\.py:\d+ in <module>"),
    clean("L33", "torch", "l33_two_places", ("repaired",), memory="6GiB"),
    # Layers that stay look like a loop that keeps its results, so "undetermined" is right, too.
    Row("L24", "torch", "l24_layers", (), ("gpu-oom-capacity", None), memory="4GiB", certain=("supported",)),
    clean("L24", "torch", "l24_layers", ("repaired",), memory="4GiB"),
    clean("L25", "torch", "l25_accumulation", (), memory="3GiB"),
    Row("L26", "torch", "l26_adam", (), ("gpu-oom-capacity", "gpu-oom-peak-phase", None), memory="4GiB"),
    clean("L26", "torch", "l26_adam", ("repaired",), memory="4GiB"),
    clean("L27", "torch", "l27_search", (), memory="6GiB", compare=False),
]

NUMBA = [
    Row("L07", "numba", "l07_numba_kept", (), "gpu-oom-leak", memory="4GiB", facts=[Bytes(2.0 * GIB, 3.6 * GIB)], at=r"l07_numba_kept\.py:\d+ in <module>"),
    clean("L07", "numba", "l07_numba_kept", ("repaired",), memory="4GiB"),
    Row("L08", "numba", "l08_numba_far", (), "illegal-address", at=r"l08_numba_far\.py:\d+ in ",
        facts=[Says(r"scatter.* (launched|on) .*; first launched at \S*l08_numba_far\.py:\d+ in scatter_rows")]),
    clean("L08", "numba", "l08_numba_far", ("repaired",)),
]

CUPY = [
    Row("L16", "cupy", "l16_cupy_far", (), "illegal-address", at=r"l16_cupy_far\.py:\d+ in ",
        facts=[Says(r"scatter (launched|on) .*; first launched at \S*l16_cupy_far\.py:\d+ in scatter_rows")]),
    clean("L16", "cupy", "l16_cupy_far", ("repaired",)),
    Row("L17", "cupy", "l17_cupy_varied", (), "gpu-oom-leak", memory="4GiB", facts=[Bytes(1.5 * GIB, 3.6 * GIB)], at=r"l17_cupy_varied\.py:\d+ in <module>"),
    clean("L17", "cupy", "l17_cupy_varied", ("repaired",), memory="4GiB"),
    Row("L17", "cupy", "l17_cupy_varied", ("ordered",), "gpu-oom-leak", memory="4GiB", facts=[Bytes(1.5 * GIB, 3.6 * GIB)],
        at=r"l17_cupy_varied\.py:\d+ in <module>"),
    clean("L17", "cupy", "l17_cupy_varied", ("ordered", "repaired"), memory="4GiB"),
    Row("L18", "cupy", "l18_cupy_capacity", (), "gpu-oom-capacity", memory="4GiB", facts=[Bytes(GIB, GIB)],
        at=r"l18_cupy_capacity\.py:\d+ in step"),
    clean("L18", "cupy", "l18_cupy_capacity", ("repaired",), memory="4GiB"),
    Row("L29", "cupy", "l29_cupy_places", (), "illegal-address",
        facts=[Says(r"scatter (launched|on) .*launched at 2 places: .*\.py:\d+ in scatter_(head|tail), .*\.py:\d+ in scatter_(head|tail)")]),
    clean("L29", "cupy", "l29_cupy_places", ("repaired",)),
]

JAX = [
    Row("L06", "jax", "l06_kept", (), "gpu-oom-leak", memory="4GiB"),
    clean("L06", "jax", "l06_kept", ("repaired",), memory="4GiB"),
    Row("L19", "jax", "l19_single", (), "gpu-oom-capacity", memory="4GiB", at=r"l19_single\.py:\d+ in <module>"),
    clean("L19", "jax", "l19_single", ("repaired",), memory="4GiB"),
    Row("L19", "jax", "l19_single", (), "gpu-oom-capacity", memory="4GiB", env=NO_PREALLOCATION, facts=[Bytes(6 * GIB, 6 * GIB)],
        at=r"l19_single\.py:\d+ in <module>", note=" (no preallocation)"),
    clean("L19", "jax", "l19_single", ("repaired",), memory="4GiB", env=NO_PREALLOCATION, note=" (no preallocation)"),
    Row("L20", "jax", "l20_donated", (), "gpu-oom-leak", memory="4GiB"),
    clean("L20", "jax", "l20_donated", ("repaired",), memory="4GiB"),
    Row("S03", "jax", "s03_caught", ("unwritten",), "gpu-oom-capacity", memory="4GiB", env=NO_PREALLOCATION),
    clean("S03", "jax", "s03_caught", ("smaller",), memory="4GiB", env=NO_PREALLOCATION, compare=False),
    Row("S20", "jax", "s20_preallocation", (), "gpu-oom-preallocation", memory="8GiB",
        facts=[Bytes(5.0 * GIB, 6.5 * GIB)]),
    clean("S20", "jax", "s20_preallocation", (), memory="8GiB", env=NO_PREALLOCATION, note=" (no preallocation)"),
]

# Keras 3 on its PyTorch and JAX back ends. A label that is too large is no error for JAX.
KERAS = [
    Row("K02", "keras", "k02_label", ("torch",), ("device-assert-index", "script-exception"), at=r"k02_label\.py:\d+ in <module>"),
    clean("K02", "keras", "k02_label", ("torch", "repaired")),
]
for backend, more in (("torch", {}), ("jax", {"env": NO_PREALLOCATION})):
    KERAS += [
        Row("K01", "keras", "k01_kept", (backend,), "gpu-oom-leak", memory="4GiB", facts=[Bytes(1.0 * GIB, 3.9 * GIB)],
            at=r"k01_kept\.py:\d+ in <module>", **more),
        clean("K01", "keras", "k01_kept", (backend, "repaired"), memory="4GiB", **more),
        Row("K03", "keras", "k03_batch", (backend,), "gpu-oom-capacity", memory="4GiB", at=r"k03_batch\.py:\d+ in <module>", **more),
        clean("K03", "keras", "k03_batch", (backend, "repaired"), memory="4GiB", **more),
        Row("K04", "keras", "k04_run_twice", (backend,), "gpu-oom-leak", memory="4GiB", facts=[Bytes(1.0 * GIB, 3.9 * GIB)],
            at=r"(net|k04_run_twice)\.py:\d+ in ", **more),
        clean("K04", "keras", "k04_run_twice", (backend, "repaired"), memory="4GiB", **more),
    ]

ECHO_700 = Says("700|illegal", ("consequences",))
CUDA = [
    Row("S06", "cuda", "s06_unchecked", (), "gpu-oom-capacity", memory="4GiB",
        facts=[Bytes(6 * GIB, 6 * GIB), ECHO_700]),
    clean("S06", "cuda", "s06_unchecked", ("repaired",), memory="4GiB"),
    Row("S12", "cuda", "s12_bad_address", (), "illegal-address", facts=[Says("fill")]),
    clean("S12", "cuda", "s12_bad_address", ("repaired",)),
    Row("S13", "cuda", "s13_assert", (), "device-assert-index", facts=[Says("assert")]),
    clean("S13", "cuda", "s13_assert", ("repaired",)),
    Row("S14", "cuda", "s14_faults", ("misaligned",), "misaligned-access", facts=[Says("read_wide")]),
    Row("S14", "cuda", "s14_faults", ("trap",), "kernel-fault-other", facts=[Says("trap_when")]),
    Row("S14", "cuda", "s14_faults", ("recursion",), "illegal-address", facts=[Says("recurse")]),
    clean("S14", "cuda", "s14_faults", ("repaired",)),
    Row("S12", "cuda", "s12_bad_address", (), "illegal-address", options=["--core"],
        facts=[Says(r"_ADDRESS in kernel fill"), Says(r"s12_bad_address\.cu:\d+"), Says(r"^kernel fill", ("headline",))]),
    Row("S13", "cuda", "s13_assert", (), "device-assert-index", options=["--core"],
        facts=[Says(r"_ASSERT in kernel pick"), Says(r"block \(0,0,0\), thread \(17,0,0\)"), Says(r"s13_assert\.cu:\d+")]),
    Row("S14", "cuda", "s14_faults", ("misaligned",), "misaligned-access", options=["--core"],
        facts=[Says(r"_MISALIGNED_ADDRESS in kernel read_wide"), Says(r"s14_faults\.cu:\d+")]),
    # It was not known what a dump contains after a trap, so the kernel need not be named.
    Row("S14", "cuda", "s14_faults", ("trap",), "kernel-fault-other", options=["--core"]),
    Row("S14", "cuda", "s14_faults", ("recursion",), "illegal-address", options=["--core"],
        facts=[Says(r"in kernel recurse")]),
    Row("S12", "cuda", "s12_bad_address", (), "illegal-address", options=["--blame"],
        facts=[Says(r"of fill on .* itself.*this launch is at fault"), Says(r"after 5[01] launches of thread")]),
    Row("S13", "cuda", "s13_assert", (), "device-assert-index", options=["--blame"],
        facts=[Says(r"of pick on .* itself.*this launch is at fault")]),
    Row("S14", "cuda", "s14_faults", ("misaligned",), "misaligned-access", options=["--blame"],
        facts=[Says(r"of read_wide on .* itself")]),
    Row("S14", "cuda", "s14_faults", ("trap",), "kernel-fault-other", options=["--blame"],
        facts=[Says(r"of trap_when on .* itself")]),
    Row("S14", "cuda", "s14_faults", ("recursion",), "illegal-address", options=["--blame"],
        facts=[Says(r"of recurse on .* itself")]),
    clean("S14", "cuda", "s14_faults", ("repaired",), options=["--core", "--blame"]),
    Row("S15", "cuda", "s15_launch_config", ("threads",), "launch-config-invalid", facts=[Says("4,?096")]),
    Row("S15", "cuda", "s15_launch_config", ("shared",), "launch-config-invalid", facts=[Says("400,?000")]),
    clean("S15", "cuda", "s15_launch_config", ("repaired",)),
    Row("S21", "cuda", "s21_forked", (), "fork-after-init"),
    clean("S21", "cuda", "s21_forked", ("repaired",)),
    Row("S32", "cuda", "s32_reset", ("kernel",), "context-destroyed"),
    Row("S32", "cuda", "s32_reset", ("event",), "context-destroyed"),
    Row("S32", "cuda", "s32_reset", ("free",), "context-destroyed"),
    # A driver may return an error for a stream from before the reset or crash with SIGSEGV, with or without gpuwhy.
    Row("S32", "cuda", "s32_reset", ("stream",), "context-destroyed", compare=False),
    clean("S32", "cuda", "s32_reset", ("repaired",)),
]


def rows():
    """Run every cuda row twice: with the runtime linked statically and as a shared library."""
    result = []
    for row in CUDA:
        for linking in ("static", "shared"):
            result.append(Row(row.id, f"cuda {linking}", row.program, row.arguments,
                              row.causes if row.causes != (None,) else None, row.status, row.memory, row.env, row.facts,
                              row.compare, row.needs, row.note, row.options, row.at, row.alone, row.certain, row.merged))
    return result + TORCH + RANKS + SNAPSHOTS + FRAMEWORKS + ROOTS + READINGS + GROWTH + NUMBA + CUPY + JAX + KERAS
