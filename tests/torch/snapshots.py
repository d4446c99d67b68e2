"""Memory snapshots as PyTorch saves them, made without PyTorch: a small caching allocator with segments, split
blocks, a history ring and stacks, and dictionaries in the form of torch.cuda.memory._snapshot() of several versions.

As a program: snapshots.py FOLDER writes every case as FOLDER/<case>.pickle and prints their names.
"""

import os
import pickle
import sys

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30
BASE = 0x7F0000000000
SMALL_MAX, SMALL_SEGMENT, LARGE_SEGMENT, LARGE_MIN = 1 * MIB, 2 * MIB, 20 * MIB, 10 * MIB


def frame(filename, name, line):
    return {"name": name, "filename": filename, "line": line}


TORCH = "/usr/lib/python3/dist-packages/torch/nn/modules/"
INNER = [frame(TORCH + "linear.py", "forward", 125), frame(TORCH + "module.py", "_call_impl", 1750),
         frame(TORCH + "module.py", "_wrapped_call_impl", 1739)]


def stack(line, name="train", filename="/home/user/train.py", inner=True):
    return (INNER if inner else []) + [frame(filename, name, line), frame(filename, "<module>", 90)]


class OutOfMemory(Exception):
    pass


class Allocator:
    """Behaves like c10's native allocator as far as a snapshot shows it: best fit, blocks are split and merged, and
    free segments are returned before an allocation fails."""

    def __init__(self, card=16 * GIB, overhead=600 * MIB, ring=100_000, stacks=True, start_us=1_700_000_000_000_000,
                 limit=None):
        self.limit = limit or card  # set_per_process_memory_fraction
        self.card, self.overhead, self.ring, self.stacks = card, overhead, ring, stacks
        self.segments = []  # each: dict(address, size, blocks: list of [address, size, requested, state, frames])
        self.trace = []
        self.now_us = start_us
        self.next_address = BASE
        self.live = {}

    def note(self, action, address, size, frames):
        self.now_us += 20
        self.trace.append((action, address, size, self.now_us, frames))
        del self.trace[:-self.ring]

    def wait(self, seconds):
        self.now_us += int(seconds * 1e6)

    def reserved(self):
        return sum(s["size"] for s in self.segments)

    def free_on_device(self):
        return self.card - self.overhead - self.reserved()

    def find(self, size, small):
        best = None
        for segment in self.segments:
            if segment["small"] != small:
                continue
            for index, block in enumerate(segment["blocks"]):
                if block[3] == "inactive" and block[1] >= size and (best is None or block[1] < best[0]):
                    best = (block[1], segment, index)
        return best

    def alloc(self, requested, frames):
        size = max(512, (requested + 511) // 512 * 512)
        small = size <= SMALL_MAX
        found = self.find(size, small)
        if found is None:
            wanted = SMALL_SEGMENT if small else LARGE_SEGMENT if size < LARGE_MIN else (size + 2 * MIB - 1) // (2 * MIB) * 2 * MIB
            if wanted > self.free_on_device() or self.reserved() + wanted > self.limit:
                for segment in [s for s in self.segments if all(b[3] == "inactive" for b in s["blocks"])]:
                    self.segments.remove(segment)
                    self.note("segment_free", segment["address"], segment["size"], frames)
            if wanted > self.free_on_device() or self.reserved() + wanted > self.limit:
                self.note("oom", self.free_on_device(), size, frames)
                raise OutOfMemory
            segment = {"address": self.next_address, "size": wanted, "small": small,
                       "blocks": [[self.next_address, wanted, 0, "inactive", []]], "frames": frames}
            self.next_address += wanted + 2 * MIB
            self.segments.append(segment)
            self.note("segment_alloc", segment["address"], wanted, frames)
            found = self.find(size, small)
        _, segment, index = found
        block = segment["blocks"][index]
        if block[1] - size >= (512 if small else MIB + 1):
            segment["blocks"].insert(index + 1, [block[0] + size, block[1] - size, 0, "inactive", []])
            block[1] = size
        block[2:] = [requested, "active_allocated", frames]
        self.live[block[0]] = (segment, block)
        self.note("alloc", block[0], requested, frames)
        return block[0]

    def free(self, address):
        segment, block = self.live.pop(address)
        self.note("free_requested", address, block[2], block[4])
        self.note("free_completed", address, block[2], block[4])
        block[2:] = [0, "inactive", []]
        blocks, index = segment["blocks"], segment["blocks"].index(block)
        for left in (index, index - 1):
            if 0 <= left and left + 1 < len(blocks) and blocks[left][3] == blocks[left + 1][3] == "inactive":
                blocks[left][1] += blocks[left + 1][1]
                del blocks[left + 1]

    # ---- the form that PyTorch saves ----

    def block_dict(self, block, version):
        address, size, requested, state, frames = block
        if version < (2, 1):
            entry = {"size": size, "state": state}
            if requested and self.stacks:
                entry["history"] = [{"addr": address, "real_size": requested, "frames": frames}]
            return entry
        return {"address": address, "size": size, "requested_size": requested, "state": state,
                "frames": frames if self.stacks else []}

    def segment_dict(self, segment, version):
        live = [b for b in segment["blocks"] if b[3] != "inactive"]
        entry = {"device": 0, "address": segment["address"], "total_size": segment["size"],
                 "allocated_size": sum(b[1] for b in live), "active_size": sum(b[1] for b in live)}
        if version >= (2, 1):
            entry["requested_size"] = sum(b[2] for b in live)
        entry["stream"] = 0
        entry["segment_type"] = "small" if segment["small"] else "large"
        if version >= (2, 1):
            entry.update(segment_pool_id=(0, 0), is_expandable=False, frames=segment["frames"] if self.stacks else [])
        entry["blocks"] = [self.block_dict(b, version) for b in segment["blocks"]]
        return entry

    def entry_dict(self, entry, version):
        action, address, size, time_us, frames = entry
        result = {"action": action, "device_free" if action == "oom" else "addr": address, "size": size, "stream": 0}
        if self.stacks:
            result["frames"] = frames
        if version >= (2, 2):
            result["time_us"] = time_us
        if version >= (2, 6):
            result["compile_context"] = "N/A"
            result["user_metadata"] = ""
        return result

    def snapshot(self, version=(2, 7)):
        segments = [self.segment_dict(s, version) for s in self.segments]
        if version < (2, 0):
            return segments
        result = {"segments": segments, "device_traces": [[self.entry_dict(e, version) for e in self.trace], []]}
        if version >= (2, 1):
            result["allocator_settings"] = {
                "PYTORCH_CUDA_ALLOC_CONF": "", "max_split_size": -1, "garbage_collection_threshold": 0.0,
                "expandable_segments": False, "pinned_num_register_threads": 1, "release_lock_on_cudamalloc": False,
                "pinned_use_cuda_host_register": False,
                "roundup_power2_divisions": {str(1 << i): 0 for i in range(16)}}
        if version >= (2, 6):
            result["external_annotations"] = []
        return result


# ---- cases ----

def build_model(a, layers=12, size=64 * MIB, line=14):
    return [a.alloc(size + 4096 * i, stack(line, "build", inner=False)) for i in range(layers)]


def step(a, activations=8, size=96 * MIB, line=40, name="train"):
    blocks = [a.alloc(size + 8192 * i, stack(line, name)) for i in range(activations)]
    a.wait(0.01)
    for block in reversed(blocks):
        a.free(block)


def leak():
    """The losses are kept with their graphs: 48 MiB a step, from train.py:44."""
    a = Allocator()
    build_model(a)
    for _ in range(40):
        step(a)
    try:
        while True:
            step(a)
            a.alloc(48 * MIB, stack(44))
    except OutOfMemory:
        return a


def second_run():
    """The first run's model and outputs are still alive when the second run begins."""
    a = Allocator()
    try:
        for _ in range(9):
            kept = [a.alloc(size, stack(12, "run", inner=False)) for size in
                    (900 * MIB, 300 * MIB, 700 * MIB, 123 * MIB, 1500 * MIB, 401 * MIB, 222 * MIB)]
            for _ in range(30):
                step(a, size=200 * MIB)
            a.wait(1.0)
            del kept
    except OutOfMemory:
        pass
    return a


def fill(a):
    """Activations are all kept, until there is no memory left."""
    try:
        for i in range(100):
            a.alloc(200 * MIB + i * 4096, stack(40))
    except OutOfMemory:
        pass
    return a


def capacity():
    """One working set that is too large for the GPU."""
    a = Allocator()
    build_model(a, 24, 500 * MIB)
    return fill(a)


def validation():
    """Training fits; validation keeps its results, train.py:71."""
    a = Allocator()
    build_model(a)
    for _ in range(300):
        step(a)
    try:
        for i in range(400):
            a.alloc(40 * MIB + 65536 * i, stack(71, "validate"))
            a.wait(0.003)
    except OutOfMemory:
        pass
    return a


def fragmented():
    """Small long-lived blocks inside large segments: much is cached, but no block is large enough."""
    a = Allocator(card=7100 * MIB)
    build_model(a, 4)
    holes = [[a.alloc(8 * MIB, stack(50)), a.alloc(2 * MIB - 512 * (i % 64), stack(52, "keep"))] for i in range(600)]
    for first, _ in holes:
        a.free(first)
    try:
        a.alloc(1200 * MIB, stack(60))
    except OutOfMemory:
        pass
    return a


def healthy():
    a = Allocator()
    build_model(a)
    for _ in range(100):
        step(a)
    return a


def handled():
    """An allocation fails, then a smaller one succeeds, then one of the same size."""
    a = Allocator()
    build_model(a)
    held = [a.alloc(1 * GIB, stack(30)) for _ in range(13)]
    try:
        a.alloc(3 * GIB, stack(31))
    except OutOfMemory:
        for block in held:
            a.free(block)
    a.free(a.alloc(3 * GIB, stack(33)))
    for _ in range(50):
        step(a)
    return a


def unwound():
    """Saved after the exception had freed everything of the failed step."""
    a = leak()
    for address in [x for x, (_, b) in a.live.items() if b[4] and b[4][-2]["line"] == 40]:
        a.free(address)
    return a


def tiny():
    """The leak again, small enough to be damaged ten thousand times."""
    a = Allocator(card=1 * GIB, overhead=200 * MIB)
    build_model(a, 3, 16 * MIB)
    for _ in range(16):
        step(a, 2, 24 * MIB)
    try:
        while True:
            step(a, 2, 24 * MIB)
            a.alloc(20 * MIB, stack(44))
    except OutOfMemory:
        return a


def own_limit():
    """The program limited itself: the GPU has enough memory, but PyTorch still fails."""
    a = Allocator(card=141 * GIB, limit=8 * GIB)
    build_model(a, 12, 500 * MIB)
    return fill(a)


CASES = {f.__name__: f for f in (leak, second_run, capacity, validation, fragmented, healthy, handled, unwound, tiny,
                               own_limit)}


def write(path, snapshot, protocol=pickle.DEFAULT_PROTOCOL, python=False):
    with open(path, "wb") as f:
        (pickle._Pickler if python else pickle.Pickler)(f, protocol).dump(snapshot)


def main():
    for name, make in CASES.items():
        path = os.path.join(sys.argv[1], name + ".pickle")
        write(path, make().snapshot())
        print(f"{name}: {os.path.getsize(path)} bytes")


if __name__ == "__main__":
    main()
