"""Virtual cards, recorded and other programs on them, and gpuwhy beside them. Nothing waits for a fixed time."""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import json_schemas

GPUWHY = os.environ["GPUWHY"]
CARD_USER = os.environ["CARD_USER"]
WAIT_S = 120  # limit for things that happen at once on an idle machine
GIB = 1 << 30


def wait_for(look, what):
    """Call look() until it returns something true, and return that."""
    deadline = time.monotonic() + WAIT_S
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.05)


class Program:
    """A program that obeys: open CARD, alloc BYTES, launch MS, sync, ... (tests/nvml/card_user.c)."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True)

    def do(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def end(self):
        if self.process.stdin.closed:
            return
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait(WAIT_S)


class Case(unittest.TestCase):
    cards = "h200"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy watch "))
        self.addCleanup(shutil.rmtree, self.folder, True)
        (self.folder / "cards").mkdir(mode=0o700)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY") and k != "COLUMNS"}
        self.environment |= {"XDG_STATE_HOME": str(self.folder / "state"), "LC_ALL": "C.UTF-8",
                             "GPUWHY_VIRTUAL": self.cards, "GPUWHY_VIRTUAL_DIR": str(self.folder / "cards")}
        if os.environ.get("GPUWHY_SANITIZE"):
            self.environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"

    def open_program(self, command, environment, gib):
        """Start a program that opens the first card and allocates `gib` GiB. None: it does not open the card."""
        program = Program(command, environment)
        self.addCleanup(program.end)
        if gib is not None:
            self.obey(program, "open 0")
        if gib:
            self.obey(program, f"alloc {gib * GIB}")
        return program

    def obey(self, program, *orders):
        for words in orders:
            self.assertEqual(program.do(words), 0, words)

    def run_program(self, *options, gib=0):
        """A recorded program on the shared virtual card."""
        return self.open_program([GPUWHY, "run", "--gpu", "virtual:" + self.cards, "--quiet", *options, "--", CARD_USER],
                                 self.environment, gib)

    def other_program(self, gib=0):
        """A program on the same card that is not recorded: the virtual driver without the hook."""
        folder = pathlib.Path(GPUWHY).parent / "lib" / "gpuwhy" / "virtual"
        return self.open_program([CARD_USER], self.environment | {"LD_LIBRARY_PATH": str(folder)}, gib)

    def gpuwhy(self, *arguments, **more):
        more.setdefault("env", self.environment)
        return subprocess.run([GPUWHY, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=WAIT_S, **more)

    def snapshot(self, *options):
        done = self.gpuwhy("watch", "--once", "--json", *options)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        return json_schemas.check(json.loads(done.stdout))

    def run_of(self, program, snapshot):
        """The run in a snapshot whose supervisor is this program; None: not yet."""
        return next((run for run in snapshot["runs"] if run["supervisor_pid"] == program.process.pid), None)

    def wait_run(self, program, condition, *options):
        """Wait until the run of this program fulfils a condition; return the snapshot and the run."""
        def look():
            snapshot = self.snapshot(*options)
            run = self.run_of(program, snapshot)
            return (snapshot, run) if run is not None and condition(run) else None
        return wait_for(look, "the state of a run")


def needed(run):
    return run["memory"][0]["needed_bytes"] if run["memory"] else None
