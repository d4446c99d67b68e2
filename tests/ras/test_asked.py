"""NCCL's RAS is asked when a hang is seen, and by gpuwhy poke. The test answers in its place, at an address that it chooses; the ranks use
the stand-in for NCCL on the virtual card.

Environment: GPUWHY_BUILD: the build folder.
"""

import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import answers

BUILD = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")).resolve()
failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"FAILED   {what}")


def ranks_of(address):
    """The pids of the ranks that were started with this address, by rank."""
    found = {}
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            environment = (folder / "environ").read_bytes()
        except OSError:
            continue
        if b"--rank" in words and f"NCCL_RAS_ADDR={address}\0".encode() in environment and b"ranks" in words[0]:
            found[int(words[words.index(b"--rank") + 1])] = int(folder.name)
    return found


class Ras:
    """Answers like RAS. `silent`: as many connections get no answer; `old`: no JSON; `strange`: pids of another job; `user`: who
    listens."""

    def __init__(self, silent=0, old=False, strange=False, user=0):
        self.silent, self.old, self.strange = silent, old, strange
        self.count = self.reports = 0
        if user != 0:
            os.seteuid(user)
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=16)
        if user != 0:
            os.seteuid(0)
        self.address = f"127.0.0.1:{self.listener.getsockname()[1]}"
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            self.count += 1
            if self.count > self.silent:
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def report(self, as_json):
        pids = {0: 1, 1: 2} if self.strange else ranks_of(self.address)
        make = answers.as_json if as_json else answers.text
        text = make(2, {0: 6, 1: 5})
        for rank, pid in pids.items():
            text = text.replace(str(4700 + rank), str(pid))
        return text

    def answer(self, connection):
        as_json = False
        with connection, connection.makefile("rw") as stream:
            for line in stream:
                if line.startswith("TIMEOUT"):
                    stream.write("OK\n")
                elif line.startswith("SET FORMAT"):
                    as_json = not self.old
                    stream.write("OK\n" if as_json else "ERROR: Unknown command 'SET'\n")
                else:
                    stream.write(self.report(as_json))
                    stream.flush()
                    self.reports += 1
                    return
                stream.flush()


def run(folder, server, *options):
    """Run two ranks, one of which sleeps. Returns the recorded answers."""
    recording = os.path.join(tempfile.mkdtemp(dir=folder), "run.gpuwhy")
    environment = dict(os.environ, NCCL_RAS_ADDR=server.address, XDG_STATE_HOME=folder, LD_LIBRARY_PATH=str(BUILD / "tests/nccl"))
    done = subprocess.run([BUILD / "gpuwhy", "run", "--gpu", "virtual:h200", "-o", recording, "--hang-after", "1", "--kill-on-hang",
                           "--no-history", *options, "--", BUILD / "tests/nccl/ranks", "--script", "sleep"],
                          cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    check("SIGTERM" in done.stderr, f"{options}: no hang was seen: {done.stderr}")
    exported = subprocess.run([BUILD / "gpuwhy", "export", recording, "--to", "json"], capture_output=True, text=True, timeout=300).stdout
    return [item["value"] for item in json.loads(exported)["items"] if item.get("key") == "nccl.ras"]


def poke(folder, server):
    """Poke a rank that waits and the job, with RAS and without."""
    environment = dict(os.environ, NCCL_RAS_ADDR=server.address, XDG_STATE_HOME=folder, LD_LIBRARY_PATH=str(BUILD / "tests/nccl"))
    running = subprocess.Popen([BUILD / "gpuwhy", "run", "--gpu", "virtual:h200", "-o", os.path.join(folder, "poked.gpuwhy"), "--hang-after", "1000",
                                "--no-history", "--", BUILD / "tests/nccl/ranks", "--script", "sleep"],
                               cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def said(pid, *options):
        return subprocess.run([BUILD / "gpuwhy", "poke", "--seconds", "0.2", *options, str(pid)], capture_output=True, text=True,
                              timeout=300, env=dict(os.environ, XDG_STATE_HOME=folder)).stdout

    def wait_for(words, ask):
        text = ""
        for _ in range(300):
            text = ask()
            if all(word in text for word in words):
                return
            time.sleep(0.2)
        check(False, f"poke: {words} are missing: {text}")

    try:
        rank = {}
        while len(rank) < 2 and running.poll() is None:
            rank = ranks_of(server.address)
            time.sleep(0.1)
        launcher = int(pathlib.Path(f"/proc/{rank[0]}/status").read_text().split("PPid:")[1].split()[0])
        ras = [f"NCCL's RAS, communicator {answers.HASH} of 2 ranks, at two looks with the same counts:", "launched 6 AllReduce",
               f"rank 1 (pid {rank[1]} on 127.0.0.1): launched 5 AllReduce"]
        wait_for([*ras, "NCCL communicator, rank 0 of 2: 6 collectives", "last call: all_reduce #6 (256.00 KiB, float32) at ranks.c:",
                  f"rank 1 (pid {rank[1]}) has called 5 of 6"], lambda: said(rank[0]))
        wait_for(ras, lambda: said(launcher, "--job"))
        wait_for(["nccl_ras", *ras], lambda: said(rank[1], "--job", "--json"))
        server.count = 0
        check("RAS, " not in said(rank[0], "--no-ras") and "RAS, " not in said(launcher, "--job", "--no-ras") and server.count == 0,
              "poke --no-ras: RAS was asked")
    finally:
        for pid in (*ranks_of(server.address).values(), running.pid):
            os.kill(pid, signal.SIGKILL)
        running.wait()


def main():
    if not (BUILD / "tests/nccl/ranks").exists():
        print("skipped: no program with ranks in this build")
        return 77
    with tempfile.TemporaryDirectory() as folder:
        for name, server, wanted, mark in (("json", Ras(), 2, '"rank": 1'), ("text", Ras(old=True), 2, "Rank 1 has launched up to operation 5"),
                                           ("two silent connections", Ras(silent=2), 2, '"rank": 1'), ("another job", Ras(strange=True), 0, "")):
            found = run(folder, server)
            check(len(found) == wanted, f"{name}: {len(found)} answers of {server.reports} reports")
            check(all(mark in answer for answer in found), f"{name}: {found}")
            check(server.reports > 0, f"{name}: RAS was not asked")
        poke(folder, Ras())
        if os.geteuid() == 0:
            server = Ras(user=65534)
            check(run(folder, server) == [] and server.count == 0, "another user listens: it was asked")
        server = Ras()
        check(run(folder, server, "--no-ras") == [] and server.count == 0, "--no-ras: RAS was asked")
    print(f"{len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
