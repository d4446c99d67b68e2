"""Which parts of a run were observed: children without the hook, a run inside a run, a machine without a driver."""
import json
import pathlib
import subprocess
import sys
import threading
import unittest

from support import BEGIN, GPU, GPUWHY, PythonCase, run_command, wait_until


# As in a container whose launcher leaves the environment as it is: the facade's folder cannot be seen.
HIDDEN = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs none "$(dirname "$(echo "$LD_PRELOAD" | tr : "\\n" | grep -m1 facade-)")" '
          '&& exec "$@"', "sh")


class Coverage(PythonCase):
    def run_it(self, body, gpu=GPU, **more):
        program = self.folder / "launch.py"
        program.write_text(body)
        done = self.execute([GPUWHY, "run", "--gpu", gpu, "--json", self.json, "--", sys.executable, program], text=True, **more)
        return done, json.loads(self.json.read_text())

    def child(self, environment, status, before=()):
        """A program whose child lives until the file "go" exists."""
        child = f"import os, time, sys\nwhile not os.path.exists('go'): time.sleep(0.02)\nsys.exit({status})"
        return f"import subprocess, sys\nsubprocess.run([*{before!r}, sys.executable, '-c', {child!r}], env={environment}, check=True)\n"

    def test_exec_frees_the_memory_of_the_old_program(self):
        """Each of four programs in the same process creates a context and allocates 1 MiB."""
        done, verdict = self.run_it(BEGIN + "turn = int(sys.argv[1]) if len(sys.argv) > 1 else 1\n"
                                    "if turn < 4: os.execv(sys.executable, [sys.executable, sys.argv[0], str(turn + 1)])\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(verdict["status"], "clean", done.stderr)
        self.assertEqual(verdict["peak"]["bytes"], 1 << 20)
        self.assertEqual(verdict["leaks"], [])

    def run_until_seen(self, body):
        """Let the child go on once the recording shows that the supervisor has seen it."""
        (self.folder / "go").unlink(missing_ok=True)
        result = []
        thread = threading.Thread(target=lambda: result.append(self.run_it(body)))
        thread.start()

        def is_seen():
            done = self.run_gpuwhy("explain", "--json")
            if done.returncode not in (0, 1) or not done.stdout:
                return False
            verdict = json.loads(done.stdout)
            return verdict["program"]["exit"] is None and verdict["coverage"]["unobserved"]
        try:
            wait_until(is_seen, "the supervisor to see the child")
        finally:
            (self.folder / "go").touch()
            thread.join()
        return result[0]

    def assert_claims_nothing(self, verdict):
        self.assertFalse([line for line in verdict["ruled_out"] if line.startswith("the GPU")], verdict["ruled_out"])
        for words in ("ruled out", "not at fault", "no fault found"):
            self.assertNotIn(words, verdict["headline"])

    def test_a_child_with_another_environment(self):
        done, verdict = self.run_until_seen(self.child("{}", 3))
        self.assertEqual((done.returncode, verdict["status"]), (1, "undetermined"), verdict)
        self.assert_claims_nothing(verdict)
        self.assertEqual(len(verdict["coverage"]["unobserved"]), 1)
        self.assertIn("a different environment", verdict["coverage"]["unobserved"][0])
        done, verdict = self.run_until_seen(self.child("{}", 0))
        self.assertEqual((done.returncode, verdict["status"]), (0, "undetermined"), verdict)
        self.assert_claims_nothing(verdict)

    def test_its_twin_has_ours(self):
        (self.folder / "go").touch()
        done, verdict = self.run_it(self.child("None", 3))
        self.assertEqual((done.returncode, verdict["cause"], verdict["certainty"]), (1, "script-exception", "established"))
        self.assertEqual(verdict["coverage"], {"processes": 0, "unobserved": []})
        self.assert_claims_nothing(verdict)
        done, verdict = self.run_it(BEGIN + self.child("None", 0))
        self.assertEqual((done.returncode, verdict["headline"]), (0, "no fault found"))

    def test_beside_work_that_was_seen(self):
        done, verdict = self.run_until_seen(BEGIN + self.child("{}", 0))
        self.assertEqual((done.returncode, verdict["status"]), (0, "clean"))
        self.assertIn("in the processes that were observed", verdict["headline"])
        self.assertEqual((verdict["coverage"]["processes"], len(verdict["coverage"]["unobserved"])), (1, 1))

    @unittest.skipIf(subprocess.run(["unshare", "-m", "true"], stderr=subprocess.DEVNULL).returncode, "no mount namespace here")
    def test_a_child_that_sees_other_files(self):
        done, verdict = self.run_until_seen(BEGIN + self.child("None", 3, HIDDEN))
        self.assertIn("cannot be preloaded", done.stderr)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assert_claims_nothing(verdict)
        self.assertIn("sees other files than gpuwhy", verdict["coverage"]["unobserved"][0])
        self.assertNotIn("ld.so", " ".join(line["text"] or "" for line in verdict["evidence"]))

    def test_a_run_inside_a_run(self):
        inner = self.folder / "inner.py"
        inner.write_text(BEGIN + "sys.exit(3)\n")
        body = f"import subprocess, sys\nsys.exit(subprocess.run({run_command(sys.executable, str(inner))!r}).returncode)\n"
        done, verdict = self.run_it(body)
        self.assertEqual((done.returncode, verdict["status"]), (3, "undetermined"))
        self.assertIn("another gpuwhy run", verdict["coverage"]["unobserved"][0])
        self.assert_claims_nothing(verdict)

    def test_without_a_driver(self):
        if subprocess.run([sys.executable, "-c", "import ctypes; ctypes.CDLL('libcuda.so.1')"],
                          stderr=subprocess.DEVNULL).returncode == 0:
            self.skipTest("there is a driver here")
        done, verdict = self.run_it("print('trained')", gpu="real")
        self.assertEqual((done.returncode, verdict["coverage"]["processes"]), (0, 0))
        self.assertIn("no CUDA driver call was observed", verdict["headline"])
        self.assertNotIn("no fault found", done.stderr)
        self.assertIn("no driver call observed", self.run_gpuwhy("history").stdout.decode())
        self.assertFalse(json.loads(self.run_gpuwhy("history", "--json").stdout)["runs"][-1]["observed"])
        self.assert_claims_nothing(verdict)
        done, verdict = self.run_it("raise ValueError('no')", gpu="real")
        self.assertEqual((verdict["cause"], verdict["certainty"]), ("script-exception", "established"))
        self.assert_claims_nothing(verdict)
        done, verdict = self.run_it("import os; os._exit(4)", gpu="real")
        self.assertEqual((done.returncode, verdict["status"]), (4, "undetermined"))
        self.assert_claims_nothing(verdict)
        # The virtual card is only named to a program that can run on it.
        self.assertNotIn("virtual:", done.stderr)
        self.assertIn("gpuwhy explain LOG, gpuwhy doctor -- python, gpuwhy lab", done.stderr.splitlines()[0])
        cnn = pathlib.Path(GPUWHY).parent / "examples" / "cnn"
        done = self.run_gpuwhy("run", "--no-history", "--", cnn, "--batch", "8")
        self.assertIn(b"gpuwhy run --gpu virtual:h200 -- program", done.stderr.splitlines()[0])
        # Each ending says that the program did without the GPU. Once is enough for what no screen may repeat.
        warning = "import sys; print('UserWarning: CUDA initialization: Found no NVIDIA driver', file=sys.stderr); sys.exit(%d)"
        for status in (0, 3):
            done, verdict = self.run_it(warning % status, gpu="real")
            said = [verdict["headline"], *verdict["advice"], *verdict["next"]]
            self.assertTrue(any("on the CPU" in text or "no GPU" in text for text in said), said)
            self.assertLessEqual(done.stderr.count("no CUDA driver call"), 1, done.stderr)
