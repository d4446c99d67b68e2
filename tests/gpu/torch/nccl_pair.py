"""Two ranks on two GPUs. Rank 1 dies between two collectives, and rank 0 waits for it until the launcher notices and
ends it. repaired: both finish normally."""

import os
import signal
import subprocess
import sys
import time

STEPS = 30


def rank(dies):
    import torch
    import torch.distributed as distributed

    number = int(os.environ["RANK"])
    torch.cuda.set_device(number)
    distributed.init_process_group("nccl")
    gradients = torch.ones(1 << 20, device="cuda")
    for step in range(STEPS):
        if dies and number == 1 and step == STEPS // 2:
            os.kill(os.getpid(), signal.SIGKILL)
        distributed.all_reduce(gradients)
        gradients /= 2
    torch.cuda.synchronize()
    distributed.destroy_process_group()


def launch(arguments):
    common = {"WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(20000 + os.getpid() % 20000)}
    ranks = [subprocess.Popen([sys.executable, __file__, *arguments, "worker"],
                              env={**os.environ, **common, "RANK": str(n), "LOCAL_RANK": str(n)}) for n in range(2)]
    while all(process.poll() is None for process in ranks):
        time.sleep(0.1)
    for _ in range(50):  # a healthy peer finishes first
        if all(process.poll() is not None for process in ranks):
            break
        time.sleep(0.1)
    for process in ranks:
        if process.poll() is None:
            process.terminate()
    return max(abs(process.wait()) for process in ranks)


if __name__ == "__main__":
    if sys.argv[-1] == "worker":
        rank("repaired" not in sys.argv)
    else:
        status = launch(sys.argv[1:])
        print("both ranks are done" if status == 0 else "a rank failed")
        sys.exit(status != 0)
