"""Test the observer inside a real interpreter, with a fake torch made of Python objects.

usage: observer_test.py LIBRARY   (observer_python.c and observer_testlib.c as one shared library)

Each test runs in its own process, because the observer attaches once per process."""

import atexit
import ctypes
import os
import subprocess
import sys
import threading
import time
import types

MIB = 1 << 20
CARD = 16384 * MIB
UNKNOWN = (1 << 64) - 1
NOTE, OOM, STATE, BLOCK, HISTORY, HELD = "NOTE", "OOM", "STATE", "BLOCK", "HISTORY", "HELD"
REQUESTS = "REQUESTS"
SITE, FRAMES, CODE = "SITE", "SITE_FRAMES", "PYTHON_CODE"
FIRST_SITE, FIRST_CODE = 0x80000000, 0x20000000


class Fact(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint64), ("argument", ctypes.c_uint64 * 4),
                ("site", ctypes.c_uint64), ("text", ctypes.c_char * 300)]


class Library:
    """Kinds, fields and actions are looked up by name, because their numbers may change."""

    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        self.lib.test_fact.restype = ctypes.POINTER(Fact)
        self.lib.test_name.restype = ctypes.c_char_p
        self.kinds = {}
        for name in ("NOTE", "ALLOCATOR_OOM", "ALLOCATOR_STATE", "ALLOCATOR_BLOCK", "ALLOCATOR_HISTORY",
                     "ALLOCATOR_HELD", "ALLOCATOR_REQUESTS", "ARRAYS_OOM", "ARRAYS", "PYTHON_RAISED", SITE, FRAMES, CODE):
            self.kinds[self.lib.test_kind(name.encode())] = name.replace("ALLOCATOR_", "")
        self.fields, self.actions, self.moments = map(self.names, "fam")

    def names(self, which):
        names = []
        while (name := self.lib.test_name(ord(which), len(names))) is not None:
            names.append(name.decode())
        return names

    def facts(self):
        result = []
        for i in range(self.lib.test_fact_count()):
            fact = self.lib.test_fact(i).contents
            result.append((self.kinds[fact.kind], tuple(fact.argument), fact.text.decode()))
        return result

    def sites(self):
        """{site: [(file, function, line), ...]}, built as a reader of the recording does."""
        codes, counts, frames = {}, {}, {}
        for kind, a, text in self.facts():
            if kind == CODE:
                check(a[0] not in codes and a[1:] == (0, 0, 0), f"code {a}")
                name, file = text.split("\n")
                codes[a[0]] = (file, name)
            elif kind == SITE:
                check(a[0] not in counts, f"site {a[0]:#x} twice")
                counts[a[0]] = a[1]
            elif kind == FRAMES:
                for i, frame in enumerate(a[1:]):
                    if frame:
                        check(frame >> 62 == 2, f"not a Python frame: {frame:#x}")
                        line = frame & 0xffffffff
                        where = codes[frame >> 32 & 0x3fffffff] + (line if line < 1 << 31 else None,)
                        frames.setdefault(a[0] & 0xffffffff, {})[(a[0] >> 32) + i] = where
        check(set(counts) == set(frames), "a site without frames")
        for site, count in counts.items():
            check(sorted(frames[site]) == list(range(count)), f"frames of {site:#x}")
        return {site: [by_index[i] for i in sorted(by_index)] for site, by_index in frames.items()}

    def with_site(self, wanted):
        result = []
        for i in range(self.lib.test_fact_count()):
            fact = self.lib.test_fact(i).contents
            if self.kinds[fact.kind] == wanted:
                result.append((tuple(fact.argument), fact.site))
        return result

    def states(self):
        return {self.fields[a[0]]: a[1] for a in self.of(STATE)}

    def of(self, wanted):
        """The arguments of all facts of a kind."""
        return [a for kind, a, _ in self.facts() if kind == wanted]

    def notes(self):
        return [text for kind, _, text in self.facts() if kind == NOTE]

    def poke(self, times=1):
        for _ in range(times):
            self.lib.test_poke()
            run_pending()

    def take(self, bytes_, card=CARD):
        """Simulate a driver call that takes device memory."""
        self.lib.gwi_observer_taken(ctypes.c_uint64(bytes_), ctypes.c_uint64(card))
        self.poke(1)

    def start(self, **environment):
        for name, value in environment.items():
            ctypes.CDLL(None).setenv(name.encode(), value.encode(), 1)
        self.lib.test_start()

    def attach(self, times=1, **environment):
        """Start the observer, and poke it: with a usable torch, it attaches at the first poke."""
        self.start(**environment)
        self.poke(times)


def run_pending():
    """Pending calls run between instructions of the main thread."""
    for _ in range(200):
        pass


class FakeTorch:
    def __init__(self, initialized=True, importing=False):
        self.attached = []
        self.history_calls = []
        self.history_on = False
        self.stats = {"num_ooms": 1, "num_alloc_retries": 2,
                      "allocated_bytes": {"all": {"current": 30 * MIB, "peak": 50 * MIB}},
                      "requested_bytes": {"all": {"current": 30 * MIB, "peak": 50 * MIB}},
                      "reserved_bytes": {"all": {"current": 64 * MIB, "peak": 64 * MIB}},
                      "active_bytes": {"all": {"current": 30 * MIB, "peak": 50 * MIB}},
                      "inactive_split_bytes": {"all": {"current": 34 * MIB, "peak": 34 * MIB}}}
        self.snapshot = {"segments": [], "device_traces": [[]]}
        self.snapshot_arguments = []
        torch, c, cuda = (types.ModuleType(n) for n in ("torch", "torch._C", "torch.cuda"))
        for module in (torch, c, cuda):
            module.__spec__ = types.SimpleNamespace(_initializing=importing)
        torch.__version__ = "9.9.fake"
        torch._C, torch.cuda = c, cuda
        cuda._initialized = initialized
        cuda.default_generators = ()
        c._cuda_attach_out_of_memory_observer = self.attach
        c._cuda_memoryStats = self.take_stats
        c._cuda_memorySnapshot = self.take_snapshot
        c._cuda_isHistoryEnabled = lambda: self.history_on
        c._cuda_record_memory_history = self.record
        c._cuda_getMemoryFraction = lambda device: 0.5
        self.torch, self.c, self.cuda = torch, c, cuda
        sys.modules.update({"torch": torch, "torch._C": c, "torch.cuda": cuda})

    def attach(self, function):
        self.attached.append(function)

    def take_stats(self, device):
        if device == 0:
            return self.stats
        raise RuntimeError("Invalid device argument")

    def take_snapshot(self, argument):
        self.snapshot_arguments.append(argument)
        return self.snapshot

    def record(self, *arguments):
        if len(arguments) != 8:
            raise TypeError("record(): incompatible function arguments")
        self.history_calls.append(arguments)

    def fill(self):
        """Two live blocks, one pending, two cached; a history in which live bytes rise from round to round."""
        base = 0x7F0000000000
        blocks = [(20 * MIB, "active_allocated"), (10 * MIB, "inactive"), (10 * MIB, "active_allocated"),
                  (22 * MIB, "inactive"), (2 * MIB, "active_pending_free")]
        self.snapshot["segments"] = [
            {"device": 0, "address": base, "is_expandable": False,
             "blocks": [{"size": size, "state": state} for size, state in blocks]},
            {"device": 1, "address": base * 2, "is_expandable": True, "blocks": [{"size": 1, "state": "inactive"}]}]
        now = time.time_ns() // 1000
        trace, kept = [], 0
        for step in range(10):  # each round keeps 3 MiB and needs 8 MiB more for a short time
            t = now - (10 - step) * 1_000_000
            trace += [{"action": "alloc", "addr": base + 100 * step, "size": 8 * MIB, "time_us": t},
                      {"action": "free_requested", "addr": base + 100 * step, "size": 8 * MIB, "time_us": t + 5},
                      {"action": "free_completed", "addr": base + 100 * step, "size": 8 * MIB, "time_us": t + 10},
                      {"action": "alloc", "addr": base + 30 * MIB if step == 7 else 7, "size": 3 * MIB,
                       "time_us": t + 400_000}]
            kept += 3 * MIB
        trace.append({"action": "oom", "device_free": 5, "size": 99 * MIB, "time_us": now - 10})
        self.snapshot["device_traces"] = [trace]

    def fill_stacks(self, file="/w/train.py"):
        """Like fill(), with the stack of each allocation: train.py keeps 3 MiB a round (line 44), and needs 8 (line
        40)."""
        self.fill()

        def stack(line, function="train"):
            return [{"filename": file, "name": function, "line": line},
                    {"filename": file, "name": "<module>", "line": 90}]

        kept, passing, weights = stack(44), stack(40), stack(12, "build")
        for segment in self.snapshot["segments"]:
            for block in segment["blocks"]:
                block["frames"] = [] if block["state"] == "inactive" else list(weights)
        self.snapshot["segments"][0]["blocks"][2]["frames"] = list(kept)
        for entry in self.snapshot["device_traces"][0]:
            entry["frames"] = list(passing if entry["size"] == 8 * MIB else stack(61, "validate")
                                   if entry["action"] == "oom" else kept)


def check(condition, what):
    if not condition:
        raise AssertionError(what)


def refusing(text, calls):
    """A function that notes its arguments in `calls` and raises an error."""
    def refuse(*arguments):
        calls.append(arguments)
        raise RuntimeError(text)
    return refuse


def attached(lib, fill=None, course=False, history_on=False, **environment):
    """Start the observer beside a fake torch. Its first poke attaches it."""
    fake = FakeTorch()
    if fill:
        (fake.fill if fill == "blocks" else fake.fill_stacks)()
    fake.history_on = history_on
    if course:
        follow_course(lib)
    lib.attach(**environment)
    return fake


def report(lib, fake, *numbers):
    """Clear the facts, and let the observer report an out-of-memory. Without `numbers`, 99 MiB were requested."""
    lib.lib.test_clear()
    return fake.attached[0](0, *numbers or (99 * MIB, 64 * MIB, 5))


def end(lib):
    """Clear the facts, and end the program."""
    lib.lib.test_clear()
    atexit._run_exitfuncs()


def check_child(action, what):
    """Run `action` in a forked child. It returns True if all is well."""
    child = os.fork()
    if child == 0:
        os._exit(0 if action() else 1)
    check(os.waitpid(child, 0)[1] == 0, what)


def check_error_in_flight(action):
    """An exception that is being handled is the same after `action`."""
    try:
        try:
            {}["missing"]
        except KeyError:
            action()
            raise
    except KeyError as error:
        check(error.args == ("missing",), error.args)


def poke_from_threads(lib):
    for _ in range(2):
        lib.lib.test_poke_from_threads(8)
        run_pending()


# ---- tests: each gets the library ----

def test_no_torch(lib):
    lib.attach(50)
    check(lib.facts() == [], lib.facts())


def test_torch_half_imported(lib):
    fake = FakeTorch(importing=True)
    lib.attach(10)
    check(fake.attached == [] and lib.facts() == [], "touched a half-imported torch")
    for module in (fake.torch, fake.c, fake.cuda):
        module.__spec__._initializing = False
    lib.poke(1)
    check(len(fake.attached) == 1, "not attached once the import was complete")


def test_cuda_not_initialised(lib):
    fake = FakeTorch(initialized=False)
    lib.attach(14)
    check(fake.attached == [] and fake.history_calls == [] and fake.snapshot_arguments == [], "made torch start CUDA")
    fake.cuda._initialized = True
    lib.poke(1)
    check(len(fake.attached) == 1, "not attached")


def test_initialised_in_its_native_part(lib):
    fake = FakeTorch(initialized=False)
    lib.attach()
    check(fake.attached == [], "attached too early")
    fake.cuda.default_generators = (object(),)
    lib.poke(1)
    check(len(fake.attached) == 1, "not attached")


def test_modules_are_strange(lib):
    FakeTorch()
    lib.lib.test_start()
    for value in (None, 5, "text", object()):
        sys.modules["torch"] = value
        lib.poke(1)
    FakeTorch()
    sys.modules["torch._C"] = None
    lib.poke(1)
    check(lib.facts() == [], lib.facts())


def test_switched_off(lib):
    fake = FakeTorch()
    lib.attach(20, GPUWHY_ATTACH="0")
    check(fake.attached == [] and lib.facts() == [], "attached although switched off")


def test_refusal(lib):
    fake = FakeTorch()
    calls = []
    fake.c._cuda_attach_out_of_memory_observer = refusing(
        "cudaMallocAsync does not yet support attachOutOfMemoryObserver.\nSecond line", calls)
    lib.attach(10)
    check(len(calls) == 3, f"{len(calls)} attempts")
    check(lib.notes() == ["cudaMallocAsync does not yet support attachOutOfMemoryObserver."], lib.notes())
    check(fake.history_calls == [], "history on although refused")


def test_attach(lib):
    fake = FakeTorch()
    lib.attach(20)
    check(len(fake.attached) == 1, f"attached {len(fake.attached)} times")
    check(fake.history_calls == [], fake.history_calls)
    check(lib.notes() == ["PyTorch 9.9.fake; no history until a sixteenth of the card's memory is allocated"], lib.notes())


SWITCH_ON = ("all", None, "python", 100000, False, False, False, ["free_requested"])
ON_SINCE = "history of 100000 entries without stacks, turned on when {} MiB of device memory had been allocated"


def test_history_waits_for_memory_use(lib):
    fake = attached(lib)
    for _ in range(1023):
        lib.take(MIB)
    lib.take(MIB - 1)
    lib.poke(50)
    check(fake.history_calls == [] and len(lib.notes()) == 1, "switched on one byte too early")
    lib.take(1)
    check(fake.history_calls == [SWITCH_ON], fake.history_calls)
    check(lib.notes()[1:] == [ON_SINCE.format(1024)], lib.notes())
    for _ in range(20):
        lib.take(1024 * MIB)
    check(len(fake.history_calls) == 1 and len(lib.notes()) == 2 and len(fake.attached) == 1, "switched on again")


def test_history_at_once_when_much_was_taken_before(lib):
    fake = FakeTorch(initialized=False)
    lib.start()
    lib.take(2000 * MIB)
    check(fake.attached == [], "attached too early")
    fake.cuda._initialized = True
    lib.poke(1)
    check(fake.history_calls == [SWITCH_ON], fake.history_calls)
    check(lib.notes() == ["PyTorch 9.9.fake; " + ON_SINCE.format(2000)], lib.notes())


def test_card_of_unknown_size(lib):
    """The sum is stored and compared once the card's size is known."""
    fake = attached(lib)
    lib.take(5000 * MIB, card=0)
    check(fake.history_calls == [], "a size out of nothing")
    lib.take(1)
    check(fake.history_calls == [SWITCH_ON], fake.history_calls)


def test_history_forced(lib):
    fake = attached(lib, GPUWHY_HISTORY="500")
    check(fake.history_calls == [("all", None, "python", 500, False, False, False, ["free_requested"])],
          fake.history_calls)
    check(lib.notes() == ["PyTorch 9.9.fake; history of 500 entries without stacks, from the start"], lib.notes())
    lib.take(CARD)
    check(len(fake.history_calls) == 1, fake.history_calls)


def test_history_forced_off(lib):
    fake = attached(lib, fill="blocks", GPUWHY_HISTORY="0")
    lib.take(CARD)
    fake.attached[0](0, 1, 2, 3)
    lib.take(CARD)
    check(fake.history_calls == [], fake.history_calls)
    check(lib.notes() == ["PyTorch 9.9.fake; no history"], lib.notes())


def test_history_refused_later(lib):
    fake = attached(lib)
    calls = []
    fake.c._cuda_record_memory_history = refusing("not today", calls)
    lib.take(CARD)
    check(len(calls) == 1 and lib.notes()[1:] == ["no history: not today"], lib.notes())
    fake.c._cuda_record_memory_history = fake.record
    lib.poke(1)
    check(fake.history_calls == [SWITCH_ON], "not tried again")
    check(lib.notes()[2:] == [ON_SINCE.format(16384)], lib.notes())


def test_history_refused_for_good(lib):
    fake = attached(lib)
    calls = []
    fake.c._cuda_record_memory_history = refusing("not today", calls)
    lib.take(CARD)
    lib.poke(30)
    check(len(calls) == 3 and lib.notes()[1:] == ["no history: not today"], (len(calls), lib.notes()))


def test_own_history_begun_after_the_attach(lib):
    fake = attached(lib)
    fake.history_on = True
    lib.take(CARD)
    lib.poke(5)
    check(fake.history_calls == [], "touched the program's own history")
    check(lib.notes()[1:] == ["no history from gpuwhy: the program has turned it on itself"], lib.notes())


def test_oom_without_history(lib):
    """The first report lacks only the ages; the next one has them."""
    fake = FakeTorch()
    fake.fill()
    fake.snapshot["device_traces"] = [[]]
    lib.attach()
    report(lib, fake)
    blocks = lib.of(BLOCK)
    check(len(blocks) == 3 and all(b[2] == UNKNOWN for b in blocks), blocks)
    check(lib.states()["history_entry_count"] == 0 and "history_age_ns" not in lib.states(), lib.states())
    check(fake.history_calls == [], "switched on inside the report")
    lib.poke(1)
    check(fake.history_calls == [SWITCH_ON], fake.history_calls)
    fake.attached[0](0, 99 * MIB, 64 * MIB, 5)
    check(0 < lib.states()["history_age_ns"] < 60e9, lib.states())


def test_threads_begin_history_once(lib):
    fake = attached(lib)
    lib.lib.gwi_observer_taken(ctypes.c_uint64(CARD), ctypes.c_uint64(CARD))
    poke_from_threads(lib)
    check(len(fake.history_calls) == 1, f"{len(fake.history_calls)} times")


def test_error_in_flight_survives_the_history(lib):
    fake = attached(lib)
    check_error_in_flight(lambda: lib.take(CARD))
    check(len(fake.history_calls) == 1, fake.history_calls)


def test_forked_child_begins_no_history(lib):
    fake = attached(lib)

    def in_child():
        fake.c._cuda_isHistoryEnabled = fake.c._cuda_record_memory_history = lambda *_: os._exit(2)
        lib.lib.gwi_observer_forked()
        lib.take(CARD)
        lib.poke(5)
        return True

    check_child(in_child, "PyTorch was asked in the child")
    lib.take(CARD)
    check(fake.history_calls == [SWITCH_ON], "the parent's history did not begin")


# ---- with stacks ----

DEEP = ("all", "alloc", "python", 100000, False, False, False, ["free_requested"])


def test_deep_is_on_from_the_attach(lib):
    fake = attached(lib, GPUWHY_DEEP="1")
    check(fake.history_calls == [DEEP], fake.history_calls)
    check(lib.notes() == ["PyTorch 9.9.fake; history of 100000 entries with Python stacks, from the start"], lib.notes())
    lib.take(CARD)
    check(len(fake.history_calls) == 1, fake.history_calls)


def test_deep_with_a_length_of_its_own(lib):
    fake = attached(lib, GPUWHY_DEEP="1", GPUWHY_HISTORY="300")
    check([c[:4] for c in fake.history_calls] == [("all", "alloc", "python", 300)], fake.history_calls)


def test_deep_without_history(lib):
    fake = attached(lib, GPUWHY_DEEP="1", GPUWHY_HISTORY="0")
    check(fake.history_calls == [] and lib.notes() == ["PyTorch 9.9.fake; no history"], lib.notes())


def test_deep_leaves_the_programs_history_alone(lib):
    fake = attached(lib, fill="stacks", history_on=True, GPUWHY_DEEP="1")
    check(fake.history_calls == [], "touched the program's own history")
    fake.attached[0](0, 99 * MIB, 64 * MIB, 5)
    # blocks freed since the peak may have the stack of their free, so they must get no line
    check(len(lib.sites()) == 3, lib.sites())


def test_deep_tells_lines(lib):
    fake = attached(lib, fill="stacks", GPUWHY_DEEP="1")
    report(lib, fake)
    sites = lib.sites()
    innermost = {site: frames[0] for site, frames in sites.items()}
    check(all(s > FIRST_SITE for s in sites) and all(len(f) == 2 for f in sites.values()), sites)
    blocks = [(a[1] // MIB, innermost.get(site)) for a, site in lib.with_site(BLOCK)]
    weights, kept = ("/w/train.py", "build", 12), ("/w/train.py", "train", 44)
    check(blocks == [(20, weights), (10, kept), (2, weights)], blocks)
    held = [(lib.moments[a[0]], a[1] // MIB, a[2], innermost.get(site)) for a, site in lib.with_site(HELD)]
    check(held[0] == ("request", 99, 1, ("/w/train.py", "validate", 61)), held)
    # Going back from the end of the history: the last 8 MiB were already freed, and one of the last 3 MiB was not
    # allocated yet.
    peak = {where: (mib, count) for moment, mib, count, where in held if moment == "peak"}
    check(peak[("/w/train.py", "train", 40)] == (8, 1), held)
    check(sum(mib for mib, _ in peak.values()) >= 30, held)


def test_deep_writes_each_stack_once(lib):
    fake = attached(lib, fill="stacks", GPUWHY_DEEP="1")
    for _ in range(5):
        fake.fill_stacks()  # equal stacks in new objects
        fake.attached[0](0, 99 * MIB, 64 * MIB, 5)
    sites = lib.sites()  # fails if a site was written twice
    check(len(sites) == 4, sites)
    used = {site for _, site in lib.with_site(BLOCK)} | {site for _, site in lib.with_site(HELD)}
    check(used <= set(sites) | {0}, "a site that nobody told")


def test_deep_writes_again_what_found_no_room(lib):
    fake = attached(lib, fill="stacks", GPUWHY_DEEP="1")

    def report():
        before = len(lib.with_site(BLOCK)), len(lib.with_site(HELD))
        fake.attached[0](0, 99 * MIB, 64 * MIB, 5)
        return [site for _, site in lib.with_site(BLOCK)[before[0]:] + lib.with_site(HELD)[before[1]:]]

    for number, kind in enumerate((CODE, SITE, FRAMES)):
        fake.fill_stacks(f"/w/train{number}.py")  # new stacks
        lib.lib.test_refuse(lib.lib.test_kind(kind.encode()), 1000)
        without = report().count(0)
        lib.lib.test_refuse(0, 0)
        full = report()
        check(without > full.count(0), f"a site although there was no room for a {kind}: {without}, {full}")
        missing = {}
        for fact, a, _ in lib.facts():
            if fact == SITE:
                missing[a[0]] = a[1]
            elif fact == FRAMES:
                missing[a[0] & 0xffffffff] -= sum(1 for frame in a[1:] if frame)
        check(all(missing[site] == 0 for site in full if site != 0), (kind, full, missing))


def test_deep_at_the_end(lib):
    fake = attached(lib, fill="stacks", GPUWHY_DEEP="1")
    end(lib)
    check(lib.states().get("when") == 1, lib.states())
    check([site != 0 for _, site in lib.with_site(BLOCK)] == [True] * 3, lib.with_site(BLOCK))
    check(lib.of(HISTORY), "no history at the end")
    check(lib.lib.test_guard_depth() == 0, "a guard was left open")


def test_deep_is_bounded(lib):
    """More stacks, deeper stacks and more blocks than the limits."""
    fake = FakeTorch()

    def stack(i):
        return [{"filename": f"/w/{i % 97}.py", "name": f"f{k}_{i % 5000}", "line": i} for k in range(70)]

    now = time.time_ns() // 1000
    fake.snapshot["segments"] = [{"device": 0, "address": 1 << 30, "is_expandable": False, "blocks": [
        {"size": 1 << 20, "state": "active_allocated", "frames": stack(i)} for i in range(3000)]}]
    fake.snapshot["device_traces"] = [[
        {"action": "alloc", "addr": 7000 + i, "size": 10, "time_us": now + i, "frames": stack(i)} for i in range(500)]]
    lib.attach(GPUWHY_DEEP="1")
    report(lib, fake, 1, 2, 3)
    sites = lib.sites()
    check(50 < len(sites) <= 2048, len(sites))
    check(all(len(frames) == 48 for frames in sites.values()), "not cut")
    codes = len(lib.of(CODE))
    check(codes <= 4096, codes)
    check(len(lib.with_site(BLOCK)) == 3000, len(lib.with_site(BLOCK)))
    held = lib.with_site(HELD)
    check(sum(a[1] for a, _ in held) == 3000 << 20, "what was held at the peak does not add up")


def test_deep_hostile_frames(lib):
    fake = attached(lib, GPUWHY_DEEP="1")
    now = time.time_ns() // 1000
    for nasty in (None, 5, "text", [], {}, [None], [5], [{}], [{"filename": 5, "name": None, "line": "x"}], b"\xff",
                  [{"filename": "\ud800", "name": "f", "line": 1}], [{"filename": "f", "name": "n", "line": -1}],
                  [{"filename": "f\n", "name": "n\n", "line": 1 << 70}], [[[]]]):
        fake.snapshot["segments"] = [{"device": 0, "address": 4096, "blocks": [
            {"size": 512, "state": "active_allocated", "frames": nasty},
            {"size": 512, "state": "active_allocated", "history": nasty},
            {"size": 512, "state": "active_allocated", "history": [{"frames": nasty}]}]}]
        fake.snapshot["device_traces"] = [[
            {"action": action, "addr": 4096, "size": 512, "time_us": now, "frames": nasty}
            for action in ("alloc", "free_completed", "oom")]]
        check(fake.attached[0](0, 1, 2, 3) is None, "not None")


def test_deep_walk_is_quick_enough(lib):
    fake = FakeTorch()
    now = time.time_ns() // 1000
    shared = [{"filename": f"/w/{i % 50}.py", "name": f"f{i}", "line": i} for i in range(600)]
    fake.snapshot["device_traces"] = [[
        {"action": ("alloc", "free_completed")[i % 2], "addr": 4096 * (i // 2 % 5000 + 1), "size": 1000,
         "time_us": now - 200_000 + i * 2, "frames": shared[i % 500:i % 500 + 25]} for i in range(100_000)]]
    lib.attach(GPUWHY_DEEP="1")
    lib.lib.test_clear()
    begin = time.monotonic()
    fake.attached[0](0, 1, 2, 3)
    print(f"      100,000 entries with 25 frames walked in {(time.monotonic() - begin) * 1e3:.0f} ms")


def test_old_signature(lib):
    fake = FakeTorch()
    calls = []

    def record(enabled, context, stacks, max_entries):
        calls.append((enabled, context, stacks, max_entries))

    fake.c._cuda_record_memory_history = record
    lib.attach(GPUWHY_HISTORY="100000")
    check(calls == [("all", None, "python", 100000)], calls)


def test_history_fails(lib):
    fake = FakeTorch()
    fake.c._cuda_record_memory_history = refusing("not today", [])
    lib.attach(GPUWHY_HISTORY="100000")
    check(lib.notes() == ["PyTorch 9.9.fake; no history: not today"], lib.notes())


def test_own_history(lib):
    fake = attached(lib, history_on=True, GPUWHY_HISTORY="100000")
    check(fake.history_calls == [] and len(fake.attached) == 1, "touched the program's own history")


def test_cannot_tell_history(lib):
    fake = FakeTorch()
    del fake.c._cuda_isHistoryEnabled
    lib.attach(GPUWHY_HISTORY="100000")
    check(fake.history_calls == [] and len(fake.attached) == 1, "history on although it cannot tell whose it is")


def test_oom(lib):
    fake = FakeTorch()
    filled_ns = time.time_ns()
    fake.fill()
    lib.attach()
    check(report(lib, fake) is None, "the observer's result")
    facts = lib.facts()
    check(facts[0][:2] == (OOM, (99 * MIB, 64 * MIB, 5, 0)), facts[0])
    states = lib.states()
    wanted = {"when": 0, "allocated_bytes": 30 * MIB, "reserved_bytes": 64 * MIB, "inactive_split_bytes": 34 * MIB,
              "largest_inactive_block_bytes": 22 * MIB, "segment_count": 1, "retry_count": 2, "expandable_segments": 0,
              "out_of_memory_count": 1, "limit_bytes": 64 * MIB, "history_entry_count": 41,
              "allocated_peak_bytes": 50 * MIB}
    for name, value in wanted.items():
        check(states.get(name) == value, f"{name}: {states.get(name)}, not {value}")
    blocks = [a for kind, a, _ in facts if kind == BLOCK]
    base = 0x7F0000000000
    check([(b[0], b[1], b[3]) for b in blocks] ==
          [(base, 20 * MIB, 0), (base + 30 * MIB, 10 * MIB, 0), (base + 62 * MIB, 2 * MIB, 1)], blocks)
    # The first block's address is that of round 0's temporary, which is its only allocation.
    passed_ns = time.time_ns() - filled_ns
    check(2.599e9 < blocks[1][2] < 2.601e9 + passed_ns, f"age {blocks[1][2]}, {passed_ns} ns after 2.6 s")
    check(blocks[2][2] == UNKNOWN, "an age out of nothing")
    spans = [(lib.actions[a[0]], a[2], a[3]) for kind, a, _ in facts if kind == HISTORY]
    lows = [bytes_ for action, bytes_, _ in spans if action == "live_low"]
    peaks = [bytes_ for action, bytes_, _ in spans if action == "live_peak"]
    check(lows == sorted(lows) and lows[0] < lows[-1], f"the lows do not rise: {lows}")
    check(max(peaks) == 35 * MIB, f"peak {max(peaks) / MIB}")
    check(peaks[-1] == 30 * MIB, f"end {peaks[-1] / MIB}")
    ages = [age for action, _, age in spans if action == "live_peak"]
    check(ages == sorted(ages, reverse=True), "not in order of time")
    singles = [action for action, _, _ in spans if not action.startswith("live_")]
    check(singles.count("alloc") == 20 and singles[-1] == "oom", singles)


def test_probing_stays_cheap(lib):
    """The first out-of-memories are read in full, later ones only after a pause. The block map is always read."""
    fake = FakeTorch()
    fake.fill()
    fake.snapshot["device_traces"][0] *= 500  # so that reading takes some time
    lib.attach()
    for _ in range(30):
        report(lib, fake, 4, 5, 6)
    check(lib.of(HISTORY) == [], "the thirtieth in a row read the history")
    check(lib.states()["largest_inactive_block_bytes"] == 22 * MIB, "no block map")
    full = fake.snapshot_arguments.count(None)
    check(8 <= full <= 12 and fake.snapshot_arguments[-1] == (0, 0, False), fake.snapshot_arguments)


def follow_course(lib, address=0x7F0000000000, order=7, age_ns=1000, site=33, wanted_site=44):
    lib.lib.test_course(*(ctypes.c_uint64(n) for n in (address, order, age_ns)), site, wanted_site)


def test_course_needs_no_history(lib):
    """If the hook follows the blocks itself, no history is enabled, whatever the program allocates."""
    fake = FakeTorch()
    follow_course(lib)
    lib.attach(2)
    lib.take(CARD)
    lib.poke(3)
    check(fake.attached and fake.history_calls == [], fake.history_calls)
    check(any("followed from the first one on" in text for text in lib.notes()), lib.notes())


def test_course_beside_a_wanted_history(lib):
    fake = FakeTorch()
    follow_course(lib)
    lib.attach(2, GPUWHY_HISTORY="500")
    check(len(fake.history_calls) == 1, fake.history_calls)


def test_oom_with_course(lib):
    """Blocks have order, age and site from the course, no history is read, and the refused request has a site."""
    fake = attached(lib, fill="blocks", course=True)
    report(lib, fake)
    check(lib.with_site(OOM) == [((99 * MIB, 64 * MIB, 5, 0), 44)], lib.with_site(OOM))
    check(lib.states()["course_request_count"] == 1, lib.states())
    check(lib.of(HISTORY) == [], "a history was read")
    check(fake.snapshot_arguments[-1] == (0, 0, False), fake.snapshot_arguments)
    blocks = {a[0]: (a[1:], site) for a, site in lib.with_site(BLOCK)}
    base = 0x7F0000000000
    check(blocks[base] == ((20 * MIB, 1000, 7 << 8), 33), blocks[base])
    check(blocks[base + 30 * MIB] == ((10 * MIB, UNKNOWN, 0), 0), blocks)


def test_course_while_probing(lib):
    """After many refusals, a report has only the totals of the course, but blocks still have order, age and site."""
    fake = FakeTorch()
    fake.fill()
    fake.history_on = True
    fake.snapshot["device_traces"][0] *= 500  # so that reading takes some time
    follow_course(lib)
    lib.attach()
    for _ in range(30):
        report(lib, fake, 4, 5, 6)
    check(lib.of(HISTORY) + lib.of(REQUESTS) == [], "the thirtieth in a row was full")
    check(lib.states()["course_request_count"] == 1, lib.states())
    blocks = {a[0]: (a[1:], site) for a, site in lib.with_site(BLOCK)}
    check(blocks[0x7F0000000000] == ((20 * MIB, 1000, 7 << 8), 33), blocks)


def test_oom_with_course_and_own_history(lib):
    """Stacks that the program records itself are still read."""
    fake = attached(lib, fill="blocks", course=True, history_on=True)
    report(lib, fake)
    check(lib.states()["history_entry_count"] == 41, lib.states())
    check(lib.states()["course_request_count"] == 1, lib.states())


def end_with_course(lib, **environment):
    fake = attached(lib, fill="blocks", course=True, **environment)
    end(lib)
    check(lib.states().get("when") == 1, lib.states())
    check(lib.of(HISTORY) == [], "a history was read")
    return lib.states().get("course_request_count")


def test_course_at_the_end(lib):
    """Only with --allocations: the course may be large."""
    check(end_with_course(lib) is None, lib.states())


def test_allocations_at_the_end(lib):
    check(end_with_course(lib, GPUWHY_ALLOCATIONS="1") == 1, lib.states())


def test_many_blocks(lib):
    fake = FakeTorch()
    fake.snapshot["segments"] = [{"device": 0, "address": 4096, "is_expandable": True,
                                  "blocks": [{"size": 512 + i, "state": "active_allocated"} for i in range(18000)]}]
    lib.attach()
    report(lib, fake, 1, 2, 3)
    blocks = lib.of(BLOCK)
    check(len(blocks) == 16385, len(blocks))
    check(blocks[0][1] == 512 + 17999 and blocks[-1] == (1616, sum(512 + i for i in range(1616)), UNKNOWN, 3),
          blocks[-1])


def test_long_history(lib):
    fake = FakeTorch()
    now = time.time_ns() // 1000
    fake.snapshot["device_traces"] = [[
        {"action": ("alloc", "free_completed")[i % 2], "addr": i // 2, "size": 1000, "time_us": now - 200_000 + i * 2}
        for i in range(100_000)]]
    lib.attach()
    lib.lib.test_clear()
    begin = time.monotonic()
    fake.attached[0](0, 1, 2, 3)
    took_ms = (time.monotonic() - begin) * 1e3
    history = lib.of(HISTORY)
    check(len(history) <= 2 * 512 + 512, len(history))
    print(f"      100,000 entries walked in {took_ms:.0f} ms")


def test_hostile_answers(lib):
    fake = attached(lib)
    observer = fake.attached[0]

    class Nasty:
        def __index__(self):
            raise ValueError("nasty")

        def __bool__(self):
            raise ValueError("nasty")

        def __str__(self):
            raise ValueError("nasty")

    def fail(*_):
        raise ValueError(Nasty())

    nasties = (None, 5, -1, 1.5, "text", [], {}, [None], [5], {"all": 3}, Nasty(), 1 << 80, [{"device": 0, "blocks": 7}],
               [{"device": 0, "blocks": [None, 5, {"size": -1}, {"size": "x", "state": 4}]}], [[None, 5, {"action": 7}]],
               [[{"action": "alloc", "addr": -5, "size": -1, "time_us": -1}] * 5], b"\xff", "\ud800")
    for nasty in nasties:
        fake.stats = nasty
        fake.snapshot = nasty
        fake.c._cuda_getMemoryFraction = lambda device: nasty
        check(observer(0, 1, 2, 3) is None, "not None")
        fake.stats = dict.fromkeys(("allocated_bytes", "num_ooms", "requested_bytes"), nasty)
        fake.snapshot = {"segments": nasty, "device_traces": nasty}
        check(observer(0, 1, 2, 3) is None, "not None")
        check(observer(nasty, nasty, nasty, nasty) is None, "not None")
    check(observer() is None and observer(1) is None and observer(*range(9)) is None, "odd counts")
    fake.c._cuda_memoryStats = fake.c._cuda_memorySnapshot = fake.c._cuda_getMemoryFraction = fail
    check(observer(0, 1, 2, 3) is None, "raised what torch raised")
    del fake.c._cuda_memoryStats
    del fake.c._cuda_memorySnapshot
    check(observer(0, 1, 2, 3) is None, "raised")
    check("this PyTorch has no torch._C._cuda_memorySnapshot" in lib.notes(), lib.notes())


def test_hostile_first_history(lib):
    """The same values while the history is read, which happens only at the first read."""
    fake = FakeTorch()
    trace = [None, 5, {"action": 7}, {"action": "alloc", "addr": -5, "size": -1, "time_us": -1}, {},
             {"action": "alloc", "addr": "x", "size": None, "time_us": []},
             {"action": "free_completed", "addr": 1 << 70, "size": 1 << 70, "time_us": 1 << 70}]
    fake.snapshot["device_traces"] = [trace * 50]
    lib.attach()
    check(fake.attached[0](0, 1, 2, 3) is None, "raised")


def test_threads_attach_once(lib):
    fake = FakeTorch()
    lib.lib.test_start()
    poke_from_threads(lib)
    check(len(fake.attached) == 1, f"attached {len(fake.attached)} times")


def test_oom_on_a_thread(lib):
    fake = attached(lib, fill="blocks")
    lib.lib.test_clear()
    thread = threading.Thread(target=fake.attached[0], args=(0, 1, 2, 3))
    thread.start()
    thread.join()
    check(lib.facts()[0][0] == OOM, "nothing written")


def test_error_in_flight_survives(lib):
    fake = FakeTorch()
    fake.fill()
    lib.lib.test_start()
    check_error_in_flight(lambda: (lib.poke(1), fake.attached[0](0, 1, 2, 3)))


def test_forked_child_attaches(lib):
    fake = FakeTorch(initialized=False)
    lib.lib.test_start()
    lib.lib.test_poke()

    def in_child():
        lib.lib.gwi_observer_forked()
        fake.cuda._initialized = True
        lib.poke(5)
        return len(fake.attached) == 1

    check_child(in_child, "the child's observer was not attached once")


class FakeArray:
    def __init__(self, shape, dtype="float32", nbytes=None, on=()):
        self.shape, self.dtype, self._bytes, self._devices = shape, dtype, nbytes, set(on)

    @property
    def nbytes(self):
        if self._bytes is None:
            raise RuntimeError("Array has been deleted.")
        return self._bytes

    def devices(self):
        return self._devices


class FakeDevice:
    def __init__(self, number, used):
        self.number = number
        self.memory_stats = lambda: {"bytes_in_use": used, "bytes_limit": 4096 * MIB, "peak_bytes_in_use": used + 50 * MIB}

    def __repr__(self):
        return f"CudaDevice(id={self.number})"

    def __str__(self):
        return f"cuda:{self.number}"


class FakeJax:
    def __init__(self, arrays, devices=None):
        self.asked = 0
        self.module = sys.modules["jax"] = types.ModuleType("jax")

        def live_arrays():
            self.asked += 1
            return arrays

        self.module.live_arrays, self.module.local_devices = live_arrays, lambda: devices or [FakeDevice(0, 4000 * MIB)]


def end_with(lib, message):
    lib.attach()
    lib.lib.test_clear()
    sys.last_exc = sys.last_value = RuntimeError(message) if message else None
    atexit._run_exitfuncs()
    return [(kind, a, text) for kind, a, text in lib.facts() if kind.startswith("ARRAYS")]


JAX_OOM = "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5520758552 bytes."


def test_jax_arrays_at_its_oom(lib):
    """Live arrays by type and shape, sorted by bytes; a deleted array is not counted."""
    FakeJax([FakeArray((1024, 1024), nbytes=4 * MIB) for _ in range(900)] + [FakeArray((5,), "int32", 20), FakeArray((9,))] +
            [FakeArray((), "bfloat16", 2), FakeArray((64, 1024, 1024), nbytes=256 * MIB)])
    facts = end_with(lib, JAX_OOM)
    check(facts == [("ARRAYS_OOM", (5520758552, 4000 * MIB, 4096 * MIB, 4050 * MIB), "JAX"),
                    ("ARRAYS", (4 * MIB, 900, 0, 0), "float32[1024,1024]"),
                    ("ARRAYS", (256 * MIB, 1, 0, 0), "float32[64,1024,1024]"),
                    ("ARRAYS", (20, 1, 0, 0), "int32[5]"), ("ARRAYS", (2, 1, 0, 0), "bfloat16[]")], facts)


def test_jax_many_kinds(lib):
    FakeJax([FakeArray((i,), nbytes=4 * i) for i in range(1, 1001)])
    facts = end_with(lib, "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 5.14GiB.")
    check(facts[0][1][0] == 0, "an exact size out of a rounded one")
    listed = [a for kind, a, _ in facts if kind == "ARRAYS"]
    check(len(listed) == 33 and sum(a[1] for a in listed) == 1000, listed)
    check(sum(a[0] for a in listed) == sum(4 * i for i in range(1, 1001)), "bytes of all of them")


def test_jax_is_asked_only_at_its_oom(lib):
    """JAX is not queried at a normal exit."""
    jax = FakeJax([FakeArray((5,), nbytes=20)])
    check(end_with(lib, None) == [] and jax.asked == 0, "asked at a good end")


def test_jax_is_not_asked_at_another_exception(lib):
    jax = FakeJax([FakeArray((5,), nbytes=20)])
    check(end_with(lib, "shapes do not match") == [] and jax.asked == 0, "asked at another exception")


def test_jax_on_several_devices(lib):
    """Only arrays of the fullest device count. How much of a spread array is on each device is unknown."""
    one, two, three = devices = [FakeDevice(0, 3 * MIB), FakeDevice(1, 4000 * MIB), FakeDevice(2, 0)]
    FakeJax([FakeArray((1 << 20,), nbytes=4 * MIB, on=[two]) for _ in range(900)] + [FakeArray((7,), nbytes=28, on=[one])] +
            [FakeArray((8,), nbytes=32, on=[one, two]), FakeArray((9,), nbytes=36), FakeArray((3,), nbytes=12, on=[three])], devices)
    facts = end_with(lib, JAX_OOM)
    check(facts == [("ARRAYS_OOM", (5520758552, 4000 * MIB, 4096 * MIB, 4050 * MIB), "JAX"),
                    ("ARRAYS", (4 * MIB, 900, 0, 0), "float32[1048576]")], facts)


def test_jax_on_devices_without_a_name(lib):
    """A device that cannot be printed, or whose name is too long: whose arrays these are is unknown."""
    class Odd(FakeDevice):
        def __repr__(self):
            return "x" * 1000
    devices = [Odd(0, 1), Odd(1, 2)]
    FakeJax([FakeArray((5,), nbytes=20, on=devices[1:])], devices)
    facts = end_with(lib, JAX_OOM)
    check(not [fact for fact in facts if fact[0] == "ARRAYS"], facts)


def test_jax_hostile(lib):
    """Whatever JAX returns, nothing is raised."""
    jax = FakeJax([FakeArray((5,), nbytes="many"), None, 7, FakeArray(None, None, -1)])
    end_with(lib, JAX_OOM)
    check(jax.asked == 1, "not asked")


def test_jax_raises(lib):
    jax = FakeJax([])
    jax.module.live_arrays = refusing("no backend", [])
    facts = end_with(lib, JAX_OOM)
    check([kind for kind, *_ in facts] == ["ARRAYS_OOM"], facts)


def test_jax_without_the_names(lib):
    sys.modules["jax"] = types.ModuleType("jax")
    check(end_with(lib, JAX_OOM) == [], "facts out of nothing")


def test_jax_in_a_forked_child(lib):
    jax = FakeJax([FakeArray((5,), nbytes=20)])
    lib.attach()
    child = os.fork()
    if child == 0:
        sys.last_exc = sys.last_value = RuntimeError(JAX_OOM)
        atexit._run_exitfuncs()
        os._exit(jax.asked)
    check(os.waitpid(child, 0)[1] == 0, "the child asked its parent's JAX")


def test_end_of_run(lib):
    fake = attached(lib, fill="blocks")
    end(lib)
    states = lib.states()
    check(states.get("when") == 1 and states.get("allocated_bytes") == 30 * MIB, states)
    check(lib.of(HISTORY) == [], "history at the end")
    check(lib.notes() == [], lib.notes())


def test_forked_child_is_left_alone(lib):
    """A child inherits an attached observer. PyTorch's locks may be held forever there."""
    fake = attached(lib)
    check(len(fake.attached) == 1, "not attached")
    lib.lib.test_clear()
    child = os.fork()
    if child == 0:
        fake.c._cuda_memoryStats = fake.c._cuda_memorySnapshot = fake.c._cuda_getMemoryFraction = lambda *_: os._exit(2)
        lib.lib.gwi_observer_forked()
        fake.attached[0](0, 1, 2, 3)
        atexit._run_exitfuncs()
        os._exit(0 if lib.facts() == [] else 1)
    check(os.waitpid(child, 0)[1] == 0, "PyTorch was asked in the child")
    fake.attached[0](0, 1, 2, 3)
    check(lib.facts() != [], "no longer heard in the parent")


def test_modules_are_cleared_at_the_end(lib):
    fake = attached(lib)
    observer = fake.attached[0]
    for name in ("torch", "torch._C", "torch.cuda"):
        del sys.modules[name]
    fake.torch = fake.c = fake.cuda = None
    spare = [types.ModuleType("spare") for _ in range(50)]  # reuses the freed memory
    observer(0, 1, 2, 3)
    check(spare and lib.states().get("allocated_bytes") == 30 * MIB, lib.facts())


def test_no_leaked_references(lib):
    fake = attached(lib, fill="blocks")
    observer = fake.attached[0]
    objects = [fake.stats, fake.snapshot, fake.snapshot["segments"], fake.c.__dict__["_cuda_memoryStats"], MIB]
    for _ in range(3):
        observer(0, 1, 2, 3)
    before = [sys.getrefcount(o) for o in objects]
    fake.snapshot_arguments.clear()
    for _ in range(100):
        observer(0, 1, 2, 3)
    fake.snapshot_arguments.clear()
    after = [sys.getrefcount(o) for o in objects]
    check(before == after, f"{before} became {after}")
    none_before = sys.getrefcount(None)
    for _ in range(1000):
        observer(0, 1, 2, 3)
    fake.snapshot_arguments.clear()
    check(sys.getrefcount(None) - none_before < 100, "references to None grow")


def test_a_missing_function_is_named(lib):
    for symbol in (b"PyType_GetFlags", b"PyWrapperDescr_Type", b"_Py_NoneStruct"):
        lib.lib.test_clear()
        lib.lib.test_hide(symbol)
        lib.attach()
        facts = lib.facts()
        check(len(facts) == 1 and facts[0][0] == NOTE, facts)
        check(facts[0][2] == f"this Python has no {symbol.decode()}", facts)


def test_without_python_there_is_no_note(lib):
    lib.lib.test_hide(b"Py_IsInitialized")
    lib.attach()
    check(lib.facts() == [], lib.facts())


def run_one(name, path):
    lib = Library(path)
    globals()[name](lib)
    check(lib.lib.test_guard_depth() == 0, "a guard was left open, or a fact written outside one")


def main():
    path = os.path.abspath(sys.argv[1])
    if len(sys.argv) > 2:
        run_one(sys.argv[2], path)
        return 0
    names = [name for name in globals() if name.startswith("test_")]
    failed = 0
    print(f"{sys.executable}: Python {sys.version.split()[0]}")
    for name in names:
        done = subprocess.run([sys.executable, os.path.abspath(__file__), path, name], capture_output=True, text=True,
                              timeout=240)
        good = done.returncode == 0 and "runtime error" not in done.stderr
        failed += not good
        print(f"  {'ok  ' if good else 'FAIL'} {name}")
        if done.stdout:
            print(done.stdout.rstrip())
        if not good:
            print(f"      exit {done.returncode}: {done.stderr.strip()[-600:]}")
    print(f"{len(names) - failed} of {len(names)} passed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
