"""Phases marked by a program, in C with gpuwhy.h and in Python with gpuwhy.py: recorded under gpuwhy, ignored
without it."""
import json
import os
import pathlib
import shutil
import subprocess
import sys

from support import Case, WAIT_S, run_command

ROOT = pathlib.Path(__file__).resolve().parents[2]
MARKS = os.environ["PHASE_MARKS"]

IN_PYTHON = """
import ctypes, gpuwhy
assert not gpuwhy.phase("before the driver").recorded
assert not gpuwhy.phase("still before").recorded
ctypes.CDLL("libcuda.so.1").cuInit(0)
assert gpuwhy.phase("train").recorded
with gpuwhy.phase("validation"):
    pass
assert gpuwhy.phase(None).recorded
"""


class Phases(Case):
    def record(self, *argv, environment=None):
        recording = self.folder / "run.gpuwhy"
        done = self.execute(run_command(*argv, options=["-o", recording]), env=environment or self.environment, text=True)
        exported = self.run_gpuwhy("export", recording, "--to", "json")
        if exported.returncode != 0:
            self.skipTest("this build writes no JSON")
        items = json.loads(exported.stdout)["items"]
        return done, [(i["pid"], i.get("text") or None) for i in items if i.get("kind") == "PHASE"]

    def test_in_c(self):
        done, phases = self.record(MARKS)
        self.assertEqual(done.returncode, 0, done.stderr)
        said = dict(line.split() for line in done.stdout.splitlines())
        # one of the 4,096 marks that are recorded ends the phase without a new one
        self.assertEqual(said, {"before": "0", "init": "0", "first": "1", "thread": "1", "long": "1", "none": "1",
                                "many": str(4096 - 4)})
        parent = phases[0][0]
        self.assertEqual([text for pid, text in phases if pid == parent][:4], ["first", "by a thread", "x" * 200, None])
        self.assertEqual([text for pid, text in phases if pid != parent], ["in the child"])

    def test_in_c_without_gpuwhy(self):
        done = subprocess.run([MARKS], capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual(done.returncode, 0)
        recorded = [line for line in done.stdout.splitlines() if not line.startswith("init") and not line.endswith(" 0")]
        self.assertEqual(recorded, [])

    def test_in_python(self):
        if "thread" in os.environ.get("GPUWHY_SANITIZE", ""):
            self.skipTest("this interpreter cannot load a library that wants the thread sanitizer first")
        environment = {**self.environment, "PYTHONPATH": str(ROOT / "python")}
        done, phases = self.record(sys.executable, "-c", IN_PYTHON, environment=environment)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual([text for _, text in phases], ["before the driver", "still before", "train", "validation", "train", None])

    def test_in_python_without_gpuwhy(self):
        script = "import gpuwhy\nwith gpuwhy.phase('x') as p: print(p.recorded)\nprint(gpuwhy.phase('y').recorded)"
        done = subprocess.run([sys.executable, "-c", script], env={**os.environ, "PYTHONPATH": str(ROOT / "python")},
                              capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "False\nFalse\n", ""))

    def test_the_header_in_other_languages(self):
        source = self.folder / "header.c"
        source.write_text("#include <gpuwhy.h>\nint main(void) { return gpuwhy_phase(\"x\") + gpuwhy_phase(0); }\n")
        tried = 0
        for compiler, options in (("cc", ["-std=c99", "-pedantic"]), ("cc", ["-std=c11"]), ("c++", ["-x", "c++", "-std=c++11"]),
                                  ("c++", ["-x", "c++", "-std=c++20"]), ("clang", ["-std=c99", "-pedantic", "-Wshadow", "-Wdeclaration-after-statement"])):
            if shutil.which(compiler) is None:
                continue
            tried += 1
            done = subprocess.run([compiler, *options, "-Wall", "-Wextra", "-fsyntax-only", "-I", str(ROOT / "include"), str(source)],
                                  capture_output=True, text=True, timeout=WAIT_S)
            self.assertEqual((done.returncode, done.stderr.count("gpuwhy.h:")), (0, 0), done.stderr)
        self.assertGreater(tried, 0)
