"""Allocate memory from the driver in many ways, and write where each call came from, using only the standard
library: a line of JSON per allocation, with the process, the address, and the frames (file, line, function),
innermost first.

    stacks_prog.py REPORT CHILDREN"""
import asyncio
import ctypes
import functools
import json
import os
import sys
import threading

CU = ctypes.CDLL("libcuda.so.1")
REPORT = open(sys.argv[1], "a", encoding="utf-8")
CHILDREN = int(sys.argv[2])
LOCK = threading.Lock()


def check(result):
    if result != 0:
        raise RuntimeError("CUDA error %d" % result)


def begin():
    context, device = ctypes.c_void_p(), ctypes.c_int()
    check(CU.cuInit(0))
    check(CU.cuDeviceGet(ctypes.byref(device), 0))
    check(CU.cuCtxCreate_v2(ctypes.byref(context), 0, device))
    return context


def frames_from(frame):
    found = []
    while frame is not None:
        code = frame.f_code
        found.append((code.co_filename, frame.f_lineno, getattr(code, "co_qualname", code.co_name)))
        frame = frame.f_back
    return found


def say(address, frames, **more):
    with LOCK:
        REPORT.write(json.dumps(dict(more, pid=os.getpid(), address=address, frames=frames)) + "\n")
        REPORT.flush()


def alloc(bytes_wanted=1 << 20):
    pointer = ctypes.c_uint64()
    check(CU.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(bytes_wanted))); here = frames_from(sys._getframe())
    say(pointer.value, here)
    return pointer.value


def nested(depth=4):
    return nested(
        depth - 1) if depth else alloc()


def generators():
    def numbers():
        yield alloc()
        yield from (alloc() for _ in range(2))
    return list(numbers())


async def coroutine():
    async def leaf():
        await asyncio.sleep(0)
        return alloc()
    await asyncio.gather(leaf(), leaf())
    return [alloc() for _ in range(2)]


def callbacks():
    sorted([2, 1], key=lambda x: (alloc(), x)[1])
    ctypes.CFUNCTYPE(ctypes.c_int)(lambda: max([1], key=lambda x: (nested(1), 0)[1]))()
    functools.reduce(lambda x, y: alloc(), [1, 2])


def made_code():
    """Different code is executed at the same address."""
    for i in range(60):
        source = "\n" * (i % 5) + "def made%d():\n" % (i % 3) + "  x = 1\n" * (i % 4) + "  return alloc()\nmade%d()\n" % (i % 3)
        exec(compile(source, "<made %d>" % (i % 2), "exec"), {"alloc": alloc})


def deep():
    def down(depth):
        return down(depth - 1) if depth else alloc()
    down(300)


def threads():
    def work():
        check(CU.cuCtxSetCurrent(CONTEXT))
        for _ in range(5):
            nested()
    workers = [threading.Thread(target=work) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()


def thread_without_python():
    """Free the main thread's latest allocation in a thread without Python. Its site has the Python frames of the
    main thread's last call."""
    libc = ctypes.CDLL(None)
    pointer, thread = alloc(), ctypes.c_ulong()
    last = frames_from(sys._getframe())
    free = ctypes.cast(CU.cuMemFree_v2, ctypes.c_void_p)
    check(libc.pthread_create(ctypes.byref(thread), None, free, ctypes.c_void_p(pointer)))
    libc.pthread_join(thread, None)
    say(pointer, [], freed_without_python=True, borrowed=[f[2] for f in last])


IN_ANOTHER_INTERPRETER = """if 1:
    import ctypes, json, os
    driver, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_uint64()
    if driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) != 0:
        raise RuntimeError("no memory")
    with open(%r, "a", encoding="utf-8") as report:
        line = dict(pid=os.getpid(), address=pointer.value, frames=[], sub_interpreter=True)
        report.write(json.dumps(line) + chr(10))
"""


def sub_interpreter():
    """The frames of a sub-interpreter are not known, and the main interpreter's must not replace them. Calls before
    and after have the right frames."""
    try:
        import _interpreters as module  # 3.13
        number = module.create("legacy")  # an interpreter that can load any extension module
    except ImportError:
        import _xxsubinterpreters as module
        number = module.create(isolated=False)
    alloc()
    failed = module.run_string(number, IN_ANOTHER_INTERPRETER % sys.argv[1])
    if failed is not None:
        raise RuntimeError(str(failed))
    module.destroy(number)
    alloc()


class Context:
    def __enter__(self):
        alloc()

    def __exit__(self, *args):
        alloc()


def child():
    global CONTEXT
    CONTEXT = begin()
    nested(2)


def children():
    for i in range(CHILDREN):
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                child()
                status = 0
            finally:
                os._exit(status)
        if os.waitpid(pid, 0)[1] != 0:
            raise RuntimeError("a child failed")


children()  # before this process initialises CUDA, because a context does not survive a fork
CONTEXT = begin()
alloc()
nested()
generators()
asyncio.run(coroutine())
callbacks()
made_code()
deep()
threads()
with Context():
    [alloc() for _ in range(2)]
sub_interpreter()
thread_without_python()
