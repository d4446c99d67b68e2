"""GPU core dumps (`gpuwhy run --core`): from the environment that the driver sees to the verdict, also for dumps of
a real GPU. The virtual GPU writes dumps in the same form as a real one."""
import os
import pathlib
import shutil
import signal

from harness import (CNN, Card, CaseSkipped, Workplace, by_name, expect, expect_text, gpuwhy, main, new_folder, run_cases,
                     run_observed, run_plain)

FIXTURES = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "gpucore"
SMALL = Card("16GiB")


def cnn(*options):
    return [CNN, "--iterations", "4", *options]


BAD = cnn("--runs", "2", "--bad-address")


def dumps_in(folder):
    return sorted(p for p in folder.rglob("*.cudacore"))


def dumped(place, name, argv, card=SMALL):
    """Run a program with --core, which the driver ends after a dump."""
    run = run_observed(argv, card, new_folder(place, name), ["--core"])
    expect(run.status == -signal.SIGABRT, f"exit status {run.status}; the driver ends the process after a dump")
    return run


def expect_fault(run, cause):
    verdict = run.verdict()
    found = f"{verdict['status']}, {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(found)
    expect(verdict["cause"] == cause and verdict["certainty"] == "established", f"expected {cause}; found {found}")
    expect(all(a["cause"] != "host-crash-of-process" for a in verdict["alternatives"]), "the driver's abort is blamed on the host")
    return verdict


def illegal_address(place):
    run = dumped(place, "illegal", BAD)
    verdict = expect_fault(run, "illegal-address")
    expect(verdict["headline"].startswith("kernel class_report "), f"the kernel is not named first: {verdict['headline']}")
    expect_text(verdict, r"WARP_ILLEGAL_ADDRESS in kernel class_report, 0x90 bytes", "the exception")
    expect_text(verdict, r"block unknown", "that the block is not known")
    # a launch is recorded when its call returns; the driver may end the process before that
    expect_text(verdict, r"this launch is at fault|at that time, thread \d+ was inside cuLaunchKernel", "the launch")
    found = dumps_in(run.folder)
    expect(len(found) == 1 and found[0].name.startswith("run.") and found[0].parent == run.recording.parent,
           f"the dump does not lie beside the recording: {found}")
    expect_text(verdict, str(found[0]), "where the dump lies")
    status, again, err = gpuwhy("explain", "--json", run.recording, folder=place)
    expect(status == 0 and "kernel class_report accessed" in again, f"explain says otherwise: {again} {err}")


def assertion(place):
    card = Card("16GiB", more="fault=assert@kernel:loss_forward")
    verdict = expect_fault(dumped(place, "assert", cnn(), card), "device-assert-index")
    expect_text(verdict, r"block \(0,0,0\), thread \(0,0,0\) of a grid of", "block and thread")
    expect_text(verdict, r"kernel loss_forward", "the kernel")


def other_faults(place):
    for kind, cause in (("misaligned", "misaligned-access"), ("illegal-instruction", "kernel-fault-other")):
        card = Card("16GiB", more=f"fault={kind}@kernel:loss_forward")
        expect(expect_fault(dumped(place, kind, cnn(), card), cause)["headline"].startswith("kernel loss_forward"), "the kernel is not named")


def trap(place):
    """It was not measured whether a real GPU writes a dump after a trap; the virtual GPU writes none."""
    run = run_observed(cnn(), Card("16GiB", more="fault=trap@kernel:loss_forward"), new_folder(place, "trap"), ["--core"])
    verdict = expect_fault(run, "kernel-fault-other")
    expect_text(verdict, "wrote no GPU core dump", "that there is no dump")


def healthy(place):
    argv = cnn("--save", "weights.bin")
    plain, observed = run_plain(argv, SMALL, new_folder(place, "plain")), run_observed(argv, SMALL, new_folder(place, "healthy"),
                                                                                     ["--core"])
    expect(observed.status == 0 and observed.stdout == plain.stdout, "a healthy run is changed by --core")
    expect(observed.verdict()["status"] == "clean", f"no clean verdict: {observed.verdict()['headline']}")
    expect(not dumps_in(observed.folder), "a dump of a healthy run")


def own_name(place):
    folder = new_folder(place, "own-name")
    own = folder / "mine-%p-of[%h].dump"
    run = run_observed(BAD, SMALL, folder, ["--core"], variables={"CUDA_COREDUMP_FILE": str(own)})
    expect_fault(run, "illegal-address")
    expect(len(list(folder.glob("mine-*.dump"))) == 1 and not dumps_in(folder), "the user's name for dumps is not kept")


def own_skip_abort(place):
    run = run_observed(BAD, SMALL, new_folder(place, "skip-abort"), ["--core"],
                       variables={"CUDA_COREDUMP_GENERATION_FLAGS": "skip_abort"})
    expect(run.status == 1, f"exit status {run.status}")
    verdict = expect_fault(run, "illegal-address")
    expect(b"skip_abort" in run.stderr, "no warning of skip_abort")
    expect_text(verdict, "do not trust", "what skip_abort means")


def earlier_dump(place):
    """A file of an earlier run whose name matches the user's pattern must not be used for this run."""
    folder = new_folder(place, "earlier")
    old = folder / "dump.1234"
    old.write_bytes(b"nothing that can be read")
    os.utime(old, (1, 1))
    run = run_observed(cnn(), SMALL, folder, ["--core"], variables={"CUDA_COREDUMP_FILE": str(folder / "dump.%p")})
    expect(run.verdict()["status"] == "clean", f"an old file is taken for this run's: {run.verdict()['headline']}")


def real_dumps(place):
    if shutil.which("zstd") is None:
        raise CaseSkipped("no zstd")
    wanted = {"illegal-address": ("illegal-address", r"kernel fill\b.* accessed .* at s12_bad_address.cu:7", "block unknown"),
              "device-assert": ("device-assert-index", r"kernel pick\b.* at s13_assert.cu:9",
                                r"block \(0,0,0\), thread \(17,0,0\)")}
    for name, (cause, headline, block) in wanted.items():
        # as the driver does: write a file with the requested name, then abort
        script = f'zstd -dqc {FIXTURES}/{name}.cudacore.zst > "$(echo $CUDA_COREDUMP_FILE | sed s/%p/$$/)"; kill -ABRT $$'
        verdict = expect_fault(dumped(place, name, ["/bin/sh", "-c", script]), cause)
        expect_text(verdict, headline, "the kernel")
        expect_text(verdict, block, "block and thread")


def unreadable(place):
    script = 'echo broken > "$(echo $CUDA_COREDUMP_FILE | sed s/%p/$$/)"; kill -ABRT $$'
    run = run_observed(["/bin/sh", "-c", script], SMALL, new_folder(place, "unreadable"), ["--core"])
    verdict = run.verdict()
    expect(verdict["cause"] == "kernel-fault-other" and verdict["certainty"] == "supported",
           f"{verdict['cause']} ({verdict['certainty']})")
    expect_text(verdict, "could not be read: .*not an ELF file", "why the dump says nothing")


CASES = by_name(illegal_address, assertion, other_faults, trap, healthy, own_name, own_skip_abort, earlier_dump, real_dumps,
                unreadable)


def test():
    with Workplace() as place:
        status, out, err = gpuwhy("run", "--core", "--gpu", "virtual:h200", "--", "true", folder=place)
    if status == 2 and "elfutils" in err:
        print("skipped: this build cannot read GPU core dumps, and says so")
        return
    run_cases(CASES)


if __name__ == "__main__":
    main(test)
