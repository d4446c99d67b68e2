"""The scenarios on a GPU: the program, the verdict that gpuwhy must give, and the repaired twin, for which it must
report nothing.

    scenarios.py --list [--real]    names, one per line
    scenarios.py NAME               run one; exit 0, 1 (failed), 77 (skipped)
"""
import os
import pathlib
import re
import shutil
import signal
import sys

import invariants
from harness import (BUILD, CNN, REAL, SANITIZE, SCENARIOS, Card, Workplace, bytes_text, expect, expect_same, expect_screens,
                     expect_text, expect_value, has_value, main, new_folder, run_observed, run_plain, skip)

PYTHON = sys.executable
CATCH = ("--catch-crash",)
REPAIRED = object()  # as a scenario's twin: the same command with --repaired


class Scenario:
    """`argv` and `twin` are command lines ({truth}: a file); `check(run, verdict)` checks the facts."""

    def __init__(self, argv, card, cause, check=None, twin=None, twin_card=None, twin_check=None, on="both",
                 exit=None, signal_when=None, status="fault", kernel=None, races=False, crashes=False,
                 options=(), twin_status="clean"):
        self.argv, self.card, self.cause, self.check, self.on = argv, card, cause, check, on
        self.twin = repaired(argv) if twin is REPAIRED else twin
        self.twin_card, self.twin_check = twin_card or card, twin_check
        self.exit = exit if exit is not None else 0 if status == "clean" else 1
        self.signal_when, self.status = signal_when, status
        self.options = options  # options of gpuwhy run
        self.twin_status = twin_status
        self.kernel = kernel  # the oldest Linux that shows the fault, as (major, minor)
        self.crashes = crashes  # crashes on an address that a sanitizer's handler sees first
        self.races = races  # the program itself reads memory that the GPU is still writing


def repaired(argv):
    """Insert --repaired in front of the file for the truth."""
    end = argv.index("--truth") if "--truth" in argv else len(argv)
    return [*argv[:end], "--repaired", *argv[end:]]


def cnn(*options):
    return [CNN, *options, "--truth", "{truth}"]


def program(name, *options):
    return [SCENARIOS / name, *options, "--truth", "{truth}"]


# ---- sites: lines are found in the sources by their content ----------------------------------------------------------

ROOT = pathlib.Path(__file__).parents[2]
CNN_C = ROOT / "examples" / "cnn" / "cnn.c"
DRIVER = ROOT / "tests" / "scenarios" / "driver"


def lines_with(source, code):
    return [number for number, line in enumerate(source.read_text().splitlines(), 1) if code in line]


def expect_where(verdict, function, source, code):
    """The place is `function`, at a line of `source` that has `code`. Needs elfutils and a debug build of our
    programs."""
    expect_place(verdict["where"], verdict["where_reason"], function, source, code)


def expect_place(where, reason, function, source, code):
    expect(where is not None, f"no place: {reason}")
    stack = ", ".join(f"{f['function']} ({f['file']}:{f['line']})" for f in where["frames"])
    expect(where["function"] == function and pathlib.Path(where["file"] or "?").name == source.name,
           f"not in {function}, {source.name}: {stack}")
    expect(where["line"] in lines_with(source, code), f"not at '{code}': {stack}")


def expect_said_place(verdict, function, source, code, what):
    places = "|".join(f"{re.escape(source.name)}:{n} in {re.escape(function)}\\b" for n in lines_with(source, code))
    expect(places, f"{source.name} has no '{code}'")
    expect_text(verdict, places, what)


# ---- facts that the evidence must have -------------------------------------------------------------------------------

def s01(run, verdict):
    expect_value(verdict, run.truth("kept_bytes"), "bytes kept from the first run", 0.03)
    expect_value(verdict, run.truth("failed_bytes"), "the failed request", 0.001)
    times = [e["t_s"] for e in verdict["evidence"] if e["t_s"] is not None]
    expect(times and all(0 <= t <= run.seconds for t in times), f"times of the evidence: {times}")
    expect_where(verdict, "layer_forward", CNN_C, "floats_new(")


def s02(run, verdict):
    expect_text(verdict, r"re-?use", "the reuse of cached memory")


def s04(run, verdict):
    expect_text(verdict, rf"\b{run.truth('holder_pid')}\b", "the holder's pid")
    expect_text(verdict, r"s04_other_process", "the holder's command line")
    expect_value(verdict, run.truth("holder_bytes"), "the holder's bytes", 0.1)


def s05(run, verdict):
    asked = 512 * (3 * 28 * 28 * 4 + 4)  # images and labels
    pages = -(-512 * 3 * 28 * 28 * 4 // (2 << 20)) * (2 << 20)
    expect(has_value(verdict, asked) or has_value(verdict, pages) or has_value(verdict, asked - 512 * 4),
           f"no bytes an iteration near {asked} (asked for) or {pages} (pages): {verdict['evidence']}")
    bound = [e["value"] for e in verdict["evidence"] if e["unit"] in ("iterations", "count") and e["value"] is not None]
    failed = run.truth("failed_iteration")
    expect(any(0.5 * failed <= b <= failed + 1 for b in bound),
           f"no lower bound of the iteration near {failed}: {bound}")
    expect_where(verdict, "batch_load", CNN_C, "floats_new(")


def s06(run, verdict):
    expect_value(verdict, run.truth("ignored_bytes"), "the allocation that nobody checked", 0.001)
    expect(any("700" in c or "illegal" in c.lower() for c in verdict["consequences"]),
           f"the illegal address is no consequence: {verdict['consequences']}")
    expect_text(verdict, r"cuMemAlloc", "the call whose code was ignored")


def s08(run, verdict):
    held, kept = run.truth("held_bytes"), run.truth("kept_bytes")
    expect(any(e["value"] is not None and min(abs(e["value"] - held) / held, abs(e["value"] - kept) / kept) < 0.02
               for e in verdict["evidence"]), f"no evidence for pages held: {verdict['evidence']}")
    expect_text(verdict, r"2\.?0* MiB|page", "half-used pages")


def library_log(*parts):
    """The library's own messages are evidence, although the program printed none of them."""
    def check(run, verdict):
        lines = [e["text"] for e in verdict["evidence"] if e["source"] == "library log"]
        expect(len(lines) == 1 and all(part in lines[0] for part in parts), f"{parts} is not in {lines}")
        expect(b"CUDNN" not in run.stderr.split(b"gpuwhy:")[0], "the program itself prints the status")
        left = [f.name for f in run.folder.iterdir() if "cudnn" in f.name]
        expect(not left, f"left behind: {left}")
    return check


def no_library_log(run, verdict):
    expect(not any(e["source"] == "library log" for e in verdict["evidence"]), f"{verdict['evidence']}")


def s10(kind, *function):
    function = function or None
    each_bytes = {"streams": 512 << 10, "contexts": 400 << 20}[kind]

    def check(run, verdict):
        made = run.truth(kind)  # not counting the primary context, or the program's own two streams
        expect(any(e["unit"] == "count" and made <= e["value"] <= made + 2 for e in verdict["evidence"]),
               f"no evidence for the count of {kind} = {made}: {verdict['evidence']}")
        expect(any(e["unit"] == "bytes" and e["value"] >= made * each_bytes for e in verdict["evidence"]),
               f"no evidence for the bytes of {made} {kind}: {verdict['evidence']}")
        expect_text(verdict, kind.rstrip("s"), kind)
        if function is not None:
            expect_where(verdict, *function)
    return check


def s11(run, verdict):
    leaked = 2 * (60 + 1) * run.truth("workspace_bytes")
    expect_text(verdict, bytes_text(leaked).replace(".", r"\."), "the leaked bytes")
    expect_said_place(verdict, "convolve", CNN_C, "WORKSPACE_FLOATS)", "the leak's line")


def s11_kind(name, kind, code):
    """Only one kind is left over, and nothing else is reported as a leak."""
    def check(run, verdict):
        found = [(leak["kind"], leak["call"], leak["left"], leak["where"] and leak["where"]["text"])
                 for leak in verdict["leaks"]]
        expect(len(found) == 1 and found[0][0] == kind and found[0][2] == run.truth("left"),
               f"expected {run.truth('left')} of kind {kind}, found {found}")
        leak = verdict["leaks"][0]
        expect(leak["made"] > leak["left"] and leak["first_t_s"] <= leak["last_t_s"], f"{leak}")
        expect(any(f"{leak['left']}" in line and "possible leak" in line for line in verdict["advice"]),
               f"the advice does not say it: {verdict['advice']}")
        expect_place(leak["where"], None, f"make_{name}", DRIVER / "s11_leaks.c", code)
    return check


def s11_none(run, verdict):
    expect(verdict["leaks"] == [] and not any("leak" in line for line in verdict["advice"]),
           f"found {verdict['leaks']}, {verdict['advice']}")


def forgotten_frames(run, verdict):
    left = [leak["left"] for leak in verdict["leaks"]]
    expect(left == [run.truth("kept")], f"expected {run.truth('kept')} frames, found {verdict['leaks']}")


def full_pool(run, verdict):
    """Only the message of the framework's allocator shows what was refused, and nothing shows what fills its pool."""
    used = run.truth("used_bytes")
    expect(any(e["unit"] == "bytes" and abs(e["value"] - used) < 1 << 20 for e in verdict["evidence"]), f"not {used} bytes: {verdict['evidence']}")
    expect([a["cause"] for a in verdict["alternatives"]] == ["gpu-oom-capacity"], f"{verdict['alternatives']}")
    expect("fit.py" in str(verdict["where"]), f"not the place of the exception: {verdict['where']}")
    expect(any("clear_session" in line for line in verdict["next"]) and any("half the batch" in line for line in verdict["next"]), f"{verdict['next']}")


def own_limit(run, verdict):
    expect_value(verdict, run.truth("used_bytes"), "in use", 0.01)
    expect_text(verdict, r"own limit of 512\.00 MiB", "the limit")
    expect("memory_limit" in verdict["next"][0], f"{verdict['next']}")


def pool_in_pieces(run, verdict):
    expect_value(verdict, run.truth("used_bytes"), "in use", 0.01)
    expect("without growth" in verdict["next"][0], f"{verdict['next']}")


def region_refused(run, verdict):
    expect(run.truth("refused") > 0, "no region was refused")


def wrong_device(function, source, code):
    def check(run, verdict):
        expect_text(verdict, r"GPU 0", "whose it is")
        expect_text(verdict, r"GPU 1", "which one was worked on")
        expect_text(verdict, r"400 \(CUDA_ERROR_INVALID_HANDLE\)", "what the driver answered")
        expect_where(verdict, function, DRIVER / source, code)
    return check


S16_C = DRIVER / "s16_order.c"


def s16(run, verdict):
    expect_value(verdict, run.truth("block_bytes"), "the bytes that the copy uses", 0.001)
    expect_text(verdict, r"cuMemcpyDtoD", "the copy")
    expect_said_place(verdict, "block_release", S16_C, "cuMemFree", "where it was freed")
    expect_where(verdict, "block_release", S16_C, "cuMemFree")


def s16_pipeline(run, verdict):
    expect_text(verdict, r"cuMemcpyHtoD", "the copy")
    expect_where(verdict, "block_release", S16_C, "cuMemFree")


def hypotheses(verdict):
    return {a["cause"]: a["certainty"] for a in verdict["alternatives"]}


def s16_is_silent(run, verdict):
    expect(not verdict["alternatives"], f"suspects something: {verdict['alternatives']}")
    expect(not any("ordered" in line for line in verdict["advice"]), f"suspects something: {verdict['advice']}")


def s16_is_told(run, verdict):
    expect(hypotheses(verdict) == {"cross-stream-use-after-free": "hypothesis"}, f"{verdict['alternatives']}")
    expect(any("block_release" in line for line in verdict["advice"]), f"{verdict['advice']}")


def s16b(run, verdict):
    expect(hypotheses(verdict) == {"host-read-not-ordered": "hypothesis"}, f"{verdict['alternatives']}")
    expect(any("cuMemcpyDtoHAsync" in line for line in verdict["advice"]), f"not advised: {verdict['advice']}")


def s12(run, verdict):
    expect_text(verdict, r"class_report", "the kernel that was launched last")
    expect_text(verdict, r"reset", "that no reset cures it")
    expect_text(verdict, r"\bms\b", "the distance in time")
    expect(not verdict["where"] or "first launched" in verdict["where"]["what"] or
           (REAL and "reported the fault" in verdict["where"]["what"]), f"{verdict['where']}")
    if not REAL:  # on a real GPU it is random which other launches come before the report
        expect_where(verdict, "report_with_bad_address", CNN_C, "KERNEL_class_report")


def s15(limits, asked):
    def check(run, verdict):
        expect(any(has_value(verdict, limit, 0) for limit in limits), f"no limit {limits}: {verdict['evidence']}")
        expect_value(verdict, asked, "what was asked for", 0)
        expect_where(verdict, "main", DRIVER / "s15_launch_config.c", "cuLaunchKernel(")
    return check


def s17(run, verdict):
    expect_value(verdict, run.truth("data_set_bytes"), "the largest block", 0.001)


def s21(run, verdict):
    expect_text(verdict, rf"\b{run.truth('child_pid')}\b", "the child")
    expect_text(verdict, rf"\b{run.truth('parent_pid')}\b", "the parent that initialised CUDA")
    expect_where(verdict, "child_work", DRIVER / "s21_fork.c", "cuInit(0)")
    callers = [f["function"] for f in verdict["where"]["frames"]]
    expect("child_start" in callers, f"the function that forked is not on the stack: {callers}")
    expect_said_place(verdict, "child_start", DRIVER / "s21_fork.c", "fork()", "where the fork was")
    expect_said_place(verdict, "gpu_open", ROOT / "examples" / "common" / "gpu.c", "cuInit(", "who initialised CUDA")


def s22(run, verdict):
    expect_text(verdict, r"(GPU|device) 1", "the idle GPU")
    expect(any(e["unit"] == "count" and 3 <= e["value"] <= run.truth("workers") for e in verdict["evidence"]),
           f"no count of the contexts on one GPU: {verdict['evidence']}")  # the third context already finds no memory
    expect_where(verdict, "worker", DRIVER / "s22_pileup.c", "cuMemAlloc(&block")


def says(*patterns):
    def check(run, verdict):
        for pattern in patterns:
            expect_text(verdict, pattern, pattern)
    return check


def with_certainty(certainty, check):
    def check_both(run, verdict):
        expect(verdict["certainty"] == certainty, f"{verdict['certainty']}, not {certainty}")
        check(run, verdict)
    return check_both


def s25_advice(pattern):
    def check(run, verdict):
        expect(any(re.search(pattern, line) for line in verdict["advice"]), f"no {pattern}: {verdict['advice']}")
    return check


def s25_no_advice(run, verdict):
    odd = [line for line in verdict["advice"] if re.search("heat|power|PCIe", line)]
    expect(not odd, f"advice about a healthy card: {odd}")


def s29(run, verdict):
    expect(verdict["where"]["function"] == "main" or verdict["where"]["file"].endswith("s29_pinned.c"),
           f"{verdict['where']}")
    expect_text(verdict, r"pinned|page-locked", "page-locked memory")
    expect(not (verdict["cause"] or "").startswith("gpu-oom"), "the GPU is blamed")


def known(*parts):
    """A known problem of PyTorch 2.9.0 is supported: the cure is the first step, and no step contradicts it."""
    def check(run, verdict):
        rows = verdict["known"]
        expect(len(rows) == 1 and rows[0]["certainty"] == "supported", f"known: {rows}")
        expect(all(part in rows[0]["text"] for part in ("PyTorch 2.9.0 computes conv3d", *parts)), f"known: {rows}")
        expect(verdict["next"][0] == rows[0]["cure"], f"the cure is not first: {verdict['next']}")
        expect(not any("bfloat16" in step for step in verdict["next"]), f"bfloat16 is advised: {verdict['next']}")
    return check


def slowly(run, verdict):
    rows = [(row["certainty"], row["source"]) for row in verdict["known"]]
    expect(rows == [("supported", "pytorch/pytorch#166122")], f"known: {verdict['known']}")


def nothing_is_slow(run, verdict):
    expect(verdict["known"] == [], f"known: {verdict['known']}")


def nothing_known(run, verdict):
    expect(verdict["known"] == [], f"known: {verdict['known']}")
    expect(any("bfloat16" in step for step in verdict["next"]), f"bfloat16 is not advised: {verdict['next']}")


def workspace(run, verdict):
    lines = [line for line in verdict["advice"] if line.startswith("library-workspace-choice")]
    expect(len(lines) == 1, f"not said once: {verdict['advice']}")
    for wanted in ("cudnn", bytes_text(run.truth("large_bytes")), bytes_text(run.truth("small_bytes"))):
        expect(wanted in lines[0], f"{wanted} is not in {lines[0]}")
    # Time stamps in the rings show which kernel ran with which workspace; on a slow or busy machine they do not always
    # exist.
    if "followed by kernel" in lines[0]:
        expect("by kernel conv_large;" in lines[0] and "kernel conv_small followed" in lines[0], f"the wrong kernels: {lines[0]}")
    expect("workspace_choice.c:" in lines[0], f"no place in {lines[0]}")


def workspace_is_silent(run, verdict):
    expect(not any("library-workspace" in line for line in verdict["advice"]), f"{verdict['advice']}")


def s32(made, function="call_begin", used=None, by="reset"):
    """Check where the object was made, where the reset was, and, if a call names it, where it was used."""
    source = DRIVER / "s32_reset.c"

    def check(run, verdict):
        expect_text(verdict, r"reset", "the reset")
        expect_where(verdict, by, source, "cuDevicePrimaryCtxReset(")
        expect_said_place(verdict, function, source, made, "where it was made")
        if used is not None:
            expect_said_place(verdict, used[0], source, used[1], "where it was used")
        if by == "library_close":
            expect_text(verdict, r"by thread \d+, while thread \d+ still used it", "that another thread did it")
    return check


def s36(run, verdict):
    expect_text(verdict, rf"\bpid {run.truth('failing_pid')}\b", "the child that failed")
    expect_text(verdict, r"command still exited with status 0", "that the command's status is 0 all the same")


def s36_replaced(run, verdict):
    expect_text(verdict, rf"\bpid {run.truth('failing_pid')}\b.*replaced it", "that another one replaced it")


def ranks(run, verdict):
    who = rf"rank 2 \(pid {run.truth('culprit_pid')}\)"
    expect_text(verdict, who + " was the first", "the rank that failed first")
    ended = [c for c in verdict["consequences"] if "rank" in c and "signal 15" in c]
    expect(len(ended) == 3, f"not three ranks were ended after it: {verdict['consequences']}")
    expect(any("the command exited with status 1" in c for c in verdict["consequences"]), "the launcher's end")


def ranks_restarted(run, verdict):
    who = rf"rank 2, restart 1 \(pid {run.truth('culprit_pid', 1)}\)"
    expect_text(verdict, who + r" was the first of 5 ", "the rank that failed first after the restart")
    before = rf"before restart 1 of all ranks: rank 2 \(pid {run.truth('culprit_pid')}\): cuCtxSynchronize returned 700"
    expect_text(verdict, before, "what failed before the restart")


def ranks_recovered(run, verdict):
    expect_text(verdict, rf"rank 2 \(pid {run.truth('culprit_pid')}\): cuCtxSynchronize returned 700 .* started all ranks "
                r"again \(restart 1\)", "why all ranks were started again")


S33 = DRIVER / "s33_host_touch.c"


def s33_block(run, verdict):
    expect_value(verdict, run.truth("block_bytes"), "the block", 0.001)
    expect_text(verdict, rf"{int(run.truth('address')):#x}", "the address")
    expect_text(verdict, r"4096 bytes into", "the place in the block")
    expect_said_place(verdict, "block_make", S33, "cuMemAlloc(", "the allocation")
    expect_where(verdict, "host_read", S33, "return *there")


def s33_null(run, verdict):
    expect_value(verdict, run.truth("wanted_bytes"), "the failed request", 0.001)
    expect(any("address 0x0" in c and "NULL" in c for c in verdict["consequences"]),
           f"the crash is no consequence: {verdict['consequences']}")


def s33_unknown(run, verdict):
    expect("host-touched-device-memory" in [a["cause"] for a in verdict["alternatives"]],
           f"not among the alternatives: {verdict['alternatives']}")
    expect(any("--catch-crash" in n for n in verdict["next"]), f"--catch-crash is not offered: {verdict['next']}")


def s34(run, verdict):
    expect(verdict["certainty"] == "supported", f"certainty {verdict['certainty']}")
    expect_text(verdict, r"cuMemcpyHtoD", "the call that failed")
    expect_where(verdict, "copy_in", DRIVER / "s34_lost_error.c", "cuMemcpyHtoD(")


def files(count, kept):
    """A program that opens `count` files under a limit of 64, and keeps them or not."""
    code = f"kept = [open('/dev/null') for _ in range({count})]" if kept else \
           f"for _ in range({count}): open('/dev/null').close()"
    return ["/bin/sh", "-c", f'ulimit -n 64; exec "{PYTHON}" -c "{code}"']


def write_to(path):
    return [PYTHON, "-c", f"open('{path}', 'wb', buffering=0).write(b'weights')"]


def no_driver_call(run, verdict):
    """A program without driver calls is not evidence about a GPU."""
    gpu_is_not_blamed(run, verdict)
    expect(verdict["coverage"] == {"processes": 0, "unobserved": []}, f"coverage: {verdict['coverage']}")
    expect("the GPU" not in " ".join(verdict["ruled_out"]), f"the GPU is ruled out: {verdict['ruled_out']}")
    expect_text(verdict, r"no CUDA driver call was observed", "that no driver call was observed")


def host_refused(words):
    def check(run, verdict):
        expect_text(verdict, words, "the system's words")
        no_driver_call(run, verdict)
    return check


def storm(run, verdict):
    said = [a for a in verdict["advice"] if a.startswith("sync-storm: 1.0 synchronisations per launch")]
    expect(said and f"({run.truth('waits')} in total)" in said[0], f"no advice about waits: {verdict['advice']}")


def no_waste(run, verdict):
    words = ["sync-storm", "launch-bound", "input-bound", "pageable-copy", "debug-knob", "uvm-thrash"]
    if not REAL:  # on a real GPU the example waits for its allocations most of the time
        words.append("alloc-churn")
    expect(not [a for a in verdict["advice"] if a.startswith(tuple(words))], f"advice without a reason: {verdict['advice']}")


def gpu_is_not_blamed(run, verdict):
    said = [verdict["cause"] or ""] + [a["cause"] for a in verdict["alternatives"] if a["certainty"] != "hypothesis"]
    blamed = [c for c in said if c.startswith("gpu-") or c in ("illegal-address", "context-destroyed")]
    expect(not blamed, f"the GPU is blamed: {blamed}")


def gpu_is_ruled_out(run, verdict):
    gpu_is_not_blamed(run, verdict)
    expect(any(line.startswith("the GPU") for line in verdict["ruled_out"]), "the GPU is not ruled out")


def pool_is_its_own(run, verdict):
    expect(verdict["certainty"] == "established", f"only {verdict['certainty']}")
    said = "\n".join(e["text"] for e in verdict["evidence"])
    expect(f"pool 0x{int(run.truth('pool')):x}" in said and "was unused" in said, f"the pool is not named: {said}")
    expect(any("cuMemPoolTrimTo" in line for line in verdict["next"]), f"no word of trimming: {verdict['next']}")
    named = {verdict["cause"]} | {a["cause"] for a in verdict["alternatives"]}
    expect(not named & {"gpu-oom-other-process", "gpu-hidden-driver-growth"}, f"it is the program's own: {named}")


def handled_and_fault(run, verdict):
    expect(verdict["certainty"] == "supported", f"{verdict['certainty']}")
    expect(any(a.startswith("handled: cuMemAlloc of 64.00 GiB") for a in verdict["advice"]), f"{verdict['advice']}")


def handled_alone(run, verdict):
    expect(any(a.startswith("handled: cuMemAlloc of 64.00 GiB") for a in verdict["advice"]), f"{verdict['advice']}")


def handled_probes(run, verdict):
    expect(any("was refused 100 times for lack of memory (64.00 GiB each, " in a for a in verdict["advice"]), f"{verdict['advice']}")


def went_on_then_status(run, verdict):
    handled_alone(run, verdict)
    expect("the GPU" not in " ".join(verdict["ruled_out"]) and "ruled out" not in verdict["headline"],
           f"a handled refusal may still be the reason: {verdict['headline']}, {verdict['ruled_out']}")


def went_on_then_crash(run, verdict):
    went_on_then_status(run, verdict)
    expect(verdict["certainty"] == "supported", f"{verdict['certainty']}")


def refused_then_crash(run, verdict):
    expect_where(verdict, "layer_new", DRIVER / "refusals.c", "mark: unchecked")


def crumbs(run, verdict):
    """The verdict must be the same at any pace: it must not matter whether the driver is called again after the
    second refusal."""
    expect("was free" in verdict["evidence"][0]["text"], f"what was free is not known: {verdict['evidence'][0]['text']}")
    wanted = verdict["cause"], verdict["certainty"], verdict["evidence"][0]["text"].split("; ")[1:]
    for pause in (0, 1000, 50000, 99000, 101000, 150000):
        with Workplace() as place:
            again = run_observed(program("refusals", "--kind", "crumbs", "--pause", str(pause)), Card("6GiB"),
                                 new_folder(place, "again")).verdict()
        found = again["cause"], again["certainty"], again["evidence"][0]["text"].split("; ")[1:]
        expect(found == wanted, f"{found} after {pause} us, {wanted} else")


# ---- the table -------------------------------------------------------------------------------------------------------

SLOW = program("slow_kernels")  # takes more than a second, so that the GPU can be read from outside

# These runs take about a second, too. The same work takes longer under a sanitizer.
PACE = 2 if SANITIZE else 1


def long_cnn(iterations):
    return cnn("--iterations", str(iterations // PACE))


LAUNCHES_LATE = 6000 * 32 // PACE  # 32 per iteration

KEEP = ("--runs", "2", "--batch", "16384", "--save", "weights.bin")
PROGRAM_WAITS = b"the GPU is done"

CUDNN = ("--library", SCENARIOS / "named" / "libcudnn.so.9.1.0",
         "--second", SCENARIOS / "named" / "other" / "libcudnn_ops.so.9.3.0")
RUNTIME = SCENARIOS / "named" / "libcudart.so.13.0.96"  # only the file name matters
OLD = "driver=12020"


def library(version, *options):
    """A program with a library that has its own log."""
    return program("s09_library_log", "--library", SCENARIOS / "fake" / f"libcudnn.so.{version}", *options)


def versions(fault, cause, check, *options, **more):
    return Scenario(program("s26_versions", *options), Card("2GiB", more=fault), cause, check, on="virtual", **more)


def with_torch(release):
    """A library of this version of PyTorch, as its package installs it."""
    return "--library", SCENARIOS / "named" / release / "site-packages" / "torch" / "lib" / "libtorch_cuda.so"


def conv3d(release, check, *options):
    """A program with this version of PyTorch, whose last request is refused."""
    return versions("", "gpu-oom-capacity", check, *with_torch(release), "--bytes", "8GiB", *options)


def reset(use, check, *options, **more):
    return Scenario(program("s32_reset", "--use", use, *options), Card(), "context-destroyed", check, **more)


def refusal(kind, cause, check, **more):
    return Scenario(program("refusals", "--kind", kind), Card("6GiB"), cause, check, on="virtual", **more)


READINGS_C = DRIVER / "readings.c"
HOST_ENDS = DRIVER / "host_ends.py"


def reading(certainty, *patterns, at=None, beside=()):
    """The certainty, texts, the place as (function, code), and causes that must be alternatives."""
    def check(run, verdict):
        expect(verdict["certainty"] == certainty, f"{verdict['certainty']}, not {certainty}")
        for pattern in patterns:
            expect_text(verdict, pattern, "the reason")
        if at is not None:
            expect_where(verdict, at[0], READINGS_C, at[1])
        others = {a["cause"] for a in verdict["alternatives"]}
        expect(others >= set(beside), f"{beside} are not all in {others}")
    return check


def readings():
    """Failures that look like others: see readings.c and host_ends.py."""
    fault = {
        "sentence": ("gpu-oom-capacity", reading("supported", at=("beam_search", "mark: beam"))),
        "buffer": ("gpu-oom-leak", reading("supported", "fill a buffer", at=("fill_buffer", "mark: buffer"))),
        "phase": ("gpu-oom-leak", reading("supported", "before these iterations", at=("train_then_validate", "mark: loss"))),
        "layers": ("gpu-oom-capacity", reading("supported", at=("load_layer", "take(40"), beside=["gpu-oom-leak"])),
        "rebuilt": ("gpu-oom-capacity", reading("supported", "a second time", at=("build_again", "mark: model"),
                                                beside=["gpu-oom-leak"])),
        "graphs": ("gpu-oom-leak", reading("supported", "executable graphs", at=("graph_for", "mark: graph"))),
        "pools": ("gpu-oom-fragmentation", reading("established", "Create one pool", at=("keep_pools", "mark: pool"))),
        "neighbour": ("gpu-oom-other-process", reading("established", at=("live_beside", "mark: beside"))),
        "ordinal": ("invalid-device-ordinal", reading("established", at=("find_device", "cuDeviceGet("))),
    }
    open_end = {
        "freed": reading(None, "block of 64.00 MiB, allocated .* in copy_to_freed", "freed at .* in copy_to_freed"),
        "past": reading(None, "2.00 MiB for a smaller block", "block of 1.00 MiB"),
        "name": reading(None, "cuModuleGetFunction of store_half", at=("find_function", "cuModuleGetFunction(")),
    }
    host = {
        "key": ("script-exception", 1, reading("supported", "KeyError", beside=["gpu-oom-capacity"])),
        "file": ("script-exception", 1, reading("supported", "FileNotFoundError", beside=["gpu-oom-capacity"])),
        "chained": ("gpu-oom-capacity", 1, None),
        "thread": ("gpu-oom-capacity", 0, reading("supported", "ended a thread")),
        "thread-key": ("script-exception", 0, reading("supported", "ended a thread")),
    }
    def of(argv, cause, check, **more):
        return Scenario(argv, Card("4GiB"), cause, check, twin=REPAIRED, on="virtual", **more)
    for kind, (cause, check) in fault.items():
        yield "reading-" + kind, of(program("readings", "--kind", kind), cause, check)
    for kind, check in open_end.items():
        yield "reading-" + kind, of(program("readings", "--kind", kind), None, check, status="undetermined")
    yield "reading-term", of(program("readings", "--kind", "term"), "killed-by-scheduler-or-user",
                             reading("supported", "search the program"), exit=-signal.SIGTERM)
    for kind, (cause, status, check) in host.items():
        yield "reading-" + kind, of([PYTHON, "-B", str(HOST_ENDS), kind], cause, check, exit=status)


TABLE = {
    "S01": Scenario(cnn(*KEEP, "--keep-runs"), Card("16GiB"), "gpu-oom-leak", s01, twin=cnn(*KEEP)),
    "S02": Scenario(cnn("--runs", "2", "--batch", "8192", "--allocator", "pool"), Card("16GiB"), None, s02,
                    status="clean"),
    "S04": Scenario(program("s04_other_process"), Card("16GiB", whole_if_real=True), "gpu-oom-other-process", s04,
                    twin=REPAIRED),
    "S05": Scenario(cnn("--batch", "512", "--iterations", "1000", "--leak-batch"), Card("2GiB"), "gpu-oom-leak", s05,
                    twin=cnn("--batch", "512", "--iterations", "300")),
    "S06": Scenario(cnn("--batch", "16384", "--unchecked"), Card("8GiB"), "gpu-oom-capacity", s06,
                    twin=cnn("--batch", "8192", "--unchecked")),
    "S08": Scenario(program("s08_small_blocks"), Card("8GiB", whole_if_real=True), "gpu-oom-fragmentation", s08,
                    twin=REPAIRED),
    # --memory does not count what the driver takes for streams and contexts, and filling a real GPU takes minutes.
    **{f"S09-log-{major}": Scenario(library(version), Card("4GiB"), "gpu-oom-library-handle",
                                    library_log("cudnnCreate: CUDNN_STATUS_NOT_INITIALIZED", "cudaMalloc"),
                                    twin=library(version, "--repaired", "--warnings", "3"), twin_check=no_library_log,
                                    options=("--deep",), on="virtual")
       for major, version in ((8, "8.7.0"), (9, "9.3.0"))},
    "S09-argument": Scenario(library("9.3.0", "--what", "argument", "--warnings", "3"), Card("4GiB"),
                             "library-bad-argument", library_log("BAD_PARAM", "strideA[1] < 1"), on="virtual",
                             options=("--deep",), twin=REPAIRED),
    "S09-not-asked": Scenario(library("9.3.0", "--what", "argument"), Card("4GiB"), None, no_library_log,
                              status="undetermined", on="virtual"),
    "S10": Scenario(program("s10_handles"), Card("3GiB"), "gpu-oom-leak",
                    s10("streams", "request_with_stream", DRIVER / "s10_handles.c", "cuStreamCreate("), twin=REPAIRED,
                    on="virtual"),
    "S10b": Scenario(program("s10_handles", "--kind", "context"), Card("3GiB"), "gpu-oom-leak",
                     s10("contexts", "request_with_context", DRIVER / "s10_handles.c", "cuCtxCreate("),
                     twin=program("s10_handles", "--kind", "context", "--repaired", "--requests", "40"), on="virtual"),
    "S10-cnn": Scenario(cnn("--iterations", "1000", "--leak-streams", "20"), Card("3GiB"), "gpu-oom-leak",
                        s10("streams", "leak_streams", CNN_C, "cuStreamCreate("), twin=cnn("--iterations", "200"),
                        on="virtual"),
    "S11": Scenario(cnn("--iterations", "60", "--leak-workspace"), Card("16GiB"), None, s11, status="clean",
                    twin=cnn("--iterations", "60"), twin_check=s11_none),
    "keep-window": Scenario(program("keepers"), Card("4GiB"), None, forgotten_frames, status="clean", twin=REPAIRED,
                            twin_check=s11_none),
    "keep-search": Scenario(program("keepers", "--what", "search"), Card("4GiB"), "gpu-oom-leak", twin=REPAIRED,
                            twin_check=s11_none),
    "keep-search-wide": Scenario(program("keepers", "--what", "search", "--wide"), Card("4GiB"), "gpu-oom-capacity"),
    "keep-server": Scenario(program("keepers", "--what", "server"), Card("4GiB"), "gpu-oom-leak", twin=REPAIRED,
                            twin_check=s11_none),
    # TensorFlow's allocator. Its limit follows from the free memory, which --memory does not change.
    "tf-growth": Scenario(program("bfc"), Card("4GiB"), None, full_pool, status="undetermined", twin=REPAIRED,
                          twin_check=region_refused, on="virtual"),
    "tf-pieces": Scenario(program("bfc", "--what", "pieces"), Card("4GiB"), "gpu-oom-fragmentation", pool_in_pieces,
                          twin=REPAIRED, on="virtual"),
    "tf-limit": Scenario(program("bfc", "--what", "limit"), Card("16GiB"), "gpu-oom-capacity", own_limit, twin=REPAIRED,
                         on="virtual"),
    "tf-refit": Scenario(program("bfc", "--what", "refit"), Card("4GiB"), None, full_pool, status="undetermined",
                         twin=REPAIRED, on="virtual"),
    "S12": Scenario(cnn("--runs", "2", "--bad-address"), Card("16GiB"), "illegal-address", s12,
                    twin=cnn("--runs", "2")),
    "S15-threads": Scenario(program("s15_launch_config"), Card(), "launch-config-invalid", s15([1024], 4096),
                            twin=REPAIRED),
    "S15-shared": Scenario(program("s15_launch_config", "--threads", "32", "--shared", "400000"), Card(),
                           "launch-config-invalid", s15([49152, 232448], 400000)),
    "S15-opt-in": Scenario(program("s15_launch_config", "--threads", "32", "--shared", "60000"), Card(),
                           "launch-config-invalid", s15([49152], 60000)),
    "S17": Scenario(cnn("--batch", "1600", "--whole-data-set", "1200MiB"), Card("2GiB"), "gpu-oom-capacity", s17,
                    twin=cnn("--batch", "1600")),
    "S21": Scenario(program("s21_fork"), Card(), "fork-after-init", s21, twin=REPAIRED),
    **{f"S16{name}": Scenario(program("s16_order", *options), Card(), "cross-stream-use-after-free", s16, exit=0,
                              twin=REPAIRED, twin_check=s16_is_silent)
       for name, options in (("", ()), ("-thread", ("--thread",)), ("-blocking", ("--blocking",)))},
    # The driver need not free stream-ordered memory at once: a real one may wait.
    "S16-at-once": Scenario(program("s16_order", "--at-once"), Card(), "cross-stream-use-after-free", s16, exit=0,
                            twin=program("s16_order", "--at-once", "--repaired", "--by", "stream"),
                            twin_check=s16_is_silent, on="virtual"),
    "S16-pipeline": Scenario(program("s16_order", "--what", "pipeline", "--forget"), Card(),
                             "cross-stream-use-after-free", s16_pipeline, exit=0,
                             twin=program("s16_order", "--what", "pipeline"), twin_check=s16_is_silent),
    **{f"S16-by-{way}": Scenario(program("s16_order", "--repaired", "--by", way), Card(), None, s16_is_silent,
                                 status="clean")
       for way in ("third", "waited-event", "asked-event", "asked-stream", "callback", "stream", "context", "same",
                   "freeing")},
    "S16-threads": Scenario(program("s16_order", "--what", "threads"), Card(), None, s16_is_silent, status="clean"),
    # No call shows that the host read the value, so the verdict only reports a suspicion.
    "S16-by-memory": Scenario(program("s16_order", "--repaired", "--by", "memory"), Card(), None, s16_is_told,
                              status="clean", races=True),
    "S16b": Scenario(program("s16_order", "--what", "host"), Card(), None, s16b, status="clean",
                     twin=program("s16_order", "--what", "host", "--repaired", "--by", "stream"),
                     twin_check=s16_is_silent),
    "S16b-end": Scenario(program("s16_order", "--what", "host", "--keep"), Card(), None, s16b, status="clean",
                         races=True,
                         twin=program("s16_order", "--what", "host", "--keep", "--repaired", "--by", "asked-event"),
                         twin_check=s16_is_silent),
    "S22": Scenario(program("s22_pileup"), Card("8GiB", name="2xh200"), "gpu-context-pileup", s22, twin=REPAIRED,
                    on="virtual"),
    "S23-term": Scenario(program("s28_host", "--end", "wait"), Card(), "killed-by-scheduler-or-user", gpu_is_not_blamed,
                         exit=-signal.SIGTERM, signal_when=(PROGRAM_WAITS, signal.SIGTERM)),
    "S23-kill": Scenario(program("s28_host", "--end", "wait"), Card(), "killed-by-scheduler-or-user", gpu_is_not_blamed,
                         exit=-signal.SIGKILL, signal_when=(PROGRAM_WAITS, signal.SIGKILL)),
    # Versions and other software: the cause is found from an error code and the libraries of the process.
    "S26": versions(OLD + ",fault=222@cuModuleLoadData", "driver-too-old", says(r"CUDA 12\.2", r"13\.0\.96", "580"),
                    "--library", RUNTIME, twin=program("s26_versions", "--library", RUNTIME),
                    twin_card=Card("2GiB", more=OLD)),
    "S26-call": versions(OLD + ",fault=36@cuMemAlloc_v2", "driver-too-old", says(r"CUDA 12\.2", "cuMemAlloc"),
                         "--library", RUNTIME),
    "S26-ptx": versions(OLD + ",fault=222@cuModuleLoadData", "ptx-too-new", says("cuModuleLoadData", r"CUDA 12\.2")),
    "S26-arch": versions("fault=209@cuModuleLoadData", "arch-not-in-binary", says("sm_90", "Hopper"),
                         twin=program("s26_versions"), twin_card=Card("2GiB")),
    "S26-jit": versions("fault=221@cuModuleLoadData", "jit-library-missing", says("cuModuleLoadData")),
    "S26-module": versions("fault=init:803", "driver-library-mismatch", says("cuInit")),
    "S26-fabric": versions("fault=init:802", "fabric-not-ready", says("cuInit")),
    "S26-none": versions("fault=init:100", "no-device-visible", with_certainty("established", says("cuInit"))),
    # The program continued without a GPU, and ended soon afterwards for a reason that it did not print.
    "S26-without": versions("fault=init:100", "no-device-visible", with_certainty("supported", says("cuInit")),
                            "--without", twin=program("s26_versions", "--without"), twin_card=Card("2GiB")),
    "S26-busy": versions("fault=46@cuDevicePrimaryCtxRetain", "device-busy-or-partition", says("compute mode")),
    "S26-cudnn": versions("", "cudnn-mixed-libraries", says(r"9\.1", r"9\.3", "1002"), *CUDNN, "--status",
                          "CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH", twin=program("s26_versions", *CUDNN)),
    # A library version with a known problem; a kernel or a function shows that the program met it.
    "S26-known": conv3d("2.9.0+cu128", known("; the program launched vol2col"), "--kernel", "vol2col"),
    "S26-known-request": conv3d("2.9.0+cu128", known("; the refused request came from slow_conv_dilated3d"), "--convolves"),
    "S26-known-newer": conv3d("2.10.0+cu128", nothing_known, "--kernel", "vol2col", "--convolves"),
    "S26-known-unused": conv3d("2.9.0+cu128", nothing_known),
    "S26-known-slow": versions("", None, slowly, *with_torch("2.9.0+cu128"), "--kernel", "vol2col", status="clean",
                               twin=program("s26_versions", *with_torch("2.9.0+cu128")), twin_check=nothing_is_slow),
    "S26-ordinal": versions("fault=101@cuDevicePrimaryCtxRetain", "invalid-device-ordinal",
                            says("cuDevicePrimaryCtxRetain")),
    "S28-exception": Scenario([PYTHON, "-c", "raise ValueError('the labels are wrong')"], Card(), "script-exception",
                              gpu_is_not_blamed, twin=[PYTHON, "-c", "print('trained')"], twin_status="undetermined"),
    "S28-segfault": Scenario(program("s28_host", "--end", "crash"), Card(), "host-crash-of-process", gpu_is_not_blamed,
                             exit=-signal.SIGSEGV, twin=program("s28_host")),
    "S28-abort": Scenario(program("s28_host", "--end", "abort"), Card(), "host-crash-of-process", gpu_is_not_blamed,
                          exit=-signal.SIGABRT),
    "S28-exit": Scenario(program("s28_host", "--end", "exit"), Card(), None, gpu_is_ruled_out, exit=3,
                         status="undetermined"),
    "S28-sh-exit": Scenario(["/bin/sh", "-c", "exit 3"], Card(), None, no_driver_call, exit=3, status="undetermined"),
    # S25: the GPU itself. The fault happens late enough for the supervisor to read the GPU before.
    "S25-lost": Scenario(long_cnn(8000), Card(more=f"fault=lost@launch:{LAUNCHES_LATE}"), "gpu-off-bus",
                         says(r"Xid 79", r"999"), twin=cnn("--iterations", "1000"), twin_card=Card(), on="virtual"),
    "S25-ecc": Scenario(long_cnn(8000), Card(more=f"fault=ecc@launch:{LAUNCHES_LATE}"), "ecc-uncorrectable",
                        says(r"Xid 48", r"uncorrectable memory errors of GPU 0 during the run: 1", r"214"),
                        twin=cnn("--iterations", "1000"), twin_card=Card(), on="virtual"),
    "S25-thermal": Scenario(SLOW, Card(more="fault=thermal"), None, s25_advice(r"because of heat"), status="clean",
                            twin=SLOW, twin_card=Card(), twin_check=s25_no_advice, on="virtual"),
    "S25-brake": Scenario(SLOW, Card(more="fault=power-brake"), None, s25_advice(r"slowed by the power supply"),
                          status="clean", on="virtual"),
    "S25-cap": Scenario(SLOW, Card(more="fault=power-cap"), None, s25_advice(r"power limit of"), status="clean",
                        on="virtual"),
    # Only for a GPU that was seen busy by more than the first reading.
    "S25-link": Scenario(SLOW, Card(more="fault=link:3x4"), None, s25_advice(r"4 of 16 lanes"), status="clean",
                         on="virtual"),
    "waste-waits": Scenario(program("waste"), Card(), None, storm, status="clean", twin=REPAIRED, twin_check=no_waste),
    "files": Scenario(files(200, True), Card(), "fd-or-process-limit", host_refused(r"Too many open files"),
                      twin=files(200, False), twin_status="undetermined"),
    "disk": Scenario(write_to("/dev/full"), Card(), "disk-or-quota-full", host_refused(r"No space left"),
                     twin=write_to("/dev/null"), twin_status="undetermined"),
    "S29-twice": Scenario(program("s29_pinned"), Card(), "pinned-memory-failure", s29, twin=REPAIRED),
    "S29-limit": Scenario(program("s29_pinned", "--bytes", "2GiB"), Card(more="hostmem=1GiB"), "pinned-memory-failure",
                          s29, twin=REPAIRED, on="virtual"),
    "workspace": Scenario(program("workspace_choice", *CUDNN[:2]), Card("4GiB"), None, workspace, status="clean",
                          twin=REPAIRED, twin_check=workspace_is_silent),
    "workspace-own": Scenario(program("workspace_choice"), Card("4GiB"), None, workspace_is_silent, status="clean"),
    "S32-pointer": reset("pointer", s32("cuMemAlloc("), twin=program("s32_reset", "--repaired")),
    "S33-block": Scenario(program("s33_host_touch"), Card("4GiB"), "host-touched-device-memory", s33_block,
                          exit=-signal.SIGSEGV, twin=REPAIRED, options=CATCH),
    "S33-null": Scenario(program("s33_host_touch", "--what", "null"), Card("4GiB"), "gpu-oom-capacity", s33_null,
                         exit=-signal.SIGSEGV, crashes=True, twin=REPAIRED, options=CATCH),
    "S33-handler": Scenario(program("s33_host_touch", "--handles"), Card("4GiB"), "host-touched-device-memory",
                            s33_block, exit=7, options=CATCH),
    "S33-unknown": Scenario(program("s33_host_touch"), Card("4GiB"), "host-crash-of-process", s33_unknown,
                            exit=-signal.SIGSEGV, options=("--no-sense",)),
    "S34": Scenario(program("s34_lost_error"), Card("4GiB"), "first-error-lost", s34, twin=REPAIRED),
    "S34-unnoticed": Scenario(program("s34_lost_error", "--unnoticed"), Card("4GiB"), None, status="clean"),
    # A real driver may return an error for an old stream, event, function or graph, or crash.
    "S32-stream": reset("stream", s32("cuStreamCreate("), exit=-signal.SIGSEGV, on="virtual"),
    "S32-event": reset("event", s32("cuEventCreate(", used=("call_compute", "cuEventRecord(")), on="virtual"),
    "S32-copy": reset("copy", s32("cuMemAlloc(", used=("call_compute", "cuMemcpyHtoD("))),
    "S32-free": reset("free", s32("cuMemAlloc(", used=("keep", "cuMemFree("))),
    "S32-module": reset("module", s32("cuModuleLoadData(", used=("call_begin", "cuModuleGetFunction(")), on="virtual"),
    "S32-function": reset("function", s32("cuModuleGetFunction(", used=("steps_record", "scenario_store(")),
                          on="virtual"),
    "S32-graph": reset("graph", s32("cuGraphInstantiate(", "steps_record"), on="virtual"),
    # Another part of the process resets the device, as if it were the only user.
    "S32-library-copy": reset("copy", s32("cuMemAlloc(", by="library_close"), "--by", "library",
                              twin=program("s32_reset", "--by", "library", "--repaired")),
    "S32-library-pointer": reset("pointer", s32("cuMemAlloc(", by="library_close"), "--by", "library"),
    "S32-library-context": reset("context", None, "--by", "library", on="virtual"),
    "S36-address": Scenario(program("s36_children"), Card(), "illegal-address", s36, exit=0, twin=REPAIRED),
    "S36-memory": Scenario(program("s36_children", "--of", "memory"), Card(), "gpu-oom-capacity", s36, exit=0,
                           twin=program("s36_children", "--of", "memory", "--handle"), kernel=(6, 15)),
    "S36-late": Scenario(program("s36_children", "--of", "memory", "--late"), Card(), "gpu-oom-capacity", s36, exit=0,
                         twin=program("s36_children", "--replace"), twin_check=s36_replaced),
    **{f"device-{use}": Scenario(program("wrong_device", "--use", use), Card("8GiB", name="2xh200"),
                                 "wrong-current-device", wrong_device(*place), twin=REPAIRED, on="virtual")
       for use, place in (("kernel", ("scenario_store", "scenario.c", "cuLaunchKernel(")),
                          ("stream", ("scenario_store", "scenario.c", "cuLaunchKernel(")),
                          ("event", ("main", "wrong_device.c", "cuEventRecord(")))},
    "ranks-address": Scenario(program("ranks"), Card(), "illegal-address", ranks, twin=REPAIRED),
    "pool-default": refusal("pool", "gpu-oom-fragmentation", pool_is_its_own, twin=REPAIRED),
    "pool-own": refusal("own-pool", "gpu-oom-fragmentation", pool_is_its_own, twin=REPAIRED),
    "refusal-handled": refusal("handled", "illegal-address", handled_and_fault, twin=REPAIRED,
                               twin_check=handled_alone),
    "refusal-probes": refusal("probe", None, handled_probes, status="clean"),
    "refusal-status": refusal("status", None, went_on_then_status, exit=3, status="undetermined", twin=REPAIRED,
                              twin_check=handled_alone),
    "refusal-crash": refusal("crash", "host-crash-of-process", went_on_then_crash, exit=-11, twin=REPAIRED,
                             twin_check=handled_alone, crashes=True),
    "refusal-null": refusal("null", "gpu-oom-capacity", refused_then_crash, exit=-11, twin=REPAIRED, crashes=True),
    "refusal-crumbs": refusal("crumbs", "gpu-oom-capacity", crumbs, twin=REPAIRED),
    **dict(readings()),
    "ranks-crash": Scenario(program("ranks", "--of", "crash"), Card(), "host-crash-of-process", ranks),
    "ranks-inside": Scenario(program("ranks", "--inside"), Card(), "illegal-address", ranks),
    "ranks-restarted": Scenario(program("ranks", "--starts", "address,crash"), Card(), "host-crash-of-process",
                                ranks_restarted, twin=program("ranks", "--starts", "address,nothing"),
                                twin_check=ranks_recovered),
    "healthy-plain": Scenario(cnn("--iterations", "500", "--save", "weights.bin"), Card(), None, no_waste,
                              status="clean"),
    "healthy-pool": Scenario(cnn("--iterations", "500", "--allocator", "pool"), Card(), None, no_waste, status="clean"),
}


# name of the kind in the program, its name in the verdict, the call that creates one
S11_KINDS = [("plain", "plain", "cuMemAlloc("), ("pitched", "pitched", "cuMemAllocPitch("),
             ("managed", "managed", "cuMemAllocManaged("), ("ordered", "stream-ordered", "cuMemAllocAsync("),
             ("array", "array", "cuArrayCreate("), ("reservation", "address reservation", "cuMemAddressReserve("),
             ("vmm", "virtual memory management", "cuMemCreate("), ("host", "pinned host", "cuMemHostAlloc("),
             ("registered", "registered host", "cuMemHostRegister("), ("stream", "stream", "cuStreamCreate("),
             ("event", "event", "cuEventCreate("), ("context", "context", "cuCtxCreate("),
             ("module", "module", "cuModuleLoadData("), ("library", "library", "cuLibraryLoadData("),
             ("graph", "graph", "cuGraphCreate("), ("exec", "executable graph", "cuGraphInstantiate("),
             ("pool", "memory pool", "cuMemPoolCreate(")]
for name, kind, code in S11_KINDS:
    TABLE["S11-" + name] = Scenario(program("s11_leaks", "--keep", name), Card("16GiB"), None,
                                    s11_kind(name, kind, code), status="clean")
TABLE["S11-plain"].twin, TABLE["S11-plain"].twin_check = program("s11_leaks", "--repaired"), s11_none


def names(real):
    for name, scenario in TABLE.items():
        if real and scenario.on == "virtual":
            continue
        yield name
        if scenario.twin is not None:
            yield name + "-twin"


# ---- running one scenario --------------------------------------------------------------------------------------------

def run_both(argv, card, place, signal_when, is_twin=False, options=()):
    if not shutil.which(str(argv[0])):
        skip(f"{argv[0]} is not there")
    plain = run_plain(argv, card, new_folder(place, "plain"), signal_when)
    observed = run_observed(argv, card, new_folder(place, "observed"), options, signal_when)
    is_same = card.same_without_gpuwhy() or is_twin
    if is_same:
        expect_same(plain, observed)
    return plain, observed, is_same


def judge(run, status, cause):
    verdict = run.verdict(by_schema=REAL)  # otherwise, invariants.py checks those of all scenarios at once
    found = f"{verdict['status']}, {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(found)
    expect(verdict["schema"] == 1, f"schema {verdict['schema']}")
    expect(verdict["status"] == status and verdict["cause"] == cause, f"expected {status}, {cause}; found {found}")
    if status == "fault":
        expect(verdict["certainty"] in ("established", "supported"), f"too weak: {found}")
        expect(verdict["next"], "no fix is offered")
        expect(verdict["evidence"], "no evidence is given")
    expect_screens(run.stderr.decode(errors="replace"), 1, verdict)
    expect(verdict["where"] or verdict["where_reason"] or status != "fault", "no site, and no reason why")
    return verdict


def run_fault(scenario, place):
    plain, run, is_same = run_both(scenario.argv, scenario.card, place, scenario.signal_when, options=scenario.options)
    expect(run.status == scenario.exit,
           f"exit status {run.status}, expected {scenario.exit}: {run.stderr.decode(errors='replace')}")
    verdict = judge(run, scenario.status, scenario.cause)
    if scenario.check is not None:
        scenario.check(run, verdict)
    return invariants.check(plain, run, verdict, scenario.cause, is_same), verdict


def run_twin(scenario, place):
    plain, run, is_same = run_both(scenario.twin, scenario.twin_card, place, None, is_twin=True, options=scenario.options)
    expect(run.status == 0, f"the twin failed ({run.status}): {run.stderr.decode(errors='replace')}")
    verdict = judge(run, scenario.twin_status, None)
    if scenario.twin_check is not None:
        scenario.twin_check(run, verdict)
    return invariants.check(plain, run, verdict, None, is_same), verdict


def run_one(name):
    is_twin = name.endswith("-twin")
    scenario = TABLE[name.removesuffix("-twin")]
    if REAL and scenario.on == "virtual":
        skip("only a virtual card can show this")
    if scenario.races and SANITIZE == "thread":
        skip("the program races with the card on purpose, which ThreadSanitizer reports")
    if scenario.argv[0] == PYTHON and SANITIZE:
        skip("this interpreter cannot load sanitized libraries")
    if scenario.crashes and SANITIZE.startswith("address"):
        skip("the sanitizer answers the program's own crash")
    release = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    if scenario.kernel is not None and release < scenario.kernel and not is_twin:
        skip(f"Linux {scenario.kernel} tells how somebody else's child ended; this is {os.uname().release}")
    with Workplace() as place:
        row, verdict = (run_twin if is_twin else run_fault)(scenario, place)
        if not REAL:
            invariants.leave(BUILD / "tests" / "e2e" / "invariants", name, row, verdict)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"]:
        print("\n".join(names("--real" in sys.argv)))
    elif len(sys.argv) == 2 and sys.argv[1] in list(names(False)):
        main(lambda: run_one(sys.argv[1]))
    else:
        sys.exit(__doc__)
