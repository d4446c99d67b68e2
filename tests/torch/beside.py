"""A launcher with two ranks that use the driver, not NCCL. The watchdog of rank 0 writes the dumps of both and aborts.

Arguments: the case of flight.py, the path that the dumps' names begin with. Without them: one rank."""

import ctypes
import os
import pickle
import signal
import subprocess
import sys
import time

import flight

WATCHDOG = ("[rank0]:[E1129 10:00:12.000 ProcessGroupNCCL.cpp:683] [Rank 0] Watchdog caught collective operation timeout: "
            "WorkNCCL(SeqNum=41, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=12000) ran for 12040 "
            "milliseconds before timing out.\n"
            "[rank0]:[E1129 10:00:17.000 ProcessGroupNCCL.cpp:744] [Rank 0] To avoid data inconsistency, we are taking the "
            "entire process down.\n")


def rank(number, case, stem):
    if ctypes.CDLL("libcuda.so.1").cuInit(0) != 0:
        sys.exit("cuInit failed")
    if number != 0:
        print("ready", flush=True)
        signal.pause()
    for other, content in enumerate(flight.CASES[case]):
        content = pickle.loads(pickle.dumps(content))
        for entry in content["entries"]:
            entry["time_created_ns"] = time.time_ns()
        with open(f"{stem}{other}", "wb") as file:
            pickle.dump(content, file, protocol=2)
    sys.stderr.write(WATCHDOG)
    sys.stderr.flush()
    os.abort()


def main(case, stem):
    ranks = []
    for number in (1, 0):
        environment = dict(os.environ, RANK=str(number), LOCAL_RANK=str(number), WORLD_SIZE="2")
        ranks.append(subprocess.Popen([sys.executable, __file__, case, stem, str(number)], env=environment, stdout=subprocess.PIPE))
        if number == 1:
            ranks[0].stdout.readline()
    ranks[1].wait()
    ranks[0].terminate()
    ranks[0].wait()
    sys.exit(1)


if __name__ == "__main__":
    if len(sys.argv) > 3:
        rank(int(sys.argv[3]), sys.argv[1], sys.argv[2])
    else:
        main(sys.argv[1], sys.argv[2])
