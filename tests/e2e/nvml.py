"""What a virtual GPU reports to NVML: the same as to the program, and for every fault what a real GPU would report.

The program (tests/nvml/card_user) and the clients run under one gpuwhy: this file starts itself again inside. The
clients are our own one in C, the virtual nvidia-smi, and nvidia-ml-py, gpustat, nvitop and GPUtil from PyPI
(build-nvml/, skipped with the reason if they cannot be installed). `nvml.py [NAME...]` runs single tests, `cards`
runs all except pypi.
"""
import json
import os
import pathlib
import re
import select
import shutil
import subprocess
import sys
import time

from harness import (BUILD, Card, Failure, SANITIZE, Workplace, behind_sanitizer, expect, main, new_folder,
                     run_observed)
from pypi import python_with

PACKAGES = ("nvidia-ml-py", "gpustat", "nvitop", "GPUtil", "setuptools")
MODULES = ("pynvml", "gpustat", "nvitop", "GPUtil")
CARD_USER = BUILD / "tests" / "nvml" / "card_user"
CLIENT = BUILD / "tests" / "nvml" / "nvml_client"
GIB = 1 << 30
CONTEXT_BYTES = 552402944  # data/cards/h200.card
STRIKES_AFTER_S = float(sys.argv[3]) if sys.argv[1:2] == ["--inside"] else 0
TOO_SLOW = 9
XID, DOUBLE_BIT = 8, 2  # nvmlEventType...
NEWER = ("NVML_NVLINK_MAX_LINKS",)  # larger in later drivers
WAIT_S = 200  # limit for things that happen at once on an idle machine


# ---- inside: what runs under gpuwhy --------------------------------------------------------------------------------

class User:
    """A program that uses a GPU on command; it answers each command with the driver's result. `card`: open this GPU
    first."""

    def __init__(self, card=None):
        self.process = subprocess.Popen(behind_sanitizer([CARD_USER]), stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pid = self.process.pid
        if card is not None:
            self.do("open", card)

    def begin(self, *words):
        self.process.stdin.write(" ".join(map(str, words)) + "\n")
        self.process.stdin.flush()

    def answer(self, *words):
        ready = select.select([self.process.stdout], [], [], WAIT_S)[0]
        line = self.process.stdout.readline() if ready else ""
        expect(line, f"no answer to {words}")
        return int(line)

    def tell(self, *words):
        self.begin(*words)
        return self.answer(*words)

    def do(self, *words):
        result = self.tell(*words)
        expect(result == 0, f"{words} answered {result}")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(WAIT_S)
        self.process.stdout.close()


class Listener:
    """The C client, waiting for events."""

    def __init__(self):
        self.process = subprocess.Popen(behind_sanitizer([CLIENT, "--events", WAIT_S * 1000]), stdout=subprocess.PIPE,
                                        bufsize=0)
        self.lines = iter(self.read_lines, None)
        expect(next(self.lines, "") == "listening", "the client does not listen")

    def read_lines(self, wait_s=WAIT_S):
        line = b""
        while select.select([self.process.stdout], [], [], wait_s)[0]:
            byte = self.process.stdout.read(1)
            if byte in (b"\n", b""):
                return line.decode() or None
            line += byte
        return None

    def events(self, count):
        """Return the first `count` events, and those that arrive shortly after them."""
        found = []
        while len(found) < count and (line := next(self.lines, None)) is not None:
            found.append(line)
        if (line := self.read_lines(0.2)) is not None:
            found.append(line)
        self.process.kill()
        self.process.wait()
        return [tuple(map(int, line.split()[1:])) for line in found if line.startswith("event")]


def output(*command, status=0):
    done = subprocess.run(behind_sanitizer(command), capture_output=True, text=True, timeout=WAIT_S)
    expect(done.returncode == status,
           f"{command[0]} ended with {done.returncode}, not {status}: {done.stdout}{done.stderr}")
    return done.stdout + done.stderr


def asked():
    """Return the C client's values, {card: {key: number or "error N"}}, and processes as {pid: bytes}."""
    cards = {}
    for line in output(CLIENT).splitlines():
        card, key, value = line.split(" ", 2)
        card = cards.setdefault(int(card), {"users": {}})
        if key == "process":
            pid, used = value.split()
            card["users"][int(pid)] = int(used)
        else:
            card[key] = int(value) if value.isdigit() else value
    return cards


def smi(*arguments, status=0):
    return output(shutil.which("nvidia-smi"), *arguments, status=status)


def query(names, *arguments):
    lines = smi(f"--query-gpu={names}", "--format=csv,noheader,nounits", *arguments).splitlines()
    return [line.split(", ") for line in lines]


def inside_memory():
    """Two programs, two GPUs: each client sees which process uses how much."""
    with User(0) as one, User(1) as two:
        one.do("alloc", GIB)
        two.do("alloc", 2 * GIB)
        cards = asked()
        expect(cards[0]["users"] == {one.pid: CONTEXT_BYTES + GIB}, f"card 0: {cards[0]['users']}")
        expect(cards[1]["users"] == {two.pid: CONTEXT_BYTES + 2 * GIB}, f"card 1: {cards[1]['users']}")
        for card in cards.values():
            expect(card["used"] == sum(card["users"].values()), f"used {card['used']} is not what is held")
            expect(card["total"] == card["used"] + card["free"] + card["reserved"], f"no sum: {card}")
            expect(card["old_used"] == card["used"] + card["reserved"], f"old and new disagree: {card}")
            expect(card["total"] >> 20 == 143771, f"{card['total']} is not the card's total")
            expect(card["field_nonsense"] == "error 3", f"an unknown field: {card['field_nonsense']}")
        used = [str(CONTEXT_BYTES + GIB >> 20), str(CONTEXT_BYTES + 2 * GIB >> 20)]
        expect([row[0] for row in query("memory.used,name")] == used, "nvidia-smi shows other bytes")
        apps = smi("--query-compute-apps=pid,used_memory", "--format=csv,noheader,nounits").split()
        expect(apps == [f"{one.pid},", used[0], f"{two.pid},", used[1]], f"nvidia-smi's processes: {apps}")
        expect(len(query("index", "-i", "1")) == 1, "-i does not choose a card")
        expect(re.search(rf"\| +1 +N/A +N/A +{two.pid} +C ", smi()), "the table lacks a process")
        expect(smi("-L").count("GPU-") == 2, "-L does not list both cards")
        expect(f"{used[1]} MiB" in smi("-q"), "-q lacks the used memory")
        smi("--query-gpu=nonsense", "--format=csv", status=2)
        smi("--nonsense", status=2)
    cards = asked()
    expect(cards[0]["used"] == 0 and not cards[1]["users"], "what the dead held is still held")


def inside_busy():
    """Sensor values follow the load."""
    idle = asked()[0]
    with User(0) as user:
        user.do("launch", 600000)  # nothing waits for its end
        time.sleep(1.1)
        busy = asked()
        expect(busy[0]["busy"] >= 90, f"a card with a kernel is busy for {busy[0]['busy']} %")
        expect(busy[1]["busy"] == 0 and busy[1]["reasons"] == 1, f"the other card works, too: {busy[1]}")
        for key in ("power", "temperature", "clock"):
            expect(busy[0][key] > idle[key], f"{key} does not rise: {idle[key]}, {busy[0][key]}")
        expect(idle["reasons"] == 1 and busy[0]["reasons"] == 0, "reasons of clocks")
    expect(asked()[0]["busy"] == 0, "a card is busy with the work of the dead")


def inside_kernel_fault():
    """A faulty kernel causes an Xid on its GPU, and the GPU itself stays healthy."""
    listener = Listener()
    with User(1) as user:
        user.do("fault")
        expect(user.tell("sync") == 700, "the fault is not told")
        events = listener.events(1)
    expect(events == [(1, XID, 31)], f"events {events}")
    expect(asked()[1]["field_recovery"] == 0, "the card wants to be reset")


def inside_lost():
    """A GPU falls off the bus while a kernel runs: check program, NVML and nvidia-smi. The other GPU still works."""
    listener = Listener()
    with User(0) as user, User(1) as other:
        user.do("alloc", GIB)
        user.do("launch", 600000)
        user.begin("sync")
        other.do("ask")  # this call triggers the fault
        expect(user.answer("sync") == 999, "a program does not notice that its card is gone")
        expect(user.tell("alloc", GIB) == 999 and user.tell("info") == 999, "later calls work")
        other.do("alloc", GIB)
        other.do("sync")
    events = listener.events(1)
    expect((0, XID, 79) in events, f"no Xid 79: {events}")
    cards = asked()
    expect(cards[0]["handle"] == "error 15", f"the handle of a lost card: {cards[0]['handle']}")
    expect(cards[1]["total"] > 0, "the other card is gone, too")
    expect("GPU is lost" in smi(status=15), "nvidia-smi does not say that the card is lost")
    with User() as late:
        expect(late.tell("open", 0) == 999, "a new program gets a lost card")
        late.do("open", 1)


def inside_lost_alone():
    """The only GPU is lost before anything begins."""
    with User() as user:
        expect(user.tell("open", 0) == 100, "cuInit finds a card")


def inside_ecc():
    """An uncorrectable error at a program's second launch."""
    listener = Listener()
    with User(0) as user:
        user.do("launch", 1)
        user.do("sync")
        user.do("launch", 1)
        expect(user.tell("sync") == 214, "the program is not stopped")
    events = listener.events(4)
    expect((0, DOUBLE_BIT, 0) in events and {48, 63, 94} <= {e[2] for e in events if e[1] == XID}, f"events {events}")
    card = asked()[0]
    expect(card["ecc"] == 1 and card["field_ecc"] == 1 and card["field_pending"] == 1, f"counters {card}")
    expect(card["field_recovery"] == 4, f"recovery action {card['field_recovery']}")
    with User(0) as user:  # contained: the GPU is still usable
        user.do("sync")


def inside_xid():
    """An Xid before a call; only the program that made the call is affected."""
    listener = Listener()
    with User(0) as bystander, User(0) as user:
        expect(user.tell("ask") == 719, "the call goes well")
        bystander.do("sync")
    expect(listener.events(1) == [(0, XID, 43)], "events")


def lived_s():
    """Return how long this process has lived, in seconds."""
    started_ticks = int(pathlib.Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    return time.clock_gettime(time.CLOCK_BOOTTIME) - started_ticks / os.sysconf("SC_CLK_TCK")


def inside_timed():
    """A fault at a fixed time: it happens without any action by the program, and a waiting program notices it."""
    with User() as user:
        results = [user.tell("open", 0), user.tell("launch", 600000)]
        if lived_s() >= STRIKES_AFTER_S - 0.5:
            sys.exit(TOO_SLOW)  # it may have happened before the program waited: try again with more time
        expect(results == [0, 0], f"{results} before it strikes")
        expect(user.tell("sync") == 719, "the program waits on")


def slow_card(ms):
    """Return the values of a card on which a kernel of 200 ms takes at least this long."""
    with User(0) as user:
        started = time.monotonic()
        user.do("launch", 200)
        user.do("sync")
        expect((time.monotonic() - started) * 1000 >= ms, "kernels are not slower on this card")
        return asked()[0]


def inside_thermal():
    card = slow_card(400)
    expect(card["reasons"] & 0x48 == 0x48, f"reasons {card['reasons']:#x}")
    expect(card["temperature"] > card["temperature_slowdown"], f"{card['temperature']} degrees")
    expect(card["field_thermal_ns"] > 0 and card["field_power_ns"] == 0, "time lost to heat")


def inside_power_brake():
    card = slow_card(400)
    expect(card["reasons"] & 0x88 == 0x88, f"reasons {card['reasons']:#x}")
    expect(card["power_limit"] == card["power_default"] and card["field_power_ns"] > 0, f"power {card}")


def inside_power_cap():
    card = slow_card(250)
    expect(card["power_limit"] < card["power_default"] and card["power"] <= card["power_limit"], f"power {card}")
    expect(card["reasons"] & 0x4, f"reasons {card['reasons']:#x}")


def inside_link():
    card, other = asked()[0], asked()[1]
    expect((card["link_generation"], card["link_lanes"]) == (1, 1), f"link {card}")
    expect((other["link_generation"], other["link_lanes"]) == (5, 16), f"the other card's link {other}")
    expect((card["link_generation_max"], card["link_lanes_max"]) == (5, 16), f"what it could be {card}")
    with User(0) as slow, User(1) as quick:
        # One lane of the first generation takes 4 ns per byte, in addition to the copy on this machine, so the fastest
        # of many copies shows the difference. On a busy machine more copies are needed until one on each side was not
        # disturbed.
        times = {slow: [], quick: []}
        while len(times[quick]) < 6 or (min(times[quick]) >= min(times[slow]) and len(times[quick]) < 500):
            for user in (slow, quick):
                started = time.monotonic()
                user.do("upload", 4 << 20)
                times[user].append(time.monotonic() - started)
        best = min(times[slow]), min(times[quick])
        expect(best[0] > (4 << 20) * 4e-9 and best[0] > best[1], f"copies over the poor link are not slower: {best}")


# ---- inside: clients from PyPI -------------------------------------------------------------------------------------

def inside_pypi():
    import GPUtil
    import pynvml

    with User(1) as user:
        user.do("alloc", 3 * GIB)
        held = CONTEXT_BYTES + 3 * GIB
        pynvml.nvmlInit()
        expect(pynvml.nvmlDeviceGetCount() == 2, "nvidia-ml-py sees other cards")
        device = pynvml.nvmlDeviceGetHandleByIndex(1)
        memory = pynvml.nvmlDeviceGetMemoryInfo(device, version=pynvml.nvmlMemory_v2)
        expect(memory.used == held, f"nvidia-ml-py: {memory.used} used, {held} held")
        processes = {p.pid: p.usedGpuMemory for p in pynvml.nvmlDeviceGetComputeRunningProcesses(device)}
        expect(processes == {user.pid: held}, f"nvidia-ml-py: processes {processes}")
        expect(pynvml.nvmlDeviceGetPciInfo(device).busId == query("pci.bus_id")[1][0], "bus ids differ")
        for lacking in (pynvml.nvmlDeviceGetEncoderStats, pynvml.nvmlDeviceGetBridgeChipInfo):
            try:
                lacking(device)
                raise Failure(f"{lacking.__name__} works on a card without it")
            except pynvml.NVMLError_NotSupported:
                pass
        check_layouts(pynvml)
        pynvml.nvmlShutdown()

        found = GPUtil.getGPUs()
        expect([int(g.memoryUsed) for g in found] == [0, held >> 20], f"GPUtil: {[g.memoryUsed for g in found]}")
        expect(GPUtil.getAvailable(order="memory", maxMemory=0.01) == [0], "GPUtil: which card is free")

        bin_folder = pathlib.Path(sys.executable).parent
        stat = json.loads(output(bin_folder / "gpustat", "--json"))["gpus"]
        expect([g["memory.used"] for g in stat] == [0, held >> 20] or stat[1]["memory.used"] == round(held / (1 << 20)),
               f"gpustat: {[g['memory.used'] for g in stat]}")
        expect([p["pid"] for p in stat[1]["processes"]] == [user.pid], f"gpustat: {stat[1]['processes']}")
        top = output(bin_folder / "nvitop", "-1", "--no-unicode")
        expect(re.search(rf"\b1 +{user.pid} ", top), f"nvitop lacks the process:\n{top}")
        expect(f"{held / (1 << 20):.0f}MiB" in top or f"{held / GIB:.2f}GiB" in top, f"nvitop lacks its memory:\n{top}")


def check_layouts(pynvml):
    """Compare our structures and numbers with those of nvidia-ml-py."""
    import ctypes

    pairs = {"nvmlPciInfo_t": pynvml.nvmlPciInfo_t, "nvmlPciInfo_v2_t": pynvml.nvmlPciInfo_v2_t,
             "nvmlMemory_t": pynvml.c_nvmlMemory_t, "nvmlMemory_v2_t": pynvml.c_nvmlMemory_v2_t,
             "nvmlBAR1Memory_t": pynvml.c_nvmlBAR1Memory_t, "nvmlUtilization_t": pynvml.c_nvmlUtilization_t,
             "nvmlProcessInfo_t": pynvml.c_nvmlProcessInfo_v3_t,
             "nvmlProcessDetail_v1_t": pynvml.c_nvmlProcessDetail_v1_t,
             "nvmlProcessDetailList_v1_t": pynvml.c_nvmlProcessDetailList_v1_t,
             "nvmlProcessUtilizationSample_t": pynvml.c_nvmlProcessUtilizationSample_t,
             "nvmlViolationTime_t": pynvml.c_nvmlViolationTime_t, "nvmlFieldValue_t": pynvml.c_nvmlFieldValue_t,
             "nvmlEccErrorCounts_t": pynvml.c_nvmlEccErrorCounts_t, "nvmlEventData_t": pynvml.c_nvmlEventData_t,
             "nvmlSample_t": pynvml.c_nvmlSample_t, "nvmlTemperature_v1_t": pynvml.c_nvmlTemperature_v1_t,
             "nvmlMarginTemperature_v1_t": pynvml.c_nvmlMarginTemperature_v1_t,
             "nvmlGpuFabricInfo_t": pynvml.c_nvmlGpuFabricInfo_t, "nvmlGpuFabricInfo_v2_t": pynvml.c_nvmlGpuFabricInfo_v2_t,
             "nvmlRowRemapperHistogramValues_t": pynvml.c_nvmlRowRemapperHistogramValues}
    lines = [line.split() for line in output(CLIENT, "--layouts").splitlines()]
    compared = 0
    for kind, name, *rest in lines:
        if kind == "size" and name in pairs:
            ours, theirs = int(rest[0]), ctypes.sizeof(pairs[name])
        elif kind == "offset" and name in pairs and hasattr(pairs[name], rest[0]):
            ours, theirs = int(rest[1]), getattr(pairs[name], rest[0]).offset
        elif kind == "number" and isinstance(getattr(pynvml, name, None), int) and name not in NEWER:
            ours, theirs = int(rest[0]), getattr(pynvml, name)
        else:
            continue
        expect(ours == theirs, f"{kind} {name} {rest}: nvidia-ml-py has {theirs}")
        compared += 1
    expect(set(pairs) <= {line[1] for line in lines if line[0] == "size"}, "a structure is not described")
    expect(compared > 280, f"only {compared} of {len(lines)} could be compared")


# ---- outside -------------------------------------------------------------------------------------------------------

TESTS = {
    "memory": ("2xh200", ""),
    "busy": ("2xh200", ""),
    "kernel_fault": ("2xh200", ""),
    "lost": ("2xh200", "fault=lost@cuStreamQuery"),
    "lost_alone": ("h200", "fault=xid:79"),
    "ecc": ("h200", "fault=ecc@launch:2"),
    "xid": ("h200", "fault=xid:43@cuStreamQuery"),
    "timed": ("h200", "fault=xid:62@{after_s}s"),
    "thermal": ("h200", "fault=thermal"),
    "power_brake": ("h200", "fault=power-brake"),
    "power_cap": ("h200", "fault=power-cap"),
    "link": ("2xh200", "fault=link:1x1#0"),
    "pypi": ("2xh200", ""),
}
OURS = [name for name in TESTS if name != "pypi"]


def run_test(name, place, python):
    card, more = TESTS[name]
    for after_s in (3, 12, 48):
        argv = ["/usr/bin/env", f"GPUWHY_BUILD={BUILD}", f"GPUWHY_SANITIZE={SANITIZE}", python, "-B", __file__, "--inside",
                name, str(after_s)]
        run = run_observed(argv, Card(name=card, more=more.format(after_s=after_s)),
                           new_folder(place, f"{name}-{after_s}"), ["--quiet"])
        if run.status != TOO_SLOW:
            break
    expect(run.status == 0, f"{name}: {run.stdout.decode()}{run.stderr.decode()}")
    print(f"  {name}")


def test():
    names = [name for word in sys.argv[1:] or list(TESTS) for name in (OURS if word == "cards" else [word])]
    with Workplace() as place:
        for name in names:
            if name != "pypi":
                run_test(name, place, sys.executable)
        if "pypi" in names:
            run_test("pypi", place, python_with(PACKAGES, "nvml", MODULES))


def inside(name):
    try:
        globals()[f"inside_{name}"]()
    except Failure as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--inside"]:
        inside(sys.argv[2])
    else:
        main(test)
