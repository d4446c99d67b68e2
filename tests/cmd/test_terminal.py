"""On a terminal: stderr has the same size and modes, and ^C and ^Z work as without gpuwhy."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
import unittest

from support import Case, WAIT_S, lines_of, run_command, wait_until


class Terminal(Case):
    def setUp(self):
        super().setUp()
        self.master = None
        self.seen = b""

    def open(self, argv):
        """Run argv in its own session on a terminal of 100 x 33."""
        pid, self.master = pty.fork()
        if pid == 0:
            try:
                fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 100, 0, 0))
                os.chdir(self.folder)
                os.execvpe(argv[0], argv, self.environment)
            finally:
                os._exit(99)
        self.addCleanup(os.close, self.master)
        return pid

    def read_until(self, wanted):
        deadline = time.monotonic() + WAIT_S
        while wanted not in self.seen:
            self.assertLess(time.monotonic(), deadline, f"{wanted} is not in {self.seen}")
            if select.select([self.master], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.master, 4096)
                except OSError:
                    self.fail(f"the terminal closed; {wanted} is not in {self.seen}")

    def drain_until_end(self, pid):
        deadline = time.monotonic() + WAIT_S
        status = None
        while status is None:
            self.assertLess(time.monotonic(), deadline, f"not over: {self.seen}")
            if select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.master, 4096)
                except OSError:
                    pass
            done, value = os.waitpid(pid, os.WNOHANG)
            if done:
                status = value
        return status

    def test_stderr_is_a_terminal_of_the_same_size(self):
        argv = run_command(sys.executable, "-c",
                           "import os; print(os.isatty(0), os.isatty(1), os.isatty(2), os.get_terminal_size(2))")
        pid = self.open(argv)
        self.assertEqual(self.drain_until_end(pid), 0)
        self.assertIn(b"True True True os.terminal_size(columns=100, lines=33)", self.seen)

    def test_bytes_arrive_as_without_us(self):
        outputs = []
        for prefix in ([], run_command()):
            self.seen = b""
            pid = self.open([*prefix, "sh", "-c", r"printf 'a\nb\r\n\tc\033[1mx\033[0m\n' >&2"])
            self.drain_until_end(pid)
            deadline = time.monotonic() + 1
            while time.monotonic() < deadline and select.select([self.master], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.master, 4096)
                except OSError:
                    break
            outputs.append(self.seen)
        self.assertEqual(outputs[0], outputs[1])

    def test_a_new_size_arrives(self):
        script = ("import os, sys, time\n"
                  "print('ready', flush=True)\n"
                  "while os.get_terminal_size(2).columns != 71: time.sleep(0.01)\n"
                  "print('resized')")
        pid = self.open(run_command(sys.executable, "-c", script))
        self.read_until(b"ready")
        fcntl.ioctl(self.master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 71, 0, 0))
        self.assertEqual(self.drain_until_end(pid), 0)

    def test_an_interrupt_from_the_keyboard_reaches_the_program_once(self):
        script = ("import signal, sys, time\n"
                  "count = []\n"
                  "signal.signal(signal.SIGINT, lambda n, f: count.append(n))\n"
                  "print('ready', flush=True)\n"
                  "while not count: time.sleep(0.01)\n"
                  "time.sleep(0.3)\n"
                  "print('count', len(count), flush=True)\n"
                  "sys.exit(5)")
        pid = self.open(run_command(sys.executable, "-c", script))
        self.read_until(b"ready")
        os.write(self.master, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(self.drain_until_end(pid)), 5)
        self.assertIn(b"count 1", self.seen)

    def test_an_interrupt_ends_both(self):
        pid = self.open(run_command("sh", "-c", "echo ready; exec sleep 60"))
        self.read_until(b"ready")
        os.write(self.master, b"\x03")
        self.assertEqual(os.waitstatus_to_exitcode(self.drain_until_end(pid)), -signal.SIGINT)

    def test_stop_and_continue_under_a_shell(self):
        pid = self.open(["bash", "--norc", "--noprofile", "-i"])
        program = self.folder / "program.py"  # no shell: one that is stopped while it forks cannot be stopped at all
        program.write_text("import os, sys, time\nprint('ready', flush=True)\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n"
                           "print('finished')\nsys.exit(3)\n")
        command = " ".join(f"'{a}'" for a in run_command(sys.executable, str(program)))
        os.write(self.master, b"PS1='> '; stty -echo\n" + command.encode() + b"\n")
        self.read_until(b"ready")
        os.write(self.master, b"\x1a")
        self.read_until(b"Stopped")
        os.write(self.master, b"fg\n")
        (self.folder / "go").touch()
        self.read_until(b"finished")
        os.write(self.master, b"echo status=$?\n")
        self.read_until(b"status=3")
        os.write(self.master, b"exit\n")
        self.drain_until_end(pid)


if __name__ == "__main__":
    unittest.main()
