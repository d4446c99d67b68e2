"""Train on real files like a user: digits that come with a PyPI package, and a folder of images.

    data_runs.py [NAME]    one of CASES; exit 77: not possible with this build or on this machine

GPUWHY_TRAINER_IMAGES tells whether the build can decode image files.
"""
import os
import pathlib
import random
import re
import signal
import struct
import subprocess
import sys
import time
import zlib

import runs
from harness import SANITIZE, Workplace, expect, main, skip
from pypi import python_with

EXPORT = pathlib.Path(__file__).resolve().parents[1] / "digits.py"


# ---- scikit-learn's digits -----------------------------------------------------------------------------------------

def learns_real_digits(place):
    """Above 0.97 on images that were not used in training, beside a model of scikit-learn on the same images."""
    runs.need_cpu()
    python = python_with(["scikit-learn"], "digits", ["sklearn"])
    done = subprocess.run([python, "-B", EXPORT, place.path / "digits", "--compare", "LogisticRegression"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=200)
    expect(done.returncode == 0, done.stdout)
    expect("1437 training images, 360 test images" in done.stdout, done.stdout)
    other = float(re.search(r"LogisticRegression: test accuracy ([0-9.]+)", done.stdout).group(1))
    out, _ = place.run("--backend", "cpu", "--model", "digits", "--data", "npy:digits", "--batch", "32", "--epochs", "12",
                       "--optimizer", "adam", "--rate", "0.005", "--evaluate", "--quiet", "--deterministic")
    accuracy = runs.accuracy(out)
    print(f"test accuracy: trainer {accuracy:.4f}, scikit-learn's LogisticRegression {other:.4f}")
    expect(accuracy >= 0.97, f"0.97 was expected: {out}")
    expect(accuracy >= other, f"less than a linear model: {accuracy} and {other}")


# ---- folders of images ---------------------------------------------------------------------------------------------

def write_png(path, width, height, pixel):
    """Write an RGB file; pixel(x, y) is a tuple of three numbers."""
    rows = b"".join(b"\0" + bytes(value for x in range(width) for value in pixel(x, y)) for y in range(height))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">2I5B", width, height, 8, 2, 0, 0, 0)) +
                     chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def write_images(folder, counts):
    """Write two classes: horizontal and vertical stripes of any colour and width."""
    luck = random.Random(4)
    for part, count in counts.items():
        for kind in ("across", "down"):
            (folder / part / kind).mkdir(parents=True)
            for number in range(count):
                wide, shift, across = luck.randrange(4, 8), luck.randrange(16), kind == "across"
                colours = [[luck.randrange(256) for _ in range(3)], [luck.randrange(256) for _ in range(3)]]
                noise = luck.randrange(1, 40)
                write_png(folder / part / kind / f"{number}.png", luck.randrange(24, 40), luck.randrange(24, 40),
                          lambda x, y: [min(255, value + (x * 7 + y * 13) % noise) for value in
                                        colours[((y if across else x) + shift) // wide % 2]])


MODEL = "input 3 16 16\nconv 8 3 pad 1 nobias\nbatchnorm relu\nmaxpool 2\nconv 8 3 pad 1 relu\naveragepool\nlinear 2\n"
IMAGES = ["--backend", "cpu", "--model", "stripes.net", "--data", "images:set", "--batch", "20", "--optimizer", "adam",
          "--rate", "0.01", "--deterministic", "--quiet", "--augment", "zoom:0.5,flip,brightness:0.2,contrast:0.2,erase:4"]


def need_images(place):
    runs.need_cpu()
    if os.environ.get("GPUWHY_TRAINER_IMAGES", "0") != "1":
        skip("this build cannot decode image files (libjpeg or libpng was not found)")
    write_images(place.path / "set", {"train": 60, "val": 20})
    (place.path / "stripes.net").write_text(MODEL)


def learns_images(place):
    need_images(place)
    out, _ = place.run(*IMAGES, "--epochs", "6" if SANITIZE else "15", "--evaluate", "--checkpoint", "c")
    line = 0.7 if SANITIZE else 0.9
    expect(runs.accuracy(out) > line, f"more than {line} was expected: {out}")
    expect(re.search(r"loader wait [0-9.]+ %", out), out)
    predicts_images(place, runs.accuracy(out))


def predicts_images(place, accuracy):
    """The predictions are as good as the evaluation, and damaged files are reported."""
    loud = [word for word in IMAGES if word != "--quiet"]
    out, _ = place.run(*loud, "--checkpoint", "c", "--predict", "test", "set/val/across/3.png")
    expect(f"of 40 are right: accuracy {accuracy:.4f}" in out, out)
    expect(re.search(r"^set/val/across/3.png 0: class \d \(\w+\), probability [0-9.]+$", out, re.M), out)
    damaged = place.path / "set/val/across/0.png"
    damaged.write_bytes(damaged.read_bytes()[:-1])
    out, err = place.run(*loud, "--checkpoint", "c", "--predict", "test", "--damaged", "skip")
    expect("left out: set/val/across/0.png: truncated" in err and "of 39 are right" in out, out + err)


def wait_for_steps(log, process, more):
    """Wait until the log has `more` further steps."""
    def count():
        return log.read_text().count('"step"') if log.exists() else 0

    wanted, until = count() + more, time.monotonic() + 100
    while count() < wanted and time.monotonic() < until:
        if process.poll() is not None:
            expect(False, f"it ended by itself: {process.communicate()}")
        time.sleep(0.002)
    expect(count() >= wanted, f"not {more} steps in 100 s")


def augmented_outlives_kills(place, kills=25):
    """Kill a training with changed images again and again; the losses are those of an undisturbed run, bit for bit."""
    need_images(place)
    luck, log, resumed = random.Random(3), place.path / "log", []
    options = [*IMAGES, "--checkpoint", "c", "--every", "2", "--resume", "--log", "log", "--steps"]
    for _ in range(kills):
        process = place.start(*options, "1000000", "--loaders", str(luck.randrange(1, 4)), "--queue",
                              str(luck.randrange(2, 6)))
        wait_for_steps(log, process, luck.randrange(1, 7)) # there is a checkpoint after every second step
        time.sleep(luck.uniform(0, 0.01))
        process.kill()
        _, err = process.communicate(timeout=100)
        expect(process.returncode == -signal.SIGKILL, f"exit {process.returncode}: {err}")
        log.write_text("".join(line for line in log.read_text().splitlines(True) if line.endswith("}\n")))
    resumed = [line["resumed"] for line in place.log("log") if "resumed" in line]
    expect(len(set(resumed)) >= 4, f"{kills} kills, and it resumed from {set(resumed)} alone")
    steps = max(place.losses("log")) + 5
    place.run(*options, str(steps))
    place.run(*IMAGES, "--steps", str(steps), "--log", "whole", "--loaders", "2")
    expect(place.losses("log") == place.losses("whole"), "the losses are not those of a run without a kill")
    place.run(*[word for word in IMAGES if not word.startswith(("zoom", "--augment"))], "--steps", str(steps), "--log",
              "plain")
    expect(place.losses("plain") != place.losses("whole"), "the images were not changed")
    print(f"{kills} kills, {steps} steps, resumed from {len(set(resumed))} different checkpoints")
    _, err = place.run(*options, str(steps + 5), "--augment", "flip", status=1)
    expect("augment flip" in err, err)


def augmented_outlives_some_kills(place):
    augmented_outlives_kills(place, 6)


CASES = {f.__name__: f for f in (learns_real_digits, learns_images, augmented_outlives_kills,
                                 augmented_outlives_some_kills)}


def test():
    for name in sys.argv[1:] or list(CASES):
        with Workplace() as path:
            CASES[name](runs.Place(path))


if __name__ == "__main__":
    main(test)
