"""Words that are not commands, and mistyped options."""
import os
import pathlib
import shutil
import subprocess

from support import GPUWHY, Case

FIXTURE = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "real" / "capacity_batch.gpuwhy"
LOG = "Traceback (most recent call last):\n  File \"train.py\", line 3, in <module>\n    x.cuda()\n" \
      "RuntimeError: CUDA error: out of memory\n"


class Meant(Case):
    def says(self, *arguments):
        """Return the one line that gpuwhy prints."""
        done = self.run_gpuwhy(*arguments)
        self.assertEqual((done.returncode, done.stdout), (2, b""), arguments)
        lines = done.stderr.decode().splitlines()
        self.assertEqual(len(lines), 1, lines)
        return lines[0]

    def same(self, meant, explained):
        meant, explained = self.run_gpuwhy(*meant), self.run_gpuwhy(*explained)
        self.assertIn(explained.returncode, (0, 1))
        self.assertEqual((meant.returncode, meant.stdout, meant.stderr),
                         (explained.returncode, explained.stdout, explained.stderr))

    def test_a_recording_is_explained(self):
        shutil.copy(FIXTURE, self.folder / "run.gpuwhy")
        self.same(["run.gpuwhy"], ["explain", "run.gpuwhy"])
        self.same(["run.gpuwhy", "--json"], ["explain", "run.gpuwhy", "--json"])
        self.same([self.folder / "run.gpuwhy", "--all"], ["explain", self.folder / "run.gpuwhy", "--all"])

    def test_a_log_is_explained(self):
        if not self.has_matcher():
            self.skipTest("this build has no pattern matcher")
        (self.folder / "train.log").write_text(LOG)
        (self.folder / "job.o17").write_text(LOG)
        self.same(["train.log"], ["explain", "train.log"])
        self.same(["train.log", "job.o17"], ["explain", "train.log", "job.o17"])
        self.same(["--color", "never", "train.log"], ["explain", "train.log"])

    def has_matcher(self):
        return b"without Hyperscan" not in self.run_gpuwhy("version").stdout

    def test_a_program_is_never_started(self):
        trace = self.folder / "ran"
        script = self.folder / "job.log"  # a name as of a log
        script.write_text(f"#!/bin/sh\ntouch '{trace}'\n")
        script.chmod(0o755)
        self.environment["PATH"] = f"{self.folder}:{os.environ['PATH']}"
        for word in ("job.log", "./job.log", str(script)):
            self.assertIn("gpuwhy run -- ", self.says(word))
        self.assertIn("gpuwhy run -- sh -c 'touch x'", self.says("sh", "-c", "touch x"))
        self.assertFalse(trace.exists())
        self.assertFalse((self.folder / "x").exists())

    def test_pasted_commands_run_nothing_else(self):
        """The name of a file is a command for a shell. Each printed command gets it back as one word."""
        self.environment["PATH"] = f"{pathlib.Path(GPUWHY).parent}:{os.environ['PATH']}"
        for name in ("a$(touch x).gpuwhy", "a'`touch x`'.gpuwhy", "a;touch x;.gpuwhy", "a\ntouch x\n.gpuwhy",
                     "-a\u202e$(touch x).gpuwhy", "=a ~ \\ !.gpuwhy"):
            with self.subTest(name):
                shutil.copy(FIXTURE, self.folder / name)
                done = self.run_gpuwhy("explain", "--no-history", "./" + name, stderr=subprocess.STDOUT)
                self.assertNotIn("\u202e", done.stdout.decode())
                printed = " ".join(done.stdout.decode().split("Details")[1].split())
                command = printed[printed.index("gpuwhy explain"):]
                self.assertIn("--all", command)
                again = self.execute(["bash", "-c", command + " --no-history"])
                self.assertEqual(again.returncode, done.returncode, (command, again.stderr))
                (self.folder / name).unlink()
        for name in ("b'$(touch x)'", "b;touch x.py"):
            (self.folder / name).write_text("x\n")
            line = self.says(name)
            self.execute(["bash", "-c", line[line.rindex("gpuwhy "):]])
        self.assertFalse((self.folder / "x").exists())

    def test_a_script_without_a_mode(self):
        (self.folder / "train.py").write_text("print(1)\n")
        self.assertIn("gpuwhy run -- python3 train.py --epochs 3", self.says("train.py", "--epochs", "3"))
        self.assertIn("gpuwhy run -- python3 train.py", self.says("explain", "train.py"))

    def test_a_script_after_run(self):
        """The status is a shell's, and the line has the command that was meant."""
        (self.folder / "train.py").write_text("print(1)\n")
        (self.folder / "tool").write_text("#!/usr/bin/env python3\nprint(1)\n")
        (self.folder / "job").write_text("#!/bin/sh\n")
        (self.folder / "here").write_bytes(b"\x7fELF")
        (self.folder / "here").chmod(0o755)
        (self.folder / "notes").write_text("text\n")
        for command in ("run", "rehearse"):
            for words, status, meant in ((["train.py", "--lr", "1 2"], 127, "train.py is a Python script: gpuwhy {} -- python3 train.py --lr '1 2'"),
                                         (["./train.py"], 126, "./train.py is a Python script: gpuwhy {} -- python3 ./train.py"),
                                         (["./tool"], 126, "./tool is a Python script: gpuwhy {} -- python3 ./tool"),
                                         (["./job"], 126, "./job is a script: gpuwhy {} -- sh ./job"),
                                         (["here", "-x"], 127, "this folder has it: gpuwhy {} -- ./here -x"),
                                         (["./notes"], 126, None), (["nothing.py"], 127, None), (["./"], 126, None)):
                with self.subTest(command=command, words=words):
                    done = self.run_gpuwhy(command, *(["--"] if command == "run" else []), *words)
                    line = done.stderr.decode()
                    self.assertEqual((done.returncode, done.stdout, line.count("\n")), (status, b"", 1), line)
                    self.assertEqual(line.partition("; ")[2].strip(), "" if meant is None else meant.format(command))

    def test_a_log_where_a_recording_is_meant(self):
        (self.folder / "train.log").write_text(LOG)
        shutil.copy(FIXTURE, self.folder / "run.gpuwhy")
        for words in (["report", "train.log"], ["diff", "train.log", "run.gpuwhy"], ["diff", "run.gpuwhy", "train.log"],
                      ["whatif", "train.log"], ["export", "train.log", "--to", "json"]):
            line = self.says(*words)
            self.assertTrue(line.endswith("train.log is a text log; use gpuwhy explain train.log"), line)
        (self.folder / "zero.gpuwhy").write_bytes(bytes(1000))
        self.assertNotIn("text log", self.says("report", "zero.gpuwhy"))

    def test_a_message_without_quotes(self):
        if not self.has_matcher():
            self.skipTest("this build has no pattern matcher")
        words = ("CUDA", "error:", "out", "of", "memory")
        quoted, done = self.run_gpuwhy("explain", "-m", " ".join(words)), self.run_gpuwhy("explain", *words)
        self.assertEqual((done.returncode, done.stdout.rpartition(b"Details")[0]),
                         (quoted.returncode, quoted.stdout.rpartition(b"Details")[0]))
        self.assertIn(b"gpu-oom", done.stdout)
        line = self.says("explain", "out", "of", "memory")  # the GPU's, or the host's
        self.assertTrue(line.endswith("gpuwhy causes --search out of memory"), line)
        self.assertIn(b"host-oom-kill", self.run_gpuwhy("causes", "--search", "out", "of", "memory").stdout)
        self.assertIn("none.log: No such file or directory", self.says("explain", "none.log", "other.log"))

    def test_a_key_that_is_set(self):
        line = self.says("config", "quiet", "true")
        self.assertIn("to set quiet, edit ", line)
        self.assertIn("gpuwhy/config", line)
        self.assertIn("unexpected word", self.says("config", "nonsense", "true"))

    def test_other_files(self):
        (self.folder / "notes").write_text("text\n")
        (self.folder / "logs").mkdir()
        (self.folder / "zero.log").write_bytes(bytes(1000))
        for name in ("notes", "logs", "zero.log"):
            self.assertIn(f"gpuwhy explain {name}", self.says(name))

    def test_a_code(self):
        self.assertIn("gpuwhy explain 700", self.says("700"))
        self.assertIn("gpuwhy explain CUDNN_STATUS_NOT_INITIALIZED", self.says("CUDNN_STATUS_NOT_INITIALIZED"))

    def test_mistyped_commands(self):
        self.environment["PATH"] = "/nonexistent"
        for word, meant in (("dotcor", "doctor"), ("exlpain", "explain"), ("Doctor", "doctor"), ("hist", "history"),
                            ("r", None), ("xyzzy", None), ("runn", "run"), ("", None), ("a" * 10000, None)):
            line = self.says(word)
            if meant is None:
                self.assertNotIn("did you mean", line)
                self.assertIn("`gpuwhy help`", line)
            else:
                self.assertIn(f"did you mean {meant}?", line)

    def test_mistyped_options(self):
        for words, meant in ((("run", "--memroy", "1GiB", "--", "true"), "--memory"),
                             (("run", "--memroy=1GiB", "--", "true"), "--memory"),
                             (("explain", "--jsno"), "--json"), (("watch", "--colour", "never"), "--color"),
                             (("lab", "check", "--expct", "x"), "--expect"), (("run", "-x"), None),
                             (("run", "--" + "y" * 10000), None)):
            line = self.says(*words)
            self.assertEqual("did you mean" in line, meant is not None, line)
            if meant is not None:
                self.assertIn(f"did you mean {meant}?", line)

    def test_short_forms(self):
        version = self.run_gpuwhy("version")
        self.assertEqual(version.returncode, 0)
        for word in ("-V", "--version"):
            self.assertEqual(self.run_gpuwhy(word).stdout, version.stdout)
        for word in ("explain", "version", "help"):
            self.assertEqual(self.run_gpuwhy(word, "-h").stdout, self.run_gpuwhy("help", word).stdout)
        self.assertEqual(self.run_gpuwhy("-h").stdout, self.run_gpuwhy("help").stdout)

    def test_the_programs_own_short_help(self):
        _, observed = self.run_both("echo", "-h")
        self.assertEqual(observed.stdout, b"-h\n")
