"""The scenarios on a card: what runs, what gpuwhy must say, and the repaired twin on which it must say nothing.

    scenarios.py --list [--real]    names, one a line
    scenarios.py NAME               run one; exit 0, 1 (failed), 77 (skipped)
"""
import os
import re
import os
import pathlib
import re
import shutil
import signal
import sys

from harness import (CNN, REAL, SCENARIOS, Card, Workplace, bytes_text, expect, expect_same, expect_text,
                     expect_value, has_value, main, new_folder, run_observed, run_plain, skip)

PYTHON = sys.executable
NAMES_SITES = os.environ.get("GPUWHY_NAMES_SITES", "1") == "1"


class Scenario:
    """`argv` and `twin` are command lines ({truth}: a file); `check(run, verdict)` looks at the facts."""

    def __init__(self, argv, card, cause, check=None, twin=None, twin_card=None, twin_check=None, on="both",
                 exit=1, signal_when=None, status="fault", kernel=None):
        self.argv, self.card, self.cause, self.check, self.on = argv, card, cause, check, on
        self.twin, self.twin_card, self.twin_check = twin, twin_card or card, twin_check
        self.exit, self.signal_when, self.status = exit, signal_when, status
        self.kernel = kernel  # the oldest Linux that shows the fault, as (major, minor)


def cnn(*options):
    return [CNN, *options, "--truth", "{truth}"]


def program(name, *options):
    return [SCENARIOS / name, *options, "--truth", "{truth}"]


# ---- sites: lines are found in the sources by what stands there -------------------------------------------------------

ROOT = pathlib.Path(__file__).parents[2]
CNN_C = ROOT / "examples" / "cnn" / "cnn.c"
DRIVER = ROOT / "tests" / "scenarios" / "driver"


def lines_with(source, code):
    return [number for number, line in enumerate(source.read_text().splitlines(), 1) if code in line]


def expect_where(verdict, function, source, code):
    """The place is `function`, at a line of `source` that holds `code`. Needs elfutils and a debug build of ours."""
    if not NAMES_SITES:
        expect(verdict["where"] is None or verdict["where"]["line"] is None, "a line without elfutils?")
        return
    where = verdict["where"]
    expect(where is not None, f"no place: {verdict['where_reason']}")
    stack = ", ".join(f"{f['function']} ({f['file']}:{f['line']})" for f in where["frames"])
    expect(where["function"] == function and pathlib.Path(where["file"] or "?").name == source.name,
           f"not in {function}, {source.name}: {stack}")
    expect(where["line"] in lines_with(source, code), f"not at '{code}': {stack}")


def expect_said_place(verdict, function, source, code, what):
    if NAMES_SITES:
        places = "|".join(f"{re.escape(source.name)}:{n} in {re.escape(function)}\\b" for n in lines_with(source, code))
        expect(places, f"{source.name} has no '{code}'")
        expect_text(verdict, places, what)


# ---- the facts that must stand in the evidence ------------------------------------------------------------------------

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


def s10(kind, *function):
    function = function or None
    each_bytes = {"streams": 512 << 10, "contexts": 400 << 20}[kind]

    def check(run, verdict):
        made = run.truth(kind)  # besides the primary context, or the program's own two streams
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


def s12(run, verdict):
    expect_text(verdict, r"class_report", "the kernel that was launched last")
    expect_text(verdict, r"reset", "that no reset cures it")
    expect_text(verdict, r"\bms\b", "the distance in time")
    expect(not verdict["where"] or "reported it" in verdict["where"]["what"], f"{verdict['where']}")


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
    if NAMES_SITES:
        callers = [f["function"] for f in verdict["where"]["frames"]]
        expect("child_start" in callers, f"the function that forked is not on the stack: {callers}")
        expect_said_place(verdict, "gpu_open", ROOT / "examples" / "common" / "gpu.c", "cuInit(", "who initialised CUDA")


def s22(run, verdict):
    expect_text(verdict, r"(GPU|device) 1", "the idle GPU")
    expect(any(e["unit"] == "count" and 3 <= e["value"] <= run.truth("workers") for e in verdict["evidence"]),
           f"no count of the contexts on one GPU: {verdict['evidence']}")  # the third already finds no room
    expect_where(verdict, "worker", DRIVER / "s22_pileup.c", "cuMemAlloc(&block")


def s29(run, verdict):
    expect(not NAMES_SITES or verdict["where"]["function"] == "main" or verdict["where"]["file"].endswith("s29_pinned.c"),
           f"{verdict['where']}")
    expect_text(verdict, r"pinned|page-locked", "page-locked memory")
    expect(not (verdict["cause"] or "").startswith("gpu-oom"), "the GPU is blamed")


def s32(run, verdict):
    expect_text(verdict, r"reset", "the reset")
    expect_where(verdict, "main", DRIVER / "s32_reset.c", "cuDevicePrimaryCtxReset(")


def s32_made(code):
    def check(run, verdict):
        s32(run, verdict)
        expect_said_place(verdict, "call_begin", DRIVER / "s32_reset.c", code, "where it was made")
    return check


def s36(run, verdict):
    expect_text(verdict, rf"\bpid {run.truth('failing_pid')}\b", "the child that failed")
    expect_text(verdict, r"status 0 all the same", "that the command's status is 0 all the same")


def s36_replaced(run, verdict):
    expect_text(verdict, rf"\bpid {run.truth('failing_pid')}\b.*took its place", "that another one took its place")


def ranks(run, verdict):
    who = rf"rank 2 \(pid {run.truth('culprit_pid')}\)"
    expect_text(verdict, who + " was the first", "the rank that failed first")
    ended = [c for c in verdict["consequences"] if "rank" in c and "signal 15" in c]
    expect(len(ended) == 3, f"not three ranks were ended after it: {verdict['consequences']}")
    expect(any("the command exited with status 1" in c for c in verdict["consequences"]), "the launcher's end")


def gpu_is_not_blamed(run, verdict):
    said = [verdict["cause"] or ""] + [a["cause"] for a in verdict["alternatives"] if a["certainty"] != "hypothesis"]
    blamed = [c for c in said if c.startswith("gpu-") or c in ("illegal-address", "context-destroyed")]
    expect(not blamed, f"the GPU is blamed: {blamed}")


def gpu_is_ruled_out(run, verdict):
    gpu_is_not_blamed(run, verdict)
    expect(verdict["ruled_out"], "nothing is ruled out")


# ---- the table --------------------------------------------------------------------------------------------------------

KEEP = ("--runs", "2", "--batch", "16384", "--save", "weights.bin")
PROGRAM_WAITS = b"the GPU is done"

TABLE = {
    "S01": Scenario(cnn(*KEEP, "--keep-runs"), Card("16GiB"), "gpu-oom-leak", s01, twin=cnn(*KEEP)),
    "S02": Scenario(cnn("--runs", "2", "--batch", "8192", "--allocator", "pool"), Card("16GiB"), None, s02,
                    status="clean", exit=0),
    "S04": Scenario(program("s04_other_process"), Card("16GiB", whole_if_real=True), "gpu-oom-other-process", s04,
                    twin=program("s04_other_process", "--repaired")),
    "S05": Scenario(cnn("--batch", "512", "--iterations", "1000", "--leak-batch"), Card("2GiB"), "gpu-oom-leak", s05,
                    twin=cnn("--batch", "512", "--iterations", "300")),
    "S06": Scenario(cnn("--batch", "16384", "--unchecked"), Card("8GiB"), "gpu-oom-capacity", s06,
                    twin=cnn("--batch", "8192", "--unchecked")),
    "S08": Scenario(program("s08_small_blocks"), Card("8GiB", whole_if_real=True), "gpu-oom-fragmentation", s08,
                    twin=program("s08_small_blocks", "--repaired")),
    # What the driver takes for streams and contexts is not counted by --memory, and a real card takes minutes to fill.
    "S10": Scenario(program("s10_handles"), Card("3GiB"), "gpu-oom-leak",
                    s10("streams", "request_with_stream", DRIVER / "s10_handles.c", "cuStreamCreate("),
                    twin=program("s10_handles", "--repaired"), on="virtual"),
    "S10b": Scenario(program("s10_handles", "--kind", "context"), Card("3GiB"), "gpu-oom-leak",
                     s10("contexts", "request_with_context", DRIVER / "s10_handles.c", "cuCtxCreate("),
                     twin=program("s10_handles", "--kind", "context", "--repaired", "--requests", "40"), on="virtual"),
    "S10-cnn": Scenario(cnn("--iterations", "1000", "--leak-streams", "20"), Card("3GiB"), "gpu-oom-leak",
                        s10("streams"), twin=cnn("--iterations", "200"), on="virtual"),
    "S11": Scenario(cnn("--iterations", "60", "--leak-workspace"), Card("16GiB"), None, s11, status="clean", exit=0,
                    twin=cnn("--iterations", "60")),
    "S12": Scenario(cnn("--runs", "2", "--bad-address"), Card("16GiB"), "illegal-address", s12,
                    twin=cnn("--runs", "2")),
    "S15-threads": Scenario(program("s15_launch_config"), Card(), "launch-config-invalid", s15([1024], 4096),
                            twin=program("s15_launch_config", "--repaired")),
    "S15-shared": Scenario(program("s15_launch_config", "--threads", "32", "--shared", "400000"), Card(),
                           "launch-config-invalid", s15([49152, 232448], 400000)),
    "S15-opt-in": Scenario(program("s15_launch_config", "--threads", "32", "--shared", "60000"), Card(),
                           "launch-config-invalid", s15([49152], 60000)),
    "S17": Scenario(cnn("--batch", "1600", "--whole-data-set", "1200MiB"), Card("2GiB"), "gpu-oom-capacity", s17,
                    twin=cnn("--batch", "1600")),
    "S21": Scenario(program("s21_fork"), Card(), "fork-after-init", s21, twin=program("s21_fork", "--repaired")),
    "S22": Scenario(program("s22_pileup"), Card("8GiB", name="2xh200"), "gpu-context-pileup", s22,
                    twin=program("s22_pileup", "--repaired"), on="virtual"),
    "S23-term": Scenario(program("s28_host", "--end", "wait"), Card(), "killed-by-scheduler-or-user",
                         gpu_is_not_blamed, exit=-signal.SIGTERM, signal_when=(PROGRAM_WAITS, signal.SIGTERM)),
    "S23-kill": Scenario(program("s28_host", "--end", "wait"), Card(), "killed-by-scheduler-or-user",
                         gpu_is_not_blamed, exit=-signal.SIGKILL, signal_when=(PROGRAM_WAITS, signal.SIGKILL)),
    "S28-exception": Scenario([PYTHON, "-c", "raise ValueError('the labels are wrong')"], Card(), "script-exception",
                              gpu_is_not_blamed, twin=[PYTHON, "-c", "print('trained')"]),
    "S28-segfault": Scenario(program("s28_host", "--end", "crash"), Card(), "host-crash-of-process",
                             gpu_is_not_blamed, exit=-signal.SIGSEGV, twin=program("s28_host")),
    "S28-abort": Scenario(program("s28_host", "--end", "abort"), Card(), "host-crash-of-process", gpu_is_not_blamed,
                          exit=-signal.SIGABRT),
    "S28-exit": Scenario(program("s28_host", "--end", "exit"), Card(), None, gpu_is_ruled_out, exit=3,
                         status="undetermined"),
    "S28-sh-exit": Scenario(["/bin/sh", "-c", "exit 3"], Card(), None, gpu_is_ruled_out, exit=3,
                            status="undetermined"),
    "S29-twice": Scenario(program("s29_pinned"), Card(), "pinned-memory-failure", s29,
                          twin=program("s29_pinned", "--repaired")),
    "S29-limit": Scenario(program("s29_pinned", "--bytes", "2GiB"), Card(more="hostmem=1GiB"), "pinned-memory-failure",
                          s29, twin=program("s29_pinned", "--bytes", "2GiB", "--repaired"), on="virtual"),
    "S32-pointer": Scenario(program("s32_reset", "--use", "pointer"), Card(), "context-destroyed",
                            s32_made("cuMemAlloc("), twin=program("s32_reset", "--repaired")),
    # How a real driver takes an old stream or event is chance: it answers or it crashes.
    "S32-stream": Scenario(program("s32_reset", "--use", "stream"), Card(), "context-destroyed",
                           s32_made("cuStreamCreate("),
                           exit=-signal.SIGSEGV, on="virtual"),
    "S32-event": Scenario(program("s32_reset", "--use", "event"), Card(), "context-destroyed",
                          s32_made("cuEventCreate("), on="virtual"),
    "S32-free": Scenario(program("s32_reset", "--use", "free"), Card(), "context-destroyed",
                         s32_made("cuMemAlloc(")),
    "S36-address": Scenario(program("s36_children"), Card(), "illegal-address", s36, exit=0,
                            twin=program("s36_children", "--repaired")),
    "S36-memory": Scenario(program("s36_children", "--of", "memory"), Card(), "gpu-oom-capacity", s36, exit=0,
                           twin=program("s36_children", "--of", "memory", "--handle"), kernel=(6, 15)),
    "S36-late": Scenario(program("s36_children", "--of", "memory", "--late"), Card(), "gpu-oom-capacity", s36, exit=0,
                         twin=program("s36_children", "--replace"), twin_check=s36_replaced),
    "ranks-address": Scenario(program("ranks"), Card(), "illegal-address", ranks, twin=program("ranks", "--repaired")),
    "ranks-crash": Scenario(program("ranks", "--of", "crash"), Card(), "host-crash-of-process", ranks),
    "healthy-plain": Scenario(cnn("--iterations", "500", "--save", "weights.bin"), Card(), None, status="clean",
                              exit=0),
    "healthy-pool": Scenario(cnn("--iterations", "500", "--allocator", "pool"), Card(), None, status="clean", exit=0),
}


def names(real):
    for name, scenario in TABLE.items():
        if real and scenario.on == "virtual":
            continue
        yield name
        if scenario.twin is not None:
            yield name + "-twin"


# ---- running one ------------------------------------------------------------------------------------------------------

def run_both(argv, card, place, signal_when, is_twin=False):
    if not shutil.which(str(argv[0])):
        skip(f"{argv[0]} is not there")
    plain = run_plain(argv, card, new_folder(place, "plain"), signal_when)
    observed = run_observed(argv, card, new_folder(place, "observed"), signal_when=signal_when)
    if card.same_without_gpuwhy() or is_twin:
        expect_same(plain, observed)
    return observed


def judge(run, status, cause):
    verdict = run.verdict()
    found = f"{verdict['status']}, {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(found)
    expect(verdict["schema"] == 1, f"schema {verdict['schema']}")
    expect(verdict["status"] == status and verdict["cause"] == cause, f"expected {status}, {cause}; found {found}")
    if status == "fault":
        expect(verdict["certainty"] in ("established", "supported"), f"too weak: {found}")
        expect(verdict["next"], "no fix is offered")
        expect(verdict["evidence"], "no evidence is given")
    expect(verdict["where"] or verdict["where_reason"] or status != "fault", "no site, and no reason why")
    return verdict


def run_fault(scenario, place):
    run = run_both(scenario.argv, scenario.card, place, scenario.signal_when)
    expect(run.status == scenario.exit,
           f"exit status {run.status}, expected {scenario.exit}: {run.stderr.decode(errors='replace')}")
    verdict = judge(run, scenario.status, scenario.cause)
    if scenario.check is not None:
        scenario.check(run, verdict)


def run_twin(scenario, place):
    run = run_both(scenario.twin, scenario.twin_card, place, None, is_twin=True)
    expect(run.status == 0, f"the twin failed ({run.status}): {run.stderr.decode(errors='replace')}")
    verdict = judge(run, "clean", None)
    if scenario.twin_check is not None:
        scenario.twin_check(run, verdict)


def run_one(name):
    is_twin = name.endswith("-twin")
    scenario = TABLE[name.removesuffix("-twin")]
    if REAL and scenario.on == "virtual":
        skip("only a virtual card can show this")
    release = tuple(int(n) for n in re.findall(r"\d+", os.uname().release)[:2])
    if scenario.kernel is not None and release < scenario.kernel and not is_twin:
        skip(f"Linux {scenario.kernel} tells how somebody else's child ended; this is {os.uname().release}")
    with Workplace() as place:
        (run_twin if is_twin else run_fault)(scenario, place)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--list"]:
        print("\n".join(names("--real" in sys.argv)))
    elif len(sys.argv) == 2 and sys.argv[1] in list(names(False)):
        main(lambda: run_one(sys.argv[1]))
    else:
        sys.exit(__doc__)
