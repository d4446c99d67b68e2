"""Something beside a training that is in its way: beside.py memory MIB SECONDS | port PORT SECONDS

It holds the memory of card 0, or the port, until the first process in $RESCUE_STARTS has ended, and SECONDS longer. With a
negative SECONDS it never releases what it holds. It prints a line when it holds it."""
import ctypes
import os
import pathlib
import socket
import sys
import time


def take_memory(mib):
    cu, context, address = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_ulonglong()
    result = cu.cuInit(0) or cu.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) or cu.cuCtxSetCurrent(context)
    result = result or cu.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(mib << 20))
    if result != 0:
        sys.exit(f"beside.py: CUDA error {result}")


def take_port(port):
    listener = socket.socket()
    listener.bind(("127.0.0.1", port))
    listener.listen()
    return listener


def first_pid():
    try:
        return pathlib.Path(os.environ["RESCUE_STARTS"]).read_text().split("\x1f")[1]
    except (OSError, IndexError):
        return None


def is_alive(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def main():
    kind, amount, seconds = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    held = take_port(amount) if kind == "port" else take_memory(amount)
    print("held", flush=True)
    while seconds < 0 or first_pid() is None or is_alive(first_pid()):
        time.sleep(0.05)
    time.sleep(seconds)
    del held


if __name__ == "__main__":
    main()
