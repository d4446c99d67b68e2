#!/usr/bin/env python3
"""What a job with many ranks uses, without Slurm: `gpuwhy run -o FOLDER/ --no-verdict`, `gpuwhy explain slurm:JOBID`, and
gpuwhy-slurm-task, which starts a task under gpuwhy.

    GPUWHY_BUILD=<build folder> test_task.py
"""
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(os.environ["GPUWHY_BUILD"]).resolve()
GPUWHY, TASK = BUILD / "gpuwhy", BUILD / "lib" / "gpuwhy" / "gpuwhy-slurm-task"
CNN = BUILD / "examples" / "cnn"
HANG = BUILD / "tests" / "scenarios" / "s27_hang"
PROGRAM = BUILD / "tests" / "scenarios" / "s28_host"


class Task(unittest.TestCase):
    def setUp(self):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-task-"))
        self.addCleanup(shutil.rmtree, self.place)
        self.environment = {name: value for name, value in os.environ.items()
                            if not name.startswith(("SLURM_", "GPUWHY_")) and name != "RANK"}
        self.environment |= {"HOME": str(self.place), "XDG_STATE_HOME": str(self.place / "state")}

    def run_it(self, *command, **variables):
        done = subprocess.run([*map(str, command)], env=self.environment | variables, cwd=self.place, text=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        return done.returncode, done.stdout, done.stderr

    def record(self, *options, end="exit", **variables):
        return self.run_it(GPUWHY, "run", "--gpu", "virtual:h200", *options, "--", PROGRAM, "--end", end, **variables)

    def test_a_folder_gets_one_file_for_each_run(self):
        for _ in range(2):
            status, _, err = self.record("-o", "new/", "--no-verdict", RANK="3", WORLD_SIZE="4")
            self.assertEqual((status, err), (3, ""))
        self.assertEqual(self.record("-o", "new", "--no-verdict")[0], 3)  # an existing folder needs no slash
        names = sorted(path.name for path in (self.place / "new").iterdir())
        host = re.escape(socket.gethostname())
        self.assertEqual(len(names), 3)
        self.assertEqual(len([name for name in names if re.fullmatch(host + r"\.3\.\d+\.gpuwhy", name)]), 2, names)
        self.assertEqual(len([name for name in names if re.fullmatch(host + r"\.\d+\.gpuwhy", name)]), 1, names)
        self.assertEqual((self.place / "new").stat().st_mode & 0o777, 0o700)

    def test_a_folder_that_cannot_be_made_does_not_stop_the_program(self):
        status, _, err = self.record("-o", "no/such/", "--no-verdict")
        self.assertEqual(status, 3)
        self.assertIn("-o no/such/: No such file or directory", err)

    def test_each_attempt_gets_a_file(self):
        self.run_it(GPUWHY, "run", "--gpu", "virtual:h200", "-o", "all/", "--no-verdict", "--restart", "1", "--", CNN,
                    "--runs", "2", "--bad-address")
        verdicts = [json.loads(self.run_it(GPUWHY, "explain", "--json", path)[1])
                    for path in sorted((self.place / "all").iterdir())]
        self.assertEqual(sorted(len(verdict["attempts"]) for verdict in verdicts), [1, 2])

    def test_a_hang_prints_nothing_either(self):
        done = self.run_it(GPUWHY, "run", "--gpu", "virtual:h200", "-o", "hang.gpuwhy", "--no-verdict", "--hang-after", "1",
                           "--kill-on-hang", "--", HANG)
        self.assertNotIn("Verdict", done[2])
        self.assertEqual(json.loads(self.run_it(GPUWHY, "explain", "--json", "hang.gpuwhy")[1])["cause"],
                         "kernel-never-ends")

    def test_quiet(self):
        self.record("-o", "good.gpuwhy", "--no-verdict", end="return")
        self.record("-o", "bad.gpuwhy", "--no-verdict")
        self.assertEqual(self.run_it(GPUWHY, "explain", "--quiet", "good.gpuwhy"), (0, "", ""))
        status, out, _ = self.run_it(GPUWHY, "explain", "--quiet", "bad.gpuwhy")
        self.assertIn("exited with status 3", out)
        self.assertEqual(status, 1)

    def test_the_recordings_of_a_job_of_slurm(self):
        links = self.place / "state" / "gpuwhy" / "slurm"
        links.mkdir(parents=True)
        for step in (2, 10):
            self.record("-o", f"step{step}/", "--no-verdict", end="return" if step == 2 else "exit")
            (links / f"12.{step}").symlink_to(self.place / f"step{step}")
        status, out, err = self.run_it(GPUWHY, "explain", "--json", "slurm:12")
        self.assertIn("2 steps of job 12 have recordings; this is slurm:12.10", err)
        self.assertEqual((status, json.loads(out)["program"]["exit"]), (1, 3))
        status, out, err = self.run_it(GPUWHY, "explain", "--json", "slurm:12.2")
        self.assertEqual((status, json.loads(out)["status"], err), (0, "clean", ""))
        for word, text in (("slurm:13", "no recordings are known"), ("slurm:12.3", "no recordings are known"),
                           ("slurm:x", "expected slurm:JOBID"), ("slurm:12.", "expected slurm:JOBID")):
            status, out, err = self.run_it(GPUWHY, "explain", word)
            self.assertEqual((status, out), (2, ""), word)
            self.assertIn(text, err)

    @unittest.skipUnless(TASK.exists(), "the plugin for Slurm is not part of this build")
    def test_the_task_runs_under_gpuwhy(self):
        folder = self.place / "a" / "b"
        variables = {"GPUWHY_SLURM": "deep", "GPUWHY_SLURM_FOLDER": str(folder), "GPUWHY_SLURM_COMMAND": str(PROGRAM),
                     "GPUWHY_SLURM_OPTIONS": "--gpu  virtual:h200", "SLURM_JOB_ID": "77", "SLURM_STEP_ID": "1",
                     "SLURM_PROCID": "0", "SLURM_NTASKS": "1"}
        status, out, err = self.run_it(TASK, "--end", "exit", **variables)
        self.assertEqual((status, out, err), (3, "the GPU is done\n", ""))
        self.assertEqual(len(list(folder.glob("*.0.*.gpuwhy"))), 1)
        status, out, _ = self.run_it(GPUWHY, "explain", "--json", "slurm:77.1")
        self.assertEqual(json.loads(out)["coverage"]["processes"], 1)

    @unittest.skipUnless(TASK.exists(), "the plugin for Slurm is not part of this build")
    def test_a_folder_that_others_may_change_is_not_used(self):
        real, link, shared = (self.place / name for name in ("real", "link", "shared"))
        real.mkdir()
        link.symlink_to(real)
        shared.mkdir()
        shared.chmod(0o777)
        for folder, rank in ((link, "0"), (shared, "0"), (shared, "1"), (pathlib.Path("/proc/none"), "0")):
            status, out, err = self.run_it(TASK, "-c", "echo ran; exit 6", GPUWHY_SLURM="on", GPUWHY_SLURM_FOLDER=str(folder),
                                           GPUWHY_SLURM_COMMAND="sh", SLURM_PROCID=rank)
            self.assertEqual((status, out), (6, "ran\n"), err)
            self.assertEqual(err.count(f"gpuwhy: not recorded: {folder} "), int(rank == "0"), err)
        self.assertEqual([*real.iterdir(), *shared.iterdir()], [])

    @unittest.skipUnless(TASK.exists(), "the plugin for Slurm is not part of this build")
    def test_without_gpuwhy_the_task_still_runs(self):
        alone = shutil.copy(TASK, self.place / "task")
        variables = {"GPUWHY_SLURM": "on", "GPUWHY_SLURM_FOLDER": str(self.place / "x"), "GPUWHY_SLURM_COMMAND": "sh"}
        script = 'echo "$0 $1 ${GPUWHY_SLURM_COMMAND-unset}"; exit 5'
        self.assertEqual(self.run_it(alone, "-c", script, "zero", "one", **variables), (5, "zero one unset\n", ""))
        self.assertEqual(self.run_it(TASK)[0], 127)


if __name__ == "__main__":
    unittest.main()
