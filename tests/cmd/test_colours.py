"""Colours and the pager, on a terminal of 80 x 24: each role, each switch, and pagers that fail or end early."""
import fcntl
import os
import pathlib
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time

from support import BEGIN, Case, GPU, GPUWHY, WAIT_S, run_command

CNN = os.environ.get("EXAMPLE_CNN", "")
REAL = pathlib.Path(__file__).parent.parent / "fixtures" / "real"
ESCAPE = re.compile(rb"\x1b\[[0-9;]*m")
PROGRESS = re.compile(rb"\r(gpuwhy: [^\r\n]*)?\x1b\[K")  # of a slow machine
RED, YELLOW, GREEN, PLACE, STRONG, DIM = (b"\x1b[%sm" % code for code in (b"1;31", b"33", b"32", b"36", b"1", b"2"))


class Screen(Case):
    def on_terminal(self, *words, rows=24, columns=80, stdin=subprocess.DEVNULL, **environment):
        """Run gpuwhy with its output on a terminal. Returns the exit status and what the terminal received."""
        master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        attributes = termios.tcgetattr(slave)
        attributes[1] &= ~termios.OPOST  # a line end stays one byte
        termios.tcsetattr(slave, termios.TCSANOW, attributes)
        base = {k: v for k, v in self.environment.items() if k not in ("NO_COLOR", "PAGER", "LESS")}
        base.update({"TERM": "xterm", "GPUWHY_PAGER": ""}, **environment)
        process = subprocess.Popen([GPUWHY, *map(str, words)], stdin=stdin, stdout=slave, stderr=slave, env=base,
                                   cwd=self.folder)
        os.close(slave)
        seen, deadline = b"", time.monotonic() + WAIT_S
        while True:
            self.assertLess(time.monotonic(), deadline, seen)
            if not select.select([master], [], [], 0.1)[0]:
                continue
            try:
                part = os.read(master, 65536)
            except OSError:
                part = b""
            if not part:
                break
            seen += part
        os.close(master)
        return process.wait(WAIT_S), PROGRESS.sub(b"", seen)

    def plain(self, *words, **more):
        return self.execute([GPUWHY, *words], stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, **more).stdout

    def log(self, text):
        path = self.folder / "train.log"
        path.write_text(text)
        return path


class Colours(Screen):
    def test_no_colour_unless_on_a_terminal_that_has_them(self):
        for environment in ({"NO_COLOR": "1"}, {"TERM": "dumb"}, {"TERM": ""}):
            self.assertNotIn(b"\x1b", self.on_terminal("explain", "700", **environment)[1], environment)
        self.assertNotIn(b"\x1b", self.on_terminal("explain", "700", "--color", "never")[1])
        self.assertNotIn(b"\x1b", self.on_terminal("explain", "700", "--color", "auto", NO_COLOR="x")[1])
        self.assertNotIn(b"\x1b", self.plain("explain", "700"))
        self.assertIn(b"\x1b", self.on_terminal("explain", "700")[1])
        self.assertIn(b"\x1b", self.on_terminal("explain", "700", NO_COLOR="")[1])

    def test_always(self):
        self.assertIn(b"\x1b", self.plain("explain", "700", "--color", "always"))
        self.assertIn(b"\x1b", self.on_terminal("explain", "700", "--color=always", NO_COLOR="1", TERM="dumb")[1])

    def test_options_before_the_word_of_a_command_and_short_help(self):
        for words in ["jupyter", "--color", "never", "list"], ["lab", "--no-pager", "list"], ["--color=never", "lab", "list"]:
            self.assertNotIn(b"gpuwhy: ", self.plain(*words), words)
        for command in "explain", "causes", "history", "watch", "who", "jupyter", "lab", "doctor", "fit":
            self.assertEqual(self.plain(command, "-h"), self.plain(command, "--help"), command)
            self.assertIn(f"gpuwhy {command}".encode(), self.plain(command, "-h"))

    def test_an_unknown_value_is_an_error(self):
        status, seen = self.on_terminal("explain", "--color", "red", "700")
        self.assertEqual((status, seen), (2, b"gpuwhy: explain: --color red: not auto, always or never\n"))

    def test_colours_do_not_change_the_text(self):
        for words in (["explain", "700"], ["explain", "--all", "2"], ["causes"], ["causes", "gpu-oom-leak"],
                      ["doctor", "--root", self.folder], ["history"]):
            colour, plain = self.plain("--color", "always", *words), self.plain(*words)
            self.assertEqual(ESCAPE.sub(b"", colour), plain, words)
            self.assertNotIn(b"\x1b", plain)

    def test_lines_fit_80_columns(self):
        seen = self.on_terminal("explain", "--all", "2")[1]
        lines = ESCAPE.sub(b"", seen).decode().splitlines()
        self.assertGreater(len(lines), 10)
        self.assertLessEqual(max(map(len, lines)), 80)

    def test_lines_of_help_fit_80_columns(self):
        commands = re.findall(rb"^  ([a-z]+) ", self.plain("help").split(b"commands:")[1], re.M)
        self.assertGreater(len(commands), 15)
        for words in ["help"], *(["help", command.decode()] for command in commands):
            self.assertEqual([line for line in self.plain(*words).decode().splitlines() if len(line) > 80], [], words)

    def test_an_undetermined_verdict_is_yellow_and_labels_are_bold(self):
        seen = self.on_terminal("explain", "700")[1]
        self.assertIn(STRONG + b"Verdict\x1b[0m", seen)
        self.assertRegex(seen, re.escape(YELLOW) + b"not determined\x1b\\[0m: ")
        self.assertIn(DIM, seen)

    def test_a_fault_is_red_its_place_is_cyan_and_a_clean_run_is_green(self):
        status, seen = self.on_terminal("run", "--gpu", GPU, "--memory", "64MiB", "--", CNN, "--batch", "64")
        self.assertNotEqual(status, 0)
        self.assertRegex(seen, b"Verdict\x1b\\[0m  " + re.escape(RED) + b"[a-z-]+ \\([a-z]+\\)\x1b\\[0m: ")
        self.assertIn(b"Where\x1b[0m    " + PLACE, seen)
        status, seen = self.on_terminal("run", "--gpu", GPU, "-o", "good.gpuwhy", "--", CNN, "--batch", "64")
        self.assertEqual(status, 0, seen)
        seen = self.on_terminal("explain", "good.gpuwhy")[1]
        self.assertRegex(seen, b"Verdict\x1b\\[0m  " + re.escape(GREEN) + b"no fault found\x1b\\[0m")
        seen = self.on_terminal("history")[1]
        self.assertIn(GREEN + b"clean\x1b[0m", seen)
        self.assertRegex(seen, re.escape(RED) + b"[a-z-]+\x1b\\[0m")

    def test_rehearse_and_diff(self):
        for batch, colour, answer in (("64", GREEN, b"yes"), ("4096", RED, b"no")):
            seen = self.on_terminal("rehearse", "--gpu", GPU, "--memory", "1GiB", "-o", f"{batch}.gpuwhy", "--", CNN,
                                    "--batch", batch)[1]
            self.assertIn(b"Fits\x1b[0m     " + colour + answer + b"\x1b[0m: ", seen)
        seen = self.on_terminal("diff", "64.gpuwhy", "4096.gpuwhy")[1]
        self.assertIn(STRONG + b"Differs\x1b[0m", seen)
        plain = self.plain("diff", "64.gpuwhy", "4096.gpuwhy")
        self.assertEqual(ESCAPE.sub(b"", seen), plain)
        self.assertIn(RED + b"bad\x1b[0m", seen)

    def test_fit(self):
        words = ["fit", "--gpu", GPU, "--memory", "1GiB", "--from", "64", "--step", "64", "--", CNN, "--batch", "{batch}"]
        seen = self.on_terminal(*words)[1]
        self.assertRegex(seen, re.escape(STRONG + b"Answer\x1b[0m   " + GREEN) + b"batch \\d+ is the largest")
        self.assertRegex(seen, re.escape(GREEN) + b"yes\x1b\\[0m      ")
        self.assertRegex(seen, re.escape(RED) + b"no\x1b\\[0m       ")

    def test_lessons_fit_the_terminal(self):
        for columns in 20, 30, 80, 200:
            seen = ESCAPE.sub(b"", self.on_terminal("lab", "list", columns=columns)[1]).decode()
            lines = seen.splitlines()
            self.assertIn("gpu-oom-leak", seen)
            too_long = [line for line in lines if len(line) > min(columns, 80) and " " in line.strip() and ";" not in line]
            self.assertEqual(too_long, [], columns)
        self.assertIn(STRONG + b"S01\x1b[0m   A second training run", self.on_terminal("lab", "list")[1])

    def test_whatif(self):
        seen = self.on_terminal("whatif", REAL / "fragmented.gpuwhy")[1]
        self.assertIn(STRONG + b"Replayed\x1b[0m  ", seen)
        self.assertRegex(seen, b"the recorded settings +3.50 GiB +" + re.escape(RED + b"refused\x1b[0m"))
        self.assertRegex(seen, b"expandable_segments:True +3.50 to 3.52 GiB +" + re.escape(GREEN + b"granted\x1b[0m"))
        self.assertEqual(ESCAPE.sub(b"", seen), self.plain("whatif", REAL / "fragmented.gpuwhy"))
        self.assertEqual(self.on_terminal("whatif", REAL / "illegal_address.gpuwhy")[1].count(YELLOW + b"No replay\x1b[0m: "), 1)

    def test_doctor_colours_each_state(self):
        seen = self.on_terminal("doctor")[1]
        colours = {b"ok": GREEN, b"pass": GREEN, b"warn": YELLOW, b"fail": RED, b"FAIL": RED, b"unknown": DIM}
        states = re.findall(rb"^  (\x1b\[[0-9;]*m)(\S+?)\x1b\[0m", seen, re.M)
        self.assertGreater(len(states), 3, seen)
        for colour, state in states:
            self.assertEqual(colour, colours[state], seen)

    def test_a_full_disk_is_no_success(self):
        for words in (["causes"], ["help"], ["help", "run"], ["lab", "list"], ["version"], ["history", "--json"], ["explain", "700"],
                      ["config", "--json"], ["watch", "--once", "--json"], ["who", "--json"]):
            with open("/dev/full", "w") as full:
                done = self.execute([GPUWHY, *words], stdout=full)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(b"No space left on device", done.stderr, words)
        with open("/dev/full", "w") as full:  # a command that has reported it does not do so twice
            done = self.execute([GPUWHY, "watch", "--once"], stdout=full)
        self.assertEqual((done.returncode, done.stderr.count(b"standard output")), (2, 1), done.stderr)
        with open("/dev/full", "w") as full:  # the exit status of a run is that of its program
            done = self.execute(run_command("true"), stdout=full)
        self.assertEqual(done.returncode, 0)

    def test_a_log_cannot_send_escape_sequences(self):
        path = self.log("Traceback (most recent call last):\n"
                        "RuntimeError: CUDA error: an illegal memory access was encountered \x1b[31;5mX\x1b]0;t\x07\n")
        for words in (["explain", path], ["explain", "--all", path], ["explain", "-m", "CUDA \x1b[5m error \x9b 700"]):
            seen = ESCAPE.sub(b"", self.on_terminal(*words)[1].replace(b"\x1b[31;5m", b"<leak>"))
            self.assertNotIn(b"\x1b", seen)
            self.assertNotIn(b"\x07", seen)
            self.assertNotIn(b"<leak>", seen)

    def test_a_program_name_cannot_send_escape_sequences(self):
        program = self.folder / "evil\x1b[5m\x1b]0;t\x07"
        program.write_text("#!/bin/sh\nexit 3\n")
        program.chmod(0o755)
        self.on_terminal(*run_command(str(program), options=("-o", "evil.gpuwhy"))[1:])
        for words in (["explain", "evil.gpuwhy"], ["history"], ["diff", "evil.gpuwhy", "evil.gpuwhy"]):
            seen = self.on_terminal(*words)[1]
            self.assertIn(b"evil", seen)
            self.assertNotIn(b"\x1b", ESCAPE.sub(b"", seen.replace(b"\x1b[5m", b"\x1b<leak>")))

    def test_a_rehearsed_program_cannot_send_escape_sequences(self):
        program = self.folder / "evil\x1b[5m"
        program.symlink_to(CNN)
        seen = self.on_terminal("rehearse", "--gpu", GPU, "--memory", "1GiB", "--", program, "--batch", "64")[1]
        answer = seen.split(b"gpuwhy: rehearsed", 1)[1]
        self.assertIn(b"evil?[5m", answer)
        self.assertNotIn(b"\x1b[5m", answer)


class Source(Screen):
    SCRIPT = BEGIN + """\
def status(code): return code

def load(gib):
    pointer = ctypes.c_uint64()
    return status(cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(gib << 30))) + 1

sys.exit(load(900))
"""

    def explain(self, script, change=None):
        path = self.folder / "train.py"
        path.write_text(script)
        status = self.on_terminal(*run_command(sys.executable, "train.py", options=("-o", "r.gpuwhy"))[1:])
        self.assertNotEqual(status[0], 0, status)
        if change is not None:
            path.write_text(change)
        plain, colour = self.plain("explain", "r.gpuwhy"), self.on_terminal("explain", "r.gpuwhy")[1]
        self.assertEqual(ESCAPE.sub(b"", colour).strip(), plain.strip())
        return plain.decode(), colour

    def test_the_call_that_was_running_is_marked(self):
        plain, colour = self.explain(self.SCRIPT)
        lines = plain.splitlines()
        at = next(i for i, line in enumerate(lines) if "> " in line and "return status(" in line)
        self.assertRegex(lines[at], r"^ +> \d+ \| +return status\(cu\.")
        call = "cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(gib << 30))"
        self.assertLessEqual(max(map(len, lines)), 80)
        if sys.version_info < (3, 11):
            self.skipTest(f"CPython {sys.version_info[0]}.{sys.version_info[1]} does not store columns")
        begin, mark = lines[at].index("cu."), lines[at + 1]
        self.assertEqual(mark[:begin].strip(), "|")
        self.assertEqual(mark[begin:], "^" * min(len(call), 80 - begin))
        self.assertIn(RED + b"|", colour)
        self.assertIn(PLACE + b"train.py:", colour)

    def test_no_line_of_a_file_that_changed(self):
        plain, _ = self.explain(self.SCRIPT, "\n" + self.SCRIPT)
        self.assertIn("Where    train.py:", plain)
        self.assertNotIn("^^", plain)
        self.assertNotIn("return status(", plain)
        self.assertIn("the file has changed since", plain)


class Pager(Screen):
    def pager(self, body):
        path = self.folder / "pager.sh"
        path.write_text("#!/bin/sh\n" + body + "\n")
        path.chmod(0o755)
        return f"sh '{path}'"

    def test_a_long_text_goes_to_the_pager(self):
        plain = self.plain("causes")
        pager = self.pager("echo PAGER LESS=$LESS; cat")
        for environment in ({"GPUWHY_PAGER": pager}, {"GPUWHY_PAGER": pager, "PAGER": "false"}):
            status, seen = self.on_terminal("causes", **environment)
            self.assertEqual(status, 0)
            self.assertTrue(seen.startswith(b"PAGER LESS=FRX\n"), seen[:100])
            self.assertEqual(ESCAPE.sub(b"", seen).split(b"\n", 1)[1], plain)
            self.assertIn(STRONG, seen)  # colours as on the terminal

    def test_pager_is_used_without_gpuwhy_pager(self):
        environment = {"PAGER": self.pager("echo PAGER; cat"), "LESS": "S"}
        self.environment["GPUWHY_PAGER"] = ""
        status, seen = self.on_terminal("causes", **environment)
        self.assertNotIn(b"PAGER\n", seen)  # an empty GPUWHY_PAGER wins
        master = self.script_of("causes", environment)
        self.assertTrue(master.startswith(b"PAGER\n"), master[:100])

    def script_of(self, word, environment):
        """Like on_terminal(), but GPUWHY_PAGER is not set."""
        keep = os.environ.pop("GPUWHY_PAGER", None)
        try:
            command = f"unset GPUWHY_PAGER; exec '{GPUWHY}' {word}"
            master, slave = pty.openpty()
            fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
            attributes = termios.tcgetattr(slave)
            attributes[1] &= ~termios.OPOST
            termios.tcsetattr(slave, termios.TCSANOW, attributes)
            process = subprocess.Popen(["sh", "-c", command], stdin=subprocess.DEVNULL, stdout=slave, stderr=slave,
                                       env={**self.environment, "TERM": "xterm", **environment})
            os.close(slave)
            seen = b""
            try:
                while part := os.read(master, 65536):
                    seen += part
            except OSError:
                pass
            os.close(master)
            process.wait(WAIT_S)
            return seen
        finally:
            if keep is not None:
                os.environ["GPUWHY_PAGER"] = keep

    def test_a_short_text_is_printed(self):
        pager = self.pager("echo PAGER; cat")
        self.assertNotIn(b"PAGER\n", self.on_terminal("explain", "700", GPUWHY_PAGER=pager)[1])
        self.assertNotIn(b"PAGER\n", self.on_terminal("causes", rows=1000, GPUWHY_PAGER=pager)[1])
        self.assertIn(b"PAGER\n", self.on_terminal("explain", "--all", "700", GPUWHY_PAGER=pager)[1])

    def test_wide_lines_count_as_several_rows(self):
        pager, text = self.pager("echo PAGER; cat"), self.plain("help")
        lines = text.count(b"\n")
        self.assertNotIn(b"PAGER\n", self.on_terminal("help", rows=lines + 1, columns=120, GPUWHY_PAGER=pager)[1])
        self.assertIn(b"PAGER\n", self.on_terminal("help", rows=lines, columns=120, GPUWHY_PAGER=pager)[1])
        self.assertIn(b"PAGER\n", self.on_terminal("help", rows=lines + 1, columns=30, GPUWHY_PAGER=pager)[1])

    def test_no_pager(self):
        pager, text = self.pager("echo PAGER; cat"), self.plain("causes")
        for words, value in ((["causes", "--no-pager"], pager), (["--no-pager", "causes"], pager), (["causes"], "cat"),
                             (["causes"], "")):
            status, seen = self.on_terminal(*words, GPUWHY_PAGER=value)
            self.assertEqual((status, ESCAPE.sub(b"", seen)), (0, text), words)

    def test_no_pager_into_a_pipe(self):
        self.environment["GPUWHY_PAGER"] = self.pager("echo PAGER; cat")
        self.assertNotIn(b"PAGER\n", self.plain("causes"))

    def test_the_exit_status_is_the_commands(self):
        for words, status in ((["explain", "--all", "999"], self.status("explain", "--all", "999")),
                              (["help", "explain"], 0), (["explain", "--help"], 0), (["doctor", "--help"], 0)):
            seen = self.on_terminal(*words, rows=5, GPUWHY_PAGER=self.pager("echo PAGER; exit 7"))
            self.assertEqual(seen[0], status, seen)
            self.assertIn(b"PAGER\n", seen[1])

    def status(self, *words):
        return self.execute([GPUWHY, *words], stdin=subprocess.DEVNULL).returncode

    def test_a_pager_that_reads_nothing_is_no_error(self):
        status, seen = self.on_terminal("causes", GPUWHY_PAGER=self.pager("exec 0<&-; echo QUIT; exit 1"))
        self.assertEqual((status, seen), (0, b"QUIT\n"))
        status, seen = self.on_terminal("causes", GPUWHY_PAGER="head -n 3")
        self.assertEqual((status, seen.count(b"\n")), (0, 3))

    def test_a_pager_that_cannot_start(self):
        text = self.plain("causes")
        for pager in ("/nowhere/pager", "/nowhere/pager -x", str(self.folder)):
            status, seen = self.on_terminal("causes", GPUWHY_PAGER=pager)
            self.assertEqual(status, 0)
            self.assertTrue(ESCAPE.sub(b"", seen).endswith(text), pager)
            self.assertIn(b"gpuwhy: cannot start the pager ", seen)

    def test_no_default_pager_on_a_dumb_terminal(self):
        seen = self.script_of("causes", {"TERM": "dumb"})
        self.assertEqual(seen, self.plain("causes"))
