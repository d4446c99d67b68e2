"""`gpuwhy run --blame`: a second run waits for each launch, and both runs are merged into one verdict."""
import json
import signal
import subprocess

from harness import (CNN, GPUWHY, Card, CaseSkipped, base_environment, behind_sanitizer, by_name, expect, expect_text, gpuwhy, main,
                     new_folder, run_cases, run_observed)
from sites import launches_from_python, line_of

SMALL = Card("16GiB")
BAD = [CNN, "--runs", "2", "--bad-address"]


def by_shell(script, *argv):
    """A shell that ends with the same status as the program: "$@"."""
    return ["/bin/sh", "-c", script, "sh", *behind_sanitizer(argv)]


def expect_verdict(run):
    verdict = run.verdict()
    print(f"{verdict['status']}, {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}")
    expect(verdict["cause"] == "illegal-address", f"the cause is {verdict['cause']}")
    return verdict


def second_recording(run):
    return run.recording.with_name("run.blame.gpuwhy")


def expect_place(run, verdict):
    """The reported place is the launch, as in the second recording, not the call that returned the error."""
    status, out, err = gpuwhy("explain", "--json", second_recording(run), folder=run.folder)
    second = json.loads(out)["where"]
    expect(status == 0 and second["what"] == "the launch at fault", f"the second run's place: {second} {err}")
    where = verdict["where"]
    expect("the launch at fault" in where["what"] and "second run" in where["what"], f"what: {where['what']}")
    changed = [key for key in second if key != "what" and where[key] != second[key]]
    expect(not changed, f"{changed} differ: {where} and {second}")
    expect(verdict["where_reason"] == json.loads(out)["where_reason"], f"reason: {verdict['where_reason']}")
    functions = [f["function"] for f in where["frames"]]
    expect("report_with_bad_address" in functions, f"no launch was made there: {functions}")
    text = gpuwhy("explain", run.recording, folder=run.folder)[1]
    expect("the launch at fault, found by the second run" in " ".join(text.split()), f"the text names another place: {text}")


def named(place):
    folder = new_folder(place, "named.gpuwhy")  # the ending of a recording may also be part of a folder's name
    run = run_observed(BAD, SMALL, folder, ["--blame"])
    expect(run.status == 1, f"exit status {run.status}: the first run's is 1")
    expect(run.stdout.count(b"run 1: ") == 1, f"the second run's output is in the way: {run.stdout.decode()}")
    verdict = expect_verdict(run)
    expect(verdict["headline"].startswith("kernel class_report "), verdict["headline"])
    expect_text(verdict, r"cuLaunchKernel of class_report on .* returned 700 .* this launch is at fault", "the launch")
    expect_text(verdict, r"after \d+ launches of thread \d+ \(cnn\)", "its order and thread")
    expect_text(verdict, r"place of that launch in the program: .*cnn.*, called at .*cnn", "where the launch was made")
    expect_text(verdict, str(second_recording(run)), "where the second recording lies")
    expect_place(run, verdict)
    status, out, err = gpuwhy("explain", "--all", second_recording(run), folder=place)
    expect(status == 0 and "its own launch reported it" in " ".join(out.split()), f"the second recording says: {out}{err}")
    status, out, err = gpuwhy("explain", "--all", run.recording, folder=place)
    expect(status == 0 and "this launch is at fault" in " ".join(out.split()), f"explain says otherwise: {out}{err}")


def python_line(place):
    """The reported line is the Python line of the launch, not the one that happened to wait."""
    source, run = launches_from_python(place, ["--blame"])
    where = expect_verdict(run)["where"]
    expect(any(f["function"] == "work" and f["line"] == line_of(source, "fault") for f in where["frames"]),
           f"the launch is not on the stack: {[(f['function'], f['line']) for f in where['frames'] if f['kind'] == 'python']}")
    expect(where["function"] in ("launch", "work") and where["file"] == str(source), f"{where['text']}")


def only_once(place):
    """A fault that does not occur again proves nothing."""
    folder = new_folder(place, "once")
    script = 'if [ ! -e seen ]; then touch seen; set -- "$@" --bad-address; fi; exec "$@"'
    run = run_observed(by_shell(script, CNN, "--runs", "2"), SMALL, folder, ["--blame"])
    verdict = expect_verdict(run)
    expect(run.status == 1, f"exit status {run.status}")
    expect(verdict["headline"].startswith("a kernel "), f"a kernel is named without proof: {verdict['headline']}")
    expect_text(verdict, r"did not occur again \(exit status 0\).*hypothesis", "that the fault did not occur again")


def other_end(place):
    folder = new_folder(place, "other")
    run = run_observed(by_shell('if [ -e seen ]; then exit 9; fi; touch seen; exec "$@"', *BAD), SMALL, folder, ["--blame"])
    expect_text(expect_verdict(run), r"ended differently, without a GPU fault: exit status 9", "how the second run ended")


def with_dump(place):
    run = run_observed(BAD, SMALL, new_folder(place, "dump"), ["--blame", "--core"])
    if run.status == 2 and b"elfutils" in run.stderr:
        raise CaseSkipped("this build cannot read GPU core dumps, and says so")
    expect(run.status == -signal.SIGABRT, f"exit status {run.status}")
    verdict = expect_verdict(run)
    expect_text(verdict, r"WARP_ILLEGAL_ADDRESS in kernel class_report", "the dump")
    expect_text(verdict, r"this launch is at fault", "the launch")
    expect(len(list(run.folder.rglob("*.cudacore"))) == 1, "the second run wrote a dump, too")


def healthy(place):
    folder = new_folder(place, "healthy")
    run = run_observed(by_shell('echo x >> times; exec "$@"', CNN, "--iterations", "4"), SMALL, folder, ["--blame"])
    expect(run.status == 0 and run.verdict()["status"] == "clean", f"exit status {run.status}")
    expect((run.work / "times").read_text() == "x\n" and not second_recording(run).exists(), "a healthy run ran twice")


def other_fault(place):
    """Running out of memory is not a kernel's fault, so a second run would not help."""
    run = run_observed([CNN, "--batch", "16384"], Card("4GiB"), new_folder(place, "oom"), ["--blame"])
    expect(run.status == 1 and not second_recording(run).exists(), "a run out of memory ran twice")


def waited_already(place):
    run = run_observed(BAD, SMALL, new_folder(place, "already"), ["--blame"], variables={"CUDA_LAUNCH_BLOCKING": "1"})
    verdict = expect_verdict(run)
    expect(verdict["headline"].startswith("kernel class_report "), verdict["headline"])
    expect(not second_recording(run).exists(), "the run was repeated")


def input_again(place):
    """A file on the program's standard input is read again in the second run; data from a pipe is gone."""
    for kind, wanted in (("file", "hello\nhello\n"), ("pipe", "hello\n")):
        folder = new_folder(place, f"input-{kind}")
        source = folder / "input"
        source.write_text("hello\n")
        argv = [str(GPUWHY), "run", *SMALL.options(), "--blame", "-o", str(folder / "run.gpuwhy"), "--",
                *by_shell('cat >> seen; exec "$@"', *BAD)]
        with open(source) as file:
            done = subprocess.run(argv, cwd=folder / "work", env=base_environment(folder), timeout=240,
                                  capture_output=True, **({"stdin": file} if kind == "file" else {"input": b"hello\n"}))
        expect(done.returncode == 1, f"exit status {done.returncode}: {done.stderr.decode()}")
        seen = (folder / "work" / "seen").read_text()
        expect(seen == wanted, f"from a {kind} the two runs read {seen!r}")


CASES = by_name(named, python_line, only_once, other_end, with_dump, healthy, other_fault, waited_already, input_again)


if __name__ == "__main__":
    main(lambda: run_cases(CASES))
