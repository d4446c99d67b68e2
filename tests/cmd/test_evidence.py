"""Evidence from the supervisor itself: all forms of stderr, how the program ended, and what the program was."""
import json
import os
import pty
import signal
import subprocess
import sys
import time

from support import Case, GPUWHY, WAIT_S, run_command, wait_until

RAISES = [sys.executable, "-c", "raise ValueError('the reason')"]


class Evidence(Case):
    def setUp(self):
        super().setUp()
        self.json = self.folder / "verdict.json"

    def verdict_of(self, argv, **more):
        more.setdefault("stderr", subprocess.DEVNULL)
        self.execute(run_command(*argv, options=["--json", self.json]), **more)
        return json.loads(self.json.read_text())

    def assert_the_exception_was_read(self, verdict):
        self.assertEqual((verdict["status"], verdict["cause"]), ("fault", "script-exception"), verdict)
        self.assertTrue(any("the reason" in line["text"] for line in verdict["evidence"]), verdict["evidence"])

    def test_stderr_in_a_pipe(self):
        self.assert_the_exception_was_read(self.verdict_of(RAISES, stderr=subprocess.PIPE))

    def test_stderr_in_a_file(self):
        path = self.folder / "stderr"
        path.write_text("ValueError: an older one\n" * 100)
        with open(path, "ab") as file:
            verdict = self.verdict_of(RAISES, stderr=file)
        self.assert_the_exception_was_read(verdict)
        self.assertFalse(any("an older one" in line["text"] for line in verdict["evidence"]))

    def test_stderr_in_a_file_behind_a_lot(self):
        script = "import sys\nfor i in range(200000): print('a long line of progress', i, file=sys.stderr)\n" + RAISES[2]
        with open(self.folder / "stderr", "wb") as file:
            self.assert_the_exception_was_read(self.verdict_of([sys.executable, "-c", script], stderr=file))

    def test_both_in_one_pipe(self):
        """2>&1 | tee log"""
        verdict = self.verdict_of(RAISES, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assert_the_exception_was_read(verdict)

    def test_both_in_one_file(self):
        """> log 2>&1, and the same with two separate descriptions of the file."""
        with open(self.folder / "log", "wb") as log:
            self.assert_the_exception_was_read(self.verdict_of(RAISES, stdout=log, stderr=subprocess.STDOUT))
        with open(self.folder / "log", "ab") as log, open(self.folder / "log", "ab") as other:
            self.assert_the_exception_was_read(self.verdict_of(RAISES, stdout=log, stderr=other))

    def test_stderr_on_a_terminal(self):
        pid, master = pty.fork()
        if pid == 0:
            os.chdir(self.folder)
            os.execve(GPUWHY, run_command(*RAISES, options=["--json", str(self.json)]), self.environment)
        deadline = time.monotonic() + WAIT_S
        while time.monotonic() < deadline:
            try:
                if not os.read(master, 4096):
                    break
            except OSError:
                break
        os.waitpid(pid, 0)
        os.close(master)
        self.assert_the_exception_was_read(json.loads(self.json.read_text()))

    def test_no_stderr_when_not_asked(self):
        done = self.execute(run_command(*RAISES, options=["--json", self.json, "--no-stderr"]))
        self.assertIn(b"the reason", done.stderr)
        self.assertEqual(json.loads(self.json.read_text())["status"], "undetermined")

    def test_the_end_is_told(self):
        verdict = self.verdict_of(["sh", "-c", "exit 3"])
        self.assertEqual((verdict["program"]["exit"], verdict["program"]["signal"]), (3, None))
        verdict = self.verdict_of(["sh", "-c", "kill -9 $$"])
        self.assertEqual((verdict["program"]["exit"], verdict["program"]["signal"]), (None, 9))

    def test_secrets_are_masked(self):
        verdict = self.verdict_of(["sh", "-c", "exit 0", "--token", "hunter2", "--api-key=hunter2", "--lr=0.1"])
        self.assertEqual(verdict["program"]["argv"], ["sh", "-c", "exit 0", "--token", "***", "--api-key=***",
                                                      "--lr=0.1"])
        verdict = self.verdict_of(["sh", "-c", "exit 0", "-u", "bob:hunter2", "--cookie", "id=hunter2", "--otp=hunter2",
                                   "https://hooks.example/services/hunter2", "curl -u bob:hunter2 --pin hunter2",
                                   "--user", "alice"])
        self.assertEqual(verdict["program"]["argv"][3:], ["-u", "bob:***", "--cookie", "***", "--otp=***",
                                                          "https://hooks.example/***", "curl -u bob:*** --pin ***",
                                                          "--user", "alice"])
        self.environment["CUDA_TOKEN"] = "hunter3"
        self.verdict_of(["true"])
        for path in (self.folder / "state" / "gpuwhy").glob("*.gpuwhy"):
            for secret in (b"hunter2", b"hunter3"):
                self.assertNotIn(secret, path.read_bytes())

    def test_json_to_standard_output_follows_the_programs(self):
        done = self.execute(run_command("sh", "-c", "echo first", options=["--json", "-"]))
        first, rest = done.stdout.split(b"\n", 1)
        self.assertEqual(first, b"first")
        self.assertEqual(json.loads(rest)["schema"], 1)

    def test_quiet_speaks_of_faults_alone(self):
        done = self.execute(run_command("true"))
        self.assertEqual(done.stderr, b"")
        done = self.execute(run_command(*RAISES))
        self.assertIn(b"script-exception", done.stderr)

    def test_a_running_program_is_explained(self):
        process = self.start("sh", "-c", "echo started >started; sleep 60", options=["-o", str(self.folder / "r")])
        wait_until(lambda: (self.folder / "started").exists(), "the program")
        done = self.run_gpuwhy("explain", self.folder / "r")
        self.assertIn(done.returncode, (0, 1), done.stderr)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait(WAIT_S)
        done = self.run_gpuwhy("explain", self.folder / "r")
        self.assertIn(done.returncode, (0, 1), done.stderr)
