"""docs/exit-status.md, the tables in the program, and what the commands really return."""
import os
import pathlib
import re
import subprocess
import sys

from support import BEGIN, Case, GPU, GPUWHY, lines_of, run_command, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = ROOT / "tests" / "fixtures" / "real"
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
ONE, OTHER = REAL / "capacity_batch.gpuwhy", REAL / "capacity_adagrad.gpuwhy"
NO_GPU = REAL / "device_assert.gpuwhy"  # no replay of an allocator
RUN = ["--gpu", GPU, "--quiet"]
REHEARSE = ["rehearse", "--gpu", GPU, "--once", "--until", "2"]
FIT = ["fit", "--gpu", GPU, "--no-history", "--until", "2", "--jobs", "1"]
BATCH = ["--", CNN, "--iterations", "20", "--batch", "{batch}"]
CHECK = ["lab", "check"]
NOT_EXECUTABLE = str(pathlib.Path(__file__))

# Fills 1 GiB of the card, of which the host gives 64 MiB.
FILLS = BEGIN + "p = ctypes.c_uint64()\ncu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 30))\n" \
    "[cu.cuMemsetD8_v2(ctypes.c_uint64(p.value + (i << 22)), 1, ctypes.c_size_t(1 << 22)) for i in range(256)]\n"

# A command line for each row of the table. "others" is the status of the program.
CASES = {
    ("run", "others"): ["run", *RUN, "--", "sh", "-c", "exit 77"],
    ("run", "2"): ["run", "--nonsense", "--", "true"],
    ("run", "123"): ["run", *RUN, "--fail-on", "any", "--", "true"],
    ("run", "124"): ["run", "--gpu", GPU + ",host=64MiB", "--", sys.executable, "-c", FILLS],
    ("run", "126"): ["run", *RUN, "--", NOT_EXECUTABLE],
    ("run", "127"): ["run", *RUN, "--", "no-such-program"],
    ("rehearse", "0"): [*REHEARSE, "--", CNN, "--batch", "16"],
    ("rehearse", "1"): [*REHEARSE, "--", CNN, "--batch", "1000000"],
    ("rehearse", "2"): ["rehearse"],
    ("rehearse", "126"): [*REHEARSE, "--", NOT_EXECUTABLE],
    ("rehearse", "127"): [*REHEARSE, "--", "no-such-program"],
    ("fit", "0"): [*FIT, "--max", "2", *BATCH],
    ("fit", "1"): [*FIT, "--from", "1000000", "--max", "1000000", *BATCH],
    ("fit", "2"): ["fit", "--", CNN, "--batch", "1"],
    ("fit", "126"): [*FIT, "--", NOT_EXECUTABLE, "{batch}"],
    ("fit", "127"): [*FIT, "--", "no-such-program", "{batch}"],
    ("explain", "0"): ["explain", ONE],
    ("explain", "1"): ["explain", "700"],
    ("explain", "123"): ["explain", ONE, "--fail-on", "gpu-oom-capacity"],
    ("explain", "2"): ["explain", "/no/file"],
    ("report", "0"): ["report", ONE],
    ("report", "1"): ["report", "undetermined.gpuwhy"],
    ("report", "2"): ["report", "/no/file"],
    ("diff", "0"): ["diff", ONE, ONE],
    ("diff", "1"): ["diff", ONE, OTHER],
    ("diff", "2"): ["diff", ONE],
    ("whatif", "0"): ["whatif", ONE],
    ("whatif", "1"): ["whatif", NO_GPU],
    ("whatif", "2"): ["whatif", "/no/file"],
    ("history", "0"): ["history"],
    ("history", "2"): ["history", "--prune", "--all"],
    ("watch", "0"): ["watch", "--once"],
    ("watch", "2"): ["watch", "--interval", "x"],
    ("who", "0"): ["who"],
    ("who", "2"): ["who", "two", "words"],
    ("poke", "0"): "work",
    ("poke", "1"): "sleep",
    ("poke", "2"): ["poke", "0"],
    ("export", "0"): ["export", ONE, "--to", "memory-csv"],
    ("export", "2"): ["export", ONE],
    ("lab", "0"): [*CHECK, "--expect", "clean", "--", CNN, "--iterations", "2", "--batch", "16"],
    ("lab", "1"): [*CHECK, "--expect", "gpu-oom-leak", "--", CNN, "--iterations", "2", "--batch", "16"],
    ("lab", "2"): ["lab", "nonsense"],
    ("lab", "126"): [*CHECK, "--expect", "clean", "--", NOT_EXECUTABLE],
    ("lab", "127"): [*CHECK, "--expect", "clean", "--", "no-such-program"],
    ("jupyter", "0"): ["jupyter", "list"],
    ("jupyter", "2"): ["jupyter", "nonsense"],
    ("doctor", "0"): ["doctor", "--root", "empty"],
    ("doctor", "1"): ["doctor", "--root", "broken"],
    ("doctor", "2"): ["doctor", "--root", "/no/folder"],
    ("config", "0"): ["config"],
    ("config", "1"): ["config", "--check", NOT_EXECUTABLE],
    ("config", "2"): ["config", "no.such.key"],
    ("causes", "0"): ["causes"],
    ("causes", "1"): ["causes", "--search", "xyzzyx"],
    ("causes", "2"): ["causes", "xyzzyx"],
    ("mcp", "0"): ["mcp"],
    ("mcp", "2"): ["mcp", "--logs", "/no/folder"],
    ("version", "0"): ["version"],
    ("version", "2"): ["version", "x"],
    ("help", "0"): ["help"],
    ("help", "2"): ["help", "xyzzyx"],
}
PROGRAM = BEGIN + """
import time
open(sys.argv[2], "w").write(f"{os.getpid()}\\n")
block = ctypes.c_uint64()
while sys.argv[1] == "work":
    cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(4096))
    cu.cuMemFree_v2(block)
    time.sleep(0.02)
time.sleep(1000)
"""


def rows_of_help(text):
    """Return {status: meaning} of the section in the help of a command."""
    if "\nexit status:\n" not in text:
        return {}
    rows, last = {}, None
    for line in text.split("\nexit status:\n")[1].split("\n\n")[0].splitlines():
        match = re.match(r"  (\S+) +(\S.*)", line)
        if match and line[2] != " ":
            last = match[1]
            rows[last] = match[2]
        else:
            rows[last] += " " + line.strip()
    return rows


def rows_of_document():
    rows = re.findall(r"^\| `gpuwhy (\w+)` \| (\S+) \| (.*) \|$", (ROOT / "docs" / "exit-status.md").read_text(), re.M)
    return {(command, status): meaning for command, status, meaning in rows}


class ExitStatus(Case):
    def commands(self):
        overview = self.run_gpuwhy("help").stdout.decode()
        return re.findall(r"^  (\w+) ", overview.split("commands:\n")[1].split("\n\n")[0], re.M)

    def test_the_document_has_the_rows_of_the_program(self):
        rows = {(command, status): meaning for command in self.commands()
                for status, meaning in rows_of_help(self.run_gpuwhy("help", command).stdout.decode()).items()}
        self.assertEqual(rows, rows_of_document())
        self.assertEqual({command for command, _ in rows}, set(self.commands()))

    def test_there_is_a_case_for_each_row(self):
        self.assertEqual(set(CASES), set(rows_of_document()))

    def poke(self, kind):
        """Return the status of `gpuwhy poke` for a program that works or sleeps."""
        (self.folder / "program.py").write_text(PROGRAM)
        process = self.start(sys.executable, "program.py", kind, kind + ".pid", options=["--no-history", "--no-attach"],
                             stderr=subprocess.DEVNULL)
        try:
            wait_until(lambda: lines_of(self.folder / (kind + ".pid")), "the program")
            pid = lines_of(self.folder / (kind + ".pid"))[0]
            wanted = 0 if kind == "work" else 1
            # The program needs some time to reach its loop or its sleep.
            wait_until(lambda: self.run_gpuwhy("poke", pid).returncode == wanted, f"status {wanted} of poke {kind}")
            return wanted
        finally:
            subprocess.run(["kill", pid], check=True)
            process.wait()

    def prepare(self):
        (self.folder / "empty").mkdir()
        for file, text in (("proc/driver/nvidia/version", "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.104.05\n"),
                           ("sys/module/nvidia/version", "535.104.05\n"),
                           ("usr/lib/x86_64-linux-gnu/libcuda.so.525.60.13", "\x7fELF")):
            path = self.folder / "broken" / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self.execute(run_command("sh", "-c", "exit 3", options=["-o", "undetermined.gpuwhy"]))

    def test_the_commands_return_them(self):
        self.prepare()
        skipped = []
        for (command, status), words in CASES.items():
            if isinstance(words, str):
                self.assertEqual(str(self.poke(words)), status)
                continue
            done = self.run_gpuwhy(*words, input=b"")
            if command == "report" and b"dygraphs" in done.stderr:
                skipped.append("report")
                continue
            self.assertEqual(str(done.returncode), "77" if status == "others" else status, (words, done.stderr))
            if status == "2":
                self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))
        if skipped:
            self.skipTest("this build has no dygraphs: report was not tested")

    def test_signals_are_passed_on(self):
        done = self.run_gpuwhy("run", *RUN, "--", "sh", "-c", "kill -TERM $$")
        self.assertEqual(done.returncode, -15)

    def test_without_a_command(self):
        for words in ((), ("xyzzyx",), ("--xyzzyx",), ("--color", "red")):
            self.assertEqual(self.run_gpuwhy(*words).returncode, 2)
