"""docs/answers shows what gpuwhy really prints. Commands of this build are run, the others are parsed; links must
exist."""
import functools
import os
import pathlib
import re
import shlex
import subprocess
import sys
import tempfile
import textwrap
import unittest

GPUWHY = pathlib.Path(os.environ["GPUWHY"])
BUILD = GPUWHY.parent
ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGES = sorted((ROOT / "docs" / "answers").glob("*.md"))
VERDICT = re.compile(r"Verdict +(?:not determined: .*? the most likely is (?P<likeliest>[a-z0-9-]+)"
                     r"|(?P<cause>[a-z0-9]+-[a-z0-9-]+)(?: \((?P<certainty>[a-z]+)\))?)")
# A build with sanitizers runs the same programs, but its output is not compared (the docs show the release build).
SANITIZED = os.environ.get("GPUWHY_SANITIZE", "") != ""


def run(words):
    with tempfile.TemporaryDirectory() as folder:
        env = dict(os.environ, XDG_STATE_HOME=folder)
        return subprocess.run([str(word) for word in words], cwd=ROOT, env=env, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=240)


def commands(page):
    """Return (command, the output shown below it) for each `$ command` that can be run, and (command, None) for the
    others."""
    found = []
    for line in page.read_text().splitlines():
        if line.startswith("    $ "):
            found.append([line[6:], ""])
        elif re.match(r"    gpuwhy [a-z]", line):
            found.append([re.split(r" {3,}", line.strip())[0], None])
        elif line.startswith("    ") and found and found[-1][1] is not None:
            found[-1][1] += line + "\n"
        elif line and found and found[-1][1] is not None:
            found.append(["", None])
    return [(command, shown) for command, shown in found if command]


def verdict_of(text):
    match = VERDICT.search(" ".join(text.split()))
    return match and (match["cause"] or match["likeliest"], match["certainty"])


# A listing begins with the name of what it needs. An interpreter that has it: this one, or the system's.
NEEDS = {"# PyTorch": "torch", "# TensorFlow": "tensorflow", "# JAX": "jax"}
PYTHONS = [sys.executable, "/usr/bin/python3", *filter(None, [os.environ.get("GPUWHY_TEST_PYTHON")])]


def listings(page):
    """Return (first line, code) for each block of code that has a name of NEEDS as its first line."""
    blocks = re.findall(r"(?:^(?:    .*)?\n)+", page.read_text(), re.M)
    code = [textwrap.dedent(block).strip("\n") + "\n" for block in blocks]
    return [(text.splitlines()[0], text) for text in code if text.splitlines()[:1] and text.splitlines()[0] in NEEDS]


@functools.lru_cache
def python_with(module):
    for python in PYTHONS:
        if subprocess.run([python, "-c", f"import {module}"], capture_output=True).returncode == 0:
            return python
    return None


class Answers(unittest.TestCase):
    def test_listings_run(self):
        found = [(page, *listing) for page in PAGES for listing in listings(page)]
        self.assertGreaterEqual(len(found), 9)
        for page, name, code in found:
            with self.subTest(page=page.name, listing=name), tempfile.TemporaryDirectory() as folder:
                compile(code, page.name, "exec")
                python = python_with(NEEDS[name])
                if python is None or SANITIZED:
                    self.skipTest(f"{name[2:]} is not installed")
                program = pathlib.Path(folder, "listing.py")
                program.write_text(code)
                environment = dict(os.environ, CUDA_VISIBLE_DEVICES="", TF_CPP_MIN_LOG_LEVEL="2", JAX_PLATFORMS="cpu")
                done = subprocess.run([python, program], cwd=folder, env=environment, capture_output=True, text=True, timeout=600)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_can_be_run_here_says_what_is_shown(self):
        ran = 0
        for page in PAGES:
            for command, shown in commands(page):
                words = shlex.split(command)
                if shown is None or not words[0].startswith("build/"):
                    continue
                with self.subTest(page=page.name, command=command):
                    words = [BUILD / word[6:] if word.startswith("build/") else word for word in words]
                    programs = [word for word in words if isinstance(word, pathlib.Path)]
                    if not all(program.exists() for program in programs):
                        self.skipTest("not part of this build: " + ", ".join(str(p.name) for p in programs))
                    done = run(words)
                    if "cannot read text logs" in done.stderr:
                        self.skipTest(done.stderr.strip())
                    wanted, said = verdict_of(shown), verdict_of(done.stdout + done.stderr)
                    self.assertIsNotNone(wanted, "no verdict is shown")
                    self.assertIsNotNone(said, done.stdout + done.stderr)
                    self.assertEqual(said[0], wanted[0])
                    if wanted[1] and not SANITIZED:
                        self.assertEqual(said[1], wanted[1])
                    ran += 1
        self.assertGreaterEqual(ran, 2)  # at least the error-code questions

    def test_commands_parse(self):
        helped = subprocess.run([GPUWHY, "help"], capture_output=True, text=True).stdout
        for page in PAGES:
            for command, _ in commands(page):
                words = shlex.split(command)
                with self.subTest(page=page.name, command=command):
                    self.assertRegex(helped, r"(?m)^  " + re.escape(words[1]) + r"\b")
                    if words[1] != "run":
                        continue
                    at = words.index("--")
                    card = [] if "--gpu" in words else ["--gpu", "virtual:h200"]
                    done = run([GPUWHY, "run", *card, *words[2:at], "--", "true"])
                    self.assertEqual(done.returncode, 0, done.stderr)

    def test_questions_in_the_text_are_answered(self):
        asked = 0
        for page in PAGES:
            for question in re.findall(r"`gpuwhy explain ([^`]+)`", page.read_text()):
                if question.endswith(".log") or "..." in question:
                    continue
                with self.subTest(page=page.name, question=question):
                    done = run([GPUWHY, "explain", *shlex.split(question)])
                    self.assertIn(done.returncode, (0, 1), done.stderr)
                    asked += 1
        self.assertGreater(asked, 1)

    def test_causes_exist_and_links_lead_somewhere(self):
        causes = {line.split()[0] for line in run([GPUWHY, "causes"]).stdout.splitlines()}
        for page in PAGES:
            text = page.read_text()
            with self.subTest(page=page.name):
                for command, shown in commands(page):
                    if shown and verdict_of(shown):
                        self.assertIn(verdict_of(shown)[0], causes)
                for link in re.findall(r"\]\(([^)#]+)(?:#[^)]*)?\)", text):
                    if link.startswith("https://"):  # the pages to read on: no network here
                        continue
                    self.assertTrue((page.parent / link).exists(), link)
                for program in re.findall(r"`(tests/[^`]+\.py)`", text):
                    self.assertTrue((ROOT / program).exists(), program)
