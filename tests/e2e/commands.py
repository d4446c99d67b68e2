"""The output and files of gpuwhy besides the verdict: --quiet, --json, --on-failure, explain, export. tests/cmd
checks that gpuwhy does not disturb the program's input, output, signals and terminal.
"""
import contextlib
import csv
import io
import json
import os
import re
import select
import shutil
import signal
import subprocess
import time

from harness import (CNN, GPUWHY, SCENARIOS, Card, base_environment, behind_sanitizer, by_name, expect, fill_in, gpuwhy, main,
                     new_folder, run_cases, run_observed, run_plain)

CARD = ["--gpu", "virtual:h200,memory=4GiB"]


def run(place, *command, options=(), stdin=b"", environment=None):
    """Return (status, stdout, stderr) of a command under gpuwhy."""
    done = subprocess.run([str(GPUWHY), "run", *CARD, *options, "--", *map(str, command)], input=stdin, cwd=place,
                          env=environment or base_environment(place), capture_output=True, timeout=240)
    return done.returncode, done.stdout, done.stderr.decode(errors="replace")


def start(place, argv, *options, **environment):
    """Start a program under gpuwhy, with pipes for its output."""
    return subprocess.Popen([str(GPUWHY), "run", *CARD, *options, "--", *behind_sanitizer(fill_in(argv, place))], cwd=place,
                            env=base_environment(place) | environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            start_new_session=True)


@contextlib.contextmanager
def waiting(place, recording, **environment):
    """A program under gpuwhy that waits until the end of the block, and is then stopped."""
    argv = [SCENARIOS / "s28_host", "--end", "wait", "--truth", "{truth}"]
    process = start(place, argv, "--quiet", "-o", str(place / recording), **environment)
    try:
        expect(b"done" in process.stdout.readline(), "the program did not start")
        yield process
    finally:
        os.kill(int(re.search(r"truth pid=(\d+)", (place / "truth").read_text())[1]), signal.SIGTERM)
        process.communicate(timeout=240)


def program_in_a_path_with_spaces(place):
    (place / "a folder").mkdir()
    shutil.copy(CNN, place / "a folder" / "my cnn")
    status, out, err = run(place, *behind_sanitizer(["a folder/my cnn"], ours=True), options=["--json", "verdict.json"])
    expect(status == 0 and b"run 1" in out, f"exit {status}: {out}{err}")
    expect(json.loads((place / "verdict.json").read_text())["status"] == "clean", err)


# ---- output and files ------------------------------------------------------------------------------------------------

def quiet_says_nothing_of_a_clean_run(place):
    status, out, err = run(place, *behind_sanitizer([CNN]), options=["--quiet"])
    expect(status == 0 and err == "", f"exit {status}, said: {err}")


def quiet_still_tells_a_fault(place):
    status, _, err = run(place, *behind_sanitizer([SCENARIOS / "s15_launch_config"]), options=["--quiet"])
    expect(status == 1 and "launch-config-invalid" in err, f"exit {status}, said: {err}")


def json_to_standard_output(place):
    status, out, err = run(place, "true", options=["--json", "-"])
    expect(status == 0 and json.loads(out)["schema"] == 1, f"exit {status}: {out}{err}")


def explain_takes_the_last_run(place):
    run(place, *behind_sanitizer([SCENARIOS / "s15_launch_config"]), options=["--quiet"])
    status, out, err = gpuwhy("explain", folder=place)
    expect(status == 0 and "launch-config-invalid" in out, f"exit {status}: {out}{err}")
    status, out, err = gpuwhy("explain", "--json", folder=place)
    expect(status == 0 and json.loads(out)["cause"] == "launch-config-invalid", f"exit {status}: {out}{err}")


def explain_answers_while_the_run_goes_on(place):
    with waiting(place, "run.gpuwhy") as process:
        time.sleep(0.5)
        status, out, err = gpuwhy("explain", place / "run.gpuwhy", "--json", folder=place)
        expect(status in (0, 1), f"exit {status}: {out}{err}")
        expect(json.loads(out)["program"]["exit"] is None, f"a running program has an exit status: {out}")
        expect(process.poll() is None, "the run is over")


def recordings_are_judged_together(place):
    """Two supervisors of one job on one machine, as under mpirun: one rank fails, and the other is stopped a second
    later."""
    with waiting(place, "one.gpuwhy", RANK="0", WORLD_SIZE="2"):
        start(place, [CNN, "--runs", "2", "--bad-address"], "--quiet", "-o", str(place / "two.gpuwhy"), RANK="1",
              WORLD_SIZE="2").communicate(timeout=240)
        time.sleep(0.2)
    status, out, err = gpuwhy("explain", "--json", place / "one.gpuwhy", place / "two.gpuwhy", folder=place)
    verdict = json.loads(out)
    expect(status == 0 and verdict["cause"] == "illegal-address", f"exit {status}: {out}{err}")
    expect("rank 1 (pid" in verdict["headline"], f"the rank is not named: {verdict['headline']}")
    expect([part["cause"] for part in verdict["recordings"]] == ["killed-by-scheduler-or-user", "illegal-address"],
           f"the recordings: {verdict['recordings']}")
    first = verdict["recordings"][0]
    expect(first["after_s"] > 0 and first["uncertainty_s"] == 0, f"one machine, one clock: {first}")
    expect(any("killed-by-scheduler-or-user" in c for c in verdict["consequences"]), f"{verdict['consequences']}")
    status, out, err = gpuwhy("explain", place / "two.gpuwhy", place / "nowhere.gpuwhy", folder=place)
    expect(status == 2 and "nowhere.gpuwhy" in err, f"exit {status}: {out}{err}")


def on_failure_tells_at_once(place):
    process = start(place, [SCENARIOS / "s28_host", "--end", "stuck"], "--on-failure", "print")
    said, deadline = b"", time.monotonic() + 240
    os.set_blocking(process.stderr.fileno(), False)
    while b"gpu-oom" not in said and time.monotonic() < deadline and process.poll() is None:
        select.select([process.stderr], [], [], 1)
        said += process.stderr.read() or b""
    alive = process.poll() is None
    os.killpg(process.pid, signal.SIGTERM)
    process.communicate(timeout=240)
    expect(alive and b"gpu-oom" in said, f"nothing was said while the program lived: {said.decode(errors='replace')}")


def recording_is_private_and_can_be_exported(place):
    secret = "s3cr3tvalue"
    run(place, "sh", "-c", "true", "sh", "--api-key", secret, f"--token={secret}", options=["-o", "secret.gpuwhy"])
    status, out, err = gpuwhy("export", place / "secret.gpuwhy", "--to", "json", folder=place)
    expect(status == 0 and "--api-key" in out, f"exit {status}: {err}")
    expect(secret not in out, "a secret stands in the recording")
    status, _, err = run(place, *behind_sanitizer([CNN]), options=["-o", "run.gpuwhy"])
    expect(status == 0, f"exit {status}: {err}")
    path = place / "run.gpuwhy"
    expect(path.stat().st_mode & 0o777 == 0o600, f"mode {path.stat().st_mode & 0o777:o}")
    status, out, err = gpuwhy("export", path, "--to", "json", folder=place)
    expect(status == 0, f"exit {status}: {err}")
    try:
        json.loads(out)
    except ValueError:
        for line in out.splitlines():  # one object per line is JSON, too
            json.loads(line)
    status, out, err = gpuwhy("export", path, "--to", "csv", folder=place)
    rows = list(csv.reader(io.StringIO(out)))
    expect(status == 0 and len(rows) > 1, f"exit {status}, {len(rows)} rows: {err}")
    expect(len({len(row) for row in rows}) == 1, "the rows of the CSV differ in length")


def options_change_nothing_for_the_program(place):
    argv = [CNN, "--iterations", "20", "--save", "weights.bin"]
    plain = run_plain(argv, Card("4GiB"), new_folder(place, "plain"))
    for option in ([], ["--no-attach"], ["--no-sites"], ["--no-stderr"], ["--record-limit", "64KiB"]):
        observed = run_observed(argv, Card("4GiB"), new_folder(place, "with" + "".join(option)), option)
        expect((plain.status, plain.stdout) == (observed.status, observed.stdout), f"{option} changed the program")
        expect(observed.verdict()["status"] == "clean", f"{option}: {observed.verdict()['headline']}")


CASES = by_name(program_in_a_path_with_spaces, quiet_says_nothing_of_a_clean_run, quiet_still_tells_a_fault,
         json_to_standard_output, explain_takes_the_last_run, explain_answers_while_the_run_goes_on,
         recordings_are_judged_together, on_failure_tells_at_once, recording_is_private_and_can_be_exported, options_change_nothing_for_the_program)


if __name__ == "__main__":
    main(lambda: run_cases(CASES))
