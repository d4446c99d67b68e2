"""Where the kernels of a fault that surfaces late were first launched, without a second run."""
import pathlib
import re
import sys

from harness import (CNN, SANITIZE, Card, Workplace, expect, expect_text, main, new_folder, run_observed, texts)

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "scenarios" / "sites"
CNN_SOURCE = pathlib.Path(__file__).resolve().parents[2] / "examples" / "cnn" / "cnn.c"


def line_of(source, mark):
    return next(i for i, line in enumerate(source.read_text().splitlines(), 1) if f"# mark: {mark}" in line)


def python_line(place):
    if SANITIZE:
        print("skipped: this interpreter loads no sanitized libraries")
        return
    source = SOURCES / "launches.py"
    card = Card("16GiB", more="fault=illegal-address@kernel:bad")
    run = run_observed([sys.executable, source], card, new_folder(place, "python"))
    verdict = run.verdict()
    expect(verdict["cause"] == "illegal-address", f"{verdict['cause']}: {verdict['headline']}")
    expect_text(verdict, rf"bad launched on .*first launched at \S*launches.py:\d+ in launch, called at \S*launches.py:"
                         rf"{line_of(source, 'fault')} in work", "the launch")
    expect_text(verdict, r"good launched 20 times", "the other kernel")
    where = verdict["where"]  # two suspects: no place but the report's
    expect(where["line"] == line_of(source, "report"), f"{where['text']} ({where['what']})")


def assertion(place):
    """The text on stderr names the kernel: that is the place, and the program's own launcher is passed over."""
    card = Card("16GiB", more="fault=assert@kernel:loss_forward")
    run = run_observed([CNN, "--iterations", "4"], card, new_folder(place, "assert"))
    verdict = run.verdict()
    expect(verdict["cause"] == "device-assert-index", f"{verdict['cause']}: {verdict['headline']}")
    where = verdict["where"]
    expect(where["what"] == "where the kernel that the assertion names was first launched", f"{where['what']}")
    if where["line"]:
        expect("loss_forward" in CNN_SOURCE.read_text().splitlines()[where["line"] - 1], f"{where['text']}")
    kernels = [e["text"] for e in verdict["evidence"] if re.search(r" launched .*on stream|other kernels since", e["text"])]
    expect(len(kernels) == 3 and kernels[0].startswith("loss_forward launched"), f"{kernels}")


def healthy(place):
    run = run_observed([CNN, "--iterations", "4"], Card("16GiB"), new_folder(place, "healthy"))
    verdict = run.verdict()
    expect(run.status == 0 and verdict["status"] == "clean", f"{verdict['status']}: {verdict['headline']}")
    expect("launched at" not in texts(verdict), texts(verdict))


def all_of_it():
    with Workplace() as place:
        python_line(place)
        assertion(place)
        healthy(place)


main(all_of_it)
