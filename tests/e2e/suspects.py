"""Find where the kernels of a fault that is reported late were first launched, without a second run."""
import pathlib
import re

from harness import CNN, Card, by_name, expect, expect_text, main, new_folder, run_cases, run_observed, texts
from sites import launches_from_python, line_of

CNN_SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cnn" / "cnn.c"


def python_line(place):
    source, run = launches_from_python(place)
    verdict = run.verdict()
    expect(verdict["cause"] == "illegal-address", f"{verdict['cause']}: {verdict['headline']}")
    expect_text(verdict, rf"bad launched on .*first launched at \S*launches.py:{line_of(source, 'fault')} in work", "the launch")
    expect_text(verdict, r"last launch: good on .*, one of 20 launches", "the other kernel")
    where = verdict["where"]  # two suspects: only the place of the report is shown
    expect(where["line"] == line_of(source, "report"), f"{where['text']} ({where['what']})")


def assertion(place):
    """The text on stderr names the kernel, and its launch is the place. The program's own launch helper is skipped."""
    card = Card("16GiB", more="fault=assert@kernel:loss_forward")
    run = run_observed([CNN, "--iterations", "4"], card, new_folder(place, "assert"))
    verdict = run.verdict()
    expect(verdict["cause"] == "device-assert-index", f"{verdict['cause']}: {verdict['headline']}")
    where = verdict["where"]
    expect(where["what"] == "where the kernel that the assertion names was first launched", f"{where['what']}")
    if where["line"]:
        expect("loss_forward" in CNN_SOURCE.read_text().splitlines()[where["line"] - 1], f"{where['text']}")
    kernels = [e["text"] for e in verdict["evidence"] if re.search(r" launched .*on stream|^last launch: .*on stream|other kernels since", e["text"])]
    expect(len(kernels) == 3 and kernels[0].startswith("loss_forward launched"), f"{kernels}")


def healthy(place):
    run = run_observed([CNN, "--iterations", "4"], Card("16GiB"), new_folder(place, "healthy"))
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", f"{verdict['status']}: {verdict['headline']}")
    expect("launched at" not in texts(verdict), texts(verdict))


main(lambda: run_cases(by_name(python_line, assertion, healthy)))
