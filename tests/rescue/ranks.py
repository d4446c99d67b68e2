"""Start ranks of train.py, one a card, as a launcher does: ranks.py COUNT FAULTY [--one-card] [arguments of train.py]

Only rank FAULTY gets `--fault`, and only rank 0 gets `--port`. The ranks wait for each other in each step. If one fails, the
others are ended. The result is the sum of the ranks' results."""
import os
import pathlib
import subprocess
import sys
import tempfile
import time

import train

HERE = pathlib.Path(__file__).resolve().parent


def arguments_of(rank, faulty, words, shares_card, folder):
    words = list(words)
    for name, owner in (("--fault", faulty), ("--port", 0)):
        if rank != owner and name in words:
            at = words.index(name)
            del words[at:at + 2]
    return words + ["--meet", folder, "--device", "0" if shares_card else str(rank)]


def main():
    train.record_start()
    with tempfile.TemporaryDirectory() as folder:
        start(folder)


def start(folder):
    count, faulty, words = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:]
    shares_card = "--one-card" in words
    words = [word for word in words if word != "--one-card"]
    environment = {name: value for name, value in os.environ.items() if name != "RESCUE_STARTS"}
    ranks = []
    for rank in range(count):
        argv = [sys.executable, "-B", str(HERE / "train.py"), *arguments_of(rank, faulty, words, shares_card, folder)]
        environment |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(count)}
        ranks.append(subprocess.Popen(argv, env=environment, stdout=subprocess.PIPE, text=True))
    while any(rank.poll() is None for rank in ranks):
        if any(rank.poll() not in (None, 0) for rank in ranks):
            for rank in ranks:
                rank.terminate()
            break
        time.sleep(0.02)
    texts = [rank.communicate()[0] for rank in ranks]
    if any(rank.returncode != 0 for rank in ranks):
        sys.exit(f"ranks failed: {[rank.returncode for rank in ranks]}")
    print(f"result {sum(int(text.split()[-1], 16) for text in texts) & train.MASK:016x}")


if __name__ == "__main__":
    main()
