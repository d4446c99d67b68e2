"""Rehearsals on the virtual card against real runs there: rehearse.py NAME...

A rehearsed program must get the same answers as in a real run, except for what no rehearsal can know. KNOWN and
KNOWN_CHECKS name each such difference with its reason; a difference that is gone fails the test, too.
"""
import json
import pathlib
import re
import sys

from harness import (BUILD, CNN, GPUWHY, VIRT_LIB, Card, Workplace, base_environment, behind_sanitizer, execute, expect,
                     gpuwhy, main, new_folder, run_observed, run_plain)

PROGRAMS = BUILD / "tests" / "rehearse"
CONFORMANCE = BUILD / "tests" / "conformance" / "conformance"
GIB = 1 << 30

LACKS = "the virtual card does not have this call or attribute; the rehearsal answers as an H100 does"
KNOWN = {  # lines of `calls`
    r"contexts\.after": "managed memory counts as if the card held all of it",
    r"pools\.after-plain-free(-held)?": "cuMemFree of a pool's block also gives unused memory of pools back",
    r"batches\.(in|out|prefetch|discard)": LACKS,
    r"graphs\.set-(fill|copy)": LACKS,
    r"graphs\.captured-nodes-value": "copies and fills of the books are skipped in a capture, not added as nodes",
    r"attributes\.\w+-(15|16|18|19|20|21)": LACKS,
    r"attributes\.\w+-(5|6)": "P2P tokens and SYNC_MEMOPS are answered as an H100 does",
    r"attributes\.share": "the books' memory cannot be shared with other processes",
    r"attributes\.(pool|mapped)-1|attributes\.many-context":
        "memory of pools and mappings has no context, as on an H100",
}
NOT_RUN = "kernels do not run, so they neither take time nor fail"
KNOWN_CHECKS = {  # checks of `conformance` that fail in a rehearsal
    r"memory\.content|capture\.has-run|graph-order\.(original|clone-value|child-value)": "what is read back is zero",
    r"order\.(busy|not-yet|elapsed-not-yet|elapsed-us|waits|default-waited-ms|blocking-waits-for-default)": NOT_RUN,
    r"waiting\.(alloc-does-not-wait|copy-does-not-wait-for-non-blocking|returns-at-once|destroy-does-not-wait)":
        NOT_RUN,
    r"queue-depth\.(900-fit|1100-wait-ms)": NOT_RUN,
    r"(illegal-address|misaligned|trap|assertion)\..*": NOT_RUN,
    r"null-in-kernel\.synchronise|freed-in-kernel\.own-pages-are-not|reset\.(synchronise-after|for-ever)": NOT_RUN,
    r"launches\.(threads|threads-product|block-z|shared|shared-not-opted-in|grid-zero|block-zero|grid-y|null|"
    r"no-parameters|packed-too-long|function-of-unloaded)": "a launch is skipped, so its parameters are not checked",
    r"capture\.(alloc-breaks|end-2)": "the books do not know which streams capture",
    r"capture\.nodes-value": "copies and fills of the books are skipped in a capture, not added as nodes",
    r"logs\.(line|dumped|all-called)": "the driver's log has no line for what the books refuse",
}


def is_known(name, table, used):
    for pattern in table:
        if re.fullmatch(pattern, name):
            used.add(pattern)
            return True
    return False


def rehearse(argv, card, folder, *options, environment=None):
    """Rehearse a program. Its JSON is in verdict.json."""
    command = [str(GPUWHY), "rehearse", *card.options(), "--json", str(folder / "verdict.json"), "-o",
               str(folder / "run.gpuwhy"), "--once", *options, "--", *behind_sanitizer(argv)]
    return execute(command, folder, {**base_environment(folder), "CALLS_REHEARSED": "1", **(environment or {})})


# ---- the same answers ----------------------------------------------------------------------------------------------

def lines_of(run):
    """Return the program's lines as (name, answer). A name that comes again gets a number."""
    lines, seen = {}, {}
    for line in run.stdout.decode().splitlines():
        name, _, answer = line.partition(" ")
        seen[name] = seen.get(name, 0) + 1
        lines[name, seen[name], answer.startswith("= ")] = answer
    return lines


def calls():
    """Every kind of call: the same results, sizes, pitches, attributes and free bytes."""
    with Workplace() as place:
        card = Card("24GiB")
        plain = run_plain([PROGRAMS / "calls"], card, new_folder(place, "plain"))
        rehearsed = rehearse([PROGRAMS / "calls"], card, new_folder(place, "rehearsed"), "--until", "end")
        a, b, used = lines_of(plain), lines_of(rehearsed), set()
        expect(len(a) > 1000, f"only {len(a)} lines:\n{plain.stderr.decode()}")
        wrong = [f"{key[0]} ({key[1]}): {a.get(key, 'nothing')} in a real run, {b.get(key, 'nothing')} rehearsed"
                 for key in sorted(a.keys() | b.keys())
                 if a.get(key) != b.get(key) and not is_known(key[0], KNOWN, used)]
        expect(not wrong, "\n".join(["the rehearsal answers otherwise:", *wrong]))
        expect(used == set(KNOWN), f"no longer different: {sorted(set(KNOWN) - used)}")


def conformance():
    """The checks of the virtual card, rehearsed: exactly those fail that a rehearsal cannot pass."""
    with Workplace() as place:
        folder = new_folder(place, "rehearsed")
        run = rehearse([CONFORMANCE, "--card-memory-light"], Card(None), folder, "--until", "end")
        failed, used = re.findall(r"^not ok (\S+) (.*)$", run.stdout.decode(), re.M), set()
        expect(len(re.findall(r"^ok ", run.stdout.decode(), re.M)) > 400, "most checks pass")
        wrong = [f"{name} {text}" for name, text in failed if not is_known(name, KNOWN_CHECKS, used)]
        expect(not wrong, "\n".join(["these checks fail in a rehearsal:", *wrong]))
        expect(used == set(KNOWN_CHECKS), f"no longer different: {sorted(set(KNOWN_CHECKS) - used)}")


def strict():
    """No address of the books reaches the driver."""
    with Workplace() as place:
        for number, (groups, every) in enumerate((([], None), (["segments"], "1"))):
            folder = new_folder(place, f"strict{number}")
            environment = {"LD_LIBRARY_PATH": str(PROGRAMS / "strict"), "STRICT_NEXT": str(VIRT_LIB),
                           "STRICT_CARD": "h200,memory=24GiB"}
            if every:
                environment["STRICT_ALL"] = every
            run = rehearse([PROGRAMS / "calls", *groups], RealCard(), folder, "--until", "end", environment=environment)
            errors = run.stderr.decode()
            expect("was given" not in errors, errors)
            ends = re.findall(r"^(\S+)\.end = (\d+)$", run.stdout.decode(), re.M)
            expect(len(ends) >= (1 if groups else 20), f"the program did not run:\n{errors}")
            expect(all(status == "0" for _, status in ends), f"{ends}\n{errors}")
            counts = re.findall(r"^strict: (\d+) calls, (\d+) ranges$", errors, re.M)
            expect(sum(int(ranges) for _, ranges in counts) >= len(ends) - 1, f"the driver saw no ranges: {counts}")


class RealCard(Card):
    """The driver that the library path names."""

    def options(self):
        return ["--gpu", "real"]


def churn():
    """Processes and threads on one card: no overlap, and nothing is left. Rehearsed, each process has its own books."""
    with Workplace() as place:
        for name, run in (("plain", lambda f: run_plain([PROGRAMS / "churn"], Card("3GiB"), f)),
                          ("rehearsed", lambda f: rehearse([PROGRAMS / "churn"], Card("3GiB"), f, "--until", "end"))):
            done = run(new_folder(place, name))
            found = re.match(rb"(\d+) calls, (\d+) refused, 0 bad, (\d+) held, 0 failed", done.stdout)
            expect(found, f"{name}: {done.stdout} {done.stderr}")
            expect(int(found[1]) >= 50000, f"{name}: {done.stdout}")
            expect(int(found[3]) == 552402944, f"{name}: more than one context is left: {done.stdout}")
            expect(name == "rehearsed" or int(found[2]) > 0, f"the card was never full: {done.stdout}")


# ---- the same peak -------------------------------------------------------------------------------------------------

def refusal(verdict):
    """Return what the verdict says about the request that was refused."""
    texts = [e["text"] for e in verdict["evidence"] if " failed at " in (e["text"] or "")]
    expect(texts, f"no refused request in {[e['text'] for e in verdict['evidence']]}")
    return re.sub(r" \(limit set by gpuwhy\)", "", texts[0]), verdict["where"]["text"]


def real_fits(argv, memory, folder):
    """Run the CNN on a card of so many bytes. Returns (does it fit, what was refused)."""
    verdict = run_observed(argv, Card(str(memory)), folder).verdict()
    if verdict["status"] == "clean":
        return True, None
    expect(verdict["cause"] == "gpu-oom-capacity", verdict["headline"])
    return False, refusal(verdict)


def expect_refusal(verdict, wanted):
    if wanted is not None:
        found = refusal(verdict)
        expect(found == wanted, f"{found} rehearsed, {wanted} really")


def exact_for(batch, sizes, place):
    """The peak is exact: a card of that size is enough, and a byte less is not. For each of `sizes`, the answer is that
    of a real run, with the same refused request."""
    argv = [CNN, "--batch", str(batch), "--iterations", "2"]
    answer = rehearse(argv, Card("400GiB"), new_folder(place, f"{batch}"), "--until", "end").verdict()["rehearsal"]
    peak = answer["peak_bytes"]
    expect(answer["fits"] is True and peak == answer["asked_bytes"] + answer["driver_bytes"], answer)
    for memory in (peak, peak - 1, *sizes):
        name = f"{batch}-{memory}"
        fits, refused = real_fits(argv, memory, new_folder(place, name + "-real"))
        rehearsed = rehearse(argv, Card(str(memory)), new_folder(place, name)).verdict()
        expect(fits == (memory >= peak), f"batch {batch} {'fits' if fits else 'does not fit'} {memory}; peak {peak}")
        expect(rehearsed["rehearsal"]["fits"] is fits, f"batch {batch} on {memory}: {rehearsed['rehearsal']}")
        expect_refusal(rehearsed, refused)
        limited = rehearse(argv, Card("24GiB"), new_folder(place, name + "-limit"), "--memory", str(memory)).verdict()
        expect(limited["rehearsal"]["fits"] is fits, f"batch {batch}, --memory {memory}: {limited['rehearsal']}")
        expect_refusal(limited, refused)
    return peak


def exact():
    with Workplace() as place:
        for batch, sizes in ((1200, [GIB]), (3001, [GIB, 2 * GIB]), (20000, [8 * GIB, 24 * GIB])):
            exact_for(batch, sizes, place)


def exact_long():
    """Batches whose peaks are spread over 1 to 24 GiB, each on every card of whole GiB near its peak."""
    with Workplace() as place:
        for size in range(1, 25):
            batch = 1480 * size + 37 * size % 101
            peak = exact_for(batch, [n * GIB for n in (size, size + 1)], place)
            print(f"batch {batch}: {peak} bytes, exact")


# ---- the end of a rehearsal ----------------------------------------------------------------------------------------

def endings():
    """When the program is ended: `--until` in all forms."""
    cases = [  # options, plan, is it ended, equal iterations, launches of each, last word that was done
        ([], ["30x5", "sleep"], True, 16, 5, None),
        (["--until", "steady"], ["30x5", "3x2", "sleep"], True, 16, 5, None),
        ([], ["6x4!", "sleep"], True, 6, 5, None),                # with an optimizer's step: whole iterations
        ([], ["5x4!"], False, 0, 0, "5x4!"),
        (["--until", "end"], ["30x4!"], False, 0, 0, "30x4!"),
        (["--until", "3"], ["3x5", "sleep"], True, 3, 5, None),
        (["--until", "5"], ["2x4", "5x6", "2x3", "sleep"], True, 5, 6, None),
        (["--until", "end"], ["30x5", "3x7"], False, 0, 0, "3x7"),
        (["--until", "1s"], ["1x5", "sleep"], True, 0, 0, "1x5"),
        ([], ["2x5", "1x7", "2x9"], False, 0, 0, "2x9"),          # never three times in a row
        ([], ["20x-5"], False, 0, 0, "20x-5"),                    # no copies, so no iterations are seen
        ([], ["6x4,4", "1x9"], False, 0, 0, "1x9"),               # equal parts: too few, and no second has passed
        (["--until", "3"], ["1x9", "3x4,6", "sleep"], True, 3, 10, None),
        ([], ["20x5,+2,5"], False, 0, 0, "20x5,+2,5"),            # the memory grows
        (["--until", "2s"], ["deaf", "1x5", "sleep"], True, 0, 0, "1x5"),  # ignores SIGTERM
    ]
    with Workplace() as place:
        for i, (options, plan, is_ended, equal, launches, last) in enumerate(cases):
            run = rehearse([PROGRAMS / "iterations", *plan], Card("4GiB"), new_folder(place, str(i)), *options)
            it = run.verdict()["rehearsal"]
            what = f"{options} {plan}: {it}\n{run.stderr.decode()}"
            expect(it["fits"] is True and run.status == 0, what)
            expect(it["ended_by_gpuwhy"] is is_ended, what)
            expect((it["equal_iterations"], it["launches_each"]) == (equal, launches), what)
            if last:
                expect(f"done {last}\n" in run.stdout.decode(), what)


def statuses():
    """Exit statuses, and options that are refused."""
    with Workplace() as place:
        number = 0
        for options, argv, wanted, text in (
                ([], [PROGRAMS / "iterations", "3x5"], 0, "Fits     yes"),
                ([], [PROGRAMS / "iterations", "1x+3000", "1x+3000"], 1, "Fits     no"),
                ([], [PROGRAMS / "iterations", "1x5", "fail"], 1, "Fits     unknown"),
                ([], ["/bin/true"], 1, "used no GPU memory"),
                ([], ["/nonexistent"], 127, "/nonexistent"),
                (["--until", "soon"], [PROGRAMS / "iterations"], 2, "--until soon"),
                (["--until", "0"], [PROGRAMS / "iterations"], 2, "--until 0"),
                (["--until", "1.5"], [PROGRAMS / "iterations"], 2, "--until 1.5"),
                (["--until", "-3s"], [PROGRAMS / "iterations"], 2, "--until -3s"),
                (["--memory", "much"], [PROGRAMS / "iterations"], 2, "--memory")):
            number += 1
            run = rehearse(argv, Card("4GiB"), new_folder(place, str(number)), *options)
            errors = run.stderr.decode()
            expect(run.status == wanted, f"{options} {argv}: status {run.status}, not {wanted}\n{errors}")
            expect(text in errors, f"{options} {argv}: no `{text}` in\n{errors}")
        status, _, errors = gpuwhy("rehearse", folder=place)
        expect(status == 2 and "no program given" in errors, errors)
        status, out, _ = gpuwhy("rehearse", "--help", folder=place)
        expect(status == 0 and out.startswith("gpuwhy rehearse [options] -- program"), out)
        folder = new_folder(place, "none")
        run = execute([str(GPUWHY), "rehearse", "--", str(PROGRAMS / "iterations"), "1x5"], folder,
                      {**base_environment(folder), "LD_LIBRARY_PATH": str(folder)})
        if not pathlib.Path("/dev/nvidiactl").exists():
            expect(run.status == 126 and "needs a GPU and its driver" in run.stderr.decode(), run.stderr.decode())
            expect(run.stdout == b"", "the program was started without a driver")


def answers():
    """Text, JSON, the second rehearsal on a larger card, and the recording."""
    with Workplace() as place:
        folder = new_folder(place, "grows")
        argv = [str(PROGRAMS / "iterations"), "1x+1500", "1x5,+2000,3"]
        command = [str(GPUWHY), "rehearse", "--gpu", "virtual:h200", "--memory", "3GiB", "--json", "-", "-o",
                   str(folder / "run.gpuwhy"), "--", *behind_sanitizer(argv)]
        run = execute(command, folder, base_environment(folder))
        errors = " ".join(run.stderr.decode().split())
        expect("Fits no: a request was refused when the process held 1.98 GiB of 3.00 GiB" in errors, errors)
        expect(re.search(r"Needs 3\.9\d GiB, \d+\.\d+ MiB more than the card has", errors), errors)
        expect("Details gpuwhy explain" in errors, errors)
        start = run.stdout.decode().index("{")
        it = json.loads(run.stdout.decode()[start:])["rehearsal"]
        for key, value in {"fits": False, "limit_bytes": 3 * GIB, "device": 0, "cards": 1, "ended_by_gpuwhy": False,
                           "times_made_up": False, "refused": [], "torch_live_bytes": None}.items():
            expect(it[key] == value, f"{key} is {it[key]}, not {value}")
        expect(it["peak_bytes"] == it["asked_bytes"] + it["driver_bytes"] and it["asked_bytes"] == 1502 << 20, it)
        expect(it["real_bytes"] > 100 * GIB and "iterations.c:" in it["place"], it)
        status, out, err = gpuwhy("explain", folder / "run.gpuwhy", folder=folder)
        expect("rehearsed (nothing was computed), exited 1" in " ".join((out + err).split()),
               f"explain does not say so:\n{out}{err}")
        _, out, _ = gpuwhy("explain", "--json", folder / "run.gpuwhy", folder=folder)
        again = json.loads(out)["rehearsal"]
        expect({k: v for k, v in again.items() if k != "place"} == {k: v for k, v in it.items() if k != "place"},
               f"{again}\n{it}")
        status, out, err = gpuwhy("history", folder=folder)
        expect(status == 0 and "gpu-oom-capacity" in out + err, out + err)
        run = rehearse([PROGRAMS / "calls", "attributes", "events"], Card("4GiB"), new_folder(place, "open"), "--until",
                       "end")
        it = run.verdict()["rehearsal"]
        expect(it["refused"] == ["cuIpcGetMemHandle"] and it["times_made_up"] is True, it)
        errors = " ".join(run.stderr.decode().split())
        expect("cuIpcGetMemHandle was refused" in errors, errors)
        expect(errors.count("cuIpcGetMemHandle cannot be rehearsed, so it was refused") == 1, errors)


TESTS = {"calls": calls, "conformance": conformance, "strict": strict, "churn": churn, "exact": exact,
         "exact-long": exact_long, "endings": endings, "statuses": statuses, "answers": answers}


def run_all():
    for name in sys.argv[1:] or [name for name in TESTS if name != "exact-long"]:
        TESTS[name]()


main(run_all)
