"""What other users may have put in our way: run folders, code, links, FIFOs; and what happens if our processes are killed."""
import contextlib
import errno
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import unittest

from support import BEGIN, Case, GPU, GPUWHY, PythonCase, WAIT_S, children_of, lines_of, run_command, wait_until

OTHER = 65534  # another user: nobody


def needs_root(test):
    return unittest.skipUnless(os.geteuid() == 0, "only root can make files of another user")(test)


def end(process):
    """End gpuwhy and the program that it started, which is in the same process group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait(WAIT_S)


class Planted(Case):
    """Run folders that another user made under our name."""

    def plant(self, recording):
        """Copy a run folder as it looks while a program runs, name `recording` in it, and give it to another user."""
        self.process = self.start("sh", "-c", "sleep 60", options=["-o", str(recording)])
        self.addCleanup(end, self.process)
        folder = self.own_folder(self.process.pid)
        wait_until(recording.exists, "the recording")
        planted = pathlib.Path(f"/dev/shm/gpuwhy-{os.getuid()}-1-planted{os.getpid()}")
        shutil.rmtree(planted, ignore_errors=True)
        self.addCleanup(shutil.rmtree, planted, True)
        self.process.send_signal(signal.SIGSTOP)  # so that no file comes or goes meanwhile
        shutil.copytree(folder, planted)
        self.process.send_signal(signal.SIGCONT)
        self.process.terminate()
        self.process.wait(WAIT_S)
        return planted

    def own_folder(self, pid):
        roots = [pathlib.Path(r) for r in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp", "/var/tmp") if r]

        def found():
            return [f for r in roots if r.exists() for f in r.glob(f"gpuwhy-{os.getuid()}-{pid}-*")
                    if (f / "run.meta").exists()]
        wait_until(found, "the run folder")
        return found()[0]

    @needs_root
    def test_a_folder_of_another_user_is_not_believed(self):
        recording = self.folder / "run.gpuwhy"
        planted = self.plant(recording)
        mine = json.loads(self.run_gpuwhy("explain", "--json", recording).stdout)
        for path in [planted, *planted.rglob("*")]:
            os.chown(path, OTHER, OTHER, follow_symlinks=False)
        again = json.loads(self.run_gpuwhy("explain", "--json", recording).stdout)
        self.assertEqual(mine["headline"], again["headline"])
        self.assertNotIn(b"planted", self.run_gpuwhy("poke", "1").stdout)

    @needs_root
    def test_a_recording_of_another_user_is_not_read_for_a_folder(self):
        """The folder names a file as its recording; it must belong to the folder's owner."""
        recording = self.folder / "run.gpuwhy"
        planted = self.plant(recording)
        self.assertIn(b"exit", self.run_gpuwhy("explain", "--json", planted).stdout)
        os.chown(recording, OTHER, OTHER)
        done = self.run_gpuwhy("explain", planted)
        self.assertIn(done.returncode, (0, 1, 2))
        self.assertNotIn(b"signal 15", done.stdout)

    def test_links_in_a_folder_are_not_followed(self):
        planted = self.plant(self.folder / "run.gpuwhy")
        meta = planted / "run.meta"
        meta.rename(planted / "real.meta")
        meta.symlink_to(planted / "real.meta")
        done = self.run_gpuwhy("explain", planted)
        self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), done.stderr)

    @needs_root
    def test_a_program_that_outlives_its_run_uses_no_folder_of_another_user(self):
        """The name of the run folder is free when the folder has been removed."""
        program = self.folder / "program.py"
        program.write_text("import os, time\nopen('ready', 'w')\nwhile not os.path.exists('go'):\n    time.sleep(0.01)\n" + BEGIN +
                           "open('done', 'w')\n")
        process = self.start(sys.executable, str(program), stderr=subprocess.DEVNULL)
        self.addCleanup(end, process)
        wait_until((self.folder / "ready").exists, "the program")
        folder = self.own_folder(process.pid)
        process.send_signal(signal.SIGKILL)
        process.wait(WAIT_S)
        shutil.move(folder, self.folder / "removed")
        folder.mkdir()
        self.addCleanup(shutil.rmtree, folder, True)
        shutil.copy(self.folder / "removed" / "run.meta", folder)
        shutil.copytree(self.folder / "removed" / "virtual", folder / "virtual")
        os.chown(folder, OTHER, OTHER)
        (self.folder / "go").touch()
        wait_until((self.folder / "done").exists, "the end of the program")
        self.assertEqual(list(folder.glob("*.buf")), [])

    @needs_root
    def test_a_run_inside_a_run_writes_to_no_folder_of_another_user(self):
        outer = self.folder / "outer"
        outer.mkdir(mode=0o755)
        for owner, names in ((OTHER, []), (0, ["nested"])):
            os.chown(outer, owner, owner)
            self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--", "true",
                            env=dict(self.environment, GPUWHY_RUN_DIR=str(outer)))
            self.assertEqual([path.name for path in outer.iterdir()], names)

    @needs_root
    def test_the_last_recording_is_our_own(self):
        recording = self.folder / "run.gpuwhy"
        self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "-o", recording, "--", "false")
        self.assertEqual(self.run_gpuwhy("explain").stderr, b"")
        os.chown(recording, OTHER, OTHER)
        done = self.run_gpuwhy("explain")
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"run.gpuwhy, belongs to another user", done.stderr)
        self.assertNotEqual(self.run_gpuwhy("explain", recording).stdout, b"")  # its twin: the user names it


class Code(Case):
    """What a program loads comes from us or from root."""

    def preloaded(self, environment):
        done = self.execute(run_command("env"), env=environment)
        line = [l for l in done.stdout.decode().splitlines() if l.startswith("LD_PRELOAD=")][0]
        return [pathlib.Path(p) for p in line.split("=", 1)[1].split(":") if "facade-" in p]

    def cache(self, mode=0o755):
        cache = pathlib.Path(self.folder.parent / self.folder.name.replace(" ", "-"))
        cache.mkdir(mode=mode)
        os.chmod(cache, mode)
        self.addCleanup(shutil.rmtree, cache, True)
        return cache

    def assert_safe(self, path):
        for part in [path, *path.parents]:
            facts = part.stat()
            self.assertIn(facts.st_uid, (0, os.geteuid()), part)
            sticky = facts.st_mode & 0o1000 and part.is_dir()
            self.assertFalse(facts.st_mode & 0o002 and not sticky, part)

    def test_a_changed_facade_is_replaced(self):
        environment = dict(self.environment, XDG_CACHE_HOME=str(self.cache()))
        facade = self.preloaded(environment)[0]
        good = facade.read_bytes()
        for change in (good[:-1], good[:100] + b"X" + good[101:], good + b"x"):
            facade.unlink()
            facade.write_bytes(change)
            self.assertEqual(self.preloaded(environment)[0], facade)
            self.assertEqual(facade.read_bytes(), good)
        before = facade.stat().st_mtime_ns, facade.stat().st_ino
        self.preloaded(environment)
        self.assertEqual(before, (facade.stat().st_mtime_ns, facade.stat().st_ino))  # its twin: equal bytes stay

    def test_others_cannot_have_written_it(self):
        environment = dict(self.environment, XDG_CACHE_HOME=str(self.cache(0o777)))
        for path in self.preloaded(environment):
            self.assert_safe(path)
            self.assertNotIn(environment["XDG_CACHE_HOME"], str(path))
        environment["XDG_CACHE_HOME"] = str(self.folder.parent / "gpuwhy-own-cache")
        self.addCleanup(shutil.rmtree, environment["XDG_CACHE_HOME"], True)
        os.mkdir(environment["XDG_CACHE_HOME"])
        os.chmod(environment["XDG_CACHE_HOME"], 0o755)  # root takes only what all users can read
        self.assertIn(environment["XDG_CACHE_HOME"], str(self.preloaded(environment)[0]))  # its twin: our own folder

    @needs_root
    def test_root_uses_no_folder_of_another_user(self):
        home = self.cache()
        (home / ".cache").mkdir()
        for path in (home, home / ".cache"):
            os.chown(path, OTHER, OTHER)
        environment = dict(self.environment, HOME=str(home))
        for name in ("XDG_CACHE_HOME", "XDG_STATE_HOME"):
            environment.pop(name, None)
        for cache in (None, str(home / ".cache")):
            if cache:
                environment.update(XDG_CACHE_HOME=cache, XDG_STATE_HOME=str(home / ".local"))
            for path in self.preloaded(dict(environment, GPUWHY_KEEP="0")):
                self.assert_safe(path)
            self.assertEqual(sorted(p.name for p in home.rglob("*")), [".cache"])

    @needs_root
    def test_a_program_that_becomes_another_user_can_read_it(self):
        environment = {k: v for k, v in self.environment.items() if k != "XDG_CACHE_HOME"}
        done = self.execute(run_command("setpriv", "--reuid", str(OTHER), "--clear-groups", "cat", "/dev/null"), env=environment,
                            cwd="/")
        self.assertEqual((done.returncode, done.stderr), (0, b""))


class Files(Case):
    """`explain` opens regular files, and a FIFO that the user names."""

    def test_a_fifo_is_read_like_a_pipe(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        writer = subprocess.Popen(["sh", "-c", "echo 'RuntimeError: CUDA error: out of memory' > fifo"], cwd=self.folder)
        done = self.run_gpuwhy("explain", fifo)
        self.assertEqual(writer.wait(WAIT_S), 0)
        self.assertIn(b"gpu-oom", done.stdout)

    def test_devices_are_refused(self):
        for path in ("/dev/zero", "/dev/tty", "/dev/null"):
            done = self.run_gpuwhy("explain", path, stdin=subprocess.DEVNULL)
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (path, done.stderr))

    def test_a_recording_named_by_a_folder_may_be_a_fifo(self):
        process = self.start("sh", "-c", "sleep 60", options=["-o", str(self.folder / "run.gpuwhy")])
        self.addCleanup(end, process)
        folder = Planted.own_folder(self, process.pid)
        wait_until((self.folder / "run.gpuwhy").exists, "the recording")
        (self.folder / "run.gpuwhy").unlink()
        os.mkfifo(self.folder / "run.gpuwhy")
        done = self.run_gpuwhy("explain", folder)
        self.assertIn(done.returncode, (0, 1, 2))


class Sources(PythonCase):
    """Lines of the source files that a recording names."""
    LINE = "cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 62)) and sys.exit(1)"
    SECRET = "password of the reader"

    def setUp(self):
        super().setUp()
        for folder in (self.folder, self.folder / "home"):
            folder.mkdir(exist_ok=True)
            folder.chmod(0o755)
        self.program, self.recording = self.folder / "home" / "train.py", self.folder / "run.gpuwhy"
        self.private = self.folder / "private"
        self.private.mkdir(0o711)

    def hashes(self):
        return b"".join(line for line in self.run_gpuwhy("export", "--to", "json", self.recording).stdout.splitlines()
                        if b'"key":"source"' in line)

    def record(self, program=None, text=None):
        self.program.write_text(text or BEGIN + self.LINE + "\n")
        self.program.chmod(0o644)
        self.execute(run_command(sys.executable, program or self.program, options=["-o", self.recording]))

    def give_away(self, *paths):
        for path in paths:
            os.chown(path, OTHER, OTHER, follow_symlinks=False)

    def hide(self):
        """Make a private file that cannot be told from the program by its size and time."""
        size, text = self.program.stat().st_size, f"{self.SECRET}\n" * 40
        hidden = self.private / self.program.name
        hidden.write_text(text[:size] + "x" * (size - len(text)))
        shutil.copystat(self.program, hidden)
        hidden.chmod(0o600)
        return hidden

    def explained(self):
        """The verdict for people; nothing private is in it, nor in any other output."""
        text = self.run_gpuwhy("explain", "--all", "--no-history", self.recording).stdout.decode()
        page = self.folder / "page.html"
        self.run_gpuwhy("report", "--no-history", "-o", page, self.recording)
        outputs = [text, page.read_text(), self.run_gpuwhy("export", "--to", "json", self.recording).stdout.decode(),
                   self.run_gpuwhy("explain", "--no-history", "--json", self.recording).stdout.decode()]
        for output in outputs:
            self.assertNotIn(self.SECRET, output)
        self.assertIn("train.py:", text)
        return text

    def assert_shown(self, shown=True):
        text = self.explained()
        (self.assertRegex if shown else self.assertNotRegex)(text, r"> \d+ \| ")
        return text

    def test_our_own_lines_are_shown(self):
        link = self.folder / "link"
        link.symlink_to(self.folder / "home")
        for program in (self.program, link / "train.py"):
            self.recording.unlink(missing_ok=True)
            self.record(program)
            self.assert_shown()
            os.utime(self.program)  # the contents count, not the times
            self.assert_shown()

    def test_a_changed_file_is_found_by_its_contents(self):
        self.record()
        before = self.program.stat()
        self.program.write_text(self.program.read_text().replace("62", "63"))
        os.utime(self.program, ns=(before.st_atime_ns, before.st_mtime_ns))
        self.assertEqual(before.st_size, self.program.stat().st_size)
        self.assertIn("the file has changed since", self.assert_shown(False))

    @needs_root
    def test_a_foreign_recording_shows_what_its_owner_can_read(self):
        self.record()
        self.give_away(self.recording, self.program, self.folder / "home")
        self.assert_shown()
        self.program.chmod(0o600)
        self.assert_shown()
        os.chown(self.program, 0, 0)
        self.assert_shown(False)
        self.program.chmod(0o644)
        self.assert_shown()
        (self.folder / "home").chmod(0o700)
        self.assert_shown()
        os.chown(self.folder / "home", 0, 0)
        self.assert_shown(False)

    @needs_root
    def test_a_foreign_recording_shows_no_private_file(self):
        self.record()
        self.give_away(self.recording, self.program)
        hidden = self.hide()
        kept = self.program.rename(self.folder / "home" / "kept.py")
        self.program.symlink_to(hidden)
        self.assert_shown(False)
        self.program.unlink()
        os.mkfifo(self.program)
        self.assert_shown(False)
        self.program.unlink()
        kept.rename(self.program)
        self.assert_shown()  # its twin
        moved = (self.folder / "home").rename(self.folder / "moved")
        (self.folder / "home").symlink_to(self.private)
        self.assert_shown(False)
        (self.folder / "home").unlink()
        (self.folder / "home").symlink_to(moved)  # a link on the way, even to the same file
        self.assert_shown(False)

    @needs_root
    def test_without_a_hash_all_must_be_ours(self):
        """Of a file that only a traceback names, no hash is recorded."""
        caller = self.folder / "home" / "caller.py"
        caller.write_text(BEGIN + "import train\n")
        self.record(caller, "raise ValueError('no such model')\n")
        self.assertIn(b'caller.py"', self.hashes())
        self.assertNotIn(b'train.py"', self.hashes())
        self.assert_shown()
        for path in (self.recording, self.program):
            self.give_away(path)
            self.assert_shown(False)
            os.chown(path, 0, 0)
        self.recording.chmod(0o606)
        self.assert_shown(False)


    def place(self, recording):
        return json.loads(self.run_gpuwhy("explain", "--json", recording).stdout)["where"]

    @needs_root
    def test_a_foreign_recording_makes_us_open_no_program(self):
        """The names of functions are looked up if the supervisor was killed, but only for our own recording."""
        wait = "open('ready', 'w') and __import__('time').sleep(60)"
        self.program.write_text(BEGIN + self.LINE.replace("sys.exit(1)", wait))
        process = self.start(sys.executable, str(self.program), options=["-o", str(self.recording)])
        self.addCleanup(end, process)
        wait_until((self.folder / "ready").exists, "the refused request")
        wait_until(lambda: self.place(self.recording) is not None, "its place")
        run_folder = Planted.own_folder(self, process.pid)
        shutil.copytree(run_folder, kept := self.folder / "run folder")
        end(process)
        shutil.rmtree(run_folder)
        native = lambda: [f["function"] for f in self.place(kept)["frames"] if f["kind"] != "python" and f["function"]]
        self.assertTrue(native())
        self.give_away(self.recording, kept, *kept.iterdir())
        self.assertEqual(native(), [])

    @needs_root
    def test_a_foreign_recording_is_not_compared_with_our_runs(self):
        for bytes_ in ("1 << 20", "1 << 62"):
            self.program.write_text(BEGIN + self.LINE.replace("1 << 62", bytes_))
            self.recording.unlink(missing_ok=True)
            self.execute(run_command(sys.executable, self.program, options=["-o", self.recording]))
            if bytes_ == "1 << 20":
                self.recording.rename(self.folder / "good.gpuwhy")
        told = lambda: b"earlier runs" in self.run_gpuwhy("explain", "--json", self.recording).stdout
        self.assertTrue(told())
        self.give_away(self.recording)
        self.assertFalse(told())


class Terminal(Case):
    """What comes from a file, a process or a name does not control the user's terminal."""
    EVIL = "x\x1b[2J\x9b31m\u009b1m\r\x07"

    def assert_harmless(self, *texts):
        for text in texts:
            for bad in (b"\x1b", b"\x07", b"\r", b"\xc2\x9b"):
                self.assertNotIn(bad, text.replace(b"\r\n", b"\n"))

    def test_names_of_files(self):
        evil = self.folder / self.EVIL
        evil.write_text("no recording")
        for command in (["explain"], ["export", "--to", "csv"], ["diff", evil], ["doctor", "--root"], ["torch"],
                        ["run", "--gpu", GPU, "--"], ["explain", "--cell", self.EVIL], ["poke"], ["causes"], ["help"]):
            for name in (evil, f"{evil}.gpuwhy", self.EVIL):
                done = self.run_gpuwhy(*command, name, stdin=subprocess.DEVNULL)
                self.assert_harmless(done.stdout, done.stderr)
        done = self.run_gpuwhy(self.EVIL)
        self.assert_harmless(done.stdout, done.stderr)

    def test_what_a_program_says_and_is_called(self):
        program = self.folder / self.EVIL
        program.write_text("#!/bin/sh\nprintf 'Error: \\033[2Jboom\\007' >&2\nexit 3\n")
        program.chmod(0o755)
        done = self.run_gpuwhy("run", "--gpu", GPU, "-o", "run.gpuwhy", "--", program, self.EVIL)
        self.assert_harmless(done.stderr.replace(b"\x1b[2Jboom\x07", b"", 1))  # the program's own output passes
        for command in (["explain", "--all", "run.gpuwhy"], ["history"], ["export", "--to", "csv", "run.gpuwhy"]):
            done = self.run_gpuwhy(*command)
            self.assert_harmless(done.stdout, done.stderr)

    def test_names_of_threads(self):
        body = ("import ctypes, time; ctypes.CDLL(None).prctl(15, b'a\\x1b[2J\\x07', 0, 0, 0); open('ready', 'w'); "
                "time.sleep(60)")
        process = self.start("python3", "-c", body)
        self.addCleanup(end, process)
        wait_until((self.folder / "ready").exists, "the program")
        child = [p for p in children_of(process.pid) if b"python" in pathlib.Path(f"/proc/{p}/cmdline").read_bytes()]
        done = self.run_gpuwhy("poke", child[0], "--seconds", "0.2")
        self.assert_harmless(done.stdout, done.stderr)


class Limits(Case):
    def verdict_under(self, limit):
        program = self.folder / "program.py"
        program.write_text(BEGIN.replace("\nbegin()\n", "\ntry:\n    begin()\nexcept AssertionError:\n    os._exit(1)\n"))
        self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--json", "verdict.json", "--", "sh", "-c",
                        f'{limit} exec "$@"', "sh", sys.executable, program)
        return json.loads((self.folder / "verdict.json").read_text())

    def test_a_limit_set_by_a_launcher_is_no_full_card(self):
        if os.environ.get("GPUWHY_SANITIZE"):
            self.skipTest("a sanitizer needs far more address space")
        verdict = self.verdict_under("ulimit -v 600000;")
        self.assertIn("address-space limit", verdict["headline"])
        self.assertNotEqual(verdict["cause"], "gpu-oom-other-process")
        self.assertEqual(self.verdict_under("")["status"], "clean")  # its twin

    def test_a_limit_of_file_size_that_stops_gpuwhy_does_not_end_the_program(self):
        for limit in ("ulimit -f 0", "ulimit -f 1"):
            done = self.execute(["sh", "-c", limit + '; exec "$@"', "sh", *run_command("sh", "-c", "echo out; exit 7")])
            self.assertEqual((done.returncode, done.stdout), (7, b"out\n"), done.stderr)
            self.assertIn(b"File too large", done.stderr)


class Disk(PythonCase):
    """The disk of the recording fails or blocks while the program runs."""
    PROGRAM = BEGIN + """
import time
open("disk from", "w")
for i in range(3000):
    assert cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(512)) == 0
print("one", file=sys.stderr, flush=True)
while len(sys.argv) > 1 and not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
open("done", "w")
raise ValueError("its own")
"""

    def setUp(self):
        super().setUp()
        if "BROKEN_DISK" not in os.environ:
            self.skipTest("no shim of a broken disk")
        self.recording = self.folder / "disk" / "r.gpuwhy"
        self.recording.parent.mkdir()
        (self.folder / "program.py").write_text(self.PROGRAM)

    def begin(self, *arguments, **variables):
        environment = {**self.environment, "LD_PRELOAD": os.environ["BROKEN_DISK"], "BROKEN_DISK": str(self.recording.parent),
                       "BROKEN_FROM": str(self.folder / "disk from"), **variables}
        return self.start(sys.executable, "program.py", *arguments, options=("--no-history", "-o", self.recording),
                          env=environment, stderr=subprocess.PIPE)

    def end(self, process):
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn(b"one\nTraceback", err.replace(b"gpuwhy: ", b"\ngpuwhy: "))
        self.assertIn(b"ValueError: its own\n", err)
        return err.decode(), json.loads(self.run_gpuwhy("explain", "--no-history", "--json", self.recording).stdout)

    def test_it_takes_nothing_more(self):
        for error in (errno.EDQUOT, errno.EIO):
            err, verdict = self.end(self.begin(BROKEN_ERRNO=str(error)))
            self.assertIn(f"{os.strerror(error)}; the rest of the recording is used for the verdict but not saved", err)
            self.assertIn("script-exception (established)", err)
            self.assertEqual((verdict["status"], verdict["cause"]), ("undetermined", None), verdict)
            self.assertIn("was killed during the run, or could not write this file any more", verdict["headline"])
            self.assertNotIn("ruled out", json.dumps(verdict))
            for path in (self.recording, self.folder / "disk from"):
                path.unlink()

    def test_it_reports_only_at_the_end(self):
        err, _ = self.end(self.begin(BROKEN_ERRNO=str(errno.EDQUOT), BROKEN_CLOSE="1"))
        self.assertIn(f"may be incomplete: {self.recording}: {os.strerror(errno.EDQUOT)}; its end may be missing", err)

    def test_it_blocks(self):
        """The program goes on, and its output comes."""
        waits, until = self.folder / "waits", self.folder / "until"
        process = self.begin(waits, BROKEN_WAITS=str(waits), BROKEN_UNTIL=str(until))
        wait_until((self.folder / "done").exists, "the program")
        self.assertEqual(process.stderr.readline(), b"one\n")
        self.assertEqual(process.stderr.readline(), b"Traceback (most recent call last):\n")
        self.assertIsNone(process.poll())
        until.touch()
        _, err = process.communicate(timeout=WAIT_S)
        self.assertEqual(process.returncode, 1, err)
        self.assertIn(b"script-exception (established)", err)


def is_file_of(pid, path):
    with contextlib.suppress(OSError):
        return os.readlink(f"/proc/{pid}/exe") == os.path.realpath(path)
    return False


class Killed(Case):
    """The program's standard error survives the end of our processes."""
    LINES = 3000

    def names(self, pid):
        relay = [c for c in children_of(pid) if lines_of(f"/proc/{c}/comm") == ["stderr-relay"]]
        copier = [c for r in relay for c in children_of(r)]
        witness = [c for c in children_of(pid) if lines_of(f"/proc/{c}/comm") == ["gpuwhy-witness"]]
        ours = [p for p in [pid, *relay, *copier, *witness] if is_file_of(p, GPUWHY)]
        return {"copier": copier, "relay": relay, "relay and copier": relay + copier, "supervisor": [pid],
                "witness": witness, "all but the copier": [pid] + relay + witness, "all of the file gpuwhy": ours}

    def run_and_send(self, whom, number, after_s):
        script = f"echo started > started; i=0; while [ $i -lt {self.LINES} ]; do echo line $i >&2; i=$((i+1)); done; echo done > done; exit 7"
        for name in ("started", "done"):
            (self.folder / name).unlink(missing_ok=True)
        process = self.start("sh", "-c", script, options=["--no-verdict"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        output = []
        reader = threading.Thread(target=lambda: output.append(process.stderr.read()))
        reader.start()
        wait_until(lambda: self.names(process.pid)["copier"] or process.poll() is not None, "the copier")
        wait_until((self.folder / "started").exists, "the program") # the supervisor starts it after the copier
        time.sleep(after_s)
        hit = self.names(process.pid)[whom]
        for pid in hit:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        wait_until((self.folder / "done").exists, f"the program, after signal {number} to {whom}")
        for pid in hit:
            try:
                os.kill(pid, signal.SIGCONT)
            except ProcessLookupError:
                pass
        status = process.wait(WAIT_S)
        reader.join(WAIT_S)
        process.stderr.close()
        return status, output[0]

    def check(self, number, victims, times):
        wanted = b"".join(b"line %d\n" % i for i in range(self.LINES))
        for whom in victims:
            for _ in range(times):
                status, output = self.run_and_send(whom, number, random.random() * 0.05)
                self.assertEqual(output, wanted, f"signal {number} to {whom}")
                self.assertIn(status, (7, -number) if "supervisor" in whom or "all" in whom else (7,), whom)

    def test_killed(self):
        self.check(signal.SIGKILL, ["copier", "relay", "relay and copier", "supervisor", "witness", "all but the copier",
                                    "all of the file gpuwhy"],
                   int(os.environ.get("GPUWHY_KILLS", "1" if os.environ.get("GPUWHY_SANITIZE") else "4")))

    def test_killed_while_the_program_starts(self):
        """Once a process exists that is not of gpuwhy's file, the program runs to its end and its output comes."""
        for _ in range(2 if os.environ.get("GPUWHY_SANITIZE") else 6):
            process = self.start("sh", "-c", "sleep 1; echo one; echo two >&2; exit 7", stderr=subprocess.STDOUT, stdout=subprocess.PIPE)
            files = {}
            while process.poll() is None and set(files.values()) <= {os.path.realpath(GPUWHY)}:
                files = {}
                for pid in [process.pid, *children_of(process.pid)]:
                    with contextlib.suppress(OSError):
                        files[pid] = os.readlink(f"/proc/{pid}/exe")
            for pid, file in files.items():
                if file == os.path.realpath(GPUWHY):
                    os.kill(pid, signal.SIGKILL)
            self.assertEqual(process.communicate(timeout=WAIT_S)[0], b"one\ntwo\n")

    def test_without_the_program_of_the_relay(self):
        """A copy of gpuwhy then does its work."""
        libraries, relay = self.folder / "lib" / "gpuwhy", self.folder / "lib" / "gpuwhy" / "stderr-relay"
        libraries.mkdir(parents=True)
        shutil.copy(GPUWHY, self.folder / "gpuwhy")
        for path in (pathlib.Path(GPUWHY).parent / "lib" / "gpuwhy").iterdir():
            if path.name != relay.name:
                (libraries / path.name).symlink_to(path)
        make = {"missing": lambda: None, "not executable": lambda: relay.write_text("#!/bin/true\n"),
                "no program": lambda: (relay.write_text("x"), relay.chmod(0o755)),
                "ends at once": lambda: shutil.copy(shutil.which("false"), relay),
                "of another version": lambda: (relay.write_text("#!/bin/sh\necho wrong >&2\nexit 127\n"), relay.chmod(0o755))}
        for name, made in make.items():
            relay.unlink(missing_ok=True)
            made()
            done = self.execute([self.folder / "gpuwhy", "run", "--gpu", GPU, "--", "sh", "-c", "echo one; echo two >&2; exit 7"],
                                stderr=subprocess.STDOUT)
            self.assertEqual((done.returncode, done.stdout[:8]), (7, b"one\ntwo\n"), (name, done.stdout))
            self.assertIn(b"last output: one\n         two", done.stdout, name)

    def test_the_relay_keeps_nothing(self):
        """Neither the program's folder nor its environment; and the recording does not know it."""
        recording = self.folder / "r.gpuwhy"
        script = "echo started > started; while [ ! -e go ]; do sleep 0.05; done"
        process = self.start("sh", "-c", script, options=("--no-history", "-o", recording), stderr=subprocess.PIPE)
        wait_until((self.folder / "started").exists, "the program")
        wait_until(lambda: self.names(process.pid)["copier"], "the copier")
        names = self.names(process.pid)
        for pid in names["relay"] + names["copier"]:
            self.assertTrue(is_file_of(pid, pathlib.Path(GPUWHY).parent / "lib" / "gpuwhy" / "stderr-relay"))
            self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
            self.assertEqual(pathlib.Path(f"/proc/{pid}/environ").read_bytes(), b"")
            targets = [os.readlink(path) for path in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
            self.assertEqual([target for target in targets if not target.startswith("pipe:")], [])
        (self.folder / "go").touch()
        process.communicate(timeout=WAIT_S)
        self.assertNotIn(b"stderr-relay", self.run_gpuwhy("export", "--to", "json", recording).stdout)

    def test_stopped(self):
        self.check(signal.SIGSTOP, ["copier", "relay", "supervisor", "witness"], int(os.environ.get("GPUWHY_KILLS", "1" if os.environ.get("GPUWHY_SANITIZE") else "2")))
