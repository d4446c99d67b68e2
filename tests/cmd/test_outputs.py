"""Every option that names an output file, with every hostile target.

    test_outputs.py --markdown FILE    writes the options and the targets into the document
"""
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
import unittest

from support import Case, GPU, GPUWHY, WAIT_S, lines_of, wait_until

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ("run", "--gpu", GPU, "--quiet", "--no-history")
PROGRAM = ("--", "sh", "-c", "echo > ran; exit 3")
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
# Each option: the words before and after its file. INPUT is a recording that the command reads.
OPTIONS = {
    "run --json": ((*RUN, "--no-verdict", "--json"), PROGRAM),
    "run --junit": ((*RUN, "--no-verdict", "--junit"), PROGRAM),
    "run --message": ((*RUN, "--no-verdict", "--message"), PROGRAM),
    "rehearse --json": (("rehearse", "--gpu", GPU, "--no-history", "--once", "--json"), PROGRAM),
    "fit --json": (("fit", "--gpu", GPU, "--no-history", "--json"), (*PROGRAM, "{batch}")),
    "export -o": (("export", "INPUT", "--to", "json", "-o"), ()),
    "explain --bundle": (("explain", "--no-history", "INPUT", "--bundle"), ()),
    "report -o": (("report", "--no-history", "INPUT", "-o"), ()),
    "doctor --save": (("doctor", "--save"), ()),
    "doctor --junit": (("doctor", "--junit"), ()),
    "watch --metrics-file": (("watch", "--once", "--metrics-file"), ()),
}
RECORDINGS = ("run -o", "rehearse -o")  # the supervisor creates these, and never overwrites anything


def nothing(case, path):
    pass


def write(data):
    return lambda case, path: path.write_bytes(data)


def link_to(name):
    return lambda case, path: path.symlink_to(name)


def link_to_pipe(case, path):
    os.mkfifo(case.folder / "pipe")
    path.symlink_to("pipe")


def link_to_link(case, path):
    (case.folder / "link").symlink_to("input.gpuwhy")
    path.symlink_to("link")


def in_a_run_folder(case, path):
    shutil.copytree(case.run_folder, path.parent)
    path.write_text("notes")


def in_a_file(case, path):
    path.parent.write_text("")


# Each target that is refused: its name for the option, what makes it, and the reason.
REFUSED = {
    "a recording": ("X", lambda case, path: shutil.copy(case.recording, path), "would overwrite a recording"),
    "another name of a recording (hard link)": ("X", lambda case, path: path.hardlink_to(case.recording),
                                                "would overwrite a recording"),
    "a link to a recording": ("X", link_to("input.gpuwhy"), "would overwrite a recording|is a link"),
    "a link to a link to a recording": ("X", link_to_link, "would overwrite a recording|is a link"),
    "a recording whose end is missing": ("X", lambda case, path: path.write_bytes(case.recording.read_bytes()[:99]),
                                         "would overwrite a recording"),
    "a file of a run folder": ("live/notes", in_a_run_folder, "would overwrite a file of the run folder"),
    "the buffer of a program": ("X", write(b"GWBUF\r\n\x1a" + bytes(99)), "would overwrite a buffer of a run"),
    "a database, such as the list of runs": ("X", write(b"SQLite format 3\0" + bytes(99)), "would overwrite a database"),
    "a core dump or a program": ("X", write(b"\x7fELF" + bytes(99)), "would overwrite a core dump or a program"),
    "a file in a missing folder": ("none/X", nothing, "No such file or directory"),
    "a file in a file": ("file/X", in_a_file, "Not a directory"),
    "a link into a missing folder": ("X", link_to("none/file"), "No such file or directory|is a link"),
    "a link to itself": ("X", link_to("X"), "Too many levels|is a link"),
    "a folder where no file can be created": ("/proc/X", nothing, "No such file or directory|Permission denied"),
    "a name that is too long": ("n" * 300, nothing, "File name too long"),
    "an empty name": ("", nothing, "the name is empty"),
    "a folder": ("X", lambda case, path: path.mkdir(), "is a folder"),
    "a missing folder": ("X/", nothing, "is a folder"),
    "a FIFO that no process reads": ("X", lambda case, path: os.mkfifo(path), "no process reads this pipe|not a regular file"),
    "a link to such a FIFO": ("X", link_to_pipe, "no process reads this pipe|is a link"),
    "a device, such as /dev/zero": ("/dev/zero", nothing, "is a device|not a regular file"),
    "a socket": ("X", lambda case, path: os.mknod(path, stat.S_IFSOCK | 0o600), "is a socket|not a regular file"),
    "a descriptor that is closed": ("/dev/fd/77", nothing, "Bad file descriptor|No such file"),
    "a descriptor for reading": ("/dev/fd/0", nothing, "is not open for writing|is a link"),
}


def markdown():
    lists = ("Options: " + ", ".join(f"`{option}`" for option in OPTIONS) + ".", "Targets: " + "; ".join(REFUSED) + ".")
    return "\n\n".join(textwrap.fill(text, 118) for text in lists)


def write_markdown(path):
    head, _, rest = path.read_text().partition("<!-- outputs -->\n")
    path.write_text(f"{head}<!-- outputs -->\n{markdown()}\n<!-- end of outputs -->"
                    + rest.partition("<!-- end of outputs -->")[2])


def state_of(folder):
    """All that an output could change in a folder."""
    found = {}
    for path in sorted(folder.rglob("*")):
        info = path.lstat()
        data = path.read_bytes() if stat.S_ISREG(info.st_mode) else b""
        found[str(path.relative_to(folder))] = (info.st_mode, info.st_ino, data)
    return found


class OutputCase(Case):
    made = None  # a folder with a recording and a run folder, for all tests

    def setUp(self):
        super().setUp()
        if OutputCase.made is None:
            OutputCase.made = self.folder.with_name(self.folder.name + " made")
            unittest.addModuleCleanup(shutil.rmtree, OutputCase.made)
            OutputCase.made.mkdir()
            self.run_gpuwhy(*RUN, "--no-verdict", "-o", OutputCase.made / "recording", "--", "sh", "-c",
                            f"cp -r \"$GPUWHY_RUN_DIR\" '{OutputCase.made}/live'; exit 3")
            shutil.rmtree(OutputCase.made / "live" / "virtual", True)
        self.run_folder = OutputCase.made / "live"
        self.fill(self.folder)

    def fill(self, folder):
        self.folder = folder
        self.recording = folder / "input.gpuwhy"
        shutil.copy(OutputCase.made / "recording", self.recording)

    def words(self, option, path):
        before, after = OPTIONS[option]
        return [str(self.recording) if word == "INPUT" else word for word in before] + [str(path), *after]

    def call(self, option, path):
        with open("/dev/null", "rb") as nothing_to_read:
            return self.run_gpuwhy(*self.words(option, path), stdin=nothing_to_read)

    def each(self):
        """Each option, in a folder of its own."""
        base = self.folder
        for number, option in enumerate(OPTIONS):
            folder = base / f"{self.id().rpartition('.')[2]} {number}"
            folder.mkdir()
            self.fill(folder)
            yield option
        self.folder = base


class Refused(OutputCase):
    def test_every_option_with_an_output_is_in_the_table(self):
        """The help of such an option has "write" or "save" and a FILE. A new one needs a row here."""
        found = set()
        for command in re.findall(r"(?m)^  ([a-z]+) ", self.run_gpuwhy("help").stdout.decode().split("commands:\n")[1]):
            text = re.sub(r"\n {30}", " ", self.run_gpuwhy("help", command).stdout.decode())
            for name, about in re.findall(r"(?m)^  (--?[a-z-]+) FILE\S* +(.*)$", text):
                if re.search(r"\b(write|save)\b", about):
                    found.add(f"{command} {name}")
        self.assertEqual(found, set(OPTIONS) | set(RECORDINGS))

    def refuse(self, option, name, path, make, reason):
        make(self, self.folder / path)
        before = state_of(self.folder)
        done = self.call(option, path)
        what = (option, name, done.stderr)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), what)
        start = f"gpuwhy: {option.split()[0]}: {option.split()[1]} {path}: "
        self.assertTrue(done.stderr.decode().startswith(start), what)
        self.assertRegex(done.stderr.decode()[len(start):], reason, what)
        self.assertEqual(state_of(self.folder), before, what)  # and the program has not run

    def test_each_target(self):
        for name, row in REFUSED.items():
            for option in self.each():
                with self.subTest(option=option, target=name):
                    self.refuse(option, name, *row)
            shutil.rmtree(self.folder)
            self.folder.mkdir()

    def test_recordings(self):
        """-o and --folder of a command that records. An existing folder, and one that can be made, are good."""
        for option in ("run -o", "rehearse -o", "run --folder"):
            command, name = option.split()
            start = RUN if command == "run" else ("rehearse", "--gpu", GPU, "--no-history", "--once")
            for target in ("a file in a missing folder", "a file in a file", "a folder where no file can be created",
                           "a name that is too long", "an empty name", "a recording", "a core dump or a program",
                           "a socket", "a link into a missing folder"):
                path, make, reason = REFUSED[target]
                if name == "--folder" and (target.startswith("a file in a missing") or "empty" in target or "link" in target):
                    continue  # gpuwhy makes such a folder, and follows the link
                with self.subTest(option=option, target=target):
                    shutil.rmtree(self.folder)
                    self.folder.mkdir()
                    self.fill(self.folder)
                    make(self, self.folder / path)
                    before = state_of(self.folder)
                    given = self.folder / path if name == "--folder" else path
                    done = self.run_gpuwhy(*start, name, given, *PROGRAM)
                    what = (done.returncode, done.stdout, done.stderr)
                    self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), what)
                    self.assertTrue(done.stderr.startswith(f"gpuwhy: {command}: {name} {given}".encode()), what)
                    self.assertRegex(done.stderr.decode(), reason + "|already exists|not a folder|Not a directory")
                    self.assertEqual(state_of(self.folder), before, what)
        for words in (["-o", "new/"], ["-o", "new/below/"], ["-o", "file"], ["--folder", self.folder / "a" / "b" / "c"]):
            done = self.run_gpuwhy(*RUN, *words, *PROGRAM)
            self.assertEqual((done.returncode, b"not be saved" in done.stderr), (3, False), done.stderr)
        self.refuse_words(b"No such file or directory", *RUN, "-o", "none/below/", *PROGRAM)

    def test_inputs(self):
        """Options that name a file or folder to read. One line with the path; nothing is made."""
        (self.folder / "file").write_text("x\n")
        for words, path in ((["doctor", "--against", "none"], "none"), (["doctor", "--against", "."], "."),
                            (["doctor", "--root", "none"], "none"), (["doctor", "--root", "file"], "file"),
                            (["config", "--check", "none"], "none"), (["explain", "none.log"], "none.log"),
                            (["history", "--folder", self.folder / "file"], "/file"), (["report", "none"], "none"),
                            (["explain", "--folder", self.folder / "file"], "/file"), (["export", "none", "--to", "json"], "none"),
                            (["whatif", "none"], "none"), (["diff", "none", "none"], "none"), (["watch", "--folder", "x"], "x")):
            with self.subTest(words=words):
                before = state_of(self.folder)
                done = self.run_gpuwhy(*words)
                self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (2, b"", 1), done.stderr)
                self.assertIn(path, done.stderr.decode())
                self.assertEqual(state_of(self.folder), before)

    def test_the_document_has_each_target(self):
        self.assertIn(markdown(), (ROOT / "docs" / "robustness.md").read_text())

    def test_a_file_that_cannot_be_written(self):
        """As another user, if the test runs as root."""
        words = [] if os.geteuid() else ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups"]
        for option in self.each():
            if words and (shutil.which("setpriv") is None or option.startswith("watch")):
                continue  # a watcher may replace a file that it may not write
            path = self.folder / "X"
            path.write_text("old")
            path.chmod(0o444)
            for place in (self.folder.parent, self.folder, self.recording):
                place.chmod(0o755)
            done = self.execute([*words, GPUWHY, *self.words(option, path)], stdin=subprocess.DEVNULL, cwd="/")
            self.assertIn(b"Permission denied", done.stderr, option)
            self.assertEqual((done.returncode, done.stdout, path.read_text()), (2, b"", "old"), option)

    def refuse_words(self, reason, *words):
        before = state_of(self.folder)
        done = self.run_gpuwhy(*words)
        self.assertEqual((done.returncode, done.stdout), (2, b""), done.stderr)
        self.assertIn(reason, done.stderr)
        self.assertEqual(state_of(self.folder), before, words)

    def test_a_file_that_the_command_reads(self):
        snapshot = self.folder / "snapshot.pickle"
        shutil.copy(next((ROOT / "tests" / "fixtures" / "torch").glob("*.pickle")), snapshot)
        self.refuse_words(b"which this command reads", "report", "--no-history", snapshot, "-o", snapshot)
        self.run_gpuwhy("doctor", "--save", "state")
        (self.folder / "hard").hardlink_to(self.folder / "state")
        self.refuse_words(b"which this command reads", "doctor", "--against", "state", "--save", "hard")
        program = self.folder / "program"
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        self.refuse_words(b"which this command reads", *RUN, "--json", "program", "--", program)

    def test_two_options_name_one_file(self):
        (self.folder / "link").symlink_to("X")
        os.mkfifo(self.folder / "pipe")
        reader = os.open(self.folder / "pipe", os.O_RDONLY | os.O_NONBLOCK)
        self.addCleanup(os.close, reader)
        for words in (["--json", "X", "--message", "X"], ["--json", "X", "--message", "link"], ["-o", "X/", "--json", "X"],
                      ["-o", "X", "--json", "X", "--message", "X.json"], ["--json", "pipe", "--message", "pipe"]):
            self.refuse_words(b"names the same file", *RUN, *words, *PROGRAM)
        self.refuse_words(b"names the same file", "rehearse", "--gpu", GPU, "-o", "X", "--json", "X", *PROGRAM)
        self.refuse_words(b"names the same file", "doctor", "--save", "X", "--junit", "X")
        (self.folder / "X").write_text("old")
        self.refuse_words(b"names the same file", *RUN, "--json", "X", "--message", "link", *PROGRAM)


class Written(OutputCase):
    def words(self, option, path):
        """With a program that has something to rehearse."""
        words = super().words(option, path)
        return words[:words.index("--") + 1] + [CNN, "--batch", "8"] if option.startswith("rehearse") else words

    def write(self, option, path):
        done = self.call(option, path)
        self.assertNotIn(f"{option.split()[1]} {path}".encode(), done.stderr, option)

    def test_what_exists_is_replaced(self):
        """An ordinary file keeps its name, its other names, its owner and its mode."""
        for option in self.each():
            path, other = self.folder / "X", self.folder / "other"
            path.write_text("old" * 100000)
            path.chmod(0o640)
            other.hardlink_to(path)
            self.write(option, path)
            self.assertFalse(path.read_text().endswith("old"), option)
            self.assertGreater(path.stat().st_size, 20, option)
            if not option.startswith("watch"):
                self.assertEqual((path.stat().st_mode & 0o777, path.samefile(other)), (0o640, True), option)
            self.assertEqual([name for name in os.listdir(self.folder) if name.startswith(".")], [], option)

    def test_the_recording_keeps_its_name(self):
        """Another output of the run that names it goes to a name beside it, which is checked like every name."""
        (self.folder / "link").symlink_to("X")
        for option, ending in (("--json", ".json"), ("--message", ".txt")):
            beside = self.folder / f"X{ending}"
            for name in ("X", self.folder / "X", f"../{self.folder.name}/X", "link"):
                words = [*RUN, "-o", "X", option, name, *PROGRAM]
                done = self.run_gpuwhy(*words)
                self.assertEqual(done.returncode, 3, done.stderr)
                self.assertIn(f"{option} {name}: that is this run's recording, so this output goes to X{ending}\n".encode(),
                              done.stderr)
                self.assertGreater(beside.stat().st_size, 20)
                self.assertEqual((self.folder / "X").read_bytes()[:8], self.recording.read_bytes()[:8])
                (self.folder / "X").unlink()
                beside.unlink()
                beside.mkdir()
                (self.folder / "ran").unlink()
                done = self.run_gpuwhy(*words)
                self.assertEqual((done.returncode, done.stderr),
                                 (2, f"gpuwhy: run: {option} X{ending}: is a folder; name a file in it\n".encode()))
                self.assertFalse((self.folder / "X").exists() or (self.folder / "ran").exists())
                beside.rmdir()
        done = self.run_gpuwhy(*RUN, "-o", "X", "--json", "link", "--message", "X", *PROGRAM)
        self.assertEqual((done.returncode, sorted(path.name for path in self.folder.glob("X*"))),
                         (3, ["X", "X.json", "X.txt"]))

    def test_links_are_followed(self):
        for target in ("target", "new"):
            for option in self.each():
                if option.startswith("watch"):
                    continue
                (self.folder / "target").write_text("old")
                (self.folder / "X").symlink_to(target)
                self.write(option, "X")
                self.assertTrue((self.folder / "X").is_symlink(), option)
                self.assertGreater((self.folder / target).stat().st_size, 20, option)
            for folder in self.folder.glob("test*"):
                shutil.rmtree(folder)

    def test_pipes_and_devices(self):
        for option in self.each():
            if option.startswith("watch"):
                continue
            self.write(option, "/dev/null")
            os.mkfifo(self.folder / "pipe")
            writer = os.open(self.folder / "pipe", os.O_RDWR)  # until it is closed, cat sees no end
            with open(self.folder / "pipe", "rb") as pipe, open(self.folder / "copy", "wb") as copy, \
                    subprocess.Popen(["cat"], stdin=pipe, stdout=copy) as reader:
                pipe.close()
                self.write(option, "pipe")
                os.close(writer)
                self.assertEqual(reader.wait(WAIT_S), 0)
            self.assertGreater((self.folder / "copy").stat().st_size, 20, option)
            words = subprocess.list2cmdline([GPUWHY, *self.words(option, "PIPE")]).replace("PIPE", ">(cat > X)")
            subprocess.run(["bash", "-c", words + " > log 2>&1; wait"], cwd=self.folder, env=self.environment)
            wait_until(lambda: (self.folder / "X").exists() and (self.folder / "X").stat().st_size > 20, option)

    def test_a_descriptor_is_written_where_it_stands(self):
        with open(self.folder / "log", "wb") as log:
            log.write(b"first\n")
            log.flush()
            self.execute([GPUWHY, *RUN, "--json", "/dev/stdout", "--", "echo", "second"], stdout=log)
        self.assertRegex((self.folder / "log").read_text(), r"\Afirst\nsecond\n\{")
        with open(self.recording, "ab") as log:
            done = self.execute([GPUWHY, "export", self.recording, "--to", "csv"], stdout=log)
        self.assertEqual((done.returncode, done.stderr), (2, b"gpuwhy: export: -o -: would overwrite a recording\n"))

    def test_failed_work_changes_nothing(self):
        (self.folder / "noise").write_bytes(b"noise" * 99)
        for words in (["export", "noise", "--to", "csv", "-o", "X"], ["report", "noise", "-o", "X"],
                      [*RUN, "--json", "X", "--", "/none"], ["doctor", "--save", "X", "--against", "noise"],
                      ["rehearse", "--gpu", "virtual:none", "--json", "X", "--", "true"],
                      [*RUN, "--message", "X", "--", "true"]):
            for old in (None, "old"):
                (self.folder / "X").unlink(True)
                if old:
                    (self.folder / "X").write_text(old)
                before = state_of(self.folder)
                self.run_gpuwhy(*words)
                after = {name: state for name, state in state_of(self.folder).items() if not name.startswith("state")}
                self.assertEqual(after, {name: state for name, state in before.items() if not name.startswith("state")}, words)

    def test_a_recording_that_got_the_name_during_the_run(self):
        for option in ("--json", "--message"):
            done = self.run_gpuwhy(*RUN, "--no-verdict", option, "X", "--", "sh", "-c", "cp input.gpuwhy X; exit 3")
            self.assertEqual((done.returncode, (self.folder / "X").read_bytes()), (3, self.recording.read_bytes()))
            self.assertRegex(done.stderr.decode(), rf"\Agpuwhy: {option} X: (would overwrite a recording|no room for .*)\n\Z")
            (self.folder / "X").unlink()

    def test_a_full_disk(self):
        """The old contents stay if the new ones have no room."""
        script = """mount -t tmpfs -o size=16k none disk || exit 77
            cp old disk/X; dd if=/dev/zero of=disk/rest 2>/dev/null; "$0" "$@"; cp disk/X after; ls -A disk > names"""
        for option in ("export -o", "report -o", "doctor --junit", "watch --metrics-file", "run --json"):
            folder = self.folder / option
            (folder / "disk").mkdir(parents=True)
            (folder / "old").write_text("old")
            words = ["unshare", "-m", "sh", "-c", script, GPUWHY, *self.words(option, "disk/X")]
            done = self.execute(words, cwd=folder)
            if not (folder / "after").exists():
                self.skipTest("no file system can be mounted here")
            self.assertEqual((folder / "names").read_text().split(), ["X", "rest"], option)
            if b"No space left" in done.stderr:  # otherwise, the new contents had room in the page of the old ones
                self.assertEqual((folder / "after").read_text(), "old", option)
            elif option in ("export -o", "report -o"):
                self.fail((option, done.stderr))


class Bundle(Case):
    """`gpuwhy explain --bundle FILE`: one file for a bug report."""

    LOG = ('step 1\nTraceback (most recent call last):\n  File "train.py", line 9, in <module>\n'
           "ValueError: cannot reach https://kim:Tr0ub4dor@host.example/api with hf_aB3kLmN9pQr2StUv5WxYz1AbCdEf7GhIjK\n")

    def test_a_report_is_masked(self):
        log, report = self.folder / "train.log", self.folder / "report.md"
        log.write_text(self.LOG)
        done = self.run_gpuwhy("explain", "--bundle", report, log)
        text = report.read_text()
        self.assertIn(b"Verdict  script-exception", done.stdout)
        self.assertIn("Verdict  script-exception", text)
        self.assertIn("train.log:4: ValueError: cannot reach https://kim:***@host.example/api with ***", text)
        self.assertNotIn("Tr0ub4dor", text)
        self.assertIn("a picture of text cannot", text)

    def test_evidence_does_not_end_the_block(self):
        log, report = self.folder / "train.log", self.folder / "report.md"
        log.write_text('Traceback (most recent call last):\n  File "train.py", line 9, in <module>\nValueError: ```` is no fence\n')
        self.run_gpuwhy("explain", "--bundle", report, log)
        fences = [line for line in report.read_text().splitlines() if line.startswith("```")]
        self.assertEqual(fences, ["`````", "`````"])

    def test_standard_output_has_the_report_alone(self):
        log, report = self.folder / "train.log", self.folder / "report.md"
        log.write_text(self.LOG)
        self.run_gpuwhy("explain", "--bundle", report, log)
        for name in ("-", "/dev/stdout"):
            done = self.run_gpuwhy("explain", "--bundle", name, log)
            self.assertEqual((done.returncode, done.stdout.decode()), (0, report.read_text()), name)
        done = self.run_gpuwhy("explain", "--json", "--bundle", "-", log)
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"--json and --bundle -", done.stderr)

    def test_the_log_is_not_overwritten(self):
        log = self.folder / "train.log"
        log.write_text(self.LOG)
        self.assertEqual(self.run_gpuwhy("explain", "--bundle", log, log).returncode, 2)
        self.assertEqual(log.read_text(), self.LOG)


class Signals(OutputCase):
    """A pipe that is full, and whose reader does not read."""

    def setUp(self):
        super().setUp()
        os.mkfifo(self.folder / "pipe")
        self.reader = os.open(self.folder / "pipe", os.O_RDWR | os.O_NONBLOCK)
        self.addCleanup(os.close, self.reader)
        try:
            while True:
                os.write(self.reader, b"x" * 4096)
        except BlockingIOError:
            pass

    def begin(self, *words):
        return subprocess.Popen([GPUWHY, *words], cwd=self.folder, env=self.environment, stderr=subprocess.PIPE,
                                stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)

    def waits(self, process):
        """The process sleeps and has opened the pipe."""
        folder = pathlib.Path(f"/proc/{process.pid}")
        is_open = any(os.path.realpath(fd) == os.path.realpath(self.folder / "pipe") for fd in (folder / "fd").iterdir())
        return is_open and "\nState:\tS" in (folder / "status").read_text()

    def test_a_finished_run_ends(self):
        with self.begin(*RUN, "--no-verdict", "--json", "pipe", "--", "sh", "-c", "exit 3") as process:
            _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, err),
                         (3, b"gpuwhy: --json pipe: incomplete, because its reader has read nothing for 10 s\n"))

    def test_a_signal_ends_the_wait(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            with self.begin(*RUN, "--no-verdict", "--json", "pipe", "--", "sh", "-c", "echo $$ > ran; exit 3") as process:
                wait_until(lambda: lines_of(self.folder / "ran"), "the program")
                program = pathlib.Path("/proc", lines_of(self.folder / "ran")[0])
                wait_until(lambda: not program.exists(), "its end")
                while process.poll() is None:
                    process.send_signal(number)
                    try:
                        process.wait(0.2)
                    except subprocess.TimeoutExpired:
                        pass
                err = process.stderr.read()
            (self.folder / "ran").unlink()
            self.assertEqual(process.returncode, 3, err)
            self.assertIn(b"a signal ended the wait", err)

    def test_a_signal_ends_an_export(self):
        for words in (["export", self.recording, "--to", "json", "-o", "pipe"], ["report", self.recording, "-o", "pipe"]):
            with self.begin(*words) as process:
                wait_until(lambda: self.waits(process), "the full pipe")
                process.send_signal(signal.SIGINT)
                process.communicate(timeout=WAIT_S)
            self.assertEqual(process.returncode, -signal.SIGINT)


if __name__ == "__main__":
    if sys.argv[1:2] == ["--markdown"]:
        write_markdown(pathlib.Path(sys.argv[2]))
    else:
        unittest.main()
