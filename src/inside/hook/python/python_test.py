"""Compare the frames that the hook reads with the frames that this interpreter reports at the same stop.

    python_test.py LIBRARY [CASE..]"""
import ctypes
import faulthandler
import functools
import gc
import os
import re
import subprocess
import sys
import tempfile
import threading
import time

LIBRARY = sys.argv[1]
VERSION = sys.version_info[0] << 8 | sys.version_info[1]
MAX = 96
CUT, UNKNOWN, BORROWED, MAIN = 4, 8, 16, 1 << 16
KIND_CODE, KIND_LINES = None, None  # set from the first facts
NOT_KEPT = 0xffffffff


class Frame(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint32), ("instruction", ctypes.c_int32), ("is_entry", ctypes.c_int32),
                ("address", ctypes.c_uint64), ("mark", ctypes.c_uint64)]


class Fact(ctypes.Structure):
    _fields_ = [("kind", ctypes.c_uint32), ("arg", ctypes.c_uint64 * 4), ("text", ctypes.c_char * 961)]


class ThreadStop(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint32), ("count", ctypes.c_uint32), ("borrowed", ctypes.c_uint32)]


def library(loader):
    lib = loader(LIBRARY)
    lib.test_stop.restype = ctypes.c_uint32
    lib.test_stop.argtypes = [ctypes.POINTER(Frame), ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]
    lib.test_fact_at.restype = ctypes.POINTER(Fact)
    lib.test_time_key.restype = lib.test_time_codes.restype = ctypes.c_uint64
    lib.test_line.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int32]
    return lib


WITHOUT_LOCK = library(ctypes.CDLL)  # like a call inside PyTorch: other threads may run Python meanwhile
WITH_LOCK = library(ctypes.PyDLL)
CASES = []
thread_failures = []
# Some compilers move most of the evaluation loop into a separate part, which has no name in a stripped file.
loops_have_a_name = WITH_LOCK.test_loops() > 0
checks = 0


def case(function):
    CASES.append(function)
    return function


def fail(text):
    raise AssertionError(text)


def expect(condition, text):
    global checks
    checks += 1
    if not condition:
        fail(text)


# ---- facts ----

class Code:
    def __init__(self, fact):
        self.name, self.file = fact.text.decode().split("\n")
        self.first_line, self.version, self.table_bytes = fact.arg[1], fact.arg[2], fact.arg[3]
        self.table = b""

    def line(self, instruction):
        expect(self.table_bytes != NOT_KEPT and len(self.table) == self.table_bytes, "%s: table of %d bytes, %d written"
               % (self.name, self.table_bytes, len(self.table)))
        return WITH_LOCK.test_line(self.version, self.table, len(self.table), self.first_line, instruction)


codes = {}
facts_read = 0
lock = threading.Lock()


def read_facts():
    global facts_read, KIND_CODE, KIND_LINES
    with lock:
        for at in range(facts_read, WITH_LOCK.test_fact_count()):
            fact = WITH_LOCK.test_fact_at(at).contents
            if KIND_CODE is None:
                KIND_CODE, KIND_LINES = fact.kind, fact.kind + 1
            if fact.kind == KIND_CODE:
                expect(fact.arg[0] not in codes, "code %d was given twice" % fact.arg[0])
                codes[fact.arg[0]] = Code(fact)
            elif fact.kind == KIND_LINES:
                code = codes[fact.arg[0]]
                expect(fact.arg[1] == len(code.table), "a part of a line table is missing")
                code.table += bytes.fromhex(fact.text.decode())
                expect(len(code.table) == fact.arg[1] + fact.arg[2], "a part of a line table is short")
        facts_read = WITH_LOCK.test_fact_count()


# ---- one stop ----

def name_of(code):
    return getattr(code, "co_qualname", code.co_name)


def faulthandler_says():
    """(file, line, name) of this thread's frames, starting at the caller's caller."""
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=False)
        file.seek(0)
        text = file.read().decode("utf-8", "backslashreplace")
    return re.findall(r'^  File "(.*)", line (\d+) in (.*)$', text, re.M)[2:]


def as_faulthandler(text):
    return "".join(c if " " <= c <= "~" else "\\x%02x" % ord(c) if ord(c) < 256 else "\\u%04x" % ord(c) for c in text)


def stop(lib=WITHOUT_LOCK):
    """Compare this thread's whole stack. Returns its frames as (name, line, is_entry), starting at the caller."""
    out, count = (Frame * MAX)(), ctypes.c_uint32()
    flags, me, loops = lib.test_stop(out, MAX, ctypes.byref(count)), sys._getframe(), lib.test_loops()
    others = faulthandler_says()
    read_facts()
    expect(flags & (UNKNOWN | BORROWED) == 0, "flags %#x" % flags)
    is_main = threading.current_thread() is threading.main_thread()
    expect(bool(flags & MAIN) == is_main, "main thread: %s, flags %#x" % (is_main, flags))
    result, python = [], me
    for i in range(count.value):
        expect(python is not None, "frame %d of %d is too many" % (i, count.value))
        code = codes.get(out[i].code) or fail("code %d of frame %d was not written" % (out[i].code, i))
        want = (name_of(python.f_code), python.f_code.co_filename, python.f_code.co_firstlineno)
        expect((code.name, code.file, code.first_line) == want,
               "frame %d is %s, not %s" % (i, (code.name, code.file, code.first_line), want))
        if i > 0:  # our own frame has continued since the stop
            expect(out[i].instruction == python.f_lasti,
                   "frame %d (%s): instruction %d, not %d" % (i, code.name, out[i].instruction, python.f_lasti))
            expect(code.line(out[i].instruction) == python.f_lineno,
                   "frame %d (%s): line %d, not %d" % (i, code.name, code.line(out[i].instruction), python.f_lineno))
            if i <= len(others):
                file, line, name = others[i - 1]
                expect(line == str(python.f_lineno) and name in map(as_faulthandler, (python.f_code.co_name, code.name)),
                       "faulthandler says %s of frame %d" % (others[i - 1], i))
            result.append((code.name, python.f_lineno, bool(out[i].is_entry)))
        python = python.f_back
    expect((python is not None) == bool(flags & CUT), "%d frames, flags %#x" % (count.value, flags))
    if not flags & CUT:
        entries = sum(out[i].is_entry for i in range(count.value))
        expect(entries == loops or not loops_have_a_name, "%d entries, %d evaluation loops" % (entries, loops))
    return result


def both(result=None):
    first, second = stop(WITHOUT_LOCK), stop(WITH_LOCK)
    expect(first[1:] == second[1:], "with the lock and without: two answers")
    return first


# ---- cases ----

def nested():
    def inner(depth):
        if depth == 0:
            return both()
        return inner(
            depth
            - 1)
    return inner(5)


@case
def nested_functions():
    names = [name for name, line, entry in nested()]
    expect(len(names) >= 9, "%s" % names)


@case
def generators():
    def numbers():
        for i in range(3):
            both()
            yield i

    def through():
        yield from numbers()
    for _ in through():
        both()
    expect(list(x for x in through() if both()) is not None, "")


@case
def coroutines():
    import asyncio

    async def leaf():
        both()
        await asyncio.sleep(0)
        return both()

    async def middle():
        return await leaf()

    async def stream():
        for i in range(2):
            await middle()
            yield i

    async def main():
        await asyncio.gather(middle(), leaf())
        async for _ in stream():
            both()
        return [both() async for _ in stream()]
    asyncio.run(main())


@case
def lambdas_and_comprehensions():
    run = lambda f: (
        f())
    run(lambda: [run(both) for _ in range(2)])
    run(lambda: {run(both) is None for _ in range(2)})
    run(lambda: {i: run(both) for i in range(2)})


@case
def decorators():
    def outer(function):
        @functools.wraps(function)
        def wrapped(*args):
            return function(*args)
        return wrapped

    @outer
    @functools.lru_cache(None)
    @outer
    def decorated():
        return both()
    decorated()


@case
def c_callbacks():
    """Evaluation loops entered from C: each is marked as an entry."""
    seen = []

    def key(x):
        if not seen:
            seen.append(both())
        return x
    sorted([3, 1, 2], key=key)
    expect(sum(entry for _, _, entry in seen[0]) >= 2, "%s" % seen)
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    @callback
    def called(x):
        both()
        return max(range(2), key=lambda y: (both(), y)[1]) + x

    @callback
    def again(x):
        return called(x)
    expect(again(1) == 2, "callback")
    list(map(lambda x: both(), [1]))
    functools.reduce(lambda x, y: both(), [1, 2])
    re.sub("a", lambda m: str(both()), "a")
    str(type("T", (), {"__str__": lambda self: str(both())})())


@case
def classes():
    class Meta(type):
        def __new__(mcs, name, bases, body):
            both()
            return super().__new__(mcs, name, bases, body)

    class Body(metaclass=Meta):
        both()

        def __init__(self):
            both()

        def __enter__(self):
            both()

        def __exit__(self, *args):
            both()

        def __del__(self):
            both()

        @property
        def value(self):
            return both()

        def __getattr__(self, name):
            return both()

        def __add__(self, other):
            return both()

        def __iter__(self):
            return self

        def __next__(self):
            both()
            raise StopIteration
    with Body():
        pass
    body = Body()
    body.value, body.other, body + 1, list(body)
    for _ in body:
        pass
    del body


@case
def exceptions():
    try:
        try:
            raise ValueError
        except ValueError:
            both()
            raise KeyError
        finally:
            both()
    except KeyError:
        both()


@case
def executed_code():
    exec("def f():\n\n  return g()\ndef g(): return both()\nf()", {"both": both})
    eval("[both() for _ in range(1)]", {"both": both})
    exec(compile("\n" * 100000 + "both()", "far.py", "exec"), {"both": both})


@case
def odd_names():
    long = "x" * 2000
    for file in ("späße.py", "中文/файл.py", "\U0001f40d.py", "with space.py", "/a" * 200 + "/b.py"):
        exec(compile("def f(): return both()\nf()", file, "exec"), {"both": both})
    exec(compile("def größe(): return both()\ngröße()\nclass 漢: both()", "x.py", "exec"), {"both": both})
    for file, want in (("a\nb.py", "a?b.py"), ("b\udc80.py", "b\ufffd.py"), ("nul\0.py", "nul?.py")):
        try:
            code = compile("only()", "x.py", "exec").replace(co_filename=file)
        except ValueError:
            continue
        exec(code, {"only": lambda: WITH_LOCK.test_stop((Frame * 2)(), 2, ctypes.byref(ctypes.c_uint32()))})
        read_facts()
        expect(codes[max(codes)].file == want, "file %r is %r" % (file, codes[max(codes)].file))
    exec(compile("def %s(): only()\n%s()" % (long, long), "/d" * 2000 + "/end.py", "exec"),
         {"only": lambda: WITH_LOCK.test_stop((Frame * 2)(), 2, ctypes.byref(ctypes.c_uint32()))})
    read_facts()
    code = codes[max(codes)]
    expect(code.name == "x" * 400 and code.file.startswith("...") and code.file.endswith("/d/end.py"),
           "%s %s" % (code.name, code.file))


@case
def recursion():
    sys.setrecursionlimit(100000)

    def down(depth):
        return down(depth - 1) if depth else both()

    def down_through_c(depth):
        return max([depth], key=lambda x: down_through_c(x - 1) if x else len(both()))
    for depth in (80, 93, 94, 95, 96, 97, 150, 500):
        down(depth)
    down_through_c(20)
    down_through_c(60)


@case
def big_functions():
    body = "\n".join("    a%d = %d" % (i, i) for i in range(3000))
    exec("def f():\n%s\n    return both()\nf()" % body, {"both": both})
    body = "\n".join("    a%d = f(%d, [%d])" % (i, i, i) for i in range(9000))
    scope = {"only": lambda: WITH_LOCK.test_stop((Frame * 3)(), 3, ctypes.byref(ctypes.c_uint32()))}
    exec("def huge(x):\n    if x: return only()\n%s\nhuge(1)" % body, scope)
    read_facts()
    huge = [code for code in codes.values() if code.name == "huge"]
    table = table_of(scope["huge"].__code__)
    expect(len(huge) == 1 and huge[0].table_bytes == (len(table) if len(table) <= 65536 else NOT_KEPT),
           "a table of %d bytes: %d" % (len(table), huge[0].table_bytes))


@case
def threads():
    done = []
    running = True

    def busy():
        while running:
            sum(range(1000))

    def worker(n):
        for _ in range(20):
            nested()
        done.append(n)
    others = [threading.Thread(target=busy) for _ in range(2)]
    workers = [threading.Thread(target=worker, args=(i,)) for i in range(4)]
    for thread in others + workers:
        thread.start()
    for _ in range(20):
        nested()
    for thread in workers:
        thread.join()
    running = False
    for thread in others:
        thread.join()
    expect(len(done) == 4, "%s" % done)


@case
def traced():
    """Debuggers and profilers must not change the frames."""
    sys.settrace(lambda frame, event, arg: None)
    try:
        nested()
    finally:
        sys.settrace(None)
    events = []
    sys.setprofile(lambda frame, event, arg: events.append(event))
    try:
        nested()
    finally:
        sys.setprofile(None)
    expect(events, "no profile")


@case
def warm_code():
    """The interpreter rewrites instructions that run often."""
    def often(n, f):
        total = 0
        for i in range(n):
            total += i * 2
            if i == n - 1:
                return f()
    for _ in range(3):
        often(5000, both)


@case
def reused_addresses():
    """Code that is made and dropped in a loop gets the same address again, and so do its name, file and line table."""
    at = {}
    used_again = 0
    for i in range(600):
        out, count = (Frame * MAX)(), ctypes.c_uint32()
        scope = {"stop": lambda: WITH_LOCK.test_stop(out, MAX, ctypes.byref(count))}
        what = (i % 3, i // 3 % 4, i // 12 % 5, i % 2)
        source = "\n" * what[0] + "def name%d():\n" % what[1] + "  x = 1\n" * what[2] + "  return stop()\n"
        code = compile(source, "<made %d>" % what[3], "exec")
        exec(code, scope)
        made = scope["name%d" % what[1]].__code__
        scope["name%d" % what[1]]()
        read_facts()
        code = codes[out[1].code]
        expect(out[1].address == id(made), "frame 1 is another one")
        expect((code.name, code.file, code.first_line, code.table_bytes)
               == (name_of(made), made.co_filename, made.co_firstlineno, len(table_of(made))),
               "%s is taken for %s" % ((name_of(made), made.co_filename), (code.name, code.file)))
        used_again += id(made) in at and at[id(made)] != what
        at[id(made)] = what
        scope.clear()
        del made, scope
    expect(used_again > 100, "addresses were used again %d times only" % used_again)


def table_of(code):
    return code.co_lnotab if VERSION < 0x030A else code.co_linetable


@case
def native_thread():
    """A thread that runs no Python has no frames, and borrows the main thread's last site if there is one."""
    got = ThreadStop()
    WITHOUT_LOCK.test_main_site(0)
    WITHOUT_LOCK.test_stop_native(ctypes.byref(got))
    expect((got.flags, got.count, got.borrowed) == (0, 0, 0), "flags %#x" % got.flags)
    WITHOUT_LOCK.test_main_site(77)
    WITHOUT_LOCK.test_stop_native(ctypes.byref(got))
    expect((got.flags, got.count, got.borrowed) == (BORROWED, 0, 77), "flags %#x" % got.flags)
    both()
    WITHOUT_LOCK.test_main_site(0)


@case
def refused():
    """If the facts about code are refused, the code gets no number; the facts are written later."""
    scope = {}
    exec("def never(lib, out, count):\n  return lib.test_stop(out, 1, count)", scope)
    out, count = (Frame * 1)(), ctypes.c_uint32()
    for refusals in (1, 2):
        WITH_LOCK.test_refuse(refusals)
        scope["never"](WITH_LOCK, out, ctypes.byref(count))
        expect(out[0].code == 0, "code %d" % out[0].code)
        WITH_LOCK.test_refuse(0)
    scope["never"](WITH_LOCK, out, ctypes.byref(count))
    read_facts()
    expect(codes[out[0].code].name == "never", "code %d" % out[0].code)


@case
def forks():
    """Forked children start again: codes are numbered from 1, and the thread that forked is the main thread."""
    def child():
        global facts_read
        WITH_LOCK.test_forked()
        codes.clear()
        nested()
        return 0 if 1 in codes else 1

    def fork_some(count):
        for _ in range(count):
            pid = os.fork()
            if pid == 0:
                status = 2
                try:
                    status = child()
                except BaseException as error:
                    print(error, file=sys.stderr)
                finally:
                    os._exit(status)
            _, status = os.waitpid(pid, 0)
            expect(status == 0, "child ended with %#x" % status)
    import warnings
    warnings.simplefilter("ignore")
    fork_some(200)
    thread = threading.Thread(target=fork_some, args=(20,))
    thread.start()
    thread.join()


@case
def subinterpreters():
    """Frames of a sub-interpreter are reported as unknown; those of the main interpreter are read even if a
    sub-interpreter exists."""
    module = None
    for name in ("_xxsubinterpreters", "_interpreters"):
        try:
            module = __import__(name)
        except ImportError:
            pass
    if module is None:
        fail("no module of sub-interpreters")
    last = ctypes.c_uint32.in_dll(WITHOUT_LOCK, "test_last_flags")
    source = """if 1:
        import ctypes, sys
        def run(lib):
            lib.test_stop((ctypes.c_int * 96)(), 32, ctypes.byref(ctypes.c_uint32()))
        run(ctypes.%s(%r))
        """
    interpreter = shared_subinterpreter(module)

    def inside():
        for loader in ("CDLL", "PyDLL"):
            both()
            last.value = 0xffffffff
            module.run_string(interpreter, source % (loader, LIBRARY))
            expect(last.value == UNKNOWN, "flags %#x in a sub-interpreter" % last.value)
            both()
    inside()
    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    module.destroy(interpreter)
    both()


def shared_subinterpreter(module):
    """Create a sub-interpreter that can load any extension module, as all could before 3.12."""
    if VERSION >= 0x030D:
        return module.create("legacy")
    return module.create(isolated=False)


FINALISING = """
import atexit, ctypes, sys, threading, time
lib = ctypes.CDLL(sys.argv[1])
lib.test_look()
frame = (ctypes.c_int * (3 * 96))()
count = ctypes.c_uint32()
def say(where):
    flags = lib.test_stop(frame, 96, ctypes.byref(count))
    print(where, flags & 0xffff, count.value > 0, flush=True)
class Last:
    def __init__(self): self.say, self.lib, self.frame, self.count, self.byref = say, lib, frame, count, ctypes.byref
    def __del__(self): self.say("del")
import builtins
builtins.last = Last()
atexit.register(say, "atexit")
def daemon():
    f = lib.test_stop
    b = ctypes.byref(count)
    while True: f(frame, 96, b)
for _ in range(3):
    threading.Thread(target=daemon, daemon=True).start()
time.sleep(0.05)
say("main")
"""


@case
def finalising():
    """Exit handlers still have frames. Once the interpreter shuts down nothing is read, whatever daemon threads do."""
    for _ in range(5):
        run = subprocess.run([os.environ.get("GPUWHY_TEST_PYTHON", sys.executable), "-B", "-c", FINALISING, LIBRARY], capture_output=True, text=True, timeout=60)
        lines = run.stdout.split("\n")
        expect(run.returncode == 0, "status %d: %s" % (run.returncode, run.stderr))
        expect("main 0 True" in lines and "atexit 0 True" in lines, run.stdout)
        expect("del %d False" % UNKNOWN in lines or not any(line.startswith("del") for line in lines), run.stdout)


@case
def cost():
    """Print the cost. Nothing is asserted about it, because a busy machine could make it fail."""
    def down(depth):
        if depth:
            return down(depth - 1)
        out, count, total = (Frame * MAX)(), ctypes.c_uint32(), ctypes.c_uint64()
        WITH_LOCK.test_stop(out, MAX, ctypes.byref(count))
        rounds = 20000
        return count.value, min(WITH_LOCK.test_time_key(rounds, ctypes.byref(total)) for _ in range(9)) / rounds
    # First thirty calls of the same function, then thirty functions.
    count, ns = down(27 - len(stop()))
    print("  %d frames of one function: %.0f ns" % (count, ns))
    scope = {"last": lambda: down(0)}
    for i in range(30):
        body = "def f%d():\n  x = 1\n  y = [x for x in range(3)]\n  return %s()\n"
        exec(body % (i, "f%d" % (i - 1) if i else "last"), scope)
    count, ns = scope["f29"]()
    print("  %d frames of as many functions: %.0f ns" % (count, ns))
    written = ctypes.c_uint64()
    scope["last"] = lambda: min(WITH_LOCK.test_time_codes(ctypes.byref(written)) for _ in range(20)) / 1000
    print("  the code of 38 frames when it is new: %.1f us, %d bytes in the buffer" % (scope["f29"](), written.value))


@case
def cost_of_threads():
    """Print the cost on a thread other than the first, with the interpreter's lock and, as when PyTorch calls the
    driver, without it. Assert that a thread with the lock is faster, because it needs no system call."""
    def measured(lib):
        out, count, total, rounds = (Frame * MAX)(), ctypes.c_uint32(), ctypes.c_uint64(), 2000
        flags = lib.test_stop(out, MAX, ctypes.byref(count))
        expect(flags & ~MAIN == 0 and count.value > 16, "%d frames, flags %#x" % (count.value, flags))
        return min(lib.test_time_key(rounds, ctypes.byref(total)) for _ in range(9)) / rounds, total.value

    def chain(last):
        scope = {"last": last}
        for i in range(16):
            body = "def f%d():\n  x = 1\n  y = [x for x in range(3)]\n  return %s()\n"
            exec(body % (i, "f%d" % (i - 1) if i else "last"), scope)
        return scope["f15"]()

    def both_ways():
        return chain(lambda: [measured(lib) for lib in (WITH_LOCK, WITHOUT_LOCK)])
    def in_a_thread():
        other = []
        thread = threading.Thread(target=lambda: other.extend(both_ways()))
        thread.start()
        thread.join()
        expect(len(other) == 2, "the thread ended early")
        return other
    first = both_ways()
    locked = free = float("inf")
    for _ in range(20):  # until a time was measured that no other process disturbed
        other = in_a_thread()
        for keys in (first, other):
            expect(keys[0][1] == keys[1][1], "with the lock and without: two keys")
        locked, free = min(locked, other[0][0]), min(free, other[1][0])
        if locked < free / 2:
            break
    first = first[0][0]
    expect(locked < free / 2, "with the lock %.0f ns, without %.0f ns" % (locked, free))
    print("  some 20 frames: first thread %.0f ns, another with the lock %.0f ns (%.1f times), without %.0f ns (%.1f times)"
          % (first, locked, locked / first, free, free / first))


def main():
    if hasattr(WITHOUT_LOCK, "test_look") and not WITHOUT_LOCK.test_look():
        sys.exit("no interpreter was found")
    wanted = sys.argv[2:]
    failed = 0
    gc.disable()  # finalisers would run in the middle of our own reads
    threading.excepthook = lambda args: thread_failures.append(args.exc_value)
    for function in CASES:
        if wanted and function.__name__ not in wanted:
            continue
        try:
            function()
            gc.collect()
            if thread_failures:
                raise thread_failures.pop()
            print("passed  %s" % function.__name__, flush=True)
        except Exception as error:
            import traceback
            failed += 1
            print("FAILED  %s: %s" % (function.__name__, error), flush=True)
            traceback.print_exc()
    if not loops_have_a_name:
        print("not compared: entries with the native stack, whose evaluation loops have no name here")
    print("CPython %s: %d checks, %d cases failed" % (sys.version.split()[0], checks, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
