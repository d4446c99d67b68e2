"""M01: failures that look like another one. The first argument is the kind, "repaired" as the second is its twin.

sentence: 32 MiB a word are kept until the sentence ends, and one sentence is long. buffer: its bound is too large for the card.
fallback, file, crash: a refused request is handled on the host, then the program fails by itself. term, interrupt: it sends
itself a signal. probe: a refused query, then a KeyError. rebuilt: the old model is held while the new one is built. worker: a
process of the loader crashes. thread: an exception ends a thread, and the exit status is 0. shapes: a graph is kept per shape."""

import ctypes
import os
import signal
import sys
import threading

import torch

kind, repaired = sys.argv[1], sys.argv[2:] == ["repaired"]


def block(mib=32):
    x = torch.randn(mib << 18, device="cuda")
    return x * 0.5


def sentence():
    for words in [12, 20, 9, 16, 14, 18] * 3 + [20 if repaired else 200]:
        beams = []
        for _ in range(words):
            beams.append(block())
        float(torch.stack([beam.mean() for beam in beams]).sum())


def buffer():
    memory = []
    for step in range(250):
        memory.append(block())
        if len(memory) > (20 if repaired else 5000):
            memory.pop(0)
        if step % 10 == 0:
            float(memory[-1].sum())


def handled():
    """Ask for too much memory, and go on with the CPU."""
    for _ in range(3):
        float(block().sum())
    try:
        x = torch.ones(8 << 30, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError:
        x = torch.ones(1 << 24, dtype=torch.uint8)
    print("sum", int(x.sum()))


def fallback():
    handled()
    {"a": 1}["a" if repaired else "label"]


def file():
    handled()
    open(__file__ if repaired else "/no/such/labels.csv").close()


def crash():
    handled()
    ctypes.string_at(b"x" if repaired else 64)


def term():
    float(block().sum())
    if not repaired:
        threading.Timer(0.2, lambda: os.kill(os.getpid(), signal.SIGTERM)).start()
        signal.pause()


def interrupt():
    float(block().sum())
    if not repaired:
        signal.raise_signal(signal.SIGINT)


def probe():
    float(block().sum())
    print("probe", ctypes.CDLL("libcuda.so.1").cuDeviceGet(ctypes.byref(ctypes.c_int()), 99))
    {"a": 1}["a" if repaired else "label"]


def build():
    return torch.nn.Sequential(*(torch.nn.Linear(4096, 4096, device="cuda") for _ in range(36)))


def rebuilt():
    model = None
    for _ in range(3):
        if repaired:
            model = None
        model = build()
        float(model(torch.randn(8, 4096, device="cuda")).sum())


class Crashing(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, index):
        if index == 40 and not repaired:
            ctypes.string_at(64)
        return torch.ones(4)


def worker():
    for batch in torch.utils.data.DataLoader(Crashing(), batch_size=4, num_workers=1):
        float((batch.cuda() * block(1)[0]).sum())


def thread():
    def work():
        kept = [block() for _ in range(4 if repaired else 300)]
        float(kept[-1].sum())
    it = threading.Thread(target=work)
    it.start()
    it.join()
    print("done")


def shapes():
    graphs = []
    for rows in range(1, 200):
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = torch.empty((4096 + rows) * 2048, device="cuda").fill_(1) * 2
        graph.replay()
        graphs = [] if repaired else graphs + [(graph, y)]
    torch.cuda.synchronize()


globals()[kind]()
