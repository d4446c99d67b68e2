#!/usr/bin/env python3
"""Of several runs in one text, the last one is judged: `GPUWHY_BUILD=build python3 -B tests/logs/runs.py`.

Each pair of six runs (four failures, two good ones) is written into one text, as scrollback, `tee -a` and supervisors
leave it. The verdict must be that of the second run alone. It must mention that the text holds two runs.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

GPUWHY = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy"


def steps(first, count, of, stamp=None):
    return "".join(f"{stamp % (i % 60) if stamp else ''}epoch {i}/{of} step {i * 40} loss {2 / (i + 1):.4f}\n" for i in range(first, first + count))


def trace(line, code, error):
    return f'Traceback (most recent call last):\n  File "/home/user/fit.py", line {line}, in <module>\n    {code}\n{error}\n'


# name: cause, lines before the end, how it ends
RUNS = {
    "memory": ("gpu-oom-capacity", 3, trace(61, "loss.backward()",
               "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.00 GiB. GPU 0 has a total capacity of 9.77 GiB of which 1.02 GiB is free. "
               "Including non-PyTorch memory, this process has 8.70 GiB memory in use. Of the allocated memory 8.40 GiB is allocated by PyTorch, and 52.11 MiB is reserved by PyTorch but unallocated.")),
    "label": ("device-assert-index", 2, "../aten/src/ATen/native/cuda/Loss.cu:250: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [7,0,0] Assertion `t >= 0 && t < n_classes` failed.\n"
              + trace(58, "loss = criterion(out, y)", "RuntimeError: CUDA error: device-side assert triggered")),
    "disk": ("disk-or-quota-full", 4, trace(80, "torch.save(state, path)", "OSError: [Errno 28] No space left on device")),
    "key": ("script-exception", 2, trace(33, 'lr = config["rate"]', "KeyError: 'rate'")),
    "good": ("clean", 6, "Training finished in 71.2 s\nsaved /out/last.pt\n"),
    "good words": ("clean", 6, "test accuracy: 0.8812\nDone.\n"),
}

BANNER = "loading configuration small.yaml\nusing device cuda:0, seed {seed}\n"


def run_text(name, seed=1, stamp=None):
    cause, count, end = RUNS[name]
    return BANNER.format(seed=seed) + steps(0, count, 6 if cause == "clean" else 40, stamp) + end


SEPARATORS = {
    "prompt": lambda a, b: "$ python fit.py\n" + run_text(a) + "$ python fit.py --small\n" + run_text(b),
    "user's prompt": lambda a, b: "(ml) kim@node7:~/fit$ python3 fit.py\n" + run_text(a) + "(ml) kim@node7:~/fit$ ls out\nlast.pt\n(ml) kim@node7:~/fit$ LR=0.1 torchrun --nproc-per-node 1 fit.py\n" + run_text(b),
    "mark": lambda a, b: "===== run 1 =====\n" + run_text(a) + "===== run 2 =====\n" + run_text(b),
    "restart": lambda a, b: run_text(a) + "--- restarting the trainer (status 1) ---\n" + run_text(b),
    "banner": lambda a, b: run_text(a, 1) + run_text(b, 2),
    "traced shell": lambda a, b: "+ python fit.py\n" + run_text(a) + "+ python fit.py --small\n" + run_text(b),
    "time gap": lambda a, b: run_text(a, 1, "10:02:%02d ").replace("loading", "1 loading") + run_text(b, 2, "13:40:%02d ").replace("loading", "2 reading"),
    "counter": lambda a, b: run_text(a).split("\n", 2)[2] + run_text(b).split("\n", 2)[2],
}


# One run each: tqdm draws its bars once more after an exception, and other ranks print theirs.
OOM = RUNS["memory"][2]
BARS = " 0%|          | 0/10 [00:00<?, ?it/s]\ntrain:   0%|          | 0/500 [00:00<?, ?it/s]\ntrain:  25%|██▌       | 125/500 [00:10<00:31, 11.9it/s]\n"
ONE_RUN = {
    "bars drawn again": BARS + OOM + "train:  25%|██▌       | 125/500 [00:10<00:31, 11.9it/s]\n  0%|          | 0/10 [00:10<?, ?it/s]\n",
    "bars of two ranks drawn again": BARS + OOM + "  0%|          | 0/10 [00:10<?, ?it/s]\n" + OOM + "  0%|          | 0/10 [00:10<?, ?it/s]\n",
}


def verdict(path):
    done = subprocess.run([GPUWHY, "explain", "--json", path], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if not done.stdout:
        sys.exit(f"{path}: no answer: {done.stderr}")
    return json.loads(done.stdout)


def main():
    wrong = pairs = 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "fit.log"
        for first in RUNS:
            for second in RUNS:
                for separator, write in SEPARATORS.items():
                    wanted = RUNS[second][0]
                    path.write_text(write(first, second))
                    got = verdict(path)
                    cause = got["cause"] or got["status"]
                    mentioned = any("holds 2 runs" in text for text in got["advice"])
                    # without a mark, only a failure shows that the first run ended
                    must_mention = separator in ("prompt", "user's prompt", "mark", "restart", "traced shell") or RUNS[first][0] != "clean"
                    pairs += 1
                    if cause != wanted or (must_mention and not mentioned):
                        print(f"wrong: {first}, then {second} ({separator}): {wanted}, taken for {cause}{'' if mentioned else ', the first run is not mentioned'}")
                        wrong += 1
        for name, text in ONE_RUN.items():
            path.write_text(text)
            got = verdict(path)
            if got["cause"] != "gpu-oom-capacity" or any("holds" in text for text in got["advice"]):
                print(f"wrong: {name}: taken for {got['cause'] or got['status']}: {got['advice']}")
                wrong += 1
    print(f"{pairs} texts of two runs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
