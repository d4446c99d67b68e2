"""Questions such as `gpuwhy explain 700` and `-m "one message"`. A missing file still gets its own error."""
import json
import os
import pathlib
import re
import subprocess
import tempfile
import unittest

GPUWHY = os.environ["GPUWHY"]


def explain(*words, **more):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([GPUWHY, "explain", *words], cwd=more.get("cwd", folder), stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=240)


class Ask(unittest.TestCase):
    def test_codes_are_answered_and_are_no_verdict(self):
        for words, cause, command in [(["700"], "illegal-address", "gpuwhy run --core"),
                                      (["Xid", "79"], "gpu-off-bus", "gpuwhy run"),
                                      (["Xid 79"], "gpu-off-bus", "gpuwhy run"),
                                      (["CUDNN_STATUS_NOT_INITIALIZED"], "gpu-oom-library-handle", "gpuwhy run"),
                                      (["-m", "ncclUnhandledCudaError"], "illegal-address", "gpuwhy run -- COMMAND on every rank"),
                                      (["exit", "137"], "host-oom-kill", "gpuwhy run")]:
            with self.subTest(words=words):
                done = explain(*words)
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn("not determined", done.stdout)
                self.assertIn("1. " + cause + ":", done.stdout)
                self.assertIn("To find out: " + command, " ".join(done.stdout.split()))
                self.assertEqual(done.stderr, "")

    def test_both_numbers_of_cudnn_are_named(self):
        out = " ".join(explain("CUDNN_STATUS_INTERNAL_ERROR").stdout.split())
        self.assertIn("cuDNN 9 status 4000", out)
        self.assertIn("cuDNN 7 and 8 status 4", out)

    def test_a_missing_file_keeps_its_error(self):
        for word in ["train", "700.log", "runs/700", "./700", "slurm-700.out", "x.gpuwhy"]:
            with self.subTest(word=word):
                done = explain(word)
                self.assertEqual(done.returncode, 2)
                self.assertIn(word, done.stderr)
                self.assertIn("No such file", done.stderr)
                self.assertEqual(done.stdout, "")

    def test_a_file_that_is_there_is_read(self):
        with tempfile.TemporaryDirectory() as folder:
            pathlib.Path(folder, "700").write_text("Traceback (most recent call last):\n"
                                                   '  File "train.py", line 3, in <module>\n'
                                                   "ValueError: no\n")
            done = explain("700", cwd=folder)
            self.assertNotIn("illegal-address", done.stdout)

    def test_a_recording_is_one_under_any_name(self):
        """Also compressed ones, which look like text: one in five of their bytes is odd at most."""
        fixtures = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "real"
        recordings = sorted(fixtures.glob("*.gpuwhy"))
        self.assertTrue(recordings)
        for recording in recordings:
            with self.subTest(recording=recording.name), tempfile.TemporaryDirectory() as folder:
                for name in ("x.gpuwhy", "x.gw", "train.log"):
                    pathlib.Path(folder, name).write_bytes(recording.read_bytes())
                first, *others = (explain(name, cwd=folder).stdout.split("Details")[0] for name in ("x.gpuwhy", "x.gw", "train.log"))
                self.assertIn("Verdict", first)
                self.assertEqual([first, first], others)

    def test_bad_usage(self):
        for words in [["-m"], ["-m", "700", "file"], ["-m", "700", "--cell", "1"]]:
            with self.subTest(words=words):
                done = explain(*words)
                self.assertEqual(done.returncode, 2)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1)

    def test_a_question_in_plain_words_finds_its_page(self):
        for question, page in [("Why does my CNN model fail on the second run, encountering cuDNN errors?", "second-run"),
                               ("my notebook works, but when I run the cell again it runs out of memory", "second-run"),
                               ("Why does CuDNN crash in TensorFlow 2.x after extended training?", "long-training"),
                               ("training dies after many hours", "long-training"),
                               ("Why does a CUDA error occur when calling a model a second time?", "second-call"),
                               ("Why is cuDNN failing to allocate memory when running a TensorFlow CNN tutorial?", "cudnn"),
                               ("What causes kernel errors during CNN model training?", "kernel-errors")]:
            for words in ([question], ["-m", question]):
                with self.subTest(words=words):
                    done = explain(*words)
                    if "cannot read text logs" in done.stderr:
                        self.skipTest(done.stderr.strip())
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertRegex(" ".join(done.stdout.split()), f"Next Read: gpuwhy help {page}[.] ")
            self.assertEqual(subprocess.run([GPUWHY, "help", page], capture_output=True).returncode, 0)
        self.assertEqual(explain("why is the sky blue").returncode, 2)
        self.assertIn("Next", explain("-m", "why is the sky blue").stdout)

    def test_the_name_of_a_cause_shows_the_cause(self):
        self.assertEqual(explain("gpu-oom-leak").stdout, causes("gpu-oom-leak").stdout)

    def test_json(self):
        done = explain("--json", "700")
        verdict = json.loads(done.stdout)
        self.assertEqual(verdict["schema"], 1)
        self.assertEqual(verdict["status"], "undetermined")
        self.assertIsNone(verdict["cause"])
        self.assertEqual(verdict["alternatives"][0]["cause"], "illegal-address")
        self.assertTrue(all(one["told_by"] for one in verdict["alternatives"]))
        question = verdict["question"]
        self.assertEqual(question["text"], "700")
        self.assertEqual(question["meanings"][0]["code"], 700)
        self.assertEqual(question["meanings"][0]["verified"], "yes")
        self.assertTrue(question["decide"]["command"].startswith("gpuwhy "))
        self.assertTrue(question["misleading"])
        done = explain("--json", "-m", "CUDA out of memory")
        if "cannot read text logs" in done.stderr:
            self.skipTest(done.stderr.strip())
        self.assertEqual(json.loads(done.stdout)["alternatives"][0]["cause"], "gpu-oom-capacity")


def causes(*words):
    return subprocess.run([GPUWHY, "causes", *words], capture_output=True, text=True, timeout=240)


class Causes(unittest.TestCase):
    def test_messages_are_shown_and_no_names_of_rules(self):
        for cause in causes().stdout.splitlines():
            shown = re.findall(r"^  (?:only cause|most likely cause|one of several causes): +(.*)$",
                               causes(cause.split()[0]).stdout, re.M)
            for line in shown:
                with self.subTest(cause=cause, line=line):
                    self.assertRegex(line, r'^".*[A-Za-z]{3}.*"|^(CUDA|Xid|cuBLAS|CUBLAS|CUDNN|NCCL|torchrun|compute-|a worker)\S* ')

    def test_search(self):
        for words, first in [(["expandable"], "gpu-oom-fragmentation"), (["cudaErrorIllegalAddress"], "illegal-address"),
                             (["illegal", "ADDRESS"], "illegal-address"), (["Xid", "79"], "gpu-off-bus"),
                             (["forked subprocess"], "fork-after-init"), (["/dev/shm"], "shm-exhausted"),
                             (["no kernel image"], "arch-not-in-binary"), (["XLA_PYTHON_CLIENT_PREALLOCATE"], "gpu-oom-preallocation")]:
            with self.subTest(words=words):
                done = causes("--search", *words)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout.split()[0], first)
                self.assertEqual(done.stderr, "")

    def test_search_says_what_it_did_not_find(self):
        self.assertEqual(causes("--search", "xyzzy").returncode, 1)
        done = causes("--search", "xyzzy", "expandable")
        self.assertIn("no cause contains all of these words; listing those with 1 of 2", done.stderr)
        self.assertTrue(done.stdout.startswith("gpu-oom-fragmentation"))
        self.assertEqual(causes("--search").returncode, 2)
        self.assertEqual(causes("--search", " , ").returncode, 2)

    def test_every_cause_is_shown_and_is_found_by_its_id(self):
        ids = [line.split()[0] for line in causes().stdout.splitlines()]
        self.assertGreater(len(ids), 50)
        for cause in ids:
            with self.subTest(cause=cause):
                out = causes(cause).stdout
                for part in ["Proof", "Log lines that this cause can produce", "What to do\n  1. "]:
                    self.assertIn(part, out)
                self.assertEqual(causes("--search", cause).stdout.split()[0], cause)

    def test_fixes_by_framework_and_lines(self):
        out = causes("gpu-oom-fragmentation").stdout
        self.assertIn("\nPyTorch\n  1. ", out)
        self.assertIn("\nTensorFlow\n  1. ", out)
        self.assertIn("only cause: ", causes("fork-after-init").stdout)
