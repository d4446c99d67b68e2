"""The output of `gpuwhy run` and `gpuwhy explain` fits on one screen, and `--all` prints everything."""
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))

import screen

GPUWHY = os.environ["GPUWHY"]
RECORDINGS = sorted((ROOT / "tests" / "fixtures" / "real").glob("*.gpuwhy"))
LOGS = sorted((ROOT / "tests" / "logs" / "produced").glob("*.log"))[::int(os.environ["GPUWHY_EVERY"])]
QUESTIONS = ["700", "Xid 79", "CUDNN_STATUS_INTERNAL_ERROR", "exit 137", "2"]


def explain(*words, cwd=ROOT, stdin=subprocess.DEVNULL):
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([GPUWHY, "explain", *map(str, words)], cwd=cwd, stdin=stdin, capture_output=True,
                              env=dict(os.environ, XDG_STATE_HOME=folder), text=True, errors="replace", timeout=240)


def words_of(text):
    return " ".join(text.split())


class Screen(unittest.TestCase):
    def fits(self, words, verdict=None):
        done = explain(*words)
        if "cannot read text logs" in done.stderr:
            self.skipTest(done.stderr.strip())
        found = screen.screens(done.stdout)
        self.assertEqual(len(found), 1, done.stdout + done.stderr)
        self.assertEqual(screen.wrong(found[0], verdict), [], done.stdout)
        return done.stdout

    def all_of(self, words, text):
        """The additional lines of --all are the lines that the screen reports as omitted."""
        more = re.search(r"^Details  (\d+) more lines?: ", text, re.M)
        whole = explain("--all", *words).stdout
        self.assertNotRegex(whole, r"\d+ more line")
        if more:
            shown = text[:more.start()].count("\n")
            head = [len(part.split("\n\n")[0].splitlines()) for part in (whole, text)]
            self.assertEqual(whole.count("\n") - head[0], shown - head[1] + int(more[1]), f"{text}\n---\n{whole}")
        return whole

    def test_recordings(self):
        for path in RECORDINGS:
            with self.subTest(path=path.name):
                words = ["--no-history", path.relative_to(ROOT)]
                verdict = json.loads(explain("--json", *words).stdout)
                whole = words_of(self.all_of(words, self.fits(words, verdict)))
                if verdict is None:
                    continue
                told = [e["text"] for e in verdict["evidence"]] + verdict["next"] + verdict["consequences"]
                for text in told + verdict["ruled_out"] + verdict["advice"]:
                    self.assertIn(words_of(text), whole)

    def test_logs(self):
        for path in LOGS:
            with self.subTest(path=path.name):
                words = [path.relative_to(ROOT)]
                self.all_of(words, self.fits(words))

    def test_questions(self):
        for question in QUESTIONS:
            with self.subTest(question=question):
                words = question.split()
                self.all_of(words, self.fits(words))

    def test_the_command_for_the_rest_is_the_same_one(self):
        name = "tests/fixtures/real/illegal_address.gpuwhy"
        out = explain("--no-history", name).stdout
        self.assertIn(f"more lines: gpuwhy explain --all --no-history {name}", words_of(out))
        with open(ROOT / "tests" / "logs" / "produced" / "torch-label.log", "rb") as log:
            out = explain(stdin=log).stdout
        if out:
            self.assertIn("more lines: the same command with --all", words_of(out))
