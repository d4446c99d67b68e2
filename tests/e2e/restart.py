"""`gpuwhy run --rescue`, --restart, --on, --wait-memory, --alarm-at and --cure on the virtual card.

Nothing here depends on the speed of the machine: programs wait for files, and this test waits for output.
"""
import contextlib
import json
import os
import pathlib
import re
import shlex
import signal
import subprocess

from harness import (BUILD, CNN, GPUWHY, SCENARIOS, Card, Failure, base_environment, behind_sanitizer, by_name, expect, expect_screens,
                     expect_text, gpuwhy, library_folder, main, new_folder, run_cases, run_observed, wait_until)

SMALL, MIDDLE = Card("4GiB"), Card("16GiB")
BAD = [CNN, "--runs", "2", "--bad-address"]


def by_shell(script, *argv):
    """A shell that counts its starts in the file `starts`, and ends with the same status as the program: "$@"."""
    return ["/bin/sh", "-c", "echo x >> starts; " + script, "sh",
            *(behind_sanitizer(argv) if argv else [])]


COUNTED = by_shell('exec "$@"', CNN)


def starts(run):
    return (run.work / "starts").read_text().count("x")


def causes(verdict):
    return [attempt["cause"] for attempt in verdict["attempts"]]


def stderr_of(run):
    return " ".join(run.stderr.decode(errors="replace").split())


# ---- --restart -----------------------------------------------------------------------------------------------------

def transient(place):
    """The second attempt succeeds, and the run is clean."""
    folder = new_folder(place, "transient")
    script = 'if [ ! -e seen ]; then touch seen; set -- "$@" --bad-address; fi; exec "$@"'
    run = run_observed(by_shell(script, CNN, "--runs", "2"), MIDDLE, folder, ["--restart", "5"])
    verdict = run.verdict()
    expect(run.status == 0 and starts(run) == 2, f"exit status {run.status} after {starts(run)} attempts")
    expect(verdict["status"] == "clean", verdict["headline"])
    expect(causes(verdict) == ["illegal-address", None], f"the attempts: {verdict['attempts']}")
    first, second = verdict["attempts"]
    expect(first["again"] and first["ended"] == "exited 1" and first["change"] is None, f"{first}")
    expect(not second["again"] and second["ended"] == "exited 0", f"{second}")
    expect_screens(run.stderr.decode(), 1, verdict)
    # each attempt has its own recording, and the last one knows all of them
    expect(first["recording"] == str(run.recording), f"{first['recording']}")
    last = run.recording.with_name("run.2.gpuwhy")
    expect(second["recording"] == str(last) and last.exists(), f"{second['recording']}")
    status, out, err = gpuwhy("explain", "--json", last, folder=folder)
    expect(status == 0 and json.loads(out)["attempts"] == verdict["attempts"], f"explain: {out}{err}")
    status, out, err = gpuwhy("explain", "--json", run.recording, folder=folder)
    expect(json.loads(out)["cause"] == "illegal-address" and causes(json.loads(out)) == ["illegal-address"], out)


def permanent(place):
    """The same fault at the same place twice: there is no third attempt."""
    run = run_observed(by_shell('exec "$@"', *BAD), MIDDLE, new_folder(place, "permanent"), ["--restart", "9"])
    verdict = run.verdict()
    expect(run.status == 1 and starts(run) == 2, f"exit status {run.status} after {starts(run)} attempts")
    expect(verdict["cause"] == "illegal-address" and causes(verdict) == ["illegal-address"] * 2, f"{verdict['attempts']}")
    expect("in the same way" in verdict["attempts"][1]["why"], verdict["attempts"][1]["why"])
    expect_screens(run.stderr.decode(), 1, verdict)


def not_repeated(place):
    """A cause that another attempt cannot help, and a failure without a known cause."""
    run = run_observed(by_shell('exec "$@"', CNN, "--batch", "16384"), SMALL, new_folder(place, "oom"), ["--restart", "9"])
    expect(run.status == 1 and starts(run) == 1, f"out of memory: {starts(run)} attempts")
    expect("would fail in the same way" in run.verdict()["attempts"][0]["why"], f"{run.verdict()['attempts']}")
    run = run_observed(by_shell("exit 7"), SMALL, new_folder(place, "exit"), ["--restart", "9"])
    expect(run.status == 7 and starts(run) == 1, f"exit 7: {starts(run)} attempts, exit status {run.status}")
    run = run_observed(by_shell('exec "$@"', CNN), SMALL, new_folder(place, "good"), ["--restart", "9"])
    expect(run.status == 0 and starts(run) == 1, f"a good run: {starts(run)} attempts")


def without_the_option(place):
    run = run_observed(by_shell('exec "$@"', *BAD), MIDDLE, new_folder(place, "plain"))
    verdict = run.verdict()
    expect(starts(run) == 1 and verdict["attempts"] == [] and verdict["interventions"] == [], f"{verdict['attempts']}")


# ---- --on ----------------------------------------------------------------------------------------------------------

def halved(place):
    folder = new_folder(place, "halved")
    run = run_observed([CNN, "--batch", "16384"], SMALL, folder, ["--restart", "9", "--on", "gpu-oom:batch=/2"])
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", f"exit status {run.status}: {verdict['headline']}")
    expect(b"of 4096 images" in run.stdout, run.stdout.decode())
    changes = [attempt["change"] for attempt in verdict["attempts"]]
    expect(changes == ["--batch 8192 instead of 16384", "--batch 4096 instead of 8192", None], f"{changes}")
    expect("starting it again with --batch 4096 instead of 8192" in stderr_of(run), stderr_of(run))
    # history lists one run, with the command that the user gave
    status, out, err = gpuwhy("history", "--json", folder=folder, environment=base_environment(folder))
    runs = json.loads(out)["runs"]
    expect(len(runs) == 1 and "--batch 16384" in runs[0]["command"] and runs[0]["good"], f"history: {out}{err}")
    expect([a["cause"] for a in runs[0]["earlier_attempts"]] == ["gpu-oom-capacity"] * 2, f"{runs[0]}")
    expect(all(pathlib.Path(a["recording"]).exists() for a in runs[0]["earlier_attempts"]), f"{runs[0]}")
    status, out, err = gpuwhy("history", folder=folder, environment=base_environment(folder))
    expect(out.count("attempt ") == 2 and "attempt 1 of 3" in out, out)


def set_in_environment(place):
    script = 'echo "size=$SIZE" >> sizes; exec "$@" --batch ${SIZE:-16384}'
    run = run_observed(by_shell(script, CNN), SMALL, new_folder(place, "environment"),
                       ["--restart", "9", "--on", "gpu-oom-capacity:env:SIZE=64"])
    expect(run.status == 0 and (run.work / "sizes").read_text() == "size=\nsize=64\n", f"exit status {run.status}")
    expect(run.verdict()["attempts"][0]["change"] == "SIZE=64 in the environment", f"{run.verdict()['attempts']}")


def nothing_left_to_change(place):
    run = run_observed(by_shell('exec "$@"', CNN, "--batch", "16384"), SMALL, new_folder(place, "left"),
                       ["--restart", "9", "--on", "gpu-oom-capacity:batch=8192"])
    expect(run.status == 1 and starts(run) == 2, f"{starts(run)} attempts")
    expect("--on has nothing left to change: batch is already 8192" in stderr_of(run), stderr_of(run))


def wrong_options(place):
    for options, reason in ((["--on", "gpu-oom:batch=/2"], "--on needs --restart"),
                            (["--restart", "1", "--on", "gpu-oom:width=/2"], "has no option width"),
                            (["--restart", "1", "--on", "gpu-omm:batch=/2"], "unknown cause gpu-omm"),
                            (["--restart", "x"], "--restart x: not a number"),
                            (["--wait-memory", "5parsecs"], "--wait-memory 5parsecs: expected a size"),
                            (["--alarm-at", "150%"], "--alarm-at 150%: expected a share")):
        folder = new_folder(place, "wrong" + str(len(list(place.iterdir()))))
        run = run_observed([CNN, "--batch", "64"], SMALL, folder, options)
        expect(run.status == 2 and reason in stderr_of(run), f"{options}: {run.status}, {stderr_of(run)}")
        expect(run.stdout == b"" and not run.recording.exists(), f"{options}: the program ran")


# ---- --rescue ------------------------------------------------------------------------------------------------------

def cnn_words():
    """The start of a command in a shell's script."""
    return shlex.join(map(str, behind_sanitizer([CNN])))


def rescued_by_rehearsals(place):
    """The largest batch that divides the product; the numbers below and above are those that were rehearsed."""
    script = ": {steps:1}; exec " + cnn_words() + " --batch {batch:16384}"
    run = run_observed(by_shell(script), SMALL, new_folder(place, "rehearsed"), ["--rescue=rehearse"])
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", f"exit status {run.status}: {stderr_of(run)}")
    first, second = verdict["attempts"]
    expect(sorted(first["change"].split(", ")) == ["batch 4096 instead of 16384", "steps 4 instead of 1"], f"{first}")
    expect(first["proof"] == "rehearsed: 4096 fits, 8192 does not" and first["seconds"] > 0, f"{first}")
    expect(not second["again"] and b"of 4096 images" in run.stdout, run.stdout.decode())


def a_rehearsal_leaves_no_files(place):
    """What rehearsals write is forgotten; where that is impossible, there are none, and the batch is halved."""
    script = "echo > wrote-{batch:16384}; exec " + cnn_words() + " --batch {batch}"
    run = run_observed(by_shell(script), SMALL, new_folder(place, "aside"), ["--rescue"])
    written = sorted(int(path.name[6:]) for path in run.work.glob("wrote-*"))
    used = [16384, *(int(re.search(r"batch (\d+) instead", attempt["change"])[1]) for attempt in run.verdict()["attempts"][:-1])]
    expect(run.status == 0 and written == sorted(used), f"exit status {run.status}: written {written}, used {used}")
    if "by trial" in run.verdict()["attempts"][0]["proof"]:
        print("skipped: this system allows no mount namespace, so nothing was rehearsed")


def hopeless_ends_at_once(place):
    for name, script, why in (("exception", "echo 'KeyError: 1' >&2; exit 3", "not determined"),
                              ("no-place", "exec " + cnn_words() + " --batch 16384", "no value left"),
                              ("no-fit", ": {batch:4}; exec " + cnn_words() + " --batch 16384", "no value of the placeholders fits")):
        run = run_observed(by_shell(script), SMALL, new_folder(place, name), ["--rescue=rehearse"])
        attempts = run.verdict()["attempts"]
        expect(run.status != 0 and len(attempts) == 1 and why in attempts[0]["why"], f"{name}: {attempts}")


def a_checkpoint_is_gone_on_from(place):
    """Each attempt gets one step further, because it finds what the one before has written."""
    script = 'n=$(ls ck-* 2>/dev/null | wc -l); echo "[$*]" >> arguments; touch ck-$n; ' \
             'if [ $n -lt 2 ]; then exec ' + cnn_words() + ' --batch 16384; fi'
    run = run_observed(by_shell(script), SMALL, new_folder(place, "checkpoint"),
                       ["--rescue=leak", "--resume-with", "--resume {last}", "--checkpoints", "ck-*"])
    lines = (run.work / "arguments").read_text()
    expect(run.status == 0 and lines == "[]\n[--resume ck-0]\n[--resume ck-1]\n", f"exit status {run.status}: {lines}")
    resumed = [attempt["resumed"] for attempt in run.verdict()["attempts"]]
    expect(resumed == ["ck-0", "ck-1", None], f"{resumed}")


def a_signal_ends_a_rehearsal(place):
    """The rehearsed program sleeps. Its files are set aside, so it is found by its command."""
    seconds = str(100000 + os.getpid())
    script = "if [ ! -e seen ]; then touch seen; exec " + cnn_words() + " --batch {batch:16384}; fi; exec sleep " + seconds

    def sleeps():
        for path in pathlib.Path("/proc").glob("[0-9]*/cmdline"):
            with contextlib.suppress(OSError):  # it has just ended
                if seconds.encode() in path.read_bytes().split(b"\0"):
                    return True
        return False

    with begin(place, "rehearsal", ["--rescue=rehearse"], by_shell(script), SMALL) as (process, folder):
        until_said(process, folder, "rehearsing")
        wait_until(sleeps, "no rehearsal was started")
        os.killpg(process.pid, signal.SIGINT)
        status = process.wait(240)
        wait_until(lambda: not sleeps(), "the rehearsal goes on")
    expect(status == 1 and "starting it again" not in said(folder), f"exit status {status}: {said(folder)}")


# ---- the program's surroundings ------------------------------------------------------------------------------------

def input_is_read_again(place):
    folder = new_folder(place, "input")
    (folder / "work" / "input").write_text("one\ntwo\n")
    script = 'read line; echo "$line" >> lines; if [ ! -e seen ]; then touch seen; set -- "$@" --bad-address; fi; exec "$@"'
    command = [str(GPUWHY), "run", *MIDDLE.options(), "--restart", "3", "--quiet", "--",
               *by_shell(script, CNN, "--runs", "2")]
    with open(folder / "work" / "input") as stdin:
        done = subprocess.run(command, cwd=folder / "work", env=base_environment(folder), stdin=stdin, capture_output=True,
                              timeout=240)
    lines = (folder / "work" / "lines").read_text()
    expect(done.returncode == 0 and lines == "one\none\n", f"exit status {done.returncode}; read: {lines!r}")


def dumps_have_their_own_names(place):
    script = 'echo "$CUDA_COREDUMP_FILE" >> names; exec "$@"'
    run = run_observed(by_shell(script, *BAD), MIDDLE, new_folder(place, "dumps"), ["--restart", "1", "--core"])
    if run.status == 2 and b"elfutils" in run.stderr:
        print("skipped: this build cannot read GPU core dumps, and says so")
        return
    names = (run.work / "names").read_text().split()
    expect(len(names) == 2 and len(set(names)) == 2, f"the names of the dumps: {names}")


def with_blame(place):
    """The second run of --blame leaves no trace in the next attempt."""
    script = 'echo "blocking=$CUDA_LAUNCH_BLOCKING" >> seen; exec "$@"'
    run = run_observed(by_shell(script, *BAD), MIDDLE, new_folder(place, "blame"), ["--restart", "1", "--blame"])
    seen = (run.work / "seen").read_text().split()
    expect(seen == ["blocking=", "blocking=1"] * 2, f"{seen}")
    expect_text(run.verdict(), r"this launch is at fault", "the launch")


# ---- signals -------------------------------------------------------------------------------------------------------

@contextlib.contextmanager
def begin(place, name, options, argv, card=MIDDLE, more=None):
    """Start gpuwhy, and kill it at the end. Yields the process and its folder; its stderr is a file."""
    folder = new_folder(place, name)
    command = [str(GPUWHY), "run", *card.options(), "--json", str(folder / "verdict.json"), *options, "--", *map(str, argv)]
    environment = dict(base_environment(folder), **(more or {}))
    with open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(command, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.DEVNULL, stderr=err, start_new_session=True)
    try:
        yield process, folder
    finally:
        process.kill()


def said(folder):
    return " ".join((folder / "stderr").read_text(errors="replace").split())


def until_said(process, folder, text):
    def look():
        if process.poll() is not None:
            raise Failure(f"gpuwhy ended with {process.returncode} before it said \"{text}\": {said(folder)}")
        return text in said(folder)
    wait_until(look, f"gpuwhy did not say \"{text}\"; it said: {said(folder)}")


def a_signal_never_restarts(place):
    """The program ignores the signal, and fails afterwards for a reason that could be transient."""
    for number in (signal.SIGINT, signal.SIGTERM):
        script = 'trap "" INT TERM; touch ready; while [ ! -e go ]; do sleep 0.01; done; exec "$@"'
        with begin(place, f"signal{number}", ["--restart", "9"], by_shell(script, *BAD)) as (process, folder):
            wait_until(lambda: (folder / "work" / "ready").exists(), "the program did not start")
            os.kill(process.pid, number)
            (folder / "work" / "go").touch()
            status = process.wait(240)
        expect(status == 1 and (folder / "work" / "starts").read_text() == "x\n", f"exit status {status}: {said(folder)}")
        verdict = json.loads((folder / "verdict.json").read_text())
        expect("a signal" in verdict["attempts"][0]["why"], f"{verdict['attempts']}")


def a_killed_program_is_not_restarted(place):
    script = 'echo $$ > pid.new; mv pid.new pid; exec sleep 1000'
    with begin(place, "killed", ["--restart", "9"], by_shell(script)) as (process, folder):
        path = folder / "work" / "pid"
        wait_until(path.exists, "the program did not start")
        os.kill(int(path.read_text()), signal.SIGTERM)
        status = process.wait(240)
    expect(status == -signal.SIGTERM and (folder / "work" / "starts").read_text() == "x\n", f"{status}: {said(folder)}")


def a_hang_is_restarted(place):
    """Who stopped the program is gpuwhy itself, because of --kill-on-hang."""
    script = 'if [ ! -e seen ]; then touch seen; exec "$@"; fi'
    with begin(place, "hang", ["--restart", "3", "--hang-after", "1", "--kill-on-hang"],
               by_shell(script, SCENARIOS / "s27_hang", "--kind", "locks")) as (process, folder):
        status = process.wait(240)
    attempts = json.loads((folder / "verdict.json").read_text())["attempts"]
    expect(status == 0 and causes({"attempts": attempts}) == ["host-deadlock", None], f"exit {status}: {attempts}, {said(folder)}")


# ---- waiting for memory --------------------------------------------------------------------------------------------

class Holder:
    """Another process that holds a part of the virtual card that it shares with the run."""

    def __init__(self, place, card, percent):
        self.cards = place / f"cards{len(list(place.iterdir()))}"
        self.cards.mkdir()
        libraries = new_folder(place, self.cards.name + "-libraries")
        environment = dict(base_environment(place), LD_LIBRARY_PATH=str(library_folder(libraries)),
                           GPUWHY_VIRTUAL=card.specification(), **self.shared())
        ready, write = os.pipe()
        argv = behind_sanitizer([SCENARIOS / "s04_other_process", "--hold", percent, "--ready-fd", write])
        self.process = subprocess.Popen(argv, env=environment, pass_fds=[write], stdin=subprocess.DEVNULL)
        os.close(write)
        expect(os.read(ready, 1) == b"r", "the other process holds nothing")
        os.close(ready)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def shared(self):
        return {"GPUWHY_VIRTUAL_DIR": str(self.cards)}

    def end(self):
        self.process.kill()
        self.process.wait()


def memory_is_waited_for(place):
    with Holder(place, MIDDLE, 60) as holder, \
            begin(place, "wait", ["--wait-memory", "12GiB"], COUNTED, more=holder.shared()) as (process, folder):
        until_said(process, folder, "waiting for 12.00 GiB of free memory on GPU 0")
        expect(f"pid {holder.process.pid} (" in said(folder), f"the holder is not named: {said(folder)}")
        expect(not (folder / "work" / "starts").exists(), "the program was started")
        holder.end()
        status = process.wait(240)
    expect(status == 0 and (folder / "work" / "starts").exists(), f"exit status {status}: {said(folder)}")
    text = " ".join(json.loads((folder / "verdict.json").read_text())["interventions"])
    expect(re.search(r"waited \d+\.\d s for 12.00 GiB of free memory on GPU 0", text), text)
    expect(f"held by pid {holder.process.pid} (" in text and "s04_other_process" in text, text)


def the_wait_has_a_limit(place):
    with Holder(place, MIDDLE, 60) as holder, \
            begin(place, "limit", ["--wait-memory", "12GiB:0.2"], COUNTED, more=holder.shared()) as (process, folder):
        status = process.wait(240)
    expect(status == 0 and "is free on GPU 0" in said(folder), f"exit status {status}: {said(folder)}")
    text = " ".join(json.loads((folder / "verdict.json").read_text())["interventions"])
    expect("did not become free (timeout)" in text, text)


def the_wait_can_be_stopped(place):
    with Holder(place, MIDDLE, 60) as holder, \
            begin(place, "stopped", ["--wait-memory", "12GiB"], COUNTED, more=holder.shared()) as (process, folder):
        until_said(process, folder, "waiting for")
        os.killpg(process.pid, signal.SIGINT)  # as the terminal does
        status = process.wait(240)
    expect(status == -signal.SIGINT, f"exit status {status}: {said(folder)}")
    expect(not (folder / "work" / "starts").exists(), "the program was started")
    expect(not list((folder / "state").rglob("*.gpuwhy")), "a recording of nothing is left")


def memory_that_is_there_is_not_waited_for(place):
    run = run_observed([CNN], MIDDLE, new_folder(place, "there"), ["--wait-memory", "8GiB"])
    expect(run.status == 0 and "waiting" not in stderr_of(run), stderr_of(run))
    expect_interventions(run, " s for 8.00 GiB of free memory on GPU 0")


def impossible_memory_is_not_waited_for(place):
    run = run_observed([CNN], MIDDLE, new_folder(place, "impossible"), ["--wait-memory", "17GiB"])
    expect(run.status == 0 and "cannot wait for 17.00 GiB" in stderr_of(run), stderr_of(run))
    expect_interventions(run, "did not wait for 17.00 GiB of free memory: a card has less memory in total")


def expect_interventions(run, text):
    found = " ".join(run.verdict()["interventions"])
    expect(text in found, f"expected \"{text}\" in \"{found}\"")


def another_process_is_waited_for_before_the_restart(place):
    argv = by_shell('exec "$@"', CNN, "--batch", "4096")
    with Holder(place, SMALL, 60) as holder, \
            begin(place, "other", ["--restart", "9"], argv, card=SMALL, more=holder.shared()) as (process, folder):
        until_said(process, folder, "waiting for")
        expect(f"pid {holder.process.pid} (" in said(folder), f"the holder is not named: {said(folder)}")
        holder.end()
        status = process.wait(240)
    verdict = json.loads((folder / "verdict.json").read_text())
    expect(status == 0 and verdict["status"] == "clean", f"exit status {status}: {said(folder)}")
    expect(causes(verdict) == ["gpu-oom-other-process", None], f"{verdict['attempts']}")
    expect(verdict["attempts"][0]["why"] == "the memory is free now", f"{verdict['attempts']}")


# ---- --alarm-at ----------------------------------------------------------------------------------------------------

COMMAND = ('echo "$GPUWHY_ALARM_GPU $GPUWHY_ALARM_HELD_BYTES $GPUWHY_ALARM_LIMIT_BYTES $GPUWHY_ALARM_BYTES_PER_MINUTE '
           '$GPUWHY_ALARM_SECONDS_UNTIL_FULL" > facts; echo "$GPUWHY_ALARM_LINES" > lines; '
           'echo "$GPUWHY_ALARM_PID" > alarm_pid; echo x >> commands; mv facts done')


def growth_raises_the_alarm_once(place):
    run = run_observed([SCENARIOS / "grows", "--until", "done", "--truth", "{truth}"], SMALL, new_folder(place, "grows"),
                       ["--alarm-at", "40%:" + COMMAND])
    expect(run.status == 0, f"exit status {run.status}: {stderr_of(run)}")
    expect((run.work / "commands").read_text() == "x\n", "the command did not run exactly once")
    device, held, limit, rate, full_s = map(int, (run.work / "done").read_text().split())
    expect(device == 0 and limit == 4 << 30, f"GPU {device}, limit {limit}")
    expect(0.4 * limit <= held <= 1.01 * run.truth("held_bytes"), f"held: {held}; in the end {run.truth('held_bytes')}")
    expect(rate > 0 and abs(full_s - (limit - held) / rate * 60) <= 1 + 0.01 * full_s, f"rate {rate}, full in {full_s} s")
    expect("grows.c" in (run.work / "lines").read_text(), f"the line: {(run.work / 'lines').read_text()}")
    expect(stderr_of(run).count("alarm: the program holds") == 1, stderr_of(run))
    expect_interventions(run, "--alarm-at: the program held")
    expect_interventions(run, "it grew at grows.c:")
    expect_screens(run.stderr.decode(), 1, run.verdict())


def no_growth_raises_no_alarm(place):
    for option in ("--repaired", "--plateau"):
        run = run_observed([SCENARIOS / "grows", option], SMALL, new_folder(place, "flat" + option),
                           ["--alarm-at", "40%:" + COMMAND])
        expect(run.status == 0 and not (run.work / "commands").exists(), f"{option}: {stderr_of(run)}")
        expect("alarm: " not in stderr_of(run) and run.verdict()["interventions"] == [], f"{option}: {stderr_of(run)}")


def growth_below_the_threshold_raises_no_alarm(place):
    (new_folder(place, "below") / "work" / "done").touch()
    run = run_observed([SCENARIOS / "grows", "--until", "done"], SMALL, place / "below", ["--alarm-at", "3.9GiB"])
    expect(run.status == 0 and "alarm: " not in stderr_of(run), stderr_of(run))


def a_cache_raises_no_alarm(place):
    """PyTorch's allocator holds the memory, and could give all of it back."""
    library = BUILD / "tests" / "torch" / "c10" / "libc10_cuda.so"
    if not library.exists():
        print("skipped: the fake libc10_cuda.so is not part of this build")
        return
    (new_folder(place, "cache") / "work" / "done").touch()
    argv = [SCENARIOS / "grows", "--until", "done", "--cached", library]
    run = run_observed(argv, SMALL, place / "cache", ["--alarm-at", "20%:" + COMMAND])
    expect(run.status == 0 and not (run.work / "commands").exists(), stderr_of(run))
    expect("alarm: " not in stderr_of(run) and run.verdict()["interventions"] == [], stderr_of(run))
    # without gpuwhy's view of the allocator, nothing is known about the cache
    argv = by_shell('"$@" & pid=$!; while [ ! -e told ]; do sleep 0.01; done; touch done; wait $pid',
                    SCENARIOS / "grows", "--until", "done", "--cached", library)
    with begin(place, "blind", ["--alarm-at", "20%:" + COMMAND], argv, SMALL,
               {"GPUWHY_COURSE": "0"}) as (process, folder):
        until_said(process, folder, "--alarm-at: no alarm: the memory that PyTorch only caches in pid")
        (folder / "work" / "told").touch()
        status = process.wait(240)
    expect(status == 0 and not (folder / "work" / "commands").exists(), f"exit status {status}: {said(folder)}")
    text = " ".join(json.loads((folder / "verdict.json").read_text())["interventions"])
    expect("--alarm-at could not judge the growth" in text, text)


# ---- --cure --------------------------------------------------------------------------------------------------------

def no_cure_is_known(place):
    run = run_observed(by_shell('exec "$@"', CNN, "--batch", "16384"), SMALL, new_folder(place, "cure"), ["--cure"])
    expect(run.status == 1 and starts(run) == 1, f"{starts(run)} attempts")
    expect("--cure: no cure is known for this failure" in stderr_of(run), stderr_of(run))
    expect_interventions(run, "--cure: no cure is known for this failure")


CASES = by_name(transient, permanent, not_repeated, without_the_option, halved, set_in_environment,
         nothing_left_to_change, wrong_options, rescued_by_rehearsals, a_rehearsal_leaves_no_files,
         hopeless_ends_at_once, a_checkpoint_is_gone_on_from, a_signal_ends_a_rehearsal, input_is_read_again, dumps_have_their_own_names, with_blame,
         a_signal_never_restarts, a_killed_program_is_not_restarted, a_hang_is_restarted, memory_is_waited_for, the_wait_has_a_limit,
         the_wait_can_be_stopped, memory_that_is_there_is_not_waited_for, impossible_memory_is_not_waited_for,
         another_process_is_waited_for_before_the_restart, growth_raises_the_alarm_once, no_growth_raises_no_alarm,
         growth_below_the_threshold_raises_no_alarm, a_cache_raises_no_alarm, no_cure_is_known)


if __name__ == "__main__":
    main(lambda: run_cases(CASES))
