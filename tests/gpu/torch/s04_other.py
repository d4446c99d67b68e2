"""S04: another process uses all of the GPU except 2 GiB when training starts. repaired: it uses 1 GiB."""

import subprocess
import sys

import torch

import cnn

LEFT_BYTES = 2 << 30
REPAIRED_BYTES = 1 << 30


def hold(bytes_wanted):
    """The other process: allocate memory, print the amount, and keep it until stdin ends."""
    free, _ = torch.cuda.mem_get_info()
    held = torch.empty(bytes_wanted or free - LEFT_BYTES, dtype=torch.uint8, device="cuda")
    print(held.numel(), flush=True)
    sys.stdin.read()


def main():
    repaired = sys.argv[1:] == ["repaired"]
    other = subprocess.Popen([sys.executable, __file__, "hold", str(REPAIRED_BYTES if repaired else 0)],
                             stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert other.stdout.readline().strip().isdigit(), "the other process holds nothing"
    try:
        torch.manual_seed(1)
        trainer = cnn.Trainer()
        for _ in range(5):
            trainer.step(*cnn.batch(3200))
        torch.cuda.synchronize()
        print("trained")
    finally:
        other.stdin.close()
        other.wait()


if sys.argv[1:2] == ["hold"]:
    hold(int(sys.argv[2]))
else:
    main()
