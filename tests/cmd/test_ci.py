"""The gate of a build server: --fail-on, --leaks and --junit; and the examples for GitHub Actions, whose steps are run as
GitHub would run them."""
import collections
import json
import os
import pathlib
import re
import shutil
import signal
import sys
import unittest

from support import BEGIN, Case, GPU, GPUWHY, PythonCase
import junit

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDER = ROOT / "examples" / "ci"
REAL = ROOT / "tests" / "fixtures" / "real"
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
WASTE = pathlib.Path(GPUWHY).parent / "tests" / "scenarios" / "waste"
FAIL_ON = 123

# ---- the examples ----

Step = collections.namedtuple("Step", "condition command")


def steps(name):
    """Return {name of a step: Step} of the steps that run commands. A block of `>` is one line, as in YAML."""
    text = (FOLDER / name).read_text()
    found = {}
    pattern = r"- name: (.*)\n(?:        if: (.*)\n)?        run: ([|>]?)(.*\n(?:          .*\n)*)"
    for title, condition, kind, block in re.findall(pattern, text):
        lines = [line.removeprefix(10 * " ") for line in block.splitlines() if line.strip()]
        found[title] = Step(condition, (" " if kind == ">" else "\n").join(lines).strip())
    return found


class Workflow(Case):
    """The steps of a workflow, except those that install and build."""

    def setUp(self):
        super().setUp()
        (self.folder / "tests" / "cuda").mkdir(parents=True)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "gpuwhy").symlink_to(GPUWHY)

    def program(self, name, arguments):
        path = self.folder / "tests" / "cuda" / name
        path.write_text(f"#!/bin/sh\nexec '{CNN}' {arguments}\n")
        path.chmod(0o755)

    def run_steps(self, name):
        """Run the steps until one fails, and those that always run. Returns the names of those that failed."""
        environment = {**self.environment, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                       "GITHUB_STEP_SUMMARY": str(self.folder / "summary")}
        failed = []
        for title, step in steps(name).items():
            if title in ("Install gpuwhy", "Build") or (failed and step.condition != "always()"):
                continue
            done = self.execute(["bash", "-e", "-c", step.command], env=environment, text=True)
            failed += [title] if done.returncode else []
        return failed

    def run_tests(self, arguments):
        self.program("run", arguments)
        failed = self.run_steps("gpu-tests.yml")
        self.assertTrue((self.folder / "run.gpuwhy").exists())
        self.assertIn("gpuwhy: ", (self.folder / "summary").read_text())
        self.verdict = json.loads((self.folder / "verdict.json").read_text())
        return failed

    @unittest.skipUnless(shutil.which("jq"), "jq is not installed")
    def test_a_good_program_passes(self):
        self.assertEqual(self.run_tests("--iterations 2 --batch 8"), [])
        self.assertEqual(self.verdict["status"], "clean")

    def test_a_failing_program_fails(self):
        self.assertEqual(self.run_tests("--runs 2 --batch 16384 --keep-runs"), ["Run"])
        self.assertEqual(self.verdict["cause"], "gpu-oom-leak")

    @unittest.skipUnless(shutil.which("jq"), "jq is not installed")
    def test_the_gate(self):
        self.program("test-a-bad", "--batch 16384 --runs 2 --keep-runs")
        self.program("test-b-good", "--runs 2")
        self.program("test-c-kept", "--runs 2 --keep-runs")
        self.assertEqual(self.run_steps("gpu-gate.yml"), ["Run"])
        found = {path.stem: [case[0].tag for case in junit.read(path)] for path in (self.folder / "results").glob("*.xml")}
        self.assertEqual(found, {"test-a-bad": ["failure", "failure"], "test-b-good": ["system-out", "system-out"],
                                 "test-c-kept": ["system-out", "failure"]})
        lines = (self.folder / "summary").read_text().splitlines()
        self.assertRegex(lines[0], r"^- test-a-bad: .*the second run found.*; unfreed: not known bytes$")
        self.assertEqual(lines[1], "- test-b-good: no fault found; unfreed: 0 bytes")
        self.assertRegex(lines[2], r"^- test-c-kept: no fault found, but .* was never freed; unfreed: \d{8} bytes$")
        for path in (self.folder / "tests" / "cuda").glob("test-[ac]-*"):
            path.unlink()
        shutil.rmtree(self.folder / "results")
        self.assertEqual(self.run_steps("gpu-gate.yml"), [])

    def test_the_check_of_the_machine(self):
        failed = self.run_steps("gpu-runner.yml")  # the machine of a test may have problems
        suite = junit.read(self.folder / "doctor.xml")
        self.assertEqual(failed, ["Check the machine"] if suite.get("failures") != "0" else [])

    def test_the_files_are_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        for path in sorted(FOLDER.glob("*.yml")):
            jobs = yaml.safe_load(path.read_text())["jobs"]
            for job in jobs.values():
                self.assertIn("timeout-minutes", job)
                found = {step["name"]: Step(step.get("if", ""), step["run"].strip()) for step in job["steps"] if "run" in step}
                self.assertEqual(found, steps(path.name))


# ---- the gate ----

# A program with one of three mistakes; with "repaired", without it.
PROGRAM = BEGIN + """
def take(mib):
    block = ctypes.c_uint64()
    assert cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(mib << 20)) == 0
    return block
def give(block):
    assert cu.cuMemFree_v2(block) == 0
def train():
    kept = [] if sys.argv[-1] == "repaired" else [take(64)]
    for step in range(5):
        give(take(300))
    return kept
def one():
    block = take(1024)
    if sys.argv[-1] == "repaired":
        give(block)
def turns():
    mark = ctypes.CDLL("libgpuwhy-hook.so", os.RTLD_NOLOAD).gpuwhy_phase_mark
    kept = []
    for turn in range(1, 4):
        mark(b"fold %d" % turn)
        kept += train()
    mark(None)
    for block in kept:
        give(block)
kept = {"turns": turns, "three trainings": lambda: [train() for _ in range(3)], "one block": one}[sys.argv[1]]()
"""
PROGRAM = PROGRAM.replace("    assert cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0\n", "")
FAILURES = {  # the command, and how much it leaves in MiB
    "1 GiB unfreed": ([sys.executable, "program.py", "one block"], 1024),
    "three trainings, each of which keeps 64 MiB": ([sys.executable, "program.py", "three trainings"], 192),
    "two runs, whose memory stays referenced": ([CNN, "--runs", "2", "--keep-runs"], None),
}


def repaired(argv):
    return argv[:-1] if argv[0] == CNN else [*argv, "repaired"]


class Gate(PythonCase):
    def setUp(self):
        super().setUp()
        (self.folder / "program.py").write_text(PROGRAM)

    def gate(self, argv, *options, status):
        """Run a program, and return the verdict, the lines of the gate and the test suite."""
        done = self.run_gpuwhy("run", "--gpu", GPU, "--json", "v.json", "--junit", "j.xml", *options, "--", *argv)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        lines = [line for line in done.stderr.decode().splitlines() if line.startswith("gpuwhy: --fail-on")]
        return json.loads((self.folder / "v.json").read_text()), lines, junit.read(self.folder / "j.xml")

    def test_failures_that_ended_with_0(self):
        for name, (argv, mib) in FAILURES.items():
            with self.subTest(name):
                verdict, lines, _ = self.gate(argv, "--fail-on", "any", status=0)
                self.assertEqual((verdict["status"], verdict["leaks"], len(lines)), ("clean", [], 1), lines)
                self.assertIn("a leak only with --leaks strict", lines[0])
                left = verdict["unfreed"]["bytes"]
                self.assertEqual(sum(place["bytes"] for place in verdict["unfreed"]["places"]), left) if mib else None
                self.assertEqual(left, mib << 20) if mib else self.assertGreater(left, 1 << 20)
                for word in "any", "leak", "illegal-address,leak":
                    verdict, lines, suite = self.gate(argv, "--fail-on", word, "--leaks", "strict", status=FAIL_ON)
                    self.assertEqual((verdict["status"], verdict["unfreed"]["bytes"], len(lines)), ("clean", left, 1))
                    self.assertEqual([case.get("name") for case in suite if case[0].tag == "failure"],
                                     ["neither a fault nor a leak" if word == "any" else "no leak"])
                    self.assertRegex(lines[0], r"^gpuwhy: --fail-on \w+: leak: .* [GM]iB in .* never freed; the exit status is 123$")
                recording = verdict["recording"]  # it stays strict
                self.assertEqual(self.run_gpuwhy("explain", recording, "--fail-on", "leak").returncode, FAIL_ON)
                verdict, lines, suite = self.gate(repaired(argv), "--fail-on", "any,leak", "--leaks", "strict", status=0)
                self.assertEqual((verdict["unfreed"]["bytes"], verdict["leaks"], lines), (0, [], []))
                self.assertEqual([case[0].tag for case in suite], 3 * ["system-out"])

    def test_growth_from_turn_to_turn(self):
        """Three folds, named as phases, that keep 64 MiB each; all is freed at the end."""
        argv = [sys.executable, "program.py", "turns"]
        verdict, lines, _ = self.gate(argv, "--fail-on", "any", status=0)
        self.assertEqual((verdict["unfreed"]["bytes"], lines), (0, []))
        self.assertEqual([(one["phase"], one["turns"], one["bytes"]) for one in verdict["unfreed"]["growth"]],
                         [("fold 3", 3, 128 << 20)])
        verdict, lines, _ = self.gate(argv, "--fail-on", "any", "--leaks", "strict", status=FAIL_ON)
        self.assertRegex(lines[0], r"held 128.00 MiB more after turn 3 \(phase fold 3\) than after the first; the exit")
        verdict, lines, _ = self.gate(repaired(argv), "--fail-on", "any", "--leaks", "strict", status=0)
        self.assertEqual((verdict["unfreed"]["growth"], lines), ([], []))

    def test_lab_check_is_strict_if_asked(self):
        for argv, _ in FAILURES.values():
            done = self.run_gpuwhy("lab", "check", "--expect", "clean", "--", *argv)
            self.assertEqual(done.returncode, 0, done.stderr)
            done = self.run_gpuwhy("lab", "check", "--expect", "clean", "--leaks", "strict", "--json", "--", *argv)
            self.assertEqual((done.returncode, json.loads(done.stdout)["passed"]), (1, False))
            self.assertGreater(json.loads(done.stdout)["found"]["unfreed_bytes"], 1 << 20)
            done = self.run_gpuwhy("lab", "check", *argv, "--expect", "clean", "--leaks", "strict")
            self.assertRegex(done.stdout.decode(), r"failed: expected clean, found clean, but with leaks, .*\n\Z")
            self.assertIn(b"gpuwhy: --fail-on leak: leak: ", done.stderr)
            done = self.run_gpuwhy("lab", "check", *repaired(argv), "--expect", "clean", "--leaks", "strict")
            self.assertEqual(done.returncode, 0, done.stdout)

    def test_a_program_that_failed_keeps_its_status(self):
        _, lines, suite = self.gate(["sh", "-c", "exit 3"], "--fail-on", "any", status=3)
        self.assertEqual((lines, suite[0][0].get("type")), ([], "undetermined"))
        self.gate(["sh", "-c", "kill -TERM $$"], "--fail-on", "any", status=-signal.SIGTERM)
        _, _, suite = self.gate([CNN, "--batch", "1000000"], "--fail-on", "gpu-oom-capacity", status=1)
        self.assertEqual([case[0].get("type") for case in suite], ["gpu-oom-capacity", "gpu-oom-capacity"])
        self.assertIn("Verdict  gpu-oom-capacity", suite[0][0].text)

    def test_causes_and_advice(self):
        self.gate([WASTE], "--fail-on", "sync-storm", status=FAIL_ON)
        self.gate([WASTE, "--repaired"], "--fail-on", "sync-storm", status=0)
        self.gate([WASTE], "--fail-on", "any", status=0)  # advice is no fault
        for words, status in (("gpu-oom-leak", 0), ("gpu-oom-capacity", FAIL_ON), ("any", FAIL_ON), ("illegal-address,leak", 0)):
            done = self.run_gpuwhy("explain", REAL / "capacity_batch.gpuwhy", "--fail-on", words)
            self.assertEqual(done.returncode, status, words)
        self.assertEqual(self.run_gpuwhy("explain", REAL / "leak_second_run.gpuwhy", "--fail-on=leak").returncode, FAIL_ON)
        self.assertEqual(self.run_gpuwhy("explain", REAL / "healthy_training.gpuwhy", "--fail-on=any").returncode, 0)

    def test_unknown_is_not_no(self):
        """A run of which too little is known fails `any`. The other words are not found, and that is said."""
        _, lines, suite = self.gate(["true"], "--fail-on", "any,leak,illegal-address", status=FAIL_ON)
        why = "not known: no CUDA driver call was observed;"
        no = "this does not change the exit status"
        self.assertEqual(lines, [f"gpuwhy: --fail-on any: {why} the exit status is 123", f"gpuwhy: --fail-on leak: {why} {no}",
                                 f"gpuwhy: --fail-on illegal-address: {why} {no}"])
        self.assertEqual([case[0].tag for case in suite], ["system-out", "failure", "skipped", "skipped"])
        self.gate(["true"], "--fail-on", "leak,illegal-address", status=0)
        self.gate(["true"], "--fail-on", "leak", "--leaks", "strict", status=FAIL_ON)
        (self.folder / "train.log").write_text("step 1\nstep 2\ntraining completed\n")
        done = self.run_gpuwhy("explain", "train.log", "--fail-on", "any,leak")
        self.assertEqual((done.returncode, done.stderr.count(b"not known: no recording was judged")), (FAIL_ON, 2))
        done = self.run_gpuwhy("lab", "check", "true", "--expect", "clean", "--leaks", "strict")
        self.assertEqual(done.returncode, 1)

    def test_lost_events_are_unknown(self):
        limit = ["--record-limit", "64KiB", "--no-sites"]
        argv = [CNN, "--iterations", "2000", "--batch", "8"]
        verdict, lines, _ = self.gate(argv, "--fail-on", "any", *limit, status=FAIL_ON)
        self.assertEqual((verdict["unfreed"]["bytes"], verdict["peak"]), (None, None))
        self.assertEqual(lines, ["gpuwhy: --fail-on any: not known: old events were dropped to keep the recording small; "
                                 "the exit status is 123"])
        self.gate(argv, "--fail-on", "leak", *limit, status=0)

    def test_a_recording_that_is_cut_is_unknown(self):
        whole = (REAL / "healthy_training.gpuwhy").read_bytes()
        (self.folder / "cut.gpuwhy").write_bytes(whole[:len(whole) * 2 // 3])
        done = self.run_gpuwhy("explain", "cut.gpuwhy", "--fail-on", "any")
        self.assertEqual(done.returncode, FAIL_ON)
        self.assertIn(b"--fail-on any: not known: ", done.stderr)

    def test_wrong_words(self):
        run = ["run", "--gpu", GPU]
        for words, says in (
                ([*run, "--fail-on", "leek"], "did you mean leak?"), ([*run, "--fail-on", "anny"], "did you mean any?"),
                ([*run, "--fail-on", "gpu-oom-leek"], "did you mean gpu-oom-leak?"),
                ([*run, "--fail-on", "gpu-oom-leak,xyzzyx"], "--fail-on xyzzyx: unknown cause; `gpuwhy causes` lists them"),
                ([*run, "--fail-on", ""], "--fail-on : unknown cause"), ([*run, "--fail-on", "leak,"], "--fail-on : unknown"),
                ([*run, "--fail-on", "leak any"], "--fail-on leak any: unknown cause"),
                ([*run, "--fail-on=" + 200 * "x"], "unknown cause"),
                ([*run, "--fail-on", "clean"], "unknown cause"), ([*run, "--leaks", "stric"], "--leaks stric: must be strict"),
                ([*run, "--junit", "/no/folder/x"], "--junit /no/folder/x: "), ([*run, "--junit", "."], "--junit .: "),
                ([*run, "--junit", "x", "--json", "x"], "names the same file"),
                (["run", "--fail-on", "leak", "--off"], "--fail-on does not work while gpuwhy is switched off"),
                (["explain", "--fail-on", "leek", str(REAL / "capacity_batch.gpuwhy")], "did you mean leak?"),
                (["lab", "check", "--leaks", "strict", "--expect", "gpu-oom-leak"], "--leaks needs --expect clean"),
                (["lab", "check", "--leaks", "lax", "--expect", "clean"], "--leaks lax: must be strict")):
            done = self.run_gpuwhy(*words, *([] if words[0] == "explain" else ["--", "sh", "-c", "echo > ran"]))
            self.assertEqual((done.returncode, len(done.stderr.splitlines())), (2, 1), (words, done.stderr))
            self.assertIn(says, done.stderr.decode())
            self.assertFalse((self.folder / "ran").exists())
