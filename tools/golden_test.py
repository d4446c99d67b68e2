"""Compare this build with itself, and with wrappers that change its output, on a few inputs: golden.py must find exactly
that change. Needs GPUWHY_BUILD."""
import gzip
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["GPUWHY_BUILD"])
FILES = "recordings,logs,messages,questions"
MESSAGE = "RuntimeError: CUDA error: out of memory"


class Golden(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy golden "))
        self.addCleanup(shutil.rmtree, self.folder, True)
        inputs = self.folder / "tests"
        inputs.mkdir()
        tests = HERE.parent / "tests"
        recording = next(tests.rglob("illegal_address.gpuwhy"))
        (inputs / "address.gpuwhy.gz").write_bytes(gzip.compress(recording.read_bytes()))
        (inputs / "index.tsv").touch()
        (inputs / "full.log").write_text(MESSAGE + "\n")
        (inputs / "label.log").write_bytes(next(tests.rglob("torch-label.log")).read_bytes())
        (inputs / "messages.tsv").write_text(f"program\tmessage\nPyTorch\tTraceback:\\n{MESSAGE}\n")

    def wrapper(self, name, filter_command):
        """Make a build whose gpuwhy passes its output through a command."""
        build = self.folder / name
        build.mkdir()
        (build / "gpuwhy").write_text(f'#!/bin/sh\noutput=$("{BUILD}/gpuwhy" "$@")\nstatus=$?\n'
                                      f'printf "%s\\n" "$output" | {filter_command}\nexit $status\n')
        (build / "gpuwhy").chmod(0o755)
        return build

    def golden(self, base, build, kinds=FILES):
        done = subprocess.run([sys.executable, "-B", str(HERE / "golden.py"), "--base-build", str(base), "--build", str(build), "--tests",
                               str(self.folder / "tests"), "--kinds", kinds], capture_output=True, text=True,
                              env={**os.environ, "GOLDEN_WORK": str(self.folder / "work")})
        return done.returncode, done.stdout + done.stderr

    def differences(self):
        return (self.folder / "work" / "differences.txt").read_text()

    def test_same_build(self):
        status, said = self.golden(BUILD, BUILD, FILES + ",symbols")
        self.assertEqual(status, 0, said)
        self.assertIn("1 recordings, 2 logs, 1 messages, 1 questions", said)
        self.assertIn("no difference", said)
        self.assertEqual(self.differences(), "")

    def test_one_word(self):
        changed = self.wrapper("changed", "sed 's/^Verdict  device-assert-index/Verdict  device-assert-other/'")
        status, said = self.golden(BUILD, changed)
        self.assertEqual(status, 1, said)
        self.assertIn("1 differences of 1 kinds in 1 inputs", said)
        first, before, after = self.differences().splitlines()
        self.assertRegex(first, r"^logs .*/label\.log, explain --all$")
        self.assertRegex(before, r"^    - Verdict  device-assert-index \(established\)")
        self.assertEqual(after, before.replace("- Verdict", "+ Verdict").replace("-index", "-other"))

    def test_grouped(self):
        changed = self.wrapper("changed", """sed 's/"schema": 1,/"schema": 2,/'""")
        status, said = self.golden(BUILD, changed)
        self.assertEqual(status, 1, said)
        self.assertIn("2 x logs, explain --json: ", said)
        self.assertIn("5 differences of 4 kinds in 5 inputs", said)

    def test_exit_status(self):
        changed = self.wrapper("changed", 'cat; [ "$2 $3" != "--all -m" ] || status=9')
        status, said = self.golden(BUILD, changed)
        self.assertEqual(status, 1, said)
        self.assertIn("1 x questions, explain --all", said)
        self.assertIn("    + exit status 9\n", said)

    def test_unstable_line(self):
        unstable = self.wrapper("unstable", "sed \"\\$a process $$\"")
        status, said = self.golden(unstable, unstable)
        self.assertEqual(status, 0, said)
        self.assertIn("two runs of the older build differ there:\n    process N\n", said)

    def test_symbols(self):
        fewer = self.wrapper("fewer", "cat")
        (fewer / "lib" / "gpuwhy").mkdir(parents=True)
        shutil.copy(BUILD / "lib" / "gpuwhy" / "libgpuwhy-hook.so", fewer / "lib" / "gpuwhy" / "libgpuwhy-c10.so")
        status, said = self.golden(fewer, fewer, "symbols")
        self.assertEqual(status, 0, said)
        status, said = self.golden(BUILD, fewer, "symbols")
        self.assertEqual(status, 1, said)
        self.assertIn("symbols gpuwhy/libgpuwhy-c10.so, nm -D", self.differences())
        self.assertIn("symbols gpuwhy/libgpuwhy-hook.so, nm -D", self.differences())
        self.assertIn("    + (no such library)\n", self.differences())

    def test_built_during_the_comparison(self):
        changing = self.wrapper("changing", f"cat; touch '{self.folder}/changing/gpuwhy'")
        status, said = self.golden(BUILD, changing, "logs")
        self.assertEqual((status, said), (2, f"golden: {changing}/gpuwhy was built again during the comparison\n"))

    def test_nothing_to_compare(self):
        (self.folder / "tests" / "messages.tsv").unlink()
        status, said = self.golden(BUILD, BUILD)
        self.assertEqual((status, said), (2, "golden: no inputs of the kind messages, questions\n"))
        status, said = self.golden(self.folder, BUILD)
        self.assertEqual((status, said), (2, f"golden: {self.folder}/gpuwhy is not built\n"))


if __name__ == "__main__":
    unittest.main()
