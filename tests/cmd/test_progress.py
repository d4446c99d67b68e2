"""The progress bar of long work: on a terminal, after half a second, and erased at the end. The export writes into a pipe
that is read late, so the work is long on any machine."""
import fcntl
import os
import pty
import re
import select
import subprocess
import termios
import threading
import time

from support import GPU, GPUWHY, Case, WAIT_S

CNN = os.environ.get("EXAMPLE_CNN", "")
PIPE_BYTES = 64 << 10


class Progress(Case):
    def setUp(self):
        super().setUp()
        self.recording = self.folder / "r.gpuwhy"
        self.run_gpuwhy("run", "--gpu", GPU, "--no-history", "--quiet", "-o", self.recording, "--", CNN, "--batch", "64")
        whole = self.run_gpuwhy("export", self.recording, "--to", "json").stdout
        self.assertGreater(len(whole), PIPE_BYTES)  # the pipe is full before the export ends

    def read_terminal(self, terminal, until=None):
        """Read until `until` appears or, without it, until nothing follows. Returns what was read."""
        seen, deadline = b"", time.monotonic() + WAIT_S
        while until is None or not re.search(until, seen):
            self.assertLess(time.monotonic(), deadline, seen)
            if not select.select([terminal], [], [], 0.1)[0]:
                if until is None:
                    return seen
                continue
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                return seen
        return seen

    def export(self, terminal_name):
        """Start an export into a pipe that nobody reads yet, with stderr on a terminal."""
        output, inside = os.pipe()
        terminal, slave = pty.openpty()
        self.addCleanup(os.close, terminal)
        process = subprocess.Popen([GPUWHY, "export", str(self.recording), "--to", "json"], stdout=inside, stderr=slave,
                                   env={**self.environment, "TERM": terminal_name}, cwd=self.folder)
        os.close(inside)
        os.close(slave)
        return process, output, terminal

    def finish(self, process, output):
        reader = threading.Thread(target=lambda: [None for _ in iter(lambda: os.read(output, 1 << 16), b"")])
        reader.start()
        self.assertEqual(process.wait(WAIT_S), 0)
        reader.join(WAIT_S)
        os.close(output)

    def test_a_bar_on_a_terminal(self):
        process, output, terminal = self.export("xterm")
        seen = self.read_terminal(terminal, until=rb"exporting the recording.*\033\[K")
        self.assertRegex(seen, rb"^\rgpuwhy: exporting the recording (\[#* *\] +\d+ %|\.\.\.)\033\[K")
        self.finish(process, output)
        seen += self.read_terminal(terminal)
        self.assertTrue(seen.endswith(b"\r\033[K"), seen)
        self.assertNotIn(b"\n", seen)

    def test_no_bar_on_a_terminal_that_cannot_erase(self):
        for name in ("dumb", ""):
            process, output, terminal = self.export(name)
            time.sleep(1)  # longer than the delay; a slow machine cannot make a bar appear
            self.finish(process, output)
            self.assertEqual(self.read_terminal(terminal), b"")

    def test_no_bar_of_a_job_in_the_background(self):
        terminal, slave = pty.openpty()
        self.addCleanup(os.close, terminal)

        def own_terminal():
            os.setsid()
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)
        for begin, is_drawn in ("", True), ("set -m; ", False):  # -m: a background job has a process group of its own
            output, inside = os.pipe()
            process = subprocess.Popen(["sh", "-c", begin + '"$@" & wait $!', "sh", GPUWHY, "export", str(self.recording),
                                        "--to", "json"], stdin=slave, stdout=inside, stderr=slave,
                                       preexec_fn=own_terminal, env={**self.environment, "TERM": "xterm"}, cwd=self.folder)
            os.close(inside)
            if is_drawn:
                self.read_terminal(terminal, until=rb"exporting the recording.*\033\[K")
            else:
                time.sleep(1)  # longer than the delay; a slow machine cannot make a bar appear
            self.finish(process, output)
            seen = self.read_terminal(terminal)
            if not is_drawn:
                self.assertNotIn(b"exporting", seen)
                self.assertNotIn(b"\033[K", seen)
        os.close(slave)

    def test_no_bar_in_a_pipe(self):
        output, inside = os.pipe()
        process = subprocess.Popen([GPUWHY, "export", str(self.recording), "--to", "json"], stdout=inside,
                                   stderr=subprocess.PIPE, env={**self.environment, "TERM": "xterm"}, cwd=self.folder)
        os.close(inside)
        time.sleep(1)
        self.finish(process, output)
        self.assertEqual(process.stderr.read(), b"")
        process.stderr.close()
