"""Helpers for the tests of this folder. Each test compares a command with gpuwhy to the same command without it."""
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

GPUWHY = os.environ.get("GPUWHY", str(pathlib.Path(__file__).resolve().parents[2] / "build" / "gpuwhy"))
GPU = os.environ.get("GPUWHY_TEST_GPU", "virtual:h200")
WAIT_S = 200  # limit for things that happen at once on an idle machine

# The first lines of a Python program that uses the driver.
BEGIN = """\
import ctypes, os, sys
cu = ctypes.CDLL("libcuda.so.1")
def begin():
    device, context, pointer = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()
    assert cu.cuInit(0) == 0 and cu.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cu.cuCtxCreate_v2(ctypes.byref(context), 0, device) == 0
    assert cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
begin()
"""


def run_command(*argv, options=()):
    return [GPUWHY, "run", "--gpu", GPU, "--quiet", *options, "--", *argv]


def wait_until(condition, what):
    deadline = time.monotonic() + WAIT_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {WAIT_S} s for {what}")
        time.sleep(0.01)


def lines_of(path):
    try:
        return pathlib.Path(path).read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):  # a process may end between open and read
        return []


class Case(unittest.TestCase):
    """A test with its own folder, state and cache."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy cmd "))  # with spaces, on purpose
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY")}
        self.environment["XDG_STATE_HOME"] = str(self.folder / "state")
        if os.environ.get("GPUWHY_SANITIZE"):
            self.environment["ASAN_OPTIONS"] = "detect_leaks=0:verify_asan_link_order=0"

    def execute(self, argv, **more):
        """Run a command in this test's folder and environment. Both outputs are captured, unless `more` says otherwise."""
        usual = {"env": self.environment, "cwd": self.folder, "timeout": WAIT_S, "stdout": subprocess.PIPE,
                 "stderr": subprocess.PIPE}
        return subprocess.run([str(word) for word in argv], **(usual | more))

    def run_both(self, *argv, options=(), **more):
        """Run the same command without and with gpuwhy; return both finished processes."""
        return self.execute(argv, **more), self.execute(run_command(*argv, options=options), **more)

    def run_gpuwhy(self, *arguments, **more):
        done = self.execute([GPUWHY, *arguments], **more)
        if "--json" in arguments and done.stdout.startswith(b"{"):
            json_schemas.check(json.JSONDecoder().raw_decode(done.stdout.decode())[0])
        return done

    def start(self, *argv, options=(), **more):
        more.setdefault("env", self.environment)
        more.setdefault("cwd", self.folder)
        more.setdefault("start_new_session", True)
        return subprocess.Popen(run_command(*argv, options=options), **more)


class PythonCase(Case):
    """Run Python programs that use the driver, and read their verdicts as JSON."""

    def setUp(self):
        super().setUp()
        if os.environ.get("GPUWHY_SANITIZE"):
            self.skipTest("a sanitizer's runtime would have to be preloaded into Python")
        self.json = self.folder / "verdict.json"


def children_of(pid):
    """The children of a process. Reads all processes, because the kernel's list of children misses some while others end."""
    found = []
    for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(stat.parent.name))
        except (OSError, IndexError):
            pass  # it has ended
    return sorted(found)
