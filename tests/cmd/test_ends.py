"""Runs that end, or stop making progress, without a word: what `run`, `history` and `explain` say about them."""
import contextlib
import json
import os
import pathlib
import pty
import select
import signal
import subprocess
import sys
import time

from support import BEGIN, GPU, GPUWHY, PythonCase, WAIT_S, children_of, lines_of, wait_until

# Two ranks that wait for each other as gloo does: a thread that moves bytes, the main thread waits for it.
RANKS = '''
import os, select, signal, socket, subprocess, sys, threading, time
kind = sys.argv[1]
def connect(rank, port):
    if rank == 0:
        with socket.create_server(("127.0.0.1", port)) as server:
            return server.accept()[0]
    while True:
        try:
            return socket.create_connection(("127.0.0.1", port))
        except OSError:
            time.sleep(0.01)
def work(rank, port):
    if "DEAF" in os.environ:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    peer, ready, got = connect(rank, port), threading.Condition(), []
    def move():
        poll = select.epoll()
        poll.register(peer.fileno(), select.EPOLLIN)
        while True:
            poll.poll()
            with ready:
                got.append(peer.recv(1))
                ready.notify_all()
    threading.Thread(target=move, daemon=True).start()
    def all_reduce():
        peer.sendall(b"x")
        with ready:
            ready.wait_for(lambda: got)  # the rank waits for the other one
            got.pop()
    for _ in range(3 + rank):
        all_reduce()
    rest(peer)  # rank 0 has finished its loop
def rest(peer):
    global server
    if kind == "join":
        threading.Event().wait()  # and never ends
    elif kind == "sleep":
        time.sleep(600)  # and never ends
    if kind == "serve":  # waits for somebody who may still connect
        server = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=server.accept, daemon=True).start()
    end = time.monotonic() + REST_S
    while time.monotonic() < end:
        if kind == "serve":
            threading.Event().wait(REST_S)
        elif kind == "print":
            os.write(2, b".")
        elif kind == "load":
            open(__file__, "rb").close()
            os.read(os.open(__file__, os.O_RDONLY), 10)
        elif kind == "talk":
            spare[1].send(b"x")
        elif kind == "input":
            select.select([0], [], [], REST_S)
        time.sleep(0.05)
    peer.sendall(b"x")
    time.sleep(0.2)
REST_S = float(os.environ.get("REST_S", "0"))
if kind == "talk":
    listener = socket.create_server(("127.0.0.1", 0))
    one = socket.create_connection(listener.getsockname())
    spare = (listener.accept()[0], one)
    listener.close()
if "RANK" in os.environ:
    work(int(os.environ["RANK"]), int(os.environ["MASTER_PORT"]))
    sys.exit(0)
if kind == "all-sleep":
    os.environ["RANK"] = os.environ["WORLD_SIZE"] = "1"
    time.sleep(REST_S)
    sys.exit(0)
with socket.create_server(("127.0.0.1", 0)) as free:
    port = free.getsockname()[1]
ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "RANK": str(rank), "LOCAL_RANK": str(rank),
         "WORLD_SIZE": "2", "MASTER_PORT": str(port)}) for rank in range(2)]
open("pids", "w").write("".join(f"{rank.pid}\\n" for rank in ranks))
sys.exit(max(rank.wait() for rank in ranks))
'''

# Two ranks that poll shared memory as MPI does. Rank 0 waits for a message.
POLLING = '''
import ctypes, mmap, os, subprocess, sys, time
kind = sys.argv[1]
if "OMPI_COMM_WORLD_RANK" not in os.environ:
    with open("segment", "wb") as file:
        file.truncate(1 << 17)
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "OMPI_COMM_WORLD_RANK": str(rank),
             "OMPI_COMM_WORLD_SIZE": "2"}) for rank in range(2)]
    open("pids", "w").write("".join(f"{rank.pid}\\n" for rank in ranks))
    sys.exit(max(rank.wait() for rank in ranks))
mpi, rank = ctypes.CDLL(os.environ["MPI_STANDIN"]), int(os.environ["OMPI_COMM_WORLD_RANK"])
with open("segment", "r+b") as file:
    memory = mmap.mmap(file.fileno(), 0)
words = (ctypes.c_int * 1024).from_buffer(memory)
def at(index):
    return ctypes.byref(words, 4 * index)
end = time.monotonic() + float(os.environ.get("REST_S", "0"))
if kind == "talk":  # always in MPI, and never stuck; the first word of a page says that it goes on
    while True:
        words[0] = words[0] or time.monotonic() > end
        for _ in range(2000):
            mpi.MPI_Barrier(at(1), rank)
        if words[0] and words[1] == words[2]:
            time.sleep(0.2)
            os._exit(0)
elif rank == 0:
    mpi.MPI_Recv(at(0))  # nobody sends
elif kind == "stuck":
    mpi.MPI_Recv(at(1))  # nobody sends here either
elif kind == "sleep":
    time.sleep(600)  # and does not send
elif kind == "compute":
    while time.monotonic() < end:
        sum(range(1000))
    words[0] = 1
'''

# Takes memory now and then, and writes to both outputs.
WRITER = BEGIN + '''
import time
open("pid", "w").write(f"{os.getpid()}\\n")
for i in range(1000):
    print("out", i, flush=True)
    print("err", i, file=sys.stderr)
    time.sleep(0.02)
'''


class Ends(PythonCase):
    def setUp(self):
        super().setUp()
        (self.folder / "ranks.py").write_text(RANKS)
        (self.folder / "writer.py").write_text(WRITER)

    def begin(self, *argv, options=(), **more):
        command = [GPUWHY, "run", "--gpu", GPU, "--json", str(self.json), *options, "--", sys.executable, *argv]
        more.setdefault("stdin", subprocess.DEVNULL)
        more.setdefault("stdout", subprocess.PIPE)
        more.setdefault("stderr", subprocess.PIPE)
        return subprocess.Popen(command, cwd=self.folder, env={**self.environment, **more.pop("env", {})}, text=True,
                                start_new_session=True, **more)

    def verdict(self):
        return json.loads(self.json.read_text())

    def explained(self):
        done = self.run_gpuwhy("explain", "--json", stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)

    def history(self):
        return json.loads(self.run_gpuwhy("history", "--json").stdout)["runs"]

    def wait_for_writer(self):
        wait_until(lambda: lines_of(self.folder / "pid"), "the program")
        return int(lines_of(self.folder / "pid")[0])


class Ranks(Ends):
    def hang(self, kind, mark, **more):
        process = self.begin("ranks.py", kind, options=("--hang-after", "1", "--kill-on-hang"), **more)
        _, err = process.communicate(timeout=WAIT_S)
        verdict = self.verdict()
        self.assertEqual((verdict["cause"], verdict["certainty"]), ("peer-died", "supported"), err)
        self.assertIn("is running", " ".join(err.split()))
        text = "\n".join(line["text"] for line in verdict["evidence"])
        source = RANKS.splitlines()
        for wanted in ("the rank waits for the other one", mark):
            line = next(i + 1 for i, it in enumerate(source) if wanted in it)
            self.assertIn(f"ranks.py:{line} in ", text)
        self.assertIn("and with nobody else", text)
        for pid in lines_of(self.folder / "pids"):  # the ranks end, too, not only their parent
            wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "the end of a rank")
        return verdict

    def test_a_rank_that_has_finished_is_noticed(self):
        self.hang("join", "threading.Event().wait()")

    def test_a_rank_that_sleeps_is_named(self):
        self.assertIn("rank 1 waits for rank 0", self.hang("sleep", "time.sleep(600)")["headline"])

    def test_ranks_that_take_no_notice_of_sigterm_are_ended(self):
        self.hang("sleep", "time.sleep(600)", env={"DEAF": "1"})

    def test_ranks_that_work_or_wait_for_others_are_left_alone(self):
        kinds = ("serve", "print", "load", "talk", "input", "all-sleep")
        started = []
        for kind in kinds:
            folder = self.folder / kind
            folder.mkdir()
            ends, hold = os.pipe()  # standard input that stays open
            self.addCleanup(os.close, hold)
            command = [GPUWHY, "run", "--gpu", GPU, "--no-history", "--json", str(folder / "verdict.json"), "--hang-after",
                       "1", "--", sys.executable, str(self.folder / "ranks.py"), kind]
            started.append((kind, folder, subprocess.Popen(
                command, cwd=folder, env={**self.environment, "REST_S": "4"}, stdin=ends, text=True,
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)))
            os.close(ends)
        for kind, folder, process in started:
            _, err = process.communicate(timeout=WAIT_S)
            verdict = json.loads((folder / "verdict.json").read_text())
            self.assertEqual((process.returncode, verdict["cause"]), (0, None), f"{kind}: {err}")
            self.assertNotIn("is running", " ".join(err.split()), kind)
            self.assertNotIn("no progress", err, kind)


class Polling(Ends):
    def setUp(self):
        super().setUp()
        self.addCleanup(self.end_ranks)
        (self.folder / "polling.py").write_text(POLLING)

    def end_ranks(self):
        """A rank that polls would take a processor for ever."""
        for pid in lines_of(self.folder / "pids"):
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)

    def hang(self, kind, cause, *said):
        process = self.begin("polling.py", kind, options=("--hang-after", "1", "--kill-on-hang"))
        _, err = process.communicate(timeout=WAIT_S)
        verdict = self.verdict()
        self.assertEqual((verdict["cause"], verdict["certainty"]), (cause, "supported"), err)
        text = "\n".join(line["text"] for line in verdict["evidence"])
        for wanted in said:
            self.assertIn(wanted, verdict["headline"] + "\n" + text)
        for pid in lines_of(self.folder / "pids"):
            wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "the end of a rank")

    def test_ranks_that_poll_for_ever_are_noticed(self):
        self.hang("stuck", "collective-desync", "all ranks wait in MPI_Recv, and none of them sends",
                  "main thread polls in MPI_Recv at polling.py:")

    def test_a_rank_that_does_not_send_is_named(self):
        self.hang("sleep", "peer-died", "rank 0 waits for rank 1", "main thread polls in MPI_Recv at polling.py:",
                  "is sleeping")

    def test_ranks_that_poll_and_work_are_left_alone(self):
        for kind in ("talk", "compute"):
            process = self.begin("polling.py", kind, options=("--hang-after", "1"), env={"REST_S": "5"})
            _, err = process.communicate(timeout=WAIT_S)
            self.assertEqual((process.returncode, self.verdict()["cause"]), (0, None), f"{kind}: {err}")
            self.assertNotIn("no progress", err, kind)


class Terminal(Ends):
    def close_terminal(self, *prefix):
        """Run the writer in a terminal, and close the terminal while it runs."""
        command = [*prefix, GPUWHY, "run", "--gpu", GPU, "--json", str(self.json), "--", sys.executable, "writer.py"]
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execvpe(command[0], command, self.environment)
        deadline = time.monotonic() + WAIT_S
        while len(lines_of(self.folder / "pid")) == 0 and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.05)[0]:
                with contextlib.suppress(OSError):
                    os.read(terminal, 65536)
        os.close(terminal)
        os.waitpid(pid, 0)
        wait_until(self.json.exists, "the verdict")

    def test_a_closed_terminal_is_the_reason(self):
        self.close_terminal()
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "killed-by-scheduler-or-user", verdict)
        self.assertIn("nohup", "\n".join(verdict["next"]))
        self.assertNotIn("disk", verdict["headline"])
        self.assertEqual([run["cause"] for run in self.history()], ["killed-by-scheduler-or-user"])
        self.assertEqual(self.explained()["cause"], "killed-by-scheduler-or-user")

    def test_a_program_under_nohup_survives_it(self):
        (self.folder / "writer.py").write_text(WRITER.replace("range(1000)", "range(40)"))
        self.close_terminal("nohup")
        verdict = self.verdict()
        self.assertEqual((verdict["status"], verdict["cause"]), ("clean", None), verdict)


class Killed(Ends):
    def ours(self, pid):
        """gpuwhy's own processes below `pid`, with it, and the relay of its output."""
        found, todo = [], [pid]
        own = [os.path.realpath(GPUWHY), os.path.realpath(os.path.join(os.path.dirname(GPUWHY), "lib/gpuwhy/stderr-relay"))]
        while todo:
            one = todo.pop()
            todo += children_of(one)
            with contextlib.suppress(OSError):
                found += [one] if os.readlink(f"/proc/{one}/exe") in own else []
        return found

    def kill(self, pids):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def expect_killed(self):
        verdict = self.explained()
        self.assertEqual((verdict["status"], verdict["cause"]), ("undetermined", None), verdict)
        self.assertIn("gpuwhy itself was killed", verdict["headline"])
        runs = self.history()
        self.assertEqual([run["end"] for run in runs], ["gpuwhy was killed"])
        self.assertEqual(self.history(), runs, "the run was listed twice")
        return verdict

    def test_the_supervisor_alone(self):
        process = self.begin("writer.py")
        pid = self.wait_for_writer()
        self.assertEqual([run["end"] for run in self.history()], ["still running"])
        process.kill()
        process.communicate()
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "the end of the program")
        self.expect_killed()

    def test_all_of_gpuwhy_and_the_relay_and_the_program_is_not_blamed(self):
        process = self.begin("writer.py")
        pid = self.wait_for_writer()
        self.kill(self.ours(process.pid))
        process.communicate(timeout=WAIT_S)
        wait_until(lambda: not os.path.exists(f"/proc/{pid}/exe"), "the program to lose its output")
        verdict = self.expect_killed()
        self.assertNotIn("script-exception", json.dumps(verdict))
        self.assertIn("BrokenPipeError follows from that", "\n".join(verdict["advice"]))

    def test_a_broken_pipe_of_the_program_is_its_own(self):
        process = self.begin("-c", BEGIN + "raise BrokenPipeError(32, 'Broken pipe')")
        _, err = process.communicate(timeout=WAIT_S)
        self.assertIn("BrokenPipeError", json.dumps(self.verdict()), err)
        self.assertEqual([run["exit"] for run in self.history()], [1])
        self.assertFalse([name for name in os.listdir(self.folder / "state" / "gpuwhy") if name.startswith("unfinished")])
