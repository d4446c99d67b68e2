#!/usr/bin/env python3
"""Make the recordings of a job with many ranks out of real recordings of single runs.

    make_ranks.py FOLDER [--ranks N] [--per-host N] [--missing N] [--unreadable N] [--damaged N] [--cut N] [--loose N]
                  [--first RANK] [--job N] [--lost-host | --waiting FOLDER] [--skew SECONDS] [--seed N]

Rank --first runs out of GPU memory, a recorded failure. The other ranks end between 0.5 s and 3 s later: most by
SIGTERM, one in eight with PyTorch's message about a lost peer. Each host has a clock that is wrong by up to --skew
seconds and a recorded error that covers it; the clocks of --loose hosts are not synchronised and wrong by up to 5 s.

With --lost-host no rank runs out of memory. The recordings of the host of rank --first stop without an end, and the
others end because of it.

With --waiting, rank --first has not made a call of NCCL for which all others wait. FOLDER has the recordings of two such
ranks, rank0.gpuwhy (it waits) and rank1.gpuwhy; bench_ranks.py makes them. Each rank is in the communicator of all ranks and in
that of its host.

The truth is written to FOLDER/truth.json. Only a small block at the start of each recording is new: host, clocks, rank.
"""
import argparse
import json
import pathlib
import random
import re
import struct
import subprocess

REAL = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "real"
FILE_HEAD_BYTES = BLOCK_HEAD_BYTES = 32
MARKER = 0xB1F5C3A7
FACTS, STDERR, SYNC, END = 2, 6, 7, 8  # types of blocks; docs/recording-format.md
META, PROCESS, STDERR_ITEM, EXIT, SUPERVISOR = 1, 2, 6, 7, 9  # codes of items
NOON_NS = 1_700_000_000 * 10**9
DELAY_S = (0.5, 3.0)
LOST_PEER = """Traceback (most recent call last):
  File "train.py", line 41, in step
    loss.backward()
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1970, remote process exited or there was a \
network error, NCCL version 2.21.5
ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.
"""


def crc_table():
    table = []
    for number in range(256):
        for _ in range(8):
            number = number >> 1 ^ (0x82F63B78 if number & 1 else 0)
        table.append(number)
    return table


TABLE = crc_table()


def crc(data):
    """CRC-32C."""
    value = 0xFFFFFFFF
    for byte in data:
        value = value >> 8 ^ TABLE[(value ^ byte) & 0xFF]
    return value ^ 0xFFFFFFFF


def block(kind, sequence, body, codec=0, raw_bytes=None, body_crc=None):
    head = struct.pack("<IBBHIIIII", MARKER, kind, codec, 0, len(body), len(body) if raw_bytes is None else raw_bytes,
                       sequence, 0, crc(body) if body_crc is None else body_crc)
    return head + struct.pack("<I", crc(head)) + body


def blocks_of(data):
    """(type, codec, raw bytes, stored bytes, their checksum) of each block."""
    at = FILE_HEAD_BYTES
    while at < len(data):
        marker, kind, codec, _, stored, raw, _, _, body_crc, _ = struct.unpack_from("<IBBHIIIIII", data, at)
        assert marker == MARKER, "not a block"
        at += BLOCK_HEAD_BYTES
        yield kind, codec, raw, data[at:at + stored], body_crc
        at += stored


def unpack(codec, body):
    return body if codec == 0 else subprocess.run(["zstd", "-dcq"], input=body, stdout=subprocess.PIPE, check=True).stdout


def items_of(body):
    at = 0
    while at < len(body):
        code, count, t_ns, pid, tid = struct.unpack_from("<BIQII", body, at)
        yield code, t_ns, pid, tid, body[at + 21:at + 5 + count]
        at += 5 + count


def item(code, t_ns, pid, tid, payload):
    return struct.pack("<BIQII", code, 16 + len(payload), t_ns, pid, tid) + payload


def string(text):
    data = text.encode()
    return struct.pack("<I", len(data)) + data + b"\0"


def pair(code, key, value, pid=0):
    return item(code, 0, pid, 0, string(key) + string(str(value)))


def key_of(payload):
    count = struct.unpack_from("<I", payload)[0]
    return payload[4:4 + count].decode()


class Template:
    """A real recording without what differs between ranks. `change` may replace an item of its facts, or drop it
    (None)."""
    OWN = ("host", "boot_id", "start_realtime_ns", "start_monotonic_ns", "clock.", "env.SLURM", "process.rank")

    def __init__(self, path, change=lambda kept: kept, stderr=None):
        data = path.read_bytes()
        self.file_head, self.nccl = data[:FILE_HEAD_BYTES], []
        self.pids, self.end_ns, self.parts, self.block_count = set(), 0, [], 1
        for kind, codec, raw, body, body_crc in blocks_of(data):
            if kind == FACTS:
                body, codec, body_crc = b"".join(self.facts(unpack(codec, body), change)), 0, None
                raw = len(body)
            if kind == STDERR and stderr is not None:
                continue
            if kind == SYNC or (kind == FACTS and not body):
                continue
            if kind == END and stderr is not None:
                self.add(STDERR, item(STDERR_ITEM, self.end_ns - 10**7, 0, 0, string(stderr)))
            self.add(kind, body, codec, raw, body_crc)
        self.dict, self.rest = self.parts[0], b"".join(self.parts[1:])

    def add(self, kind, body, codec=0, raw=None, body_crc=None):
        """Leave the number 1 to the block of each rank."""
        self.parts.append(block(kind, self.block_count - 1 if len(self.parts) == 0 else self.block_count, body, codec,
                                raw, body_crc))
        self.block_count += 1

    def facts(self, body, change):
        for code, t_ns, pid, tid, payload in items_of(body):
            if code in (META, SUPERVISOR) and key_of(payload).startswith(self.OWN):
                continue
            if code == SUPERVISOR and key_of(payload).startswith("nccl."):
                self.nccl.append((code, t_ns, pid, tid, payload))
                continue
            if code == PROCESS:
                self.pids.add(pid)
            if code == EXIT and payload[4] & 1:
                self.end_ns = t_ns
            changed = change((code, t_ns, pid, tid, payload))
            if changed is not None:
                yield item(*changed)

    def calls(self, place, group, size, rank):
        """The calls of NCCL in a communicator of `size` ranks; `place` and `group` tell it from the others."""
        for code, t_ns, pid, tid, payload in self.nccl:
            text = payload[len(key_of(payload)) + 9:-1].decode()
            for name, value in (("id", hex(0x5eed0000 + group)), ("size", size), ("rank", rank), ("place", place),
                                ("handle", hex(0x7f0000 + place))):
                text = re.sub(rf"(?<!\S){name}=\S+", f"{name}={value}", text)
            yield item(code, t_ns, pid, tid, string(key_of(payload)) + string(text))

    def recording(self, meta, rank_text, calls=b""):
        own = b"".join(pair(META, key, value) for key, value in meta.items())
        own += b"".join(pair(SUPERVISOR, "process.rank", rank_text, pid) for pid in sorted(self.pids)) + calls
        return self.file_head + self.dict + block(FACTS, 1, own) + self.rest


def ended_by(status, number):
    """Change how all processes end."""
    def change(kept):
        code, t_ns, pid, tid, payload = kept
        if code == EXIT:
            payload = payload[:4] + bytes([payload[4] | 2]) + struct.pack("<ii", status, number)
        return code, t_ns, pid, tid, payload
    return change


def trouble_s(recording, gpuwhy):
    """When the failure of a real recording happened."""
    out = subprocess.run([gpuwhy, "explain", "--json", "--no-history", str(recording)], stdout=subprocess.PIPE).stdout
    return json.loads(out)["failure"]["t_s"]


def arguments():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gpuwhy", default=str(pathlib.Path(__file__).resolve().parents[2] / "build" / "gpuwhy"))
    for name, default in (("ranks", 300), ("per-host", 8), ("missing", 3), ("unreadable", 2), ("damaged", 3), ("cut", 2),
                          ("loose", 5), ("first", 137), ("job", 4711), ("seed", 1)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--skew", type=float, default=0.02)
    parser.add_argument("--lost-host", action="store_true")
    parser.add_argument("--waiting", type=pathlib.Path)
    return parser.parse_args()


def spoil(data, what, rng):
    """A file with a damaged block in its events; cut in the middle; or without anything that can be read."""
    if what == "damaged":
        at = rng.randrange(len(data) // 2, len(data) * 3 // 4)
        return data[:at] + bytes(byte ^ 0x55 for byte in data[at:at + 16]) + data[at + 16:]
    if what == "cut":
        return data[:len(data) * 2 // 3]
    return b"" if rng.random() < 0.5 else b"not a recording\n" * 8


def choose(wanted, rng):
    """Which ranks are missing, unreadable, damaged or cut. The first and the ranks of a lost host are whole."""
    host = wanted.first // wanted.per_host
    others = [rank for rank in range(wanted.ranks) if rank // wanted.per_host != host]
    rng.shuffle(others)
    chosen = {}
    for what in ("missing", "unreadable", "damaged", "cut"):
        for _ in range(getattr(wanted, what)):
            chosen[others.pop()] = what
    return chosen


class Host:
    def __init__(self, number, loose, skew_s, rng):
        self.name, self.boot = f"node{number:05}", f"{number:08x}-5678-4abc-9def-0123456789ab"
        self.is_loose = loose
        self.skew_s = rng.uniform(-5, 5) if loose else rng.uniform(-skew_s, skew_s)
        self.error_us = 16_000_000 if loose else int(skew_s * 1.5e6) + 1000
        self.booted_s = rng.uniform(1e3, 1e7)

    def meta(self, start_s, rank, wanted):
        """`start_s`: the true start, since noon."""
        return {"host": self.name, "boot_id": self.boot,
                "start_realtime_ns": NOON_NS + int((start_s + self.skew_s) * 1e9),
                "start_monotonic_ns": int((self.booted_s + start_s) * 1e9),
                "clock.error_max_us": self.error_us, "clock.synchronised": int(not self.is_loose),
                "env.SLURM_JOB_ID": wanted.job, "env.SLURM_STEP_ID": 0, "env.SLURM_PROCID": rank,
                "env.SLURM_NTASKS": wanted.ranks}


def calls_of(template, rank, wanted):
    host, place_on_host = divmod(rank, wanted.per_host)
    on_host = min(wanted.per_host, wanted.ranks - host * wanted.per_host)
    return b"".join([*template.calls(0, 1, wanted.ranks, rank), *template.calls(1, 2 + host, on_host, place_on_host)])


def main():
    wanted = arguments()
    rng = random.Random(wanted.seed)
    wanted.folder.mkdir(parents=True, exist_ok=True)
    if wanted.waiting:
        told = asked = Template(wanted.waiting / "rank0.gpuwhy")
        first, failed_s = Template(wanted.waiting / "rank1.gpuwhy"), asked.end_ns / 1e9
    else:
        healthy = REAL / "healthy_training.gpuwhy"
        first, failed_s = Template(REAL / "capacity_batch.gpuwhy"), trouble_s(REAL / "capacity_batch.gpuwhy", wanted.gpuwhy)
        told, asked = Template(healthy, ended_by(1, 0), LOST_PEER), Template(healthy, ended_by(-1, 15))
    host_count = -(-wanted.ranks // wanted.per_host)
    loose = set(rng.sample([n for n in range(host_count) if n != wanted.first // wanted.per_host],
                           min(wanted.loose, host_count - 1)))
    hosts = [Host(number, number in loose, wanted.skew, rng) for number in range(host_count)]
    spoiled = choose(wanted, rng)
    for rank in range(wanted.ranks):
        host = hosts[rank // wanted.per_host]
        is_first = rank == wanted.first
        is_lost = wanted.lost_host and rank // wanted.per_host == wanted.first // wanted.per_host
        what = spoiled.get(rank)
        template = first if is_first and not wanted.lost_host else told if rank % 8 == 5 else asked
        start_s = 0 if template is first else failed_s + rng.uniform(*DELAY_S) - template.end_ns / 1e9
        if is_lost:
            start_s = failed_s - template.end_ns / 1e9 - 8
        if what == "missing":
            continue
        data = template.recording(host.meta(start_s, rank, wanted),
                                  f"rank={rank} of={wanted.ranks} local={rank % wanted.per_host} by=SLURM_PROCID",
                                  calls_of(template, rank, wanted))
        if what is not None or is_lost:
            data = spoil(data, "cut" if is_lost else what, rng)
        (wanted.folder / f"{host.name}.{rank}.gpuwhy").write_bytes(data)
    truth = {"first": wanted.first, "host": hosts[wanted.first // wanted.per_host].name, "ranks": wanted.ranks,
             "cause": "straggler" if wanted.waiting else "host-lost" if wanted.lost_host else "gpu-oom-capacity", "hosts": host_count,
             **{what: sorted(rank for rank, is_what in spoiled.items() if is_what == what)
                for what in ("missing", "unreadable", "damaged", "cut")}}
    (wanted.folder / "truth.json").write_text(json.dumps(truth, indent=1) + "\n")


if __name__ == "__main__":
    main()
