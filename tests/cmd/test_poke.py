"""gpuwhy poke on processes that gpuwhy did not start. Each program stands in a known way until a file appears. gpuwhy
must print what the program does, and the program must still end well: "done" and status 0."""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import unittest

from support import GPUWHY, Case, children_of, lines_of, wait_until

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "python"))
import with_version

SHAPES = os.environ.get("POKE_SHAPES")
NOBODY = 65534
needs_root = unittest.skipUnless(os.geteuid() == 0, "only root can run programs of several users")

# The first lines of each program in Python: when the file appears, do something that ends the wait.
PRELUDE = """\
import os, sys, threading, time
GO = sys.argv[1]
def until_go():
    while not os.path.exists(GO):
        time.sleep(0.01)
def on_go(action):
    def wait_and_act():
        until_go()
        action()
    threading.Thread(target=wait_and_act, daemon=True, name="releaser").start()
def finish():
    print("done", flush=True)
    os._exit(0)
"""
PYTHON = {
    "sleep": "def rest():\n    until_go()\nrest()\nfinish()\n",
    "deadlock": """\
left, right, both = threading.Lock(), threading.Lock(), threading.Barrier(2)
def one():
    with left:
        both.wait()
        right.acquire()
def other():
    with right:
        both.wait()
        left.acquire()
on_go(finish)
for f in (one, other):
    threading.Thread(target=f, daemon=True).start()
threading.Event().wait()
""",
    "queue": "import queue\nq = queue.Queue()\non_go(lambda: q.put(1))\ndef take():\n    return q.get()\ntake()\nfinish()\n",
    "child": """\
import subprocess
child = subprocess.Popen(["sleep", "1000"])
on_go(child.kill)
def wait_for_child():
    child.wait()
wait_for_child()
finish()
""",
    "fifo": """\
end = os.open(GO + ".fifo", os.O_RDWR)
on_go(lambda: os.write(end, b"x"))
def read_fifo():
    return os.read(end, 1)
assert read_fifo() == b"x"
finish()
""",
    "receive": """\
import socket
listening = socket.create_server(("127.0.0.1", 0))
there = socket.create_connection(listening.getsockname())
here, _ = listening.accept()
on_go(lambda: there.sendall(b"x"))
def receive():
    return here.recv(1)
assert receive() == b"x"
finish()
""",
    "busy": "count = 0\non_go(lambda: finish() if count > 0 else os._exit(1))\ndef work():\n    global count\n    while True:\n        count += 1\nwork()\n",
    "asyncio": """\
import asyncio
async def tick():
    while not os.path.exists(GO):
        await asyncio.sleep(0.01)
asyncio.run(tick())
finish()
""",
    "pool": """\
from concurrent.futures import ThreadPoolExecutor
barrier = threading.Barrier(3)
pool = ThreadPoolExecutor(3)
list(pool.map(lambda _: barrier.wait(), range(3)))
def rest():
    until_go()
rest()
finish()
""",
    "output": """\
def work():
    with open(GO + ".log", "w") as log:
        while not os.path.exists(GO):
            log.write("step\\n")
            log.flush()
            time.sleep(0.001)
work()
finish()
""",
    "cuda": """\
import ctypes
folder = os.path.dirname(GO)
assert ctypes.CDLL(folder + "/libopenblas.so.0").start_pool(4) == 4
driver = ctypes.CDLL(folder + "/libcuda.so.1")
def synchronize():
    driver.cuStreamSynchronize(GO.encode())
synchronize()
finish()
""",
    "processes": """\
import multiprocessing
def work(number):
    until_go()
    return number
if __name__ == "__main__":
    with multiprocessing.get_context("fork").Pool(3) as pool:
        assert pool.map(work, range(3), chunksize=1) == [0, 1, 2]
    finish()
""",
    "threads": """\
import queue, socket, subprocess
lock, event, q, total = threading.Lock(), threading.Event(), queue.Queue(), []
here, there = socket.socketpair()
child = subprocess.Popen(["sleep", "1000"])
lock.acquire()
def take_lock():
    with lock:
        total.append(1)
def wait_for_event():
    event.wait()
    total.append(10)
def take_from_queue():
    total.append(q.get())
def rest():
    until_go()
    total.append(1000)
def wait_for_child():
    child.wait()
    total.append(10000)
def receive():
    total.append(int(here.recv(10)))
def work():
    count = 0
    while not os.path.exists(GO):
        count += sum(range(1001))
    assert count % 500500 == 0
    total.append(1000000)
threads = [threading.Thread(target=f) for f in (take_lock, wait_for_event, take_from_queue, rest, wait_for_child, receive, work)]
for thread in threads:
    thread.start()
def join_all():
    until_go()
    lock.release()
    event.set()
    q.put(100)
    child.kill()
    there.sendall(b"100000")
    for thread in threads:
        thread.join()
join_all()
assert sum(total) == 1111111
finish()
""",
    "ranks": """\
import subprocess
def in_collective():
    until_go()
def elsewhere():
    until_go()
if len(sys.argv) == 2:
    dead = subprocess.Popen(["true"])
    ranks = [subprocess.Popen([sys.executable, __file__, GO, str(i)], env=dict(os.environ, RANK=str(i), WORLD_SIZE="4"))
             for i in range(4)]
    assert [rank.wait() for rank in ranks] == [0] * 4
    finish()
elsewhere() if sys.argv[2] == "2" else in_collective()
""",
}


class Poke(Case):
    def setUp(self):
        super().setUp()
        self.count = 0
        self.environment["PYTHONDONTWRITEBYTECODE"] = "1"

    # ---- programs ----

    def begin(self, argv, **more):
        """Start a program, whose last argument is the file that ends it. Return the process and that file."""
        self.count += 1
        go = self.folder / f"go{self.count}"
        os.mkfifo(f"{go}.fifo")
        process = subprocess.Popen([*map(str, argv), str(go)], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True, **more)
        self.addCleanup(self.clean_up, process)
        return process, go

    def clean_up(self, process):
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        process.stdout.close()

    def script(self, name):
        path = self.folder / f"do_{name}.py"  # no name of a module of Python
        path.write_text(PRELUDE + PYTHON[name])
        return path

    def shape(self, name, program=None):
        return self.begin([program or SHAPES, name])

    def assert_unharmed(self, process, go, status=0):
        go.touch()
        out, _ = process.communicate(timeout=200)
        self.assertEqual((out.decode(), process.returncode), ("done\n", status))

    # ---- pokes ----

    def poke(self, pid, *options, **more):
        return self.run_gpuwhy("poke", "--seconds", "0.05", *options, str(pid), **more)

    def poke_until(self, pid, *patterns, options=(), status=0):
        """Poke until all patterns are in the output: the program may not stand there yet."""
        said = [""]

        def found():
            done = self.poke(pid, *options)
            self.assertEqual(done.returncode, status, done.stdout + done.stderr)
            said[0] = done.stdout.decode()
            return all(re.search(pattern, said[0], re.M | re.S) for pattern in patterns)

        try:
            wait_until(found, f"{patterns}")
        except AssertionError as error:
            raise AssertionError(f"{error}\n{said[0]}") from None
        return said[0]

    def json_of(self, pid, *options):
        done = self.poke(pid, "--json", *options)
        self.assertEqual(done.stderr, b"")
        return json.loads(done.stdout)

    def check(self, process, go, *patterns, options=(), status=0):
        said = self.poke_until(process.pid, *patterns, options=options, status=status)
        self.json_of(process.pid, *options)
        self.assert_unharmed(process, go)
        return said

    def check_python(self, name, *patterns, python=sys.executable, options=()):
        process, go = self.begin([python, "-B", self.script(name)])
        return self.check(process, go, *patterns, options=options)

    # ---- Python ----

    def test_python(self):
        for name, patterns in {
            "sleep": [r"main thread \d+ \(python\S*\): sleeping", r"> do_sleep.py:\d+ in until_go$.*do_sleep.py:\d+ in rest$"],
            "deadlock": [r"waiting for a lock.*> do_deadlock.py:\d+ in one$", r"waiting for a lock.*> do_deadlock.py:\d+ in other$"],
            "queue": [r"main thread .*: waiting for a lock.*queue.py:\d+ in (Queue\.)?get$.*> do_queue.py:\d+ in take$"],
            "child": [r"waiting for a child process to end: process \d+ \(sleep\).*> do_child.py:\d+ in wait_for_child$",
                      r"^children: 1;"],
            "fifo": [r"waiting for input or output: \S.*/go\d+\.fifo.*> do_fifo.py:\d+ in read_fifo$"],
            "receive": [r"waiting for input or output: the connection to 127\.0\.0\.1:\d+.*> do_receive.py:\d+ in receive$",
                        r"2 TCP connections: 0 B unread"],
            "busy": [r"main thread .*> do_busy.py:\d+ in work$", r"0\.0[1-9] s of processor time"],
            "asyncio": [r"main thread .*> do_asyncio.py:\d+ in <module>$"],
            "pool": [r"3 idle threads of a Python thread pool"],
            "output": [r"file \S.*/go\d+\.log: grew by .*; last written \d{4}-\d\d-\d\d \d\d:\d\d:\d\d$"],
        }.items():
            with self.subTest(name):
                self.check_python(name, *patterns)

    def test_versions_of_python(self):
        """Each version has threads that wait in all ways. Without the lock of the interpreter, nothing is claimed."""
        missing = []
        waits = {"take_lock": "waiting for a lock", "wait_for_event": "waiting for a lock", "take_from_queue": "waiting for a lock",
                 "rest": ".*", "wait_for_child": r"waiting for a child process to end: process \d+ \(\S+\)",
                 "receive": "waiting for input or output: a socket", "work": ".*"}
        for version in ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14", "3.13t", "3.14t"):
            path = with_version.find(version)
            if path is None:
                missing.append(version)
                continue
            with self.subTest(version):
                process, go = self.begin([path, "-B", self.script("threads")])
                if version.endswith("t"):
                    said = self.poke_until(process.pid, "8 threads|main thread", "some Python frames unknown: the memory layout")
                    self.assertNotIn(".py:", said)
                else:
                    self.poke_until(process.pid, r"main thread .*do_threads.py:\d+ in join_all$",
                                    *(rf"^  thread \d+ \([^\n]*\): {wait}[^\n]*\n(    [^\n]*\n)*    [> ] do_threads.py:\d+ in {name}$"
                                      for name, wait in waits.items()))
                self.assert_unharmed(process, go)
        if missing:
            print(f"skipped: no CPython {', '.join(missing)} here", file=sys.stderr)

    def test_a_call_of_cuda_and_an_idle_pool(self):
        for name in ("libcuda.so.1", "libopenblas.so.0"):
            shutil.copy(os.environ["POKE_LIBRARY"], self.folder / name)
        process, go = self.begin([sys.executable, "-B", self.script("cuda")])
        said = self.poke_until(process.pid, r"main thread .*: inside cuStreamSynchronize, sleeping.*> do_cuda.py:\d+ in synchronize$",
                               r"^  4 idle threads of OpenBLAS \(such as \d+, python\S*\)$")
        self.assertNotIn("wait_for_work", said)
        one = self.json_of(process.pid)["processes"][0]
        self.assertEqual([thread["gpu_call"] for thread in one["threads"]], ["cuStreamSynchronize"] + [None] * 4)
        self.assertTrue(one["progress"]["gpu"]["is_used"])
        self.assert_unharmed(process, go)

    def test_processes_of_a_pool(self):
        self.check_python("processes", r"3 processes whose main threads do the same", r"do_processes.py:\d+ in work$", options=["--job"])

    def test_the_odd_rank_comes_first(self):
        process, go = self.begin([sys.executable, "-B", self.script("ranks")])
        said = self.poke_until(process.pid, r"rank 2 of 4.*do_ranks.py:\d+ in elsewhere$.*3 processes whose main threads do the same"
                               r".*\(rank 0\).*\(rank 1\).*\(rank 3\).*in in_collective$.*\(true\) has ended", options=["--job"])
        self.assertEqual(said.count("in in_collective\n"), 1)
        self.assertRegex(said, r"not inspected:\nprocess \d+ \(true\) has ended; its parent, ")
        ranks = {one["rank"] for one in self.json_of(process.pid, "--job")["processes"]}
        self.assertEqual(ranks, {None, 0, 1, 2, 3})
        self.assert_unharmed(process, go)

    # ---- C and C++ ----

    def test_native(self):
        for name, patterns in {
            "mutex": [r"main thread .*: waiting for a lock that is held by thread \d+ \(holder\), now at poke_shapes.c:\d+ in hold "
                      r".*poke_shapes.c:\d+ in wait_for_holder$"],
            "deadlock": [r"deadlock: the threads of this chain wait for each other.*in deadlock$", r"in take_second$"],
            "spin": [r"main thread .*: running\n.*> poke_shapes.c:\d+ in spin$"],
            "fifo": [r"main thread .*/go\d+\.fifo.*poke_shapes.c:\d+ in read_fifo$"],
            "receive": [r"main thread .*: waiting for input or output: a socket.*in receive$"],
            "epoll": [r"main thread .*: waiting for input or output.*in wait_for_events$"],
            "select": [r"main thread .*: waiting for input or output.*in wait_for_files$"],
            "vfork": [r"main thread .*: waiting for a child process to end"],
            "names": [r"threads?,? .*\(loader\d\): sleeping.*in be_idle$"],
            "pipe": [r"main thread .*: waiting for input or output: a pipe.*> poke_shapes.c:\d+ in write_pipe$"],
            "flock": [r"main thread .*: waiting for input or output: /[^\n]*/go\d+\.lock .*> poke_shapes.c:\d+ in lock_file$"],
            "crowd": [r"^  198 threads, .*\(crowd\): sleeping.*> poke_shapes.c:\d+ in be_idle$",
                      r"gpuwhy stopped (199|200) threads"],
            "calls": [r"in nap$", r"in receive_bytes$", r"in take_turns$", r"main thread .*in repeat_calls$"],
        }.items():
            with self.subTest(name):
                process, go = self.shape(name)
                self.check(process, go, *patterns)

    def test_a_second_look_shows_the_same(self):
        """After a stop, the kernel continues some calls under another number."""
        process, go = self.shape("calls")
        wanted = [r"sleeping \(in [^\n]*\n(      [^\n]*\n)*    > [^\n]*in nap$", r"waiting for input or output \(in poll_.*in poll_nothing$"]
        for _ in range(2):
            for pattern in wanted:
                self.poke_until(process.pid, pattern)
        self.assert_unharmed(process, go)
        process, go = self.shape("crowd")
        for _ in range(3):
            self.poke_until(process.pid, r"^  198 threads, .*\(crowd\): sleeping.*gpuwhy stopped (199|200) threads")
        self.assert_unharmed(process, go)

    def test_a_deadlock_is_in_the_json(self):
        process, go = self.shape("deadlock")
        self.poke_until(process.pid, "deadlock: ")
        threads = self.json_of(process.pid)["processes"][0]["threads"]
        locked = [one for one in threads if one["is_deadlocked"]]
        self.assertEqual({one["tid"] for one in locked}, {one["owner_tid"] for one in locked})
        self.assertEqual(len(locked), 2)
        self.assert_unharmed(process, go)

    def test_the_repaired_twin_has_no_deadlock(self):
        process, go = self.shape("mutex")
        self.assertNotIn("deadlock: ", self.check(process, go, r"held by thread"))

    @unittest.skipUnless(shutil.which("g++"), "no g++")
    def test_threads_of_cxx(self):
        source = pathlib.Path(__file__).with_name("poke_threads.cpp")
        subprocess.run(["g++", "-g", "-O1", "-fno-inline", source, "-o", self.folder / "threads", "-pthread"], check=True)
        process, go = self.begin([self.folder / "threads"])
        self.check(process, go, r"3 threads, \d+, \d+, \d+ .*: waiting for a lock.*crew::Queue::wait")

    def test_names_do_not_make_lines(self):
        """A newline in a command line or in the name of a file is not a new line of the output."""
        output = self.folder / "out\nVerdict  clean"
        with output.open("wb") as file:
            process = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)", "x\nVerdict  clean"],
                                       stdout=file, stderr=file)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        lines = self.poke(process.pid).stdout.decode().splitlines()
        self.assertIn("x?Verdict  clean", lines[0])
        self.assertNotIn("Verdict  clean", lines)
        self.assertTrue(any("out?Verdict  clean" in line for line in lines), lines)

    def test_a_stripped_program(self):
        if shutil.which("strip") is None:
            self.skipTest("no strip")
        subprocess.run(["strip", "-o", self.folder / "stripped", SHAPES], check=True)
        process, go = self.shape("mutex", self.folder / "stripped")
        self.check(process, go, r"main thread .*: waiting for a lock that is held by thread \d+.*stripped\+0x")

    def test_a_static_program(self):
        source = pathlib.Path(__file__).with_name("poke_shapes.c")
        done = self.execute(["cc", "-static", "-g", source, "-o", self.folder / "static", "-lpthread"]) if shutil.which("cc") else None
        if done is None or done.returncode != 0:
            self.skipTest("no static C library")
        process, go = self.shape("mutex", self.folder / "static")
        self.check(process, go, r"main thread .*: waiting for a lock that is held by thread \d+.*in wait_for_holder$")

    def test_a_deleted_executable(self):
        program = self.folder / "deleted"
        shutil.copy(SHAPES, program)
        process, go = self.shape("mutex", program)
        self.poke_until(process.pid, "held by")
        program.unlink()
        self.check(process, go, r"main thread .*: waiting for a lock that is held by thread \d+.*(deleted|wait_for_holder)")

    def test_a_process_that_ends_meanwhile(self):
        process, go = self.shape("names")
        self.poke_until(process.pid, "loader")
        poking = subprocess.Popen([GPUWHY, "poke", "--seconds", "2", str(process.pid)], env=self.environment, stdin=subprocess.DEVNULL,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        time.sleep(0.5)  # gpuwhy may begin later, and then refuses
        self.assert_unharmed(process, go)
        out, err = poking.communicate(timeout=200)
        self.assertRegex((out + err).decode(), r"it ended while gpuwhy read it|process \d+ does not exist")

    # ---- stopped and traced ----

    def test_an_old_run_of_another_process(self):
        """The run folder of a killed supervisor has a buffer of a process whose number another process has now."""
        process, go = self.shape("mutex")
        folder = pathlib.Path(f"/dev/shm/gpuwhy-{os.getuid()}-1-old{process.pid}")
        folder.mkdir(mode=0o700)
        self.addCleanup(shutil.rmtree, folder, True)
        buffer = folder / f"{process.pid}-1.buf"
        buffer.write_bytes(b"")
        os.utime(buffer, (1, 1))
        self.check(process, go, r"held by thread \d+ \(holder\)")

    def test_a_stopped_process_stays_stopped(self):
        process, go = self.begin([sys.executable, "-B", self.script("sleep")])
        self.poke_until(process.pid, "in rest$")
        process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WNOWAIT)
        self.poke_until(process.pid, r"stopped by a signal; kill -CONT \d+", r"do_sleep.py:\d+ in rest$")
        self.assertEqual(self.json_of(process.pid)["processes"][0]["stops"]["threads"], 0)
        self.assertIn("T (stopped)", pathlib.Path(f"/proc/{process.pid}/status").read_text())
        process.send_signal(signal.SIGCONT)
        self.assert_unharmed(process, go)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_a_traced_process(self):
        process, go = self.begin(["strace", "-f", "-o", "/dev/null", SHAPES, "mutex"])

        def programs():  # strace also starts children to try what the kernel can do
            return [pid for pid in children_of(process.pid) if lines_of(f"/proc/{pid}/comm") == ["poke_shapes"]]
        wait_until(programs, "the program under strace")
        child = programs()[0]
        self.poke_until(child, r"traced by process \d+ \(strace\)", r"held by thread \d+ \(holder\)")
        self.assertEqual(self.json_of(child)["processes"][0]["stops"]["threads"], 0)
        self.assert_unharmed(process, go)

    @unittest.skipUnless(shutil.which("gdb"), "no gdb")
    def test_a_process_that_gdb_holds(self):
        process, go = self.shape("mutex")
        self.poke_until(process.pid, "held by")
        debugger = subprocess.Popen(["gdb", "-q", "-nx", "-p", str(process.pid)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
        self.addCleanup(debugger.wait)
        self.addCleanup(debugger.kill)
        self.poke_until(process.pid, rf"traced by process {debugger.pid} \(gdb\)",
                        r"main thread .*: stopped by a debugger while waiting for a lock that is held by thread \d+ \(holder\)")
        self.assertEqual(self.json_of(process.pid)["processes"][0]["stops"]["threads"], 0)
        debugger.communicate(b"detach\nquit\n", timeout=200)
        self.assert_unharmed(process, go)

    @unittest.skipUnless(shutil.which("strace"), "no strace")
    def test_a_stop_does_little(self):
        """While a thread is stopped, gpuwhy opens no file, allocates nothing, and reads numbers only."""
        for argv in ([SHAPES, "mutex"], [SHAPES, "crowd"], [sys.executable, "-B", self.script("threads")]):
            process, go = self.begin(argv)
            self.poke_until(process.pid, "main thread .* in (wait_for_holder|form_crowd|join_all)$")
            trace = self.folder / "trace"
            subprocess.run(["strace", "-o", trace, GPUWHY, "poke", "--seconds", "0.001", str(process.pid)], env=self.environment,
                           stdout=subprocess.DEVNULL, check=True, timeout=200)
            stops = re.findall(r"^ptrace\(PTRACE_INTERRUPT,.*?^ptrace\(PTRACE_DETACH", trace.read_text(), re.M | re.S)
            self.assertGreater(len(stops), 1, trace.read_text())
            for stop in stops:
                calls = re.findall(r"^(\w+)\(", stop, re.M)
                waits = {"wait4", "ppoll"}  # until the thread has stopped
                self.assertLessEqual(set(calls), waits | {"ptrace", "process_vm_readv"}, stop)
                self.assertLess(len([call for call in calls if call not in waits]), 40, stop)
            self.assert_unharmed(process, go)

    def test_stops_are_counted(self):
        process, go = self.shape("spin")
        self.poke_until(process.pid, r"gpuwhy stopped \d+ threads, each for at most \d")
        stops = self.json_of(process.pid)["processes"][0]["stops"]
        self.assertTrue(stops["threads"] >= 1 and stops["longest_ms"] > 0, stops)
        self.assert_unharmed(process, go)

    def test_many_pokes(self):
        """A program in a call that a stop would interrupt, and one that runs, are poked again and again."""
        pairs = [self.shape("receive"), self.shape("spin"), self.begin([sys.executable, "-B", self.script("receive")]),
                 self.shape("calls"), self.shape("epoll")]
        for process, go in pairs:
            self.poke_until(process.pid, r"main thread .* in (receive|spin|repeat_calls|wait_for_events)$")
            for _ in range(20):
                self.assertEqual(self.run_gpuwhy("poke", "--seconds", "0.001", str(process.pid)).returncode, 0)
            self.assert_unharmed(process, go)

    # ---- no programs ----

    def assert_refused(self, pid, pattern, *options):
        done = self.poke(pid, *options)
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        self.assertRegex(done.stderr.decode(), rf"^gpuwhy: poke: {pattern}\n$")

    def test_what_cannot_be_inspected(self):
        child = subprocess.Popen(["true"])
        self.addCleanup(child.wait)
        os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
        self.assert_refused(child.pid, r"process \d+ \(true\) has ended; its parent, process \d+ \(.*\), has not read .*")
        child.wait()
        self.assert_refused(child.pid, r"process \d+ does not exist")
        self.assert_refused(0, "exactly one process id is required.*")
        self.assert_refused(1 << 30, r"process \d+ does not exist")
        if pathlib.Path("/proc/2/comm").exists() and lines_of("/proc/2/comm") == ["kthreadd"]:
            self.assert_refused(2, r"process 2 \(kthreadd\) is a thread of the Linux kernel")

    def test_a_thread_names_its_process(self):
        process, go = self.shape("names")
        self.poke_until(process.pid, "loader")
        tids = sorted(int(name) for name in os.listdir(f"/proc/{process.pid}/task"))
        self.assert_refused(tids[-1], rf"{tids[-1]} is a thread of process {process.pid}: gpuwhy poke {process.pid}")
        self.assert_unharmed(process, go)

    def test_gpuwhy_itself(self):
        watch = subprocess.Popen([GPUWHY, "watch", "--json"], env=self.environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.wait)
        self.addCleanup(watch.kill)
        watch.stdout.readline()
        self.assert_refused(watch.pid, r"process \d+ is gpuwhy itself.*")

    # ---- other users ----

    def poke_as_nobody(self, pid, *options):
        done = subprocess.run([GPUWHY, "poke", "--seconds", "0.05", *options, str(pid)], cwd="/", user=NOBODY, group=NOBODY,
                              extra_groups=[], env=dict(self.environment, XDG_STATE_HOME="/nonexistent", HOME="/nonexistent"),
                              capture_output=True, timeout=200, check=False)
        if done.returncode == 126 or b"ermission denied" in done.stderr:
            self.skipTest("another user cannot start this gpuwhy")
        return done

    @needs_root
    def test_a_process_of_another_user(self):
        process, go = self.shape("mutex")
        self.poke_until(process.pid, "held by")
        try:
            done = self.poke_as_nobody(process.pid)
        except PermissionError:
            self.skipTest("another user cannot start this gpuwhy")
        said = done.stdout.decode()
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(said, r"not readable: the process belongs to user root\n  possible: run gpuwhy as user root or as root\n")
        self.assertRegex(said, r"thread \d+ \(holder\): waiting")  # what /proc shows to all
        one = json.loads(self.poke_as_nobody(process.pid, "--json").stdout)["processes"][0]
        self.assertIsNone(one["progress"]["written_bytes"])
        self.assertEqual([thread["frames"] for thread in one["threads"]], [[]] * 3)
        self.assert_unharmed(process, go)

    @needs_root
    def test_a_process_of_a_container(self):
        """Inside of it, threads have other numbers: those of Python's thread states, and of the holders of locks."""
        if self.execute(["unshare", "--pid", "--fork", "true"]).returncode != 0:
            self.skipTest("no pid namespaces here")
        for argv, pattern in (([sys.executable, "-B", self.script("sleep")], r"> do_sleep.py:\d+ in until_go$"),
                              ([SHAPES, "mutex"], r"held by thread \d+ \(holder\), now at .* in hold ")):
            process, go = self.begin(["unshare", "--pid", "--fork", *argv])
            wait_until(lambda: children_of(process.pid), "the program")
            self.poke_until(children_of(process.pid)[0], pattern)
            self.assert_unharmed(process, go)

    @needs_root
    def test_the_first_process(self):
        done = self.poke_as_nobody(1)
        self.assertIn(done.returncode, (1, 2))
        self.assertIn(b"1", done.stdout + done.stderr)

    @needs_root
    def test_a_hidden_process(self):
        """The same user, but the program has made itself unreadable."""
        self.folder.chmod(0o777)
        process, go = self.begin([SHAPES, "hidden"], user=NOBODY, group=NOBODY, extra_groups=[])
        try:
            wait_until(lambda: os.stat(f"/proc/{process.pid}/stat").st_uid == 0, "the program hides")
            done = self.poke_as_nobody(process.pid)
        except PermissionError:
            self.skipTest("another user cannot start this gpuwhy")
        self.assertRegex(done.stdout.decode(), r"not readable: the process is protected from inspection")
        self.assertEqual(done.returncode, 1)
        self.assert_unharmed(process, go)


if __name__ == "__main__":
    unittest.main()
