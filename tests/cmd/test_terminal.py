"""On a terminal: everything is as without gpuwhy. The order of stdout and stderr, size and modes, ^C and ^Z, and whole screens
of interactive programs. The text that a program writes to stderr is still recorded."""
import fcntl
import json
import os
import pty
import re
import select
import shlex
import shutil
import signal
import struct
import subprocess
import sys
import termios
import time
import unittest

from support import Case, WAIT_S, run_command


class OnTerminal(Case):
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

    def on_terminal(self, argv):
        self.seen = b""
        self.drain_until_end(self.open(argv))
        while select.select([self.master], [], [], 0)[0]:
            try:
                self.seen += os.read(self.master, 4096)
            except OSError:
                break
        return self.seen


class Terminal(OnTerminal):
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

    def test_an_interrupt_is_one_line(self):
        """Also with --quiet. Another sender, or a program that goes on to fail, gets the verdict."""
        for program, sender, is_line in ((["sh", "-c", "echo ready; exec sleep 60"], b"\x03", True),
                                         ([sys.executable, "-c", "print('ready', flush=True)\nimport time\ntime.sleep(60)"],
                                          b"\x03", True),
                                         (["sh", "-c", "echo ready; kill -INT $$"], None, False)):
            with self.subTest(program=program):
                self.seen = b""
                pid = self.open([word for word in run_command(*program) if is_line or word != "--quiet"])
                self.read_until(b"ready")
                if sender is not None:
                    os.write(self.master, sender)
                self.assertEqual(os.waitstatus_to_exitcode(self.drain_until_end(pid)), -signal.SIGINT)
                ours = [line for line in self.seen.splitlines() if line.startswith(b"gpuwhy:")]
                self.assertEqual((len(ours), b"Verdict" in self.seen), (1, not is_line), self.seen)
                if is_line:
                    self.assertRegex(ours[0], rb"^gpuwhy: interrupted with Ctrl-C after [0-9.]+ s; details: gpuwhy explain$")
                os.close(self.master)
                self.master = os.open("/dev/null", os.O_RDONLY)

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


ORDER = {
    "a shell": ["bash", "-c", "for i in {1..100}; do echo o$i; echo e$i >&2; done"],
    "Python": [sys.executable, "-u", "-c",
               "import sys\nfor i in range(100): print('o%d' % i); print('e%d' % i, file=sys.stderr)"],
    "a child for each line": ["bash", "-c", "for i in {1..20}; do env echo o$i; env echo e$i >&2; done"],
    "a prompt after its warning": ["bash", "-c", "echo -n 'Name? '; echo 'warning: old' >&2; echo; echo Hello"],
}


class Order(OnTerminal):
    def test_stdout_and_stderr_keep_their_order(self):
        for name, argv in ORDER.items():
            bare = self.on_terminal(argv)
            for i in range(5):
                self.assertEqual(self.on_terminal(run_command(*argv, options=["--no-verdict"])), bare, f"{name}, run {i}")

    def test_one_of_them_elsewhere(self):
        """A pipe or a file for one of them, the terminal for the other: both get the same lines in the same order."""
        for name, argv in ORDER.items():
            for ends in (">out", "2>out", ">out 2>err", ">out 2>&1", "2>&1 | cat >out", "2>&1 | cat", "| cat >out"):
                texts = []
                for command in (argv, run_command(*argv, options=["--no-verdict"])):
                    for file in ("out", "err"):
                        (self.folder / file).write_text("")
                    seen = self.on_terminal(["bash", "-c", f"{shlex.join(command)} {ends}"])
                    texts.append((seen, (self.folder / "out").read_text(), (self.folder / "err").read_text()))
                self.assertEqual(texts[0], texts[1], f"{name} {ends}")


# How a program writes to stderr, and what must be found in the recording.
WRITERS = {
    "fprintf": 'fprintf(stderr, "CUDA error: %d\\n", 700);',
    "a constant": 'fprintf(stderr, "CUDA error: 700\\n");',
    "fputs": 'fputs("CUDA error: 700\\n", stderr);',
    "fputc": 'for (const char *c = "CUDA error: 700\\n"; *c != 0; c++) fputc(*c, stderr);',
    "write": 'if (write(2, "CUDA error: 700\\n", 16) != 16) return 9;',
    "two parts": 'struct iovec v[] = {{"CUDA error: ", 12}, {"700\\n", 4}}; if (writev(2, v, 2) != 16) return 9;',
    "perror": 'errno = ENOENT; perror("CUDA error: 700");',
    "assert": 'assert(!"CUDA error: 700");',
    "restored": 'int old = dup(2), null = open("/dev/null", 1); dup2(null, 2); fputs("hidden\\n", stderr); dup2(old, 2); '
                'fputs("CUDA error: 700\\n", stderr);',
    "a child": 'if (fork() == 0) { fputs("CUDA error: 700\\n", stderr); _exit(0); } wait(NULL);',
}
HEADERS = "".join(f"#include <{name}>\n" for name in (
    "assert.h", "errno.h", "fcntl.h", "stdio.h", "stdlib.h", "sys/uio.h", "sys/wait.h", "unistd.h"))


class Recorded(OnTerminal):
    """The program has the terminal itself; a preloaded library copies what it writes."""

    def recorded(self, argv, *options):
        recording = self.folder / "r.gpuwhy"
        recording.unlink(missing_ok=True)
        self.seen = b""
        seen = self.on_terminal(run_command(*argv, options=["-o", str(recording), "--no-verdict", *options]))
        done = self.run_gpuwhy("export", "--to", "json", recording)
        items = json.loads(done.stdout)["items"]
        return "".join(item["text"] for item in items if item["item"] == "stderr"), items, seen

    def test_c_programs(self):
        for optimise in ("-O0", "-O2"):
            for name, statements in WRITERS.items():
                source = self.folder / "w.c"
                source.write_text(f"{HEADERS}int main(void) {{ {statements} return 1; }}\n")
                subprocess.run(["cc", optimise, "-w", "-D_FORTIFY_SOURCE=2", source, "-o", self.folder / "w"], check=True,
                               stderr=subprocess.DEVNULL)
                text, _, seen = self.recorded([str(self.folder / "w")])
                self.assertEqual(text.count("CUDA error: 700"), 1, (name, optimise, text))
                self.assertNotIn("hidden", text)
                self.assertEqual(seen.count(b"CUDA error: 700"), 1, (name, optimise, seen))

    def test_python(self):
        text, items, _ = self.recorded([sys.executable, "-c", "raise RuntimeError('the reason')"])
        self.assertIn("RuntimeError: the reason", text)
        self.assertTrue(any("terminal" in str(item) and "stderr.not_recorded" in str(item) for item in items))

    def test_what_goes_elsewhere_is_not_recorded(self):
        text, _, _ = self.recorded(["sh", "-c", f"{sys.executable} -c 'import os; os.write(2, b\"hidden\")' 2>/dev/null; exit 1"])
        self.assertNotIn("hidden", text)
        self.assertEqual(self.recorded(["sh", "-c", "echo hidden >&2; exit 1"], "--no-stderr")[0], "")

    def test_much_text_from_many_processes(self):
        """The last bytes are kept, whole lines, whoever writes them."""
        program = self.folder / "many.py"
        program.write_text("import os\nfor i in range(8):\n    if os.fork() == 0:\n        for n in range(2000):\n"
                           "            os.write(2, b'process %d line %04d\\n' % (i, n))\n        os._exit(0)\n"
                           "for i in range(8): os.wait()\nos.write(2, b'the last\\n')\nos._exit(1)\n")
        text, _, seen = self.recorded([sys.executable, str(program)])
        self.assertTrue(text.endswith("the last\n"), text[-200:])
        lines = text.splitlines()
        self.assertGreater(len(lines), 8000)
        self.assertEqual({len(line) for line in lines[1:-1]}, {len("process 0 line 0000")})

    def test_a_program_that_forbids_calls(self):
        """A filter of system calls kills for all but write and exit. The library makes no call that the program does not."""
        source = self.folder / "strict.c"
        source.write_text("#include <linux/seccomp.h>\n#include <stdio.h>\n#include <sys/prctl.h>\n#include <sys/syscall.h>\n"
                          "#include <unistd.h>\nint main(void) { prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT); "
                          "fputs(\"strict\\n\", stderr); syscall(SYS_exit, 3); }\n")
        subprocess.run(["cc", source, "-o", self.folder / "strict"], check=True)
        pid = self.open(run_command(str(self.folder / "strict"), options=["--no-verdict"]))
        self.assertEqual(os.waitstatus_to_exitcode(self.drain_until_end(pid)), 3)
        self.assertIn(b"strict", self.seen)


# Interactive programs, typed at a shell in tmux; `w` stands for gpuwhy, or for nothing. Each step: the keys as for `tmux send-keys`,
# and a text that appears. A function is called instead of keys. A text in a list: the rest of the screen changes all the time.
ENTER, PROMPT = "Enter", "\n$\n"


def resize(tmux):
    tmux("resize-window", "-x", "71", "-y", "20")


SCREENS = {
    "bash": [(["w bash --norc", ENTER], "\nbash-"), (["echo $((6*7)); false", ENTER], "42"), (["echo status $?", ENTER], "status 1"),
             (["exit", ENTER], PROMPT)],
    "Python": [([f"w {sys.executable} -q", ENTER], ">>>"), (["1+", ENTER], "SyntaxError"), (["print(6*7)", ENTER], "42"),
               (["exit()", ENTER], PROMPT)],
    "IPython": [(["w ipython --no-banner --colors=NoColor", ENTER], "In [1]"), (["1/0", ENTER], "ZeroDivisionError"),
                (["exit", ENTER], PROMPT)],
    "vi": [(["w vim.tiny -u NONE -N text", ENTER], "line 1"), (["ihello", "Escape", ":set ruler", ENTER], "1,5"),
           (["G"], "200,"), ([":q!", ENTER], PROMPT)],
    "less": [(["w less text", ENTER], "line 1\n"), (["G"], "line 200"), (["?line 77", ENTER], "line 77"),
             (["q"], PROMPT)],
    "htop": [(["w htop --no-color", ENTER], ["F10Quit"]), (["F1"], "Press any key"), (["q"], ["F10Quit"]), (["q"], PROMPT)],
    "a hidden password": [(["w bash -c 'read -s -p \"Password: \" p; echo; echo ${#p} letters'", ENTER], "Password:\n"),
                          (["secret", ENTER], "6 letters")],
    "settings of the terminal": [(["w stty -a", ENTER], "iexten"), (["w stty -echo; w stty echo; w stty size", ENTER], "33 100")],
    "suspended": [(["w sh -c 'echo up; exec cat'", ENTER], "up\n"), (["one", ENTER], "one\none"), (["C-z"], "Stopped"), (["jobs; fg", ENTER], "exec cat'\nw sh"),
                  (["two", ENTER], "two\ntwo"), (["C-d"], PROMPT)],
    "interrupted": [(["w sh -c 'echo up; exec cat'", ENTER], "up\n"), (["one", ENTER], "one\none"), (["C-c"], "^C"), (["echo status $?", ENTER], "status 130")],
    "in the background": [(["w sleep 1000 &", ENTER], "N\n$"), (["jobs", ENTER], "Running"), (["kill %1; wait", ENTER], "Terminated")],
    "a new size": [(["w bash -c 'trap \"stty size; exit\" WINCH; echo up; while :; do sleep 0.01; done'", ENTER], "up\n"), (resize, "20 71")],
    "tmux": [(["TMUX= w tmux -f /dev/null -L $SOCKET new-session bash --norc", ENTER], "[0] 0:"),
             (["echo in $((6*7)) >&2", ENTER], "in 42"), (["exit", ENTER], PROMPT)],
}


@unittest.skipUnless(shutil.which("tmux"), "tmux is not installed")
class Screens(Case):
    """Two terminals, one with gpuwhy and one without: after the same keys, their screens become the same."""

    def setUp(self):
        super().setUp()
        text = "".join(f"line {n}\n" for n in range(1, 201))
        self.environment.update(PS1="$ ", TERM="xterm", HOME=str(self.folder), PYTHON_HISTORY="/dev/null", HISTFILE="", LC_ALL="C.UTF-8",
                                PYTHON_BASIC_REPL="1")
        (self.folder / "rc").write_text("PS1='$ '\n")
        self.places = []
        for i, wrapper in enumerate(([], run_command(options=["--no-verdict", "--no-history"]))):
            place = self.folder / f"place{i}"
            place.mkdir()
            (place / "text").write_text(text)
            (place / "w").write_text(f'#!/bin/sh\nexec {shlex.join(wrapper)} "$@"\n')
            (place / "w").chmod(0o755)
            self.places.append(place)
            self.addCleanup(subprocess.run, ["tmux", "-S", place / "tmux", "kill-server"], stderr=subprocess.DEVNULL)

    def tmux(self, place, *words):
        environment = dict(self.environment, PATH=f"{place}:{os.environ['PATH']}", SOCKET=f"{self.folder.name[-6:]}{place.name}")
        return subprocess.run(["tmux", "-f", "/dev/null", "-S", place / "tmux", *words], stdout=subprocess.PIPE, env=environment,
                              cwd=place, timeout=WAIT_S, check=True).stdout.decode()

    def screen(self, place):
        """The screen with its colours, without process numbers, the time of day and the name of the place."""
        text = self.tmux(place, "capture-pane", "-p", "-e").rstrip()
        text = re.sub(r"\b\d\d:\d\d\b", "TIME", re.sub(r"\b\d{3,}\b", "N", text)).replace(place.name, "place")
        return "\n".join(line.rstrip() for line in text.split("\n"))

    def compare(self, wanted, what):
        deadline = time.monotonic() + WAIT_S
        text = wanted[0] if isinstance(wanted, list) else re.sub(r"\b\d{3,}\b", "N", wanted)
        while True:
            screens = [self.screen(place) for place in self.places]
            plain = [re.sub(r"\033\[[0-9;]*m", "", screen) + "\n" for screen in screens]
            if all(text in screen for screen in plain) and (isinstance(wanted, list) or screens[0] == screens[1]):
                return
            if time.monotonic() > deadline:
                self.assertEqual(screens[0], screens[1], what)
                self.fail(f"{what}: {text} is not in {plain[0]}")
            time.sleep(0.05)

    def play(self, name, steps):
        for place in self.places:
            self.tmux(place, "new-session", "-d", "-x", "100", "-y", "33", "bash --rcfile ../rc")
        self.compare("$", name)
        for i, (keys, wanted) in enumerate(steps):
            for place in self.places:
                if callable(keys):
                    keys(lambda *words, place=place: self.tmux(place, *words))
                else:
                    self.tmux(place, "send-keys", *keys)
            self.compare(wanted, f"{name}, step {i + 1}")
        for place in self.places:
            self.tmux(place, "kill-server")

    def test_screens(self):
        for name, steps in SCREENS.items():
            program = steps[0][0][0].removeprefix("TMUX= ").split()[1]
            if not shutil.which(program):
                with self.subTest(name):
                    self.skipTest(f"{program} is not installed")
            else:
                self.play(name, steps)
