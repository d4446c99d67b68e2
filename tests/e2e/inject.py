"""`gpuwhy run --inject` and `--fence` on the virtual card: which call fails, what is said about it, and how the program
took it."""
import json
import re
import shlex
import signal

from harness import (BUILD, CNN, REAL, Card, behind_sanitizer, by_name, expect, expect_text, gpuwhy, main, new_folder,
                     run_cases, run_observed, skip, texts)

SMI = BUILD / "lib" / "gpuwhy" / "virtual" / "bin" / "nvidia-smi"
REACT = BUILD / "tests" / "inject" / "react"
SMALL = Card("4GiB")
SHORT = [CNN, "--iterations", "2"]


def observed(place, name, argv, *options):
    return run_observed(argv, SMALL, new_folder(place, name), options)


def expect_injected(run, pattern, what):
    verdict = run.verdict()
    expect(verdict["cause"] == "injected-failure", f"{what}: the cause is {verdict['cause']}: {texts(verdict)}")
    expect(not verdict["alternatives"], f"{what}: alternatives {verdict['alternatives']}")
    expect_text(verdict, pattern, what)
    return verdict


def events(run):
    status, out, err = gpuwhy("export", "--to", "json", run.recording, folder=run.folder)
    expect(status == 0, f"export: {err}")
    return [item for item in json.loads(out)["items"] if "kind" in item]


def allocation_count(run):
    return sum(e.get("kind") in ("ALLOC", "ALLOC_ASYNC", "VMM_CREATE") for e in events(run))


def every_allocation_of_the_cnn(place):
    good = observed(place, "good", SHORT)
    count = allocation_count(good)
    expect(good.status == 0 and count > 20, f"{count} allocations, status {good.status}")
    for number in range(1, count + 1):
        run = observed(place, f"alloc-{number}", SHORT, "--inject", f"oom@alloc:{number}")
        expect(run.status == 1, f"allocation {number}: exit status {run.status}")
        verdict = expect_injected(run, "the program noticed: did no further GPU work and ended with status 1", f"{number}")
        expect_text(verdict, rf"the rule of the plan was oom@alloc:{number}\b", "the rule")
        expect(not verdict["leaks"], f"allocation {number}: {verdict['leaks']}")
    beyond = observed(place, "beyond", SHORT, "--inject", f"oom@alloc:{count + 1}")
    expect(beyond.status == 0 and beyond.stdout == good.stdout, "the run without an injection differs")
    verdict = beyond.verdict()
    expect(verdict["status"] == "clean", texts(verdict))
    expect_text(verdict, "no rule took effect", "a plan without effect")
    print(f"{count} allocations")


def reactions(place):
    for how, rule, status, text in (
            ("notice", "oom@cuMemAlloc:3", 1, r"noticed: .* and printed: react: cuMemAlloc: CUDA_ERROR_OUT_OF_MEMORY"),
            ("retry", "oom@cuMemAlloc:3+", 1, "retried: called cuMemAlloc again, 5 times, without success"),
            ("crash", "oom@cuMemAlloc:3", -signal.SIGSEGV, r"died of signal 11")):
        run = observed(place, how, [REACT, "--" + how], "--inject", rule)
        expect(run.status == status, f"{how}: status {run.status}")
        expect_injected(run, text, how)
    run = observed(place, "retried", [REACT, "--retry"], "--inject", "oom@cuMemAlloc:3")
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", f"{run.status}: {texts(verdict)}")
    expect_text(verdict, "on purpose.* retried: called cuMemAlloc again, with success", "retried")
    run = observed(place, "ignore", [REACT, "--ignore"], "--inject", "oom@cuMemAlloc:3")
    verdict = run.verdict()
    expect_text(verdict, r"went on: next cuMemcpyHtoD at react\.c:\d+ in copy_to.* \(which returned 1\)", "went on")
    run = observed(place, "hang", [REACT, "--hang"], "--inject", "oom@cuMemAlloc:3", "--hang-after", "1",
                   "--kill-on-hang")
    expect_injected(run, r"hung: no driver call of pid \d+ began or ended", "hung")


def kinds(place):
    for what, rule, text in (
            ("sticky", "700@sync:2", "from then on every call failed with this result"),
            ("named", "CUDA_ERROR_NOT_PERMITTED@cuStreamCreate:1",
             r"cuStreamCreate.* returned 800 \(CUDA_ERROR_NOT_PERMITTED\)"),
            ("init", "100@init", r"cuInit at .* returned 100"),
            ("here", "oom@alloc:3,process=cnn;oom@alloc:3,process=1", "oom@alloc:3,process=cnn")):
        expect_injected(observed(place, what, SHORT, "--inject", rule), text, what)
    run = observed(place, "slow", SHORT, "--inject", "slow=20ms@sync:1")
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", texts(verdict))
    expect_text(verdict, "slowed down 1 call by 0.020 s each", "a slow call")
    slow = [e for e in events(run) if e.get("kind") == "INJECTED"]
    expect(len(slow) == 1, f"{len(slow)} facts")
    run = observed(place, "elsewhere", SHORT, "--inject", "oom@alloc:3,process=other;oom@alloc:3,rank=1;"
                                                          "oom@alloc:3,process=2;oom@alloc,after=1000s")
    expect(run.status == 0, f"a rule for another process took effect: {texts(run.verdict())}")


def chance(place):
    """The same seed chooses the same calls; another one does not. With threads, as many calls are chosen."""
    plan = "oom@cuMemAlloc,p=0.05,seed=%d"
    argv = [REACT, "--list", "--rounds", "400"]
    outs = [observed(place, f"p{i}", argv, "--inject", plan % seed).stdout for i, seed in enumerate((7, 7, 8))]
    expect(outs[0] == outs[1] and outs[0] != outs[2], f"{outs}")
    expect(5 <= len(outs[0].split()) <= 45, f"{outs[0]}")
    many = [len(observed(place, f"t{i}", [*argv, "--rounds", "100", "--threads", "4"], "--inject",
                         plan % 7).stdout.split()) for i in range(2)]
    expect(many[0] == many[1] == len(outs[0].split()), f"{many} of 400 calls in threads, {len(outs[0].split())} in one")


def fence(place):
    """The virtual card's own error. Without the fence its answers are those of the card; with it, no call gets there."""
    card = Card("4GiB", more="fault=700@cuMemAlloc_v2:3")
    plain = run_observed([REACT, "--list"], card, new_folder(place, "open"))
    expect(plain.status == 0 and plain.stdout == b"3\n", f"{plain.status}: {plain.stdout}")
    run = run_observed([REACT, "--list", "--ignore"], card, new_folder(place, "closed"), ["--fence"])
    expect(run.stdout.split() == [str(i).encode() for i in range(3, 21)], f"{run.stdout}")
    verdict = run.verdict()
    expect_text(verdict, r"--fence: after result 700 .* kept 36 calls? .* from the driver, the first one cuMemcpyHtoD",
                "the fence")  # 17 allocations, 18 copies, and the release of the context
    flagged = [e for e in events(run) if "fenced" in e.get("flags", [])]
    expect(len(flagged) == 36, f"{len(flagged)} events with the flag")
    run = run_observed([REACT, "--list"], card, new_folder(place, "exit"), ["--fence=exit"])
    expect(run.status == 79, f"status {run.status}")
    expect_text(run.verdict(), r"--fence=exit: gpuwhy ended pid \d+ with status 79 at its first call \(cuMemAlloc\)",
                "the end")
    healthy = run_observed(SHORT, SMALL, new_folder(place, "healthy"), ["--fence"])
    expect(healthy.status == 0 and "fence" not in texts(healthy.verdict()), texts(healthy.verdict()))


def lost(place):
    """A lost device: 999 from then on, and NVML of the virtual card agrees, for other programs, too."""
    one = shlex.join(behind_sanitizer([REACT]))
    smi = shlex.join(behind_sanitizer([SMI]))
    script = (f"{one} --list; echo status $?; {smi} -L; i=0; "
              f"while {smi} >/dev/null 2>&1 && [ $i -lt 600 ]; do sleep 0.05; i=$((i+1)); done; {smi}; echo smi $?")
    run = observed(place, "lost", ["/bin/sh", "-c", script], "--inject", "lost@cuMemAlloc:2")
    out = run.stdout.decode()
    expect("smi 15" in out, f"NVML does not agree: {out}")
    expect(out.split()[:2] == ["2", "3"], f"a later call succeeded: {out}")
    verdict = run.verdict()
    expect("lost@cuMemAlloc:2" in texts(verdict), texts(verdict))
    healthy = observed(place, "healthy-lost", ["/bin/sh", "-c", f"{one} --list; {smi} -L"], "--inject",
                       "lost@cuMemAlloc:2000")
    expect(healthy.stdout.startswith(b"GPU 0:"), f"{healthy.stdout}")


def bad_plans(place):
    for plan, reason in (("oom", "no '@'"), ("oom@allocs", "unknown calls 'allocs'"), ("", "an empty rule"),
                         ("oom@alloc:x", "number of a call"), ("bad@alloc", "unknown action 'bad'")):
        status, out, err = gpuwhy("run", "--inject", plan, "--", "/bin/true", folder=place)
        expect(status == 2 and reason in err, f"{plan}: {status} {err}")
    status, out, err = gpuwhy("run", "--fence=maybe", "--", "/bin/true", folder=place)
    expect(status == 2 and "--fence=exit" in err, err)


def no_plan(place):
    """The repaired twin: no plan, no line."""
    verdict = observed(place, "none", SHORT).verdict()
    expect(verdict["status"] == "clean" and not re.search("inject|fence|on purpose", texts(verdict)), texts(verdict))


CASES = by_name(every_allocation_of_the_cnn, reactions, kinds, chance, fence, lost, bad_plans, no_plan)


def test():
    if REAL:
        skip("these runs count the calls of a virtual card")
    run_cases(CASES)


if __name__ == "__main__":
    main(test)
