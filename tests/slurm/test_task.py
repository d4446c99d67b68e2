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
import struct
import subprocess
import tempfile
import time
import unittest

BUILD = pathlib.Path(os.environ["GPUWHY_BUILD"]).resolve()
GPUWHY, TASK = BUILD / "gpuwhy", BUILD / "lib" / "gpuwhy" / "gpuwhy-slurm-task"
CNN = BUILD / "examples" / "cnn"
HANG = BUILD / "tests" / "scenarios" / "s27_hang"
PROGRAM = BUILD / "tests" / "scenarios" / "s28_host"


class Case(unittest.TestCase):
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


class Task(Case):
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

    def test_a_folder_that_cannot_be_made_is_refused_before_the_program_starts(self):
        status, _, err = self.record("-o", "no/such/", "--no-verdict")
        self.assertEqual(status, 2)
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


@unittest.skipUnless(os.geteuid() == 0, "only root can make files of other users")
class OtherUsers(Case):
    """Users A and B, who have no account here: numbers suffice. B puts something in the place of A's files."""
    A, B, BOTH = 41001, 41002, 41003
    ECC = "RuntimeError: CUDA error: uncorrectable ECC error encountered\n"

    def setUp(self):
        super().setUp()
        self.place.chmod(0o755)
        self.scratch, self.home, self.bin = (self.place / name for name in ("scratch", "home", "bin"))
        for folder in (self.scratch, self.home, self.bin):
            folder.mkdir()
        self.scratch.chmod(0o1777)
        os.chown(self.home, self.A, self.A)
        self.links = self.home / "state" / "gpuwhy" / "slurm"
        self.environment |= {"HOME": str(self.home), "XDG_STATE_HOME": str(self.home / "state"),
                             "PATH": f"{self.bin}:{os.environ['PATH']}"}
        if self.run_as(self.A, GPUWHY, "--version")[0] != 0:
            self.skipTest(f"another user cannot run {GPUWHY}")
        self.as_a("mkdir", "-p", "-m", "700", self.home / "state" / "gpuwhy")
        self.as_a("mkdir", "-m", "700", self.links)
        self.precious = self.home / "startup"
        self.as_a("sh", "-c", f"echo precious > {self.precious}")

    def run_as(self, user, *command):
        return self.run_it("setpriv", f"--reuid={user}", f"--regid={user}", f"--groups={user},{self.BOTH}", "--", *command)

    def as_a(self, *command):
        status, out, err = self.run_as(self.A, *command)
        self.assertEqual(status, 0, err)
        return out

    def make(self, user, mode=0o755, log=ECC):
        """Make the folder of A's job as this user, and A's link to it."""
        folder = self.scratch / "gpuwhy-78.0"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        if log:
            (folder / "a.log").write_text(log)
        for path in (folder, *folder.iterdir()):
            os.chown(path, user, user)
        folder.chmod(mode)
        self.as_a("ln", "-sfn", folder, self.links / "78.0")
        return folder

    def explain(self, *options):
        return self.run_as(self.A, GPUWHY, "explain", *options, "slurm:78")

    def refused(self, *texts):
        for options in ((), ("--store",)):
            status, out, err = self.explain(*options)
            self.assertEqual((status, out, err.count("\n")), (2, "", 1), err)
            for text in (self.scratch / "gpuwhy-78.0", *texts):
                self.assertIn(str(text), err)
        self.assertEqual(self.precious.read_text(), "precious\n")

    def epilog(self):
        """Run the epilog, with a runuser that needs no account. It goes on in the background."""
        done = self.place / "done"
        done.unlink(missing_ok=True)
        (self.bin / "gpuwhy").unlink(missing_ok=True)
        (self.bin / "gpuwhy").symlink_to(GPUWHY)
        (self.bin / "runuser").write_text(f'#!/bin/sh\n[ "$1" = -l ] && [ "$3" = -c ] || exit 2\n'
                                          f'setpriv --reuid={self.A} --regid={self.A} --clear-groups -- sh -c "$4"\n'
                                          f'echo $? > {done}.new; mv {done}.new {done}\n')
        (self.bin / "runuser").chmod(0o755)
        epilog = pathlib.Path(__file__).parents[2] / "packaging" / "slurm" / "epilog.sh"
        self.assertEqual(self.run_it("sh", epilog, SLURM_JOB_ID="78", SLURM_JOB_USER="a"), (0, "", ""))
        for _ in range(24000):
            if done.exists():
                return int(done.read_text())
            time.sleep(0.01)
        raise AssertionError("the epilog did not end")

    def test_a_folder_of_another_user_is_not_the_job(self):
        folder = self.make(self.B)
        (folder / "gpuwhy.txt").symlink_to(self.precious)
        self.refused(folder, f"belongs to user {self.B}")
        self.assertEqual(self.epilog(), 2)
        self.assertEqual(self.precious.read_text(), "precious\n")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["a.log", "gpuwhy.txt"])
        folder = self.make(self.A)  # its twin
        status, out, err = self.explain()
        self.assertIn("ecc-uncorrectable", out, err)

    def test_a_folder_that_others_may_change_is_not_the_job(self):
        self.refused(self.make(self.A, 0o777), "other users may write to it")
        folder = self.make(self.A, 0o775)
        self.assertIn("ecc-uncorrectable", self.explain()[1])  # A's private group may
        os.chown(folder, self.A, self.BOTH)
        self.refused(folder, "other users may write to it")

    def test_an_access_control_list_is_no_private_group(self):
        """The group's permissions are then the mask of the list, which lets B write."""
        folder = self.make(self.A, 0o775)
        entries = ((1, 7, 0xffffffff), (2, 7, self.B), (4, 5, 0xffffffff), (16, 7, 0xffffffff), (32, 5, 0xffffffff))
        try:
            os.setxattr(folder, "system.posix_acl_access",
                        struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries))
        except OSError as error:
            self.skipTest(f"{folder}: {error}")
        self.refused(folder, "other users may write to it")

    def test_a_link_in_place_of_the_folder_is_not_followed(self):
        folder = self.make(self.A)
        folder.rename(self.scratch / "other")
        folder.symlink_to(self.scratch / "other")
        os.chown(folder, self.B, self.B, follow_symlinks=False)
        self.refused(folder)

    def test_files_of_another_user_in_the_own_folder(self):
        folder = self.make(self.A)
        os.chown(folder / "a.log", self.B, self.B)
        self.refused("a.log", f"belongs to user {self.B}")
        folder = self.make(self.A, log=None)
        (folder / "b.log").symlink_to(self.precious)
        self.assertIn("no recordings and no text logs", self.explain()[2])

    def test_a_folder_that_is_named_is_read_and_its_owner_printed(self):
        folder = self.make(self.B)
        status, out, err = self.run_as(self.A, GPUWHY, "explain", folder)
        self.assertIn("ecc-uncorrectable", out)
        self.assertEqual(err, f"gpuwhy: {folder} belongs to user {self.B}, who chose what is in it\n")
        status, out, err = self.run_as(self.B, GPUWHY, "explain", folder, "--folder", self.scratch / "state")
        self.assertIn("ecc-uncorrectable", out)
        self.assertEqual(err, "")

    def test_the_epilog_stores_the_verdict(self):
        project = self.place / "project"
        project.mkdir()
        os.chown(project, 0, self.BOTH)
        project.chmod(0o2775)
        for self.scratch in (self.scratch, project):
            folder = self.make(self.A, 0o700)
            for _ in range(2):  # a requeued job has a second epilog
                self.assertEqual(self.epilog(), 0)
                self.assertIn("ecc-uncorrectable", (folder / "gpuwhy.txt").read_text())
                self.assertEqual((folder / "gpuwhy.txt").stat().st_uid, self.A)
            self.as_a("ln", "-sf", self.precious, folder / "gpuwhy.txt")
            self.assertEqual(self.epilog(), 0)
            self.assertFalse((folder / "gpuwhy.txt").is_symlink())
            self.assertEqual(self.precious.read_text(), "precious\n")
            self.as_a("sh", "-c", f"printf 'epoch 1/3 loss 0.5\\nepoch 2/3 loss 0.4\\nepoch 3/3 loss 0.3\\nTraining completed\\n' > {folder}/a.log")
            self.assertEqual(self.epilog(), 0)
            self.assertEqual([path.name for path in folder.iterdir()], ["a.log"])

    def test_store_needs_a_job(self):
        for words in ((), ("700",), (self.make(self.A),)):
            status, out, err = self.run_as(self.A, GPUWHY, "explain", "--store", *words)
            self.assertEqual((status, out), (2, ""))
            self.assertIn("--store takes one job of Slurm", err)


if __name__ == "__main__":
    unittest.main()
