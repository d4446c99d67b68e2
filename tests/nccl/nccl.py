"""What gpuwhy records of a program's calls of NCCL. The ranks use a stand-in for NCCL and the virtual card."""
import ctypes
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from harness import (BUILD, GPUWHY, SANITIZE, Card, Workplace, base_environment, behind_sanitizer, expect, expect_same, main,
                     new_folder, run_observed, run_plain, wait_until)

HERE = BUILD / "tests" / "nccl"
SOURCE = pathlib.Path(__file__).with_name("ranks.c")
HANGS = ("--hang-after", "1", "--kill-on-hang")


def variables(place):
    """The ranks meet in a folder of the test, so that nothing stays behind."""
    return {"LD_LIBRARY_PATH": str(HERE), "STANDIN_NCCL_DIR": str(place)}


class Call:
    """A line "call NAME key=value ... at FILE:LINE" of `show`."""

    def __init__(self, line):
        self.name = line.split()[1]
        self.at = line.rsplit(" at ", 1)[1]
        fields = dict(re.findall(r"(\w+)=(unknown type|\S+)", line))
        self.number, self.elements, self.root, self.op, self.result = (
            int(fields[key]) for key in ("number", "elements", "root", "op", "result"))
        self.type, self.state = fields["type"], fields["state"]
        self.grouped = fields["grouped"] == "1"


class Communicator:
    def __init__(self, line):
        self.fields = dict(re.findall(r"(\w+)=(\S+)", line))
        self.id, self.calls = self.fields["id"], []

    def __getattr__(self, name):
        return int(self.__dict__["fields"][name])


class Process:
    def __init__(self, line):
        self.unseen, self.communicators = line.endswith("unseen=1"), []


def show(recording):
    """Return the processes of a recording that have communicators or an NCCL whose calls were not seen."""
    out = subprocess.run([HERE / "show", recording], capture_output=True, text=True).stdout
    processes = []
    for line in out.splitlines():
        if line.startswith("process"):
            processes.append(Process(line))
        elif line.startswith("communicator"):
            processes[-1].communicators.append(Communicator(line))
        else:
            processes[-1].communicators[-1].calls.append(Call(line))
    return [process for process in processes if process.communicators or process.unseen]


def line_of(mark):
    for number, line in enumerate(SOURCE.read_text().splitlines(), 1):
        if f"/* mark: {mark} */" in line:
            return f"ranks.c:{number}"
    raise AssertionError(mark)


def observe(place, name, program, *arguments, options=(), status=0):
    folder = new_folder(place, name)
    if "ranks" in program:
        argv = [HERE / program, *arguments, "--truth", "{truth}"]
    else:
        argv = behind_sanitizer([program, *arguments], ours=True)
    run = run_observed(argv, Card(), folder, options=options, variables=variables(folder))
    expect(status is None or run.status == status, f"{name}: exit {run.status}: {run.stderr.decode(errors='replace')}")
    return run, show(run.recording)


def by_rank(processes, at=0):
    """Return the ranks' communicators with this index, in the order of their ranks."""
    found = sorted((p.communicators[at] for p in processes), key=lambda c: c.rank)
    expect(len({c.id for c in found}) == 1 and found[0].id != "0", f"the ranks do not agree on the id: {[c.id for c in found]}")
    expect([(c.rank, c.size) for c in found] == [(i, len(found)) for i in range(len(found))], "wrong ranks or sizes")
    return found


EVERY = [("ncclReduceScatter", 100, 0, -1), ("ncclReduce", 101, 0, 1), ("ncclBroadcast", 102, -1, 0),
         ("ncclBroadcast", 103, -1, 1), ("ncclAllGather", 104, -1, -1), ("ncclAlltoAll", 105, -1, -1),
         ("ncclGather", 106, -1, 0), ("ncclScatter", 107, -1, 0)]


def every_call(place):
    """Each function, however the program reaches NCCL. ncclBcast calls ncclBroadcast, which is no call of the program."""
    for program in ("ranks", "ranks_dlopen"):
        _, processes = observe(place, program, program, "--script", "every")
        for world in by_rank(processes):
            found = [(c.name, c.elements, c.op, c.root) for c in world.calls[-11:-3]]
            expect(found == EVERY, f"{program}: {found}")
            expect([c.number for c in world.calls[-11:-3]] == list(range(11, 19)), "wrong numbers")
            peer = 1 - world.rank
            pair = [(c.name, c.number, c.root, c.grouped) for c in world.calls[-3:-1]]
            expect(pair == [("ncclSend", 1, peer, True), ("ncclRecv", 2, peer, True)], f"{pair}")
            expect(all(c.state == "completed" for c in world.calls[:-1]), f"{[c.state for c in world.calls]}")
            refused = world.calls[-1]
            expect((refused.state, refused.result, refused.type) == ("refused", 4, "unknown type"), "not refused")
            expect((world.collectives, world.p2p, world.ready, world.ended) == (19, 2, 1, 1), f"{world.fields}")
            expect(all(re.fullmatch(r"ranks\.c:\d+", c.at) for c in world.calls), f"{[c.at for c in world.calls]}")
        halves = [process.communicators[1] for process in processes]
        expect(all((c.size, c.rank, c.collectives, c.ended) == (1, 0, 1, 1) for c in halves), "wrong children of the split")
        expect(len({c.id for c in halves}) == 2, "children of other colors must have other ids")


def later_versions(place):
    """Functions of NCCL 2.27 to 2.29: windows and signals; a communicator is shrunk, and grows again."""
    for program in ("ranks", "ranks_dlopen"):
        _, processes = observe(place, "later-" + program, program, "--script", "later", "--ranks", "3")
        for world in by_rank(processes):
            rank, found = world.rank, [(c.name, c.number, c.elements, c.root, c.state) for c in world.calls[-4:]]
            expect(found == [("ncclCommWindowRegister", 11, 0, -1, "completed"), ("ncclPutSignal", 1, 201, (rank + 1) % 3, "completed"),
                             ("ncclSignal", 2, 0, (rank + 1) % 3, "completed"), ("ncclWaitSignal", 3, 0, (rank + 2) % 3, "completed")],
                   f"{program}: {found}")
        made = sorted((p.communicators[1:] for p in processes), key=lambda of: of[-1].rank)
        shrunk, grown = [of[0] for of in made[:2]], [of[-1] for of in made]
        expect([(c.rank, c.size, c.collectives) for c in shrunk] == [(0, 2, 1), (1, 2, 1)], f"{[c.fields for c in shrunk]}")
        expect(shrunk[0].id == shrunk[1].id not in ("0", by_rank(processes)[0].id), "wrong ids of the shrunk communicator")
        expect([(c.rank, c.size, c.id) for c in grown] == [(i, 3, "0") for i in range(3)], f"{[c.fields for c in grown]}")
        expect([[c.state for c in of.calls] for of in grown] == [["completed", "captured", "completed"]] * 3, "wrong calls")


# What each rank's last call must be: name, number, elements, type, state. The culprit is rank 1.
LAST = {
    "other-op": (("ncclAllReduce", 6, 65536, "float32", "enqueued"), ("ncclAllGather", 6, 65536, "float32", "enqueued")),
    "other-size": (("ncclAllReduce", 6, 65536, "float32", "enqueued"), ("ncclAllReduce", 6, 32768, "float32", "enqueued")),
    "other-type": (("ncclAllReduce", 6, 65536, "float32", "enqueued"), ("ncclAllReduce", 6, 65536, "bfloat16", "enqueued")),
    "sleep": (("ncclAllReduce", 6, 65536, "float32", "enqueued"), ("ncclAllReduce", 5, 65536, "float32", "completed")),
    "missing": (("ncclAllReduce", 10, 65536, "float32", "enqueued"), ("ncclAllReduce", 9, 65536, "float32", "completed")),
    "send": (("ncclRecv", 12, 65536, "float32", "enqueued"), ("ncclRecv", 11, 65536, "float32", "completed")),
}


def hang(script):
    def case(place):
        _, processes = observe(place, "faulty", "ranks", "--script", script, options=HANGS, status=None)
        ranks = by_rank(processes)
        found = tuple((c.calls[-1].name, c.calls[-1].number, c.calls[-1].elements, c.calls[-1].type, c.calls[-1].state)
                      for c in ranks)
        expect(found == LAST[script], f"{found}")
        expect(all(call.state == "completed" for c in ranks for call in c.calls[:-1]), "an earlier call did not complete")
        run, processes = observe(place, "repaired", "ranks", "--script", script, "--repaired", options=HANGS)
        expect(run.verdict()["status"] == "clean", f"{run.verdict()['headline']}")
        expect(all(call.state == "completed" for c in by_rank(processes) for call in c.calls), "a call did not complete")

    case.__name__ = script.replace("-", "_")
    case.__doc__ = f"One rank deviates: {script}."
    return case


def send(place):
    """A rank that sends nothing has a group with its receive alone."""
    _, processes = observe(place, "faulty", "ranks", "--script", "send", options=HANGS, status=None)
    first, culprit = (c.calls for c in by_rank(processes))
    expect([c.name for c in first[-2:]] == ["ncclSend", "ncclRecv"] and culprit[-1].name == "ncclRecv", "wrong calls")
    expect(first[-1].state == "enqueued" and culprit[-1].at == line_of("receive"), f"{first[-1].state} {culprit[-1].at}")


def two_orders(place):
    """Two communicators, and a rank that uses them in the other order. Both first calls wait, and so do the second."""
    _, processes = observe(place, "faulty", "ranks", "--script", "lock", options=HANGS, status=None)
    for at in (0, 1):
        expect(all(c.calls[-1].number == 6 and c.calls[-1].state == "enqueued" for c in by_rank(processes, at)), "not waiting")
    lines = [[p.communicators[at].calls[-1].at for at in (0, 1)] for p in sorted(processes, key=lambda p: p.communicators[0].rank)]
    expect(lines[0] == lines[1][::-1] and lines[0][0] != lines[0][1], f"the orders do not differ: {lines}")


def never_joins(place):
    """A communicator that a rank never joins: the other one stays in ncclCommInitRank, which is recorded as a hang."""
    folder = new_folder(place, "late")
    recording = folder / "run.gpuwhy"
    command = [GPUWHY, "run", *Card().options(), "-o", recording, "--hang-after", "0.5", "--",
               *behind_sanitizer([HERE / "ranks", "--script", "late"])]
    process = subprocess.Popen(command, cwd=folder, env={**base_environment(folder), **variables(folder)}, stdin=subprocess.DEVNULL,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        processes = wait_until(lambda: recording.exists() and show(recording), "ncclCommInitRank is not recorded as a hang")
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait()
    expect(len(processes) == 1 and len(processes[0].communicators) == 1, "one rank has called ncclCommInitRank")
    world = processes[0].communicators[0]
    expect((world.ready, world.size, world.rank, world.ended) == (0, 2, 0, 0) and world.id != "0", f"{world.fields}")


def captured(place):
    _, processes = observe(place, "captured", "ranks", "--script", "captured")
    for world in by_rank(processes):
        states = [(c.number, c.state) for c in world.calls[-2:]]
        expect(states == [(11, "captured"), (12, "completed")], f"{states}")


def many(place):
    """80 communicators, up to 11 at once: there are places for 64, so places of ended ones are used again."""
    _, processes = observe(place, "many", "ranks", "--script", "many", "--steps", "1", "--at", "9")
    for process in processes:
        children = [c for c in process.communicators if c.rank < 2 and c.collectives == 1 and c.calls[0].elements <= 10]
        expect(len(process.communicators) == 64 and len(children) >= 63, f"{len(process.communicators)}, {len(children)}")
        expect(len({c.id for c in process.communicators}) == 64, "two communicators have the same id")
    by_rank(processes)


def killed(place):
    """A process that is killed leaves its calls. The other rank would wait for ever."""
    _, processes = observe(place, "killed", "ranks", "--script", "kill", "--ranks", "1", "--rank", "0", "--culprit", "0",
                           "--key", f"killed-{os.getpid()}", status=None)
    world = by_rank(processes)[0]
    expect([c.number for c in world.calls] == [1, 2, 3, 4, 5] and not world.ended, f"{[c.number for c in world.calls]}")


def forked(place):
    _, processes = observe(place, "forked", "ranks", "--script", "fork", "--ranks", "1")
    expect(len(processes) == 1 and processes[0].communicators[0].calls[-1].number == 11, "the fork disturbed the parent")


def two_in_one(place):
    """A process with two ranks, by ncclCommInitAll, and by ncclCommInitRank in a group."""
    _, processes = observe(place, "all", "ranks", "--script", "all", "--ranks", "1")
    made = processes[0].communicators[1:]
    expect([(c.rank, c.size, c.ready) for c in made] == [(0, 2, 1), (1, 2, 1)] * 2, f"{[c.fields for c in made]}")
    expect(made[0].id == made[1].id != made[2].id == made[3].id, "wrong ids")
    expect([(c.aborted, c.ended) for c in made] == [(0, 0), (0, 0), (1, 1), (0, 0)], f"{[c.fields for c in made]}")
    expect(all(c.calls[0].grouped and c.calls[0].state == "completed" for c in made), "wrong calls")


def inside_the_program(place):
    """NCCL is linked into the program: gpuwhy must say that it saw no calls, and not that there were none."""
    _, processes = observe(place, "static", "ranks_static", "--steps", "3")
    expect(len(processes) == 2 and all(p.unseen and not p.communicators for p in processes), "NCCL is not reported as unseen")
    run, _ = observe(place, "hang", "ranks_static", "--script", "sleep", options=HANGS, status=None)
    verdict = run.verdict()
    expect((verdict["cause"], verdict["certainty"]) == ("peer-died", "supported"), verdict["headline"])
    expect(any("calls that were not recorded" in e["text"] for e in verdict["evidence"]), "the verdict does not say it")
    run, _ = observe(place, "repaired", "ranks_static", "--script", "sleep", "--repaired", options=HANGS)
    expect(run.verdict()["status"] == "clean", run.verdict()["headline"])


def from_python(place):
    """ctypes, as in vLLM: dlopen() and dlsym(). The line is that of the script."""
    _, processes = observe(place, "python", sys.executable, __file__, "--program", "libnccl.so.2")
    calls = processes[0].communicators[0].calls
    expect([(c.name, c.number, c.state, c.elements) for c in calls] ==
           [("ncclAllReduce", i, "completed", 100) for i in (1, 2, 3)], "wrong calls")
    expect(all(c.at.startswith("nccl.py:") for c in calls), f"{[c.at for c in calls]}")


def two_libraries(place):
    """Two copies of NCCL in one process, such as PyTorch's and the system's; a third copy is left alone."""
    copies = [place / f"copy{i}" / "libnccl.so.2" for i in range(3)]
    for copy in copies:
        copy.parent.mkdir()
        shutil.copy(HERE / "libnccl.so.2", copy)
    _, processes = observe(place, "two", sys.executable, __file__, "--program", *map(str, copies))
    expect(len(processes[0].communicators) == 2, f"{len(processes[0].communicators)} communicators")
    expect(all(c.collectives == 3 for c in processes[0].communicators), "wrong counts")


def same_look_ups(place):
    """What a program finds is the same with gpuwhy: without NCCL, with an old one, and with one that it opens."""
    for name, argv, folder in (("none", ["probe"], None), ("linked", ["probe_linked"], HERE),
                               ("old", ["probe_linked"], HERE / "old"), ("opened", ["probe", HERE / "libnccl.so.2"], None),
                               ("old-opened", ["probe", HERE / "old" / "libnccl.so.2"], None)):
        program = [HERE / argv[0], *argv[1:]]
        program = behind_sanitizer(program, ours=True)
        if folder is not None:
            program = ["/bin/sh", "-c", f'LD_LIBRARY_PATH="{folder}:$LD_LIBRARY_PATH" exec "$@"', "sh", *program]
        plain = run_plain(program, Card(), new_folder(place, name + "-plain"))
        observed = run_observed(program, Card(), new_folder(place, name))
        expect_same(plain, observed)
        expect(observed.status == 0 and b"weak:" in observed.stdout, f"{name}: {observed.stdout}{observed.stderr}")
        weak = re.search(rb"weak: (\w+) (\w+)", plain.stdout).groups()
        wanted = {"none": (b"absent", b"absent"), "linked": (b"found", b"found"), "old": (b"found", b"absent")}
        expect(weak == wanted.get(name, (b"absent", b"absent")), f"{name}: the test itself is wrong: {weak}")


def odd(place, name, way, *libraries, program="odd"):
    """Run odd.c, which checks itself. Return (unseen, ended, collectives of each communicator) of the parent process."""
    _, processes = observe(place, name, str(HERE / program), way, *(HERE / library for library in libraries))
    if not processes:
        return None
    first = processes[0]
    return first.unseen, all(c.ended for c in first.communicators), [c.collectives for c in first.communicators]


SEEN = (False, True, [3])


def linked_libraries(place):
    """A library that is linked to NCCL, with slots that are filled at once or at the first call, in its own scope, and
    with an old hash table."""
    for name in ("plugin", "plugin_now", "plugin_sysv"):
        for way in ("local",) if SANITIZE else ("local", "deepbind"):  # a sanitizer's dlopen() does not support it
            expect(odd(place, f"{name}-{way}", way, f"lib{name}.so") == SEEN, f"{name} {way}: not seen")


def inside_a_library(place):
    """NCCL inside a library, with and without exported symbols: the calls are not seen, and that is known."""
    for name in ("plugin_inside", "plugin_hidden"):
        found = odd(place, name, "local", f"lib{name}.so")
        expect(found == (True, True, []), f"{name}: {found}")


def no_nccl(place):
    """A function of the program that has the name of one of NCCL is called, although NCCL is loaded."""
    expect(odd(place, "own", "own", "libnccl.so.2", "libplugin_alone.so", program="odd_own") is None, "a call was recorded")


def pseudo_handles(place):
    """dlsym(RTLD_DEFAULT) in the global scope is seen. RTLD_NEXT finds nothing there: the program itself is the last."""
    expect(odd(place, "default", "default", "libnccl.so.2") == SEEN, "RTLD_DEFAULT is not seen")
    expect(odd(place, "next", "next", "libnccl.so.2") == (True, True, []), "RTLD_NEXT is not reported as unseen")


def reloaded(place):
    """NCCL is unloaded, and another one is loaded at its addresses."""
    expect(odd(place, "same", "reload", "libnccl.so.2", "libnccl.so.2") == (False, True, [3] * 6), "not seen each time")
    expect(odd(place, "other", "reload", "libnccl.so.2", "old/libnccl.so.2") == (False, True, [3] * 6), "not seen each time")


def other_threads(place):
    """Threads that fork, make communicators and abort them while others wait or look up functions."""
    if not SANITIZE:  # a sanitizer's dlopen() has locks of its own
        expect(odd(place, "fork", "fork", "libnccl.so.2", "libplugin_alone.so") is None, "no call was made")
    expect(odd(place, "threads", "threads", "libnccl.so.2") == (False, True, [3] * 64), "wrong counts")
    unseen, _, counts = odd(place, "abort", "abort", "libnccl.so.2")
    expect((unseen, counts) == (False, [1, 0, 3]), f"{unseen} {counts}")


def misuse(place):
    """Calls in a signal handler, with wrong handles, in another namespace; and too many communicators."""
    unseen, _, counts = odd(place, "signal", "signal", "libnccl.so.2")
    expect(not unseen and 0 < counts[0], f"{unseen} {counts}")
    found = odd(place, "wrong", "wrong", "libnccl.so.2")
    expect(found == (False, True, [0, 3]), f"{found}: the first one was not made")
    if not SANITIZE:  # one sanitizer's runtime in each namespace does not work
        expect(odd(place, "namespace", "namespace", "libnccl.so.2") is None, "a call was recorded")
    unseen, _, counts = odd(place, "crowd", "crowd", "libnccl.so.2")
    expect((unseen, counts) == (True, [2] * 64), f"{unseen} {counts}")


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


def program(libraries):
    """The program of from_python() and two_libraries()."""
    cuda, device, context = ctypes.CDLL("libcuda.so.1"), ctypes.c_int(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0 and cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0 and cuda.cuCtxSetCurrent(context) == 0
    for library in libraries:
        nccl, unique, communicator = ctypes.CDLL(library), UniqueId(), ctypes.c_void_p()
        assert nccl.ncclGetUniqueId(ctypes.byref(unique)) == 0
        assert nccl.ncclCommInitRank(ctypes.byref(communicator), 1, unique, 0) == 0
        for _ in range(3):
            assert nccl.ncclAllReduce(None, None, ctypes.c_size_t(100), 7, 0, communicator, None) == 0
        assert cuda.cuCtxSynchronize() == 0
    return 0


CASES = {f.__name__: f for f in (every_call, later_versions, *(hang(s) for s in ("other-op", "other-size", "other-type", "sleep", "missing")),
                                 send, two_orders, never_joins, captured, many, killed, forked, two_in_one,
                                 inside_the_program, from_python, two_libraries, same_look_ups, linked_libraries,
                                 inside_a_library, no_nccl, pseudo_handles, reloaded, other_threads, misuse)}


def test():
    for name in sys.argv[1:] or list(CASES):
        with Workplace() as place:
            CASES[name](place)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--program"]:
        sys.exit(program(sys.argv[2:]))
    main(test)
