"""The commands of the example for GitHub Actions, run as the workflow would run them."""
import json
import os
import pathlib
import re
import shutil
import unittest

from support import Case, GPUWHY

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples" / "ci"
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))


def steps(name):
    """Return {name of a step: its command}. A block of `>` is one line, as in YAML."""
    text = (FOLDER / name).read_text()
    found = {}
    for title, kind, block in re.findall(r"- name: (.*)\n(?:        if: .*\n)?        run: ([|>]?)(.*\n(?:          .*\n)*)",
                                         text):
        lines = [line.strip() for line in block.splitlines() if line.strip()]
        found[title] = (" " if kind == ">" else "\n").join(lines)
    return found


class Workflow(Case):
    def run_steps(self, program):
        """Run the steps until one fails, then those that always run. Returns the name of the one that failed, or None."""
        tests = self.folder / "tests" / "cuda"
        tests.mkdir(parents=True)
        (tests / "run").write_text(f"#!/bin/sh\nexec '{CNN}' {program}\n")
        (tests / "run").chmod(0o755)
        (self.folder / "bin").mkdir()
        (self.folder / "bin" / "gpuwhy").symlink_to(GPUWHY)
        environment = {**self.environment, "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
                       "GITHUB_STEP_SUMMARY": str(self.folder / "summary")}
        commands, failed = steps("gpu-tests.yml"), None
        for name in ("Run", "No leak", "Write a page and a summary"):
            if failed is None or name.startswith("Write"):
                done = self.execute(["bash", "-e", "-c", commands[name]], env=environment, text=True)
                failed = failed or (name if done.returncode else None)
        self.assertTrue((self.folder / "run.gpuwhy").exists())
        self.assertIn("gpuwhy: ", (self.folder / "summary").read_text())
        self.verdict = json.loads((self.folder / "verdict.json").read_text())
        return failed

    @unittest.skipUnless(shutil.which("jq"), "jq is not installed")
    def test_a_good_program_passes(self):
        self.assertIsNone(self.run_steps("--iterations 2 --batch 8"))
        self.assertEqual(self.verdict["status"], "clean")

    def test_a_failing_program_fails(self):
        self.assertEqual(self.run_steps("--runs 2 --batch 16384 --keep-runs"), "Run")
        self.assertEqual(self.verdict["cause"], "gpu-oom-leak")

    def test_the_files_are_yaml(self):
        try:
            import yaml
        except ImportError:
            self.skipTest("PyYAML is not installed")
        for path in sorted(FOLDER.glob("*.yml")):
            jobs = yaml.safe_load(path.read_text())["jobs"]
            for job in jobs.values():
                self.assertIn("timeout-minutes", job)
                names = {step["name"]: step.get("run") for step in job["steps"] if "run" in step}
                self.assertEqual({n: c.strip() for n, c in names.items()}, steps(path.name))
