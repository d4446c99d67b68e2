"""Compare Python frames, read as from another process, with this interpreter's own output at the same stop.

    python_test.py LIBRARY"""
import ctypes
import faulthandler
import os
import re
import sys
import tempfile
import threading
import time

lib = ctypes.CDLL(sys.argv[1])
lib.test_look.restype = ctypes.c_void_p
lib.test_look.argtypes = [ctypes.c_uint]
lib.test_free.argtypes = [ctypes.c_void_p]
lib.test_damage.restype = ctypes.c_long
lib.test_damage.argtypes = [ctypes.c_uint64, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint, ctypes.c_uint]
CUT, UNKNOWN, MAX = 4, 8, 96
WAIT_S = 200


def look(pid):
    """({tid: (flags, [(file, line, name, entry)])}, text about missing frames)"""
    address = lib.test_look(pid)
    assert address, "no look at %d" % pid
    text = ctypes.string_at(address).decode("utf-8")
    lib.test_free(address)
    threads, missing = {}, None
    for line in text.splitlines():
        word, _, rest = line.partition(" ")
        if word == "thread":
            tid, flags = map(int, rest.split())
            frames = []
            threads[tid] = flags, frames
        elif word == "frame":
            entry, number, file = rest.split(" ", 2)
            last = [file, int(number), None, entry == "1"]
        elif word == "name":
            last[2] = rest
            frames.append(tuple(last))
        else:
            missing = rest
    return threads, missing


# ---- expected results ----

def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def interpreter_says():
    """{ident: [(file, line, name)]}, innermost first"""
    found = {}
    for ident, frame in sys._current_frames().items():
        frames = []
        while frame is not None:
            frames.append((frame.f_code.co_filename, frame.f_lineno, name_of(frame.f_code)))
            frame = frame.f_back
        found[ident] = frames
    return found


def faulthandler_says():
    """{ident: [(file, line)]}"""
    found, frames = {}, None
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        for line in file.read().decode("utf-8", "backslashreplace").splitlines():
            head = re.match(r"(?:Current thread|Thread) 0x([0-9a-f]+)", line)
            frame = re.match(r'  File "(.*)", line (\d+) in ', line)
            if head:
                frames = found[int(head[1], 16)] = []
            elif frame:
                frames.append((frame[1], int(frame[2])))
    return found


# ---- waiting threads ----

gate = threading.Lock()
gate.acquire()
over = threading.Event()
arrived = []


def wait():
    arrived.append(threading.get_ident())
    with gate:
        pass


def nested():
    def inner():
        return [wait() for _ in range(1)]
    inner()


def generate():
    yield wait()


def generator():
    for _ in generate():
        pass


def recursion(depth=150):
    if depth == 0:
        wait()
    else:
        recursion(depth - 1)


def native_between():
    """The evaluation loop is entered again below a C function."""
    callback = ctypes.CFUNCTYPE(ctypes.c_int)(lambda: (wait(), 0)[1])
    callback()
    sorted([1, 2], key=lambda x: 0)


class Method:
    def __call__(self):
        (lambda: self.there())()

    def there(self):
        wait()


made = {"wait": wait}
exec(compile("def made_up():\n\n    wait()\n", "<of no file \u00fc\u4e2d>", "exec"), made)


def sleeps():
    arrived.append(threading.get_ident())
    time.sleep(1000)


def waits_for_event():
    arrived.append(threading.get_ident())
    over.wait()


FUNCTIONS = [wait, nested, generator, recursion, native_between, Method(), made["made_up"], sleeps, waits_for_event]


def compare(threads, read, said, handler):
    for thread in threads:
        flags, frames = read[thread.native_id]
        wanted = said[thread.ident]
        assert not flags & UNKNOWN, "%s: flags %#x" % (thread.name, flags)
        assert bool(flags & CUT) == (len(wanted) > MAX), "%s: flags %#x of %d frames" % (thread.name, flags, len(wanted))
        got = [frame[:3] for frame in frames]
        assert got == wanted[:MAX], "%s:\n  read %s\n  is   %s" % (thread.name, got, wanted[:MAX])
        lines = [(file.encode("ascii", "backslashreplace").decode(), line) for file, line, _ in got]
        assert lines == handler[thread.ident][:len(lines)], "%s:\n  read %s\n  faulthandler %s" % (
            thread.name, lines, handler[thread.ident])
        assert len(wanted) > MAX or frames[-1][3], "%s: the outermost frame is no entry" % thread.name
    return sum(len(read[thread.native_id][1]) for thread in threads)


def interpreter_base():
    """Start address of the interpreter's file, which contains _PyRuntime."""
    address = ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))
    base = path = None
    with open("/proc/self/maps") as maps:
        for line in maps:
            span, _, offset, _, _, *rest = line.split(None, 5)
            start, end = (int(x, 16) for x in span.split("-"))
            if rest and int(offset, 16) == 0:
                base = start
            if start <= address < end:
                return base
    raise AssertionError("where is _PyRuntime?")


def damage(threads):
    tids = (ctypes.c_uint32 * len(threads))(*[thread.native_id for thread in threads])
    base, counts = interpreter_base(), []
    for rounds, one_in in ((40, 1 << 60), (300, 2000), (400, 300), (300, 30), (300, 3)):
        count = lib.test_damage(base, tids, len(threads), rounds, min(one_in, 0xffffffff))
        assert count >= 0, "a bound was passed"
        counts.append(count)
    assert counts[0] > 0 and counts[0] % 40 == 0, counts
    return counts


def of_a_child():
    """A forked child waits; its thread still has the thread states of its parent."""
    ready, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.write(write, b"x")
        while True:
            time.sleep(1000)
    os.read(ready, 1)
    deadline = time.monotonic() + WAIT_S
    try:
        while True:  # the child may not be asleep yet
            read, _ = look(pid)
            flags, frames = read[pid]
            if frames and not flags & UNKNOWN:
                break
            assert time.monotonic() < deadline, "flags %#x, frames %s" % (flags, frames)
            time.sleep(0.01)
        assert frames[0][2] == "of_a_child" and frames[-1][2] == "<module>", frames
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def free_of_python(thread):
    """A thread that runs while it is read has no frames, and this is reported. On a busy machine the thread may not get
    the CPU during a read, so try again."""
    deadline = time.monotonic() + WAIT_S
    while True:
        read, missing = look(os.getpid())
        flags, frames = read[thread.native_id]
        if flags & UNKNOWN:
            break
        assert time.monotonic() < deadline, (flags, frames, missing)
    assert not frames and "ran while" in missing, (flags, frames, missing)


def of_a_subinterpreter():
    """A thread that runs two interpreters, one inside the other: their nesting is not known, so there are no frames."""
    try:
        interpreters = __import__("_interpreters" if sys.version_info >= (3, 13) else "_xxsubinterpreters")
    except ImportError:
        print("skipped: this build has no sub-interpreters")
        return
    ready, write = os.pipe()
    never, _ = os.pipe()
    inside = "import os; os.write(%d, b'x'); os.read(%d, 1)" % (write, never)
    thread = threading.Thread(target=lambda: interpreters.run_string(interpreters.create(), inside), daemon=True)
    thread.start()
    os.read(ready, 1)
    flags, frames = look(os.getpid())[0][thread.native_id]
    assert flags & UNKNOWN and not frames, (flags, frames)


def main():
    threads = [threading.Thread(target=function, daemon=True, name=str(function)) for function in FUNCTIONS]
    for thread in threads:
        thread.start()
    deadline = time.monotonic() + WAIT_S
    while len(arrived) < len(threads):
        assert time.monotonic() < deadline, "threads do not arrive"
        time.sleep(0.01)
    while True:  # the threads may not be waiting yet
        read, missing = look(os.getpid())
        if all(read[thread.native_id][1] and not read[thread.native_id][0] & UNKNOWN for thread in threads):
            break
        assert time.monotonic() < deadline, (read, missing)
        time.sleep(0.05)
    count = compare(threads, read, interpreter_says(), faulthandler_says())
    spinning = threading.Thread(target=lambda: [0 for _ in iter(lambda: over.is_set(), True)], daemon=True)
    spinning.start()
    free_of_python(spinning)
    over.set()
    spinning.join()
    of_a_child()
    of_a_subinterpreter()
    counts = damage(threads[:6])
    print("%d frames of %d threads; with damage %s" % (count, len(threads), counts))
    sys.stdout.flush()
    os._exit(0)


main()
