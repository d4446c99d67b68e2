"""Whether a run is going on, if gpuwhy is asked in a container in which the processes have other numbers."""
import os
import shutil
import signal
import subprocess

from support import Case, GPU, GPUWHY, WAIT_S, lines_of, wait_until

INSIDE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--pid", "--fork", "--kill-child",
          "--mount-proc"]


class Pids(Case):
    def setUp(self):
        super().setUp()
        if shutil.which("unshare") is None or subprocess.run([*INSIDE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no new namespaces are permitted here")
        self.recording = self.folder / "run.gpuwhy"
        self.ready = self.folder / "ready"

    def begin(self, *before):
        program = ["sh", "-c", 'echo yes >"$0"; sleep 1000', str(self.ready)]
        process = subprocess.Popen([*before, GPUWHY, "run", "--quiet", "--gpu", GPU, "-o", str(self.recording), "--", *program],
                                   env=self.environment, cwd=self.folder, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(self.end, process)
        wait_until(lambda: lines_of(self.ready) == ["yes"], "the program")
        return process

    def end(self, process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass  # the test has ended it
        process.wait(WAIT_S)

    def is_running(self, *before):
        done = self.execute([*before, GPUWHY, "explain", self.recording], text=True)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return " is running after " in " ".join(done.stdout.split())

    def test_a_reader_in_a_container(self):
        self.begin()
        self.assertTrue(self.is_running())
        self.assertTrue(self.is_running(*INSIDE))

    def test_a_run_in_a_container_that_was_killed(self):
        """Its supervisor had the number 1, which another process has outside."""
        process = self.begin(*INSIDE)
        self.assertTrue(self.is_running())
        process.kill()  # with unshare, all processes of its namespace end
        process.wait(WAIT_S)
        wait_until(lambda: not self.is_running(), "the end of the run")
