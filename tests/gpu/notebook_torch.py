"""A notebook with PyTorch on a real card: S01 and S31, cell by cell, and their repaired twins. The card is made small by
--memory. Needs torch, ipykernel and jupyter_client in the Python that runs this; says so and ends with 77 where they
are missing.

    GPUWHY_BUILD=build python3 tests/gpu/notebook_torch.py
"""
import importlib.util
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import Workplace, expect, skip
from notebook import Notebook, expect_in

SETUP = f"""
import sys
sys.path.insert(0, {str(pathlib.Path(__file__).parent / "torch")!r})
import torch, cnn
def run(count, steps):
    trainer = cnn.Trainer()
    x, y = cnn.batch(count)
    kept = [trainer.step(x, y) for _ in range(steps)]
    return trainer, x, y, kept
def hold(gib):
    return [torch.empty(1 << 28, device="cuda") for _ in range(gib)]  # 1 GiB each
def big():
    held = hold(5)
    more = hold(4)
"""


def kept_by_an_earlier_cell(place):
    with Notebook(place, card="real", options=["--memory", "8GiB"]) as book:
        book.good(SETUP)
        book.good("first = hold(5)")
        text = book.verdict("second = hold(5)", "OutOfMemoryError")
        expect_in("5.00 GiB in 5 blocks allocated in In [2]", text)
        expect_in("Held by first: 5.00 GiB in 5 blocks, allocated in In [2]", text)
    with Notebook(place, "twin", card="real", options=["--memory", "8GiB"]) as book:
        book.good(SETUP)
        book.good("first = hold(5); del first")
        book.good("second = hold(5)")
        book.good("result = run(512, 5)")
        expect(not book.failed("int('x')", "ValueError").shown, "a ValueError got a verdict")


def kept_by_an_exception(place):
    caught = "try:\n    big()\nexcept torch.cuda.OutOfMemoryError as reason:\n    {keep}"
    with Notebook(place, card="real", options=["--memory", "8GiB"]) as book:
        book.good(SETUP)
        book.good(caught.format(keep="error = reason"))
        text = book.verdict("again = hold(5)", "OutOfMemoryError")
        expect_in("gpu-oom-leak", text)
        expect_in("allocated in In [2]", text)
        expect_in("error: ", text)
    with Notebook(place, "twin", card="real", options=["--memory", "8GiB"]) as book:
        book.good(SETUP)
        book.good(caught.format(keep="pass"))
        book.good("again = hold(5)")


if __name__ == "__main__":
    for package in ("torch", "ipykernel", "jupyter_client"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:  # the folder torch/ beside this file is no package
            skip(f"{sys.executable} has no {package}")
    for test in (kept_by_an_earlier_cell, kept_by_an_exception):
        with Workplace() as folder:
            test(folder)
        print(f"{test.__name__}: passed", flush=True)
