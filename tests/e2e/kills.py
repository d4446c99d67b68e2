"""Kill the program, the supervisor, or both, at random moments. Nothing crashes, and no good data is lost:

- the program is not affected by the death of its supervisor: same output, same exit status;
- the events recorded before the death can be judged;
- if the program is killed by a signal, gpuwhy ends in the same way, with a verdict;
- a signal to the whole group while the program starts ends both.

GPUWHY_E2E_KILLS sets the number (200). GPUWHY_E2E_SEED repeats a sequence.
"""
import contextlib
import json
import os
import pathlib
import random
import signal
import subprocess
import tempfile
import time

from harness import (CNN, GPUWHY, Card, Workplace, base_environment, behind_sanitizer, expect, fill_in, gpuwhy,
                     is_alive, main, new_folder, run_observed, wait_until)

CARD = Card("16GiB")
COUNT = int(os.environ.get("GPUWHY_E2E_KILLS", "200"))
SEED = int(os.environ.get("GPUWHY_E2E_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 30)
WANTED_S = 0.5


class Trial:
    """One supervised program; a process of the run will be killed."""

    def __init__(self, folder, iterations):
        self.folder = folder
        argv = behind_sanitizer(fill_in([CNN, "--iterations", iterations], folder))
        # The shell writes how the program ended to a file, so that this works even without the supervisor.
        shell = ["/bin/sh", "-c", 'echo $$ >pid; "$@" >stdout; echo $? >status; echo over >&2; echo over >last', "sh"]
        command = [str(GPUWHY), "run", *CARD.options(), "--json", str(folder / "verdict.json"), "-o",
                   str(folder / "run.gpuwhy"), "--", *shell, *argv]
        self.process = subprocess.Popen(command, cwd=folder / "work", env=base_environment(folder),
                                        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                                        start_new_session=True)

    def read(self, name):
        path = self.folder / "work" / name
        return path.read_text().strip() if path.exists() else ""

    def kill_program(self):
        """Kill the shell and its children, but not the supervisor."""
        shell = self.read("pid")
        if not shell:
            return False
        for child in children(int(shell)):
            kill(child)
        kill(int(shell))
        return True

    def wait_for_program(self):
        wait_until(lambda: self.read("last") == "over", "the program did not survive its supervisor")


def children(pid):
    try:
        text = pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text()
    except OSError:
        return []
    return [int(p) for p in text.split()]


def kill(pid):
    try:
        os.kill(pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def explain_whatever_is_left(trial):
    """A recording, complete or cut off, is judged or rejected with a message; gpuwhy never crashes on it."""
    recording = trial.folder / "run.gpuwhy"
    if not recording.exists():
        return "no recording yet"
    status, out, err = gpuwhy("explain", "--json", recording, folder=trial.folder)
    expect(status in (0, 1), f"explain of what was left: exit {status}: {err or out}")
    verdict = json.loads(out)
    program = verdict["program"]
    end_seen = program["exit"] is not None or program["signal"] is not None
    expect(end_seen or verdict["status"] != "clean", f"a run whose end nobody saw is called clean: {out}")
    expect(verdict["cause"] in (None, "killed-by-scheduler-or-user"), f"a healthy program is blamed: {out}")
    return f"explained, end {'seen' if end_seen else 'unknown'}"


def lose_program(trial, expected):
    hit = trial.kill_program()
    _, stderr = trial.process.communicate(timeout=240)
    status = trial.process.returncode
    if not hit or trial.read("last") == "over":
        return "too early" if not hit else "too late"
    expect(status in (-signal.SIGKILL, 0), f"gpuwhy ended with {status}: {stderr.decode(errors='replace')}")
    expect((trial.folder / "verdict.json").exists(), f"no verdict: {stderr.decode(errors='replace')}")
    return explain_whatever_is_left(trial)


def lose_supervisor(trial, expected):
    trial.process.kill()
    trial.process.wait()
    if not trial.read("pid"):
        trial.process.stderr.close()
        return "too early"
    trial.wait_for_program()
    trial.process.stderr.close()
    expect(trial.read("status") == "0", f"the program ended with {trial.read('status')} without its supervisor")
    expect(trial.read("stdout") == expected, f"the program printed {trial.read('stdout')!r}, not {expected!r}")
    return explain_whatever_is_left(trial)


def lose_both(trial, expected):
    first_program = random.random() < 0.5
    if first_program:
        trial.kill_program()
    trial.process.kill()
    trial.process.wait()
    if not first_program:
        trial.kill_program()
    trial.process.stderr.close()
    return explain_whatever_is_left(trial)


def run_folder_of(trial):
    """Return the folder of the supervised program's buffers; None: not created yet."""
    for root in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp"):
        for folder in pathlib.Path(root).glob(f"gpuwhy-{os.getuid()}-{trial.process.pid}-*") if root else []:
            if any(folder.glob("*.buf")):
                return folder
    return None


def leave_a_folder(place, iterations):
    """The files of a dead supervisor are removed when they are old and unused, but not before."""
    trial = Trial(new_folder(place, "left"), str(iterations))
    folder = wait_until(lambda: run_folder_of(trial), "no run folder with a buffer")
    trial.process.kill()
    trial.process.wait()  # its stderr stays open, because a program with a closed stderr dies of its last line

    def after_a_run(days):
        then = time.time() - days * 24 * 3600
        os.utime(folder, (then, then))
        status, _, err = gpuwhy("run", "--quiet", "--", "true", folder=trial.folder)
        expect(status == 0, f"gpuwhy run -- true: exit {status}: {err}")
        if not folder.exists():
            return False
        os.utime(folder)  # make the folder new again
        return True

    alive = trial.read("last") != "over"
    there = after_a_run(days=2)
    expect(not alive or trial.read("last") == "over" or there, "removed while the program writes into it")
    trial.wait_for_program()
    trial.process.stderr.close()
    wait_until(lambda: not is_alive(int(trial.read("pid"))), "the shell did not end after its last message", 120)
    if there:
        victim = trial.folder / "victim"
        victim.mkdir()
        (victim / "kept").write_text("kept")
        (folder / "link").symlink_to(victim)
        expect(after_a_run(days=0), "removed on the day on which it was left")
        expect(not after_a_run(days=2), "an old folder of dead processes stays")
        expect((victim / "kept").exists(), "removed what a link led to")
    return "alive" if there else "too late"


def iterations_for(place, seconds):
    """Return how many iterations take about this long on this machine, and the program's output."""
    run = run_observed([CNN, "--iterations", "200"], CARD, new_folder(place, "measure"))
    expect(run.status == 0, f"the healthy program failed: {run.stderr.decode(errors='replace')}")
    count = max(50, int(200 * seconds / max(run.seconds, 0.05)))
    run = run_observed([CNN, "--iterations", str(count)], CARD, new_folder(place, "reference"))
    return count, run.stdout.decode().strip(), run.seconds


@contextlib.contextmanager
def run_folders_of_our_own():
    """Use a separate folder: every run removes old folders of dead supervisors, also those that this test still
    needs."""
    root = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="gpuwhy-kills-", dir=root) as folder:
        os.environ["XDG_RUNTIME_DIR"] = folder
        yield


def test():
    random.seed(SEED)
    print(f"{COUNT} kills, seed {SEED}")
    outcomes = {}
    with Workplace() as place, run_folders_of_our_own():
        iterations, expected, seconds = iterations_for(place, WANTED_S)
        print(f"  the run folder of a killed supervisor: program {leave_a_folder(place, 6 * iterations)}")
        for number in range(COUNT):
            lose = random.choice((lose_program, lose_supervisor, lose_both))
            trial = Trial(new_folder(place, f"{number}"), str(iterations))
            if number % 2:  # the other kills also fall into the start, which is slow on a busy machine
                wait_until(lambda: trial.read("pid"), "the program was not started")
            time.sleep(random.random() * seconds)
            what = lose(trial, expected)
            outcomes.setdefault(lose.__name__, {}).setdefault(what, 0)
            outcomes[lose.__name__][what] += 1
    for name, counts in sorted(outcomes.items()):
        print(f"  {name}: {counts}")
    hits = sum(n for counts in outcomes.values() for what, n in counts.items() if what.startswith("explained"))
    expect(hits >= COUNT // 4, f"only {hits} of {COUNT} kills fell into a recorded run")


def at_the_start():
    """SIGTERM reaches the group before, while or after the program is started: nothing of it is left waiting."""
    with Workplace() as place:
        for _ in range(COUNT // 4):
            process = subprocess.Popen([str(GPUWHY), "run", "--no-verdict", "--no-history", *CARD.options(), "--", "sleep", "600"],
                                       env=base_environment(place), stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                       start_new_session=True)
            time.sleep(random.random() * 0.05)
            os.killpg(process.pid, signal.SIGTERM)
            try:
                expect(process.wait(60) == -signal.SIGTERM, f"gpuwhy ended with {process.returncode}")
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                expect(False, "a SIGTERM to the group was lost while the program was started")


def both():
    test()
    at_the_start()


if __name__ == "__main__":
    main(both)
