"""The screen of `gpuwhy watch` in a real terminal: tmux sends the keys and returns what is shown."""
import os
import pty
import re
import shutil
import signal
import subprocess
import unittest

from support import GIB, GPUWHY, WAIT_S, Case, wait_for


class Terminal:
    def __init__(self, case, width, height):
        self.socket = str(case.folder / f"tmux-{width}")
        self.environment = {k: v for k, v in case.environment.items() if k != "TMUX"} | {"TERM": "xterm-256color"}
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", str(width), "-y", str(height), "sh")
        self.tmux("set-option", "-g", "status", "off")
        case.addCleanup(self.tmux, "kill-server", check=False)

    def tmux(self, *words, check=True):
        done = subprocess.run(["tmux", "-S", self.socket, *words], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True)
        if check and done.returncode != 0:
            raise AssertionError(f"tmux {words}: {done.stderr}")
        return done.stdout

    def type(self, text):
        self.tmux("send-keys", "-l", text)

    def press(self, key):
        self.tmux("send-keys", key)

    def screen(self):
        return self.tmux("capture-pane", "-p")

    def wait(self, pattern, absent=None):
        def look():
            screen = self.screen()
            return screen if re.search(pattern, screen) and not (absent and re.search(absent, screen)) else None
        try:
            return wait_for(look, repr(pattern))
        except AssertionError as failed:
            raise AssertionError(f"{failed}; the screen is:\n{self.screen()}") from None


@unittest.skipUnless(shutil.which("tmux"), "tmux is missing")
class Screen(Case):
    def start(self, width=80, height=24, *options):
        terminal = Terminal(self, width, height)
        terminal.type(f"'{GPUWHY}' watch --interval 1 " + " ".join(options) + "; echo status $?\n")
        terminal.wait(r"gpuwhy watch  \S* +\d\d:\d\d:\d\d")
        return terminal

    def keep(self, name, screen):
        """Keep the screen for people who want to look at it."""
        if os.environ.get("GPUWHY_SCREENS"):
            with open(os.path.join(os.environ["GPUWHY_SCREENS"], name), "w", encoding="utf-8") as file:
                file.write(screen)

    def test_a_small_and_a_large_terminal(self):
        self.run_program(gib=50).do(f"alloc {1000 * GIB}")
        self.run_program(gib=70)
        self.other_program(gib=5)
        for width, height in (80, 24), (120, 40), (60, 50), (40, 60):
            with self.subTest(width=width):
                terminal = self.start(width, height, "--alarm-at", "80%")
                # a need is unknown until NVML has reported what the driver holds for the run
                screen = terminal.wait(r"(?s)(?=.*needs\s+5[12]\d{3}\s+MiB)(?=.*ALARM:\s+1[23]\d{4}\s+MiB\s+needed)")
                if width < 80:  # nothing is cut
                    self.assertNotRegex(screen, r"~\n")
                    self.assertIn("(1 so far)", " ".join(screen.split()))
                self.assertLessEqual(max(map(len, screen.splitlines())), width)
                self.assertIn("CUDA_ERROR_OUT_OF_MEMORY", screen)
                self.assertRegex(screen, r"[56]\d{3}\s+MiB\s+unknown")
                self.keep(f"main-{width}", screen)
                terminal.press("q")
                terminal.wait("status 0")
                terminal.tmux("kill-server", check=False)

    def test_keys(self):
        first, second = self.run_program(gib=3), self.other_program(gib=9)
        terminal = self.start(100, 30)
        terminal.wait(r"(?s)\b(?:10|9)\d{3} MiB +unknown.*\b[34]\d{3} MiB")
        terminal.press("p")  # the recorded one was started first
        pids = sorted([second.process.pid, first.process.pid])
        self.assertEqual(pids[0], first.process.pid)
        terminal.wait(r"(?s)\b[34]\d{3} MiB +[34]\d{3} MiB.*\b(?:10|9)\d{3} MiB +unknown")
        terminal.press("m")
        terminal.wait(r"(?s)\b(?:10|9)\d{3} MiB +unknown.*\b[34]\d{3} MiB +[34]\d{3} ")
        terminal.type("?")
        self.keep("help", terminal.wait(r"order of the processes:  g GPU"))
        terminal.press("Space")
        terminal.wait("RECORDED RUN", absent="order of the processes")
        terminal.type(f"/{second.process.pid}")
        terminal.wait(rf"filter: {second.process.pid}_")
        terminal.wait(r"\b(?:10|9)\d{3} MiB", absent=r"\b[34]\d{3} MiB +[34]\d{3} ")
        terminal.press("BSpace")
        terminal.wait(rf"filter: {str(second.process.pid)[:-1]}_")
        terminal.type("zz")
        terminal.press("Enter")
        self.keep("filter", terminal.wait(r"zz   \(Esc: remove\)(?s:.)*no run matches(?s:.)*no process matches"))
        terminal.press("Escape")
        terminal.wait(r"\b(?:10|9)\d{3} MiB", absent="filter:")
        terminal.press("q")
        terminal.wait("status 0")

    def test_values_are_refreshed(self):
        program = self.run_program(gib=3)
        terminal = self.start()
        terminal.wait(r"needs [34]\d{3} MiB")
        self.obey(program, f"alloc {4 * GIB}")
        terminal.wait(r"needs [78]\d{3} MiB")
        program.end()
        terminal.wait(r"no process holds memory")

    def test_resizing(self):
        self.run_program(gib=50)
        terminal = self.start()
        terminal.wait(r"needs 5[12]\d{3} MiB")
        terminal.tmux("resize-window", "-x", "120", "-y", "40")
        terminal.wait(r"\[[#=.]{40}\]")  # a wide screen has a longer bar
        terminal.tmux("resize-window", "-x", "60", "-y", "8")
        screen = terminal.wait(r"more lines: Down, PgDn")
        self.assertLessEqual(len(screen.splitlines()), 8)
        terminal.press("NPage")
        terminal.press("End")
        terminal.wait(r"card_user|needs", absent="more lines")
        terminal.press("Home")
        terminal.wait(r"more lines")
        terminal.tmux("resize-window", "-x", "20", "-y", "3")
        terminal.tmux("resize-window", "-x", "80", "-y", "24")
        terminal.wait(r"needs 5[12]\d{3} MiB")
        terminal.press("q")
        terminal.wait("status 0")

    def test_a_signal_restores_the_terminal(self):
        terminal = self.start()
        terminal.press("C-c")
        terminal.wait(r"status 0")
        terminal.type("echo typ''ed\n")
        terminal.wait(r"(?m)^typed$")  # and the terminal echoes again

    def test_an_unknown_terminal(self):
        terminal = Terminal(self, 80, 24)
        terminal.type(f"TERM=no-such-terminal '{GPUWHY}' watch; echo status $?\n")
        terminal.wait(r"(?s)\"no-such-terminal\" is not known here.*status 2")


class Unusual(Case):
    """Terminals that tmux does not play."""

    def start(self, *options, **environment):
        self.master, slave = pty.openpty()
        process = subprocess.Popen([GPUWHY, "watch", "--interval", "3600", *options], stdin=slave, stdout=slave,
                                   stderr=slave, env={**self.environment, "TERM": "xterm", **environment},
                                   preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        os.close(slave)
        self.addCleanup(process.wait, WAIT_S)
        self.addCleanup(process.kill)
        return process

    def read(self, until):
        seen = b""
        while until not in seen:
            seen += os.read(self.master, 65536)
        return seen

    def test_without_its_terminal_it_ends(self):
        process = self.start()
        self.read(b"RECORDED RUN")
        os.close(self.master)
        self.assertEqual(process.wait(WAIT_S), 0)

    def test_colours_can_be_switched_off(self):
        for options, environment, is_coloured in ([], {"NO_COLOR": ""}, True), ([], {"NO_COLOR": "1"}, False), (["--color=never"], {}, False):
            self.environment["GPUWHY_VIRTUAL_DIR"] = "/nowhere"  # the cards cannot be read, which is printed in yellow
            process = self.start(*options, **environment)
            seen = self.read(b"RECORDED RUN")
            self.assertEqual(b"\033[33m" in seen, is_coloured, (options, environment, seen))
            process.terminate()
            self.assertEqual(process.wait(WAIT_S), 0)
            os.close(self.master)

    def test_a_dumb_terminal_is_refused(self):
        process = self.start(TERM="dumb")
        self.assertIn(b"cannot move its cursor", self.read(b"\n"))
        self.assertEqual(process.wait(WAIT_S), 2)
        os.close(self.master)
