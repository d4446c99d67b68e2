"""S01 and S31 in a notebook with PyTorch on a real GPU, cell by cell, and their repaired twins. Run by hand. Prints
one line per row; exits 1 if one fails, 77 if something is missing.

    GPUWHY_BUILD=build python3 tests/gpu/notebook_torch.py [S01 | S01-twin | S31 | S31-twin]...

Needs gpuwhy's build folder (GPUWHY_BUILD), a GPU of 16 GiB or more with 10 GiB free (--memory limits it to 8 GiB),
and a Python with torch, ipykernel and jupyter_client (pip install ipykernel). The notebook's kernel runs in the
Python that runs this program. Nothing is downloaded. Takes a minute or two.
"""
import importlib.util
import pathlib
import sys
import traceback

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


def notebook(place):
    return Notebook(place, card="real", options=["--memory", "8GiB"])


def kept_by_an_earlier_cell(place):
    with notebook(place) as book:
        book.good(SETUP)
        book.good("first = hold(5)")
        text = book.verdict("second = hold(5)", "OutOfMemoryError")
        expect_in("4.00 GiB in 4 blocks allocated in In [2]", text)  # the history begins with the first large block
        expect_in("Held by first: 5.00 GiB in 5 blocks, allocated in In [2]", text)
        return text


def nothing_kept(place):
    with notebook(place) as book:
        book.good(SETUP)
        book.good("first = hold(5); del first")
        book.good("second = hold(5)")
        book.good("result = run(512, 5)")
        expect(not book.failed("int('x')", "ValueError").shown, "a ValueError got a verdict")
        return "no verdict"


CAUGHT = "try:\n    big()\nexcept torch.cuda.OutOfMemoryError as reason:\n    {keep}"


def kept_by_an_exception(place):
    with notebook(place) as book:
        book.good(SETUP)
        book.good(CAUGHT.format(keep="error = reason"))
        text = book.verdict("again = hold(5)", "OutOfMemoryError")
        expect_in("gpu-oom-leak", text)
        expect_in("allocated in In [2]", text)
        expect_in("error: ", text)
        return text


def exception_dropped(place):
    with notebook(place) as book:
        book.good(SETUP)
        book.good(CAUGHT.format(keep="pass"))
        book.good("again = hold(5)")
        return "no verdict"


ROWS = {"S01": kept_by_an_earlier_cell, "S01-twin": nothing_kept, "S31": kept_by_an_exception,
        "S31-twin": exception_dropped}


def run_rows(names):
    failed = 0
    for name in names:
        try:
            with Workplace() as folder:
                print(f"{name} notebook torch: passed: {ROWS[name](folder)[:200]}", flush=True)
        except Exception as reason:  # a dying kernel raises many kinds of exceptions
            failed += 1
            traceback.print_exc()
            print(f"{name} notebook torch: FAILED: {type(reason).__name__}: {reason}", flush=True)
    print(f"{len(names) - failed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    unknown = [name for name in sys.argv[1:] if name not in ROWS]
    if unknown:
        sys.exit(f"no row {unknown[0]}; there are: {', '.join(ROWS)}")
    for package in ("torch", "ipykernel", "jupyter_client"):
        found = importlib.util.find_spec(package)
        if found is None or found.origin is None:  # the folder torch/ beside this file is not the package
            skip(f"{sys.executable} has no {package}")
    import torch
    if not torch.cuda.is_available():
        skip(f"torch {torch.__version__} sees no GPU")
    sys.exit(run_rows(sys.argv[1:] or list(ROWS)))
