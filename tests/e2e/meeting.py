"""Ranks that wait in a store until all of them have come, as in PyTorch's init_process_group(). The programs use a small
store in files with the names of PyTorch's, and Python alone."""
import concurrent.futures
import json
import subprocess
import sys

from harness import GPUWHY, Card, Failure, Workplace, base_environment, behind_sanitizer, expect, main, new_folder

C10D = '''"""Stands in for PyTorch's module: a store that answers with the number of ranks that have come."""
import os, socket, socketserver, threading, time

class Answer(socketserver.BaseRequestHandler):
    def handle(self):
        with self.server.lock:
            self.server.come += 1
        while os.read(self.request.fileno(), 1):  # as libuv does: the kernel counts it like a file
            while self.server.waits and self.server.come < self.server.of:
                time.sleep(0.05) if self.server.come_soon else threading.Event().wait()
            os.write(self.request.fileno(), bytes([self.server.come]))

def serve(of, waits=False, port=0):
    server = socketserver.ThreadingTCPServer(("127.0.0.1", port), Answer)
    server.daemon_threads, server.lock, server.come, server.of, server.waits, server.come_soon = True, threading.Lock(), 0, of, waits, False
    threading.Thread(target=server.serve_forever, args=(1000,), daemon=True).start()
    return server.server_address[1]

def free_port():
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]

def init_process_group(port, of):
    while True:
        try:
            store = socket.create_connection(("127.0.0.1", port))
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    while True:
        store.sendall(b"?")
        if store.recv(1)[0] >= of:
            return store
        time.sleep(0.01)

def small_steps(port, seconds):
    store = socket.create_connection(("127.0.0.1", port))
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        store.sendall(b"?")
        store.recv(1)
        time.sleep(0.01)
'''
JOB = '''import os, subprocess, sys, time
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "site-packages"))
from torch.distributed import distributed_c10d as dist
how, of = sys.argv[1], int(os.environ.get("OF", "2"))

def rank(number, port):
    if how == "sleeps" and number == 1:
        time.sleep(1e6)  # AWAY
    if how == "ended" and number == 1:
        sys.exit(0)
    if how == "loads" and number == 1:
        with open("data", "wb") as file:
            for _ in range(600):
                file.write(b"x" * 10000)
                file.flush()
                time.sleep(0.01)
    if how == "served" and number == 0:
        dist.serve(of, port=port)
    if how == "steps":
        dist.small_steps(port, 7)
    else:
        dist.init_process_group(port, of)  # MEETS

if "RANK" in os.environ:
    rank(int(os.environ["RANK"]), int(os.environ["PORT"]))
else:
    port = dist.free_port() if how == "served" else dist.serve(of, waits=how == "sleeps")
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env=dict(os.environ, RANK=str(i), WORLD_SIZE=str(of), PORT=str(port), MASTER_ADDR=sys.argv[2]))
             for i in range(2)]
    if how == "far":  # stops waiting for the third after a while
        time.sleep(9)
        [one.kill() for one in ranks]
        [one.wait() for one in ranks]
        sys.exit(0)
    sys.exit(max(abs(one.wait()) for one in ranks))
'''


def line_of(mark):
    return next(i for i, line in enumerate(JOB.splitlines(), 1) if mark in line)


def run(place, how, of, after, *options):
    folder = new_folder(place, f"{how}-{of}")
    module = folder / "site-packages" / "torch" / "distributed" / "distributed_c10d.py"
    module.parent.mkdir(parents=True)
    module.write_text(C10D)
    (folder / "job.py").write_text(JOB)
    command = [str(GPUWHY), "run", *Card().options(), "--json", str(folder / "verdict.json"), "-o", str(folder / "run.gpuwhy"),
               "--hang-after", after, *options, "--", *behind_sanitizer([sys.executable, folder / "job.py", how, "far.example" if how == "far" else "127.0.0.1"])]
    done = subprocess.run(command, cwd=folder, env=base_environment(folder) | {"OF": str(of)}, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=100)
    return done.returncode, json.loads((folder / "verdict.json").read_text()), done.stderr.decode(errors="replace")


def hangs(place, how, of, words, lines):
    _, verdict, err = run(place, how, of, "2", "--kill-on-hang")
    found = f"{verdict['cause']} ({verdict['certainty']}): {verdict['headline']}\n{err}"
    expect((verdict["cause"], verdict["certainty"]) == ("peer-died", "supported"), found)
    expect(words in verdict["headline"], f"no {words!r}: {found}")
    text = "\n".join(e["text"] for e in verdict["evidence"])
    for mark in lines:
        expect(f"job.py:{line_of(mark)}" in text, f"no {mark} in {text}")
    where = verdict["where"]
    expect(where is not None and where["frames"][where["user"]]["line"] == line_of(lines[0]), f"where: {where}")


def goes_on(place, how, of):
    status, verdict, err = run(place, how, of, "4")
    expect(status == 0 and verdict["cause"] is None and "no progress" not in err, f"exit {status}, {verdict['cause']}: {err}")


CASES = {
    "sleeps": (hangs, "sleeps", 2, "rank 0 waits until all ranks of the job have come; rank 1 is elsewhere", ("# AWAY", "# MEETS")),
    "ended": (hangs, "ended", 2, "rank 0 waits until all ranks of the job have come; rank 1 has no process", ("# MEETS",)),
    "absent": (hangs, "absent", 3, "ranks 0, 1 wait until all ranks of the job have come; rank 2 has no process", ("# MEETS",)),
    "served": (hangs, "served", 3, "ranks 0, 1 wait until all ranks of the job have come; rank 2 has no process", ("# MEETS",)),
    # Two of three ranks, and the third may be on another machine.
    "far": (goes_on, "far", 3),
    "loads": (goes_on, "loads", 2),  # the twin of "sleeps": slow, but it comes
    "steps": (goes_on, "steps", 2),  # asks the store as often, but not to meet
}


def test():
    wanted = [name for name in CASES if len(sys.argv) < 2 or name in sys.argv[1:]]
    failed = []
    with Workplace() as place, concurrent.futures.ThreadPoolExecutor(2) as pool:
        for name, job in [(name, pool.submit(CASES[name][0], place, *CASES[name][1:])) for name in wanted]:
            try:
                job.result()
                print(f"  ok       {name}")
            except Failure as failure:
                failed.append(name)
                print(f"  FAILED   {name}: {failure}")
    expect(not failed, f"failed: {failed}")


if __name__ == "__main__":
    main(test)
