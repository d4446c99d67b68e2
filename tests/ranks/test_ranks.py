#!/usr/bin/env python3
"""`gpuwhy explain FOLDER` on jobs with many recordings (make_ranks.py): the rank that failed first is named, what is
missing is counted, the answer fits one screen, and memory does not grow with the number of recordings.

    GPUWHY_BUILD=<build folder> test_ranks.py
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
GPUWHY = pathlib.Path(os.environ["GPUWHY_BUILD"]) / "gpuwhy"
SANITIZED = os.environ.get("GPUWHY_SANITIZE", "") != ""
MANY, FEW = (120, 40) if SANITIZED else (300, 40)
FIRST = 21


def make(folder, ranks, *options):
    subprocess.run([sys.executable, "-B", HERE / "make_ranks.py", folder, "--gpuwhy", GPUWHY, "--ranks", str(ranks),
                    "--first", str(FIRST), *options], check=True)
    return json.loads((folder / "truth.json").read_text())


class Ranks(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-ranks-"))
        cls.environment = {**os.environ, "HOME": str(cls.place), "XDG_STATE_HOME": str(cls.place / "state")}
        cls.many = cls.place / "many"
        cls.few = cls.place / "few"
        cls.truth = make(cls.many, MANY)
        make(cls.few, FEW)
        cls.whole, cls.many_kib = cls.measured(cls.many)

    @classmethod
    def tearDownClass(cls):
        shutil.rmtree(cls.place)

    @classmethod
    def start(cls, *arguments):
        return subprocess.Popen([GPUWHY, "explain", *arguments], env=cls.environment, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    @classmethod
    def measured(cls, folder):
        """The verdict, and the largest memory of one process of gpuwhy, in KiB."""
        process = cls.start("--json", str(folder))
        with process.stdout, process.stderr:
            out = process.stdout.read()
            _, status, usage = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            if process.returncode != 0:
                raise AssertionError(f"exit status {process.returncode}: {process.stderr.read()}")
        return json.loads(out), usage.ru_maxrss

    def explain(self, *arguments):
        process = self.start(*arguments)
        out, err = process.communicate(timeout=300)
        return process.returncode, out, err

    def test_the_rank_that_failed_first_is_named(self):
        verdict = self.whole
        self.assertEqual(verdict["cause"], self.truth["cause"])
        self.assertTrue(verdict["headline"].startswith(f"{self.truth['host']}, rank {FIRST} (pid "), verdict["headline"])
        self.assertEqual(verdict["certainty"], "supported")

    def test_what_is_missing_is_counted_and_named(self):
        verdict, truth = self.whole, self.truth
        job = verdict["job"]
        self.assertEqual(job["missing_ranks"], sorted(truth["missing"] + truth["unreadable"]))
        self.assertEqual(len(job["unreadable"]), len(truth["unreadable"]))
        for rank in truth["unreadable"]:
            self.assertTrue(any(f".{rank}.gpuwhy: " in text for text in job["unreadable"]), job["unreadable"])
        self.assertEqual((job["ranks"], job["hosts"], job["cut_short"], job["damaged"]),
                         (MANY, truth["hosts"], len(truth["cut"]), len(truth["damaged"])))
        self.assertEqual(job["recordings"], MANY - len(job["missing_ranks"]))
        self.assertEqual(len(verdict["recordings"]), job["recordings"])

    def test_one_screen(self):
        status, out, _ = self.explain(str(self.many))
        lines = out.splitlines()
        self.assertEqual(status, 0)
        self.assertLessEqual(len(lines), 23)
        self.assertLessEqual(max(map(len, lines)), 80)
        self.assertIn(f"rank {FIRST} ", out)
        self.assertIn("ranks are in no readable recording", out)

    def test_the_order_of_the_files_does_not_matter(self):
        files = sorted(map(str, self.few.glob("*.gpuwhy")))
        one, two = (json.loads(self.explain("--json", *order)[1]) for order in (files, files[::-1]))
        self.assertEqual((one["headline"], one["consequences"]), (two["headline"], two["consequences"]))

    def test_a_lost_machine(self):
        folder = self.place / "lost"
        whole = ("--missing", "0", "--unreadable", "0", "--cut", "0", "--damaged", "0")
        truth = make(folder, FEW, "--lost-host", "--loose", "0", *whole)
        verdict, _ = self.measured(folder)
        self.assertEqual((verdict["cause"], verdict["certainty"]), ("host-lost", "supported"))
        self.assertTrue(verdict["headline"].startswith(truth["host"]), verdict["headline"])

    def test_recordings_of_two_jobs_are_refused(self):
        folder = self.place / "other"
        make(folder, FEW, "--job", "4712")
        files = [*self.few.glob("*.gpuwhy"), *folder.glob("*.gpuwhy")]
        status, out, err = self.explain(*map(str, files))
        self.assertEqual((status, out), (2, ""))
        self.assertIn("belong to different jobs", err)

    @unittest.skipIf(SANITIZED, "a sanitizer keeps freed memory")
    def test_memory_does_not_grow_with_the_recordings(self):
        _, few_kib = self.measured(self.few)
        self.assertLess(self.many_kib / few_kib, 1.3, f"{few_kib} KiB for {FEW} ranks, {self.many_kib} KiB for {MANY}")

    def test_a_worker_that_dies_costs_one_recording(self):
        process = self.start("--json", str(self.many))
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children")
        if not children.exists():
            process.communicate(timeout=300)
            self.skipTest("this kernel does not list the children of a process")
        killed = 0
        while process.poll() is None and killed < 3:
            for pid in children.read_text().split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                    killed += 1
                except ProcessLookupError:
                    pass
            time.sleep(0.02)
        out, err = process.communicate(timeout=300)
        self.assertGreater(killed, 0, "no worker was seen")
        self.assertEqual(process.returncode, 0, err)
        job = json.loads(out)["job"]
        lost = [text for text in job["unreadable"] if "ended by signal 9 while it read this file" in text]
        self.assertLessEqual(len(lost), killed)
        self.assertEqual(job["recordings"] + len(job["unreadable"]), MANY - len(self.truth["missing"]))


if __name__ == "__main__":
    unittest.main()
