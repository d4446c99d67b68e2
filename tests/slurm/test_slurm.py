#!/usr/bin/env python3
"""The plugin for Slurm on a cluster of three nodes (cluster.py), with virtual cards.

    GPUWHY_BUILD=<build folder> test_slurm.py [test]...

Starts itself again in namespaces of its own. Exit status 77: something that it needs is missing.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import cluster

BUILD = pathlib.Path(os.environ.get("GPUWHY_BUILD", pathlib.Path(__file__).parents[2] / "build")).resolve()
PLUGIN = BUILD / "lib" / "gpuwhy" / "slurm" / "spank_gpuwhy.so"
WAIT = BUILD / "tests" / "scenarios" / "s28_host"
CNN = BUILD / "examples" / "cnn"
CARD = "--gpu virtual:h200"
SKIPPED = 77
INSIDE = "GPUWHY_TEST_IN_NAMESPACE"


def needs():
    lacks = [*cluster.missing(), *(str(path) for path in (PLUGIN, WAIT, CNN) if not path.exists())]
    if lacks:
        print(f"skipped: {', '.join(lacks)} missing")
        sys.exit(SKIPPED)


class Slurm(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.place = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-slurm-"))
        cls.addClassCleanup(shutil.rmtree, cls.place, ignore_errors=True)
        cls.cluster = cluster.Cluster(cls.place, f"optional {PLUGIN}\n")
        cls.addClassCleanup(cls.cluster.down)
        try:
            cls.cluster.up()
        except (OSError, TimeoutError, subprocess.SubprocessError):
            print(cls.cluster.logs(), file=sys.stderr)
            raise
        cls.limited = cls.submit_limited()

    @classmethod
    def submit_limited(cls):
        """A batch job that runs into its time limit. The plugin is asked for once, for all sruns of the script."""
        folder = cls.place / "limited"
        folder.mkdir()
        script = folder / "job.sh"
        script.write_text(f"#!/bin/sh\nsrun -N3 -n3 {WAIT} --end wait\n")
        environment = {**cls.cluster.environment, "HOME": str(folder), "GPUWHY_SLURM_OPTIONS": CARD,
                       "XDG_STATE_HOME": str(folder / "state")}
        answer = subprocess.run(["sbatch", "--gpuwhy", "-N3", "-n3", "--time=0:01", "--output=job.out", script],
                                cwd=folder, env=environment, text=True, stdout=subprocess.PIPE, check=True).stdout
        cluster.wait_for("the batch job", lambda: len(list(folder.glob("gpuwhy-*/*.gpuwhy"))) == 3)
        return answer

    def setUp(self):
        self.folder = self.place / self.id().rsplit(".", 1)[1]
        self.folder.mkdir()
        self.process = None
        self.environment = {**self.cluster.environment, "HOME": str(self.folder), "GPUWHY_SLURM_OPTIONS": CARD,
                            "XDG_STATE_HOME": str(self.folder / "state")}

    def tearDown(self):
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.communicate()

    def start(self, *command):
        return subprocess.Popen([*map(str, command)], env=self.environment, cwd=self.folder, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_it(self, *command):
        process = self.start(*command)
        out, err = process.communicate(timeout=cluster.WAIT_S)
        return process.returncode, out, err

    def srun(self, *words):
        return self.run_it("srun", "-N3", "-n3", *words)

    def script(self, text):
        path = self.folder / "task.sh"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def recordings(self):
        return sorted(self.folder.glob("gpuwhy-*/*.gpuwhy"))

    def verdict(self, *what):
        what = what or [next(self.folder.glob("gpuwhy-*"))]
        status, out, err = self.run_it(BUILD / "gpuwhy", "explain", "--json", "--no-history", *what)
        self.assertIn(status, (0, 1), err)
        return json.loads(out)

    def wait_for_recordings(self, count):
        """Until all tasks have used the GPU."""
        cluster.wait_for("the tasks", lambda: len(list(self.folder.glob("ready.*"))) == count)

    # ---- tests ----

    def test_off_unless_asked(self):
        status, out, err = self.srun("sh", "-c", "echo $FROM_TASK_PROLOG$GPUWHY_SLURM_COMMAND; exit 7")
        self.assertEqual((status, out), (7, "1\n1\n1\n"), err)
        self.assertEqual(self.recordings(), [])

    def test_a_good_step_is_silent(self):
        status, out, err = self.srun("--gpuwhy", self.script(f'echo "$FROM_TASK_PROLOG:$1"; exec {WAIT} --end return\n'),
                                     "two words")
        self.assertEqual(status, 0, err)
        self.assertEqual(out.count("1:two words\n"), 3)
        self.assertNotIn("Verdict", err)
        self.assertEqual(len(self.recordings()), 3)
        verdict = self.verdict()
        self.assertEqual((verdict["status"], verdict["job"]["missing_ranks"], verdict["job"]["hosts"]), ("clean", [], 3))

    def test_exit_statuses_and_unknown_commands_stay(self):
        for command in (["sh", "-c", "exit 9"], ["no-such-command"], ["sh", "-c", "kill -11 $$"]):
            plain, wrapped = self.srun(*command), self.srun("--gpuwhy", *command)
            self.assertEqual(plain[0], wrapped[0], f"{command}: {wrapped}")

    def test_steps_that_are_not_recorded_run_as_usual(self):
        programs = self.folder / "programs"
        programs.write_text("0 /bin/sh -c 'exit 0'\n1-2 /bin/sh -c 'echo %t; exit 6'\n")
        for options in (["--export=NONE", "/bin/sh", "-c", "echo x; exit 6"], ["--multi-prog", programs]):
            status, out, err = self.srun("--gpuwhy", *options)
            self.assertEqual(status, 6, err)
            self.assertIn(len(out), (4, 6), f"{options}: {out}")
            self.assertEqual(self.recordings(), [])
        status, _, err = self.srun("--gpuwhy=often", "true")
        self.assertNotEqual(status, 0)
        self.assertIn("--gpuwhy=often: expected on, deep or off", err)

    def test_a_site_may_record_all_steps(self):
        shared = self.folder / "shared"
        shared.mkdir()
        self.cluster.plugstack(f"optional {PLUGIN} default=on folder={shared}\n")
        try:
            for options, count in (([], 3), (["--gpuwhy=off"], 0)):
                status, _, err = self.srun(*options, WAIT if count else "true", *(["--end", "return"] if count else []))
                self.assertEqual(status, 0, err)
                found = list(shared.glob("gpuwhy-*.0/*.gpuwhy"))
                self.assertEqual(len(found), count)
                for path in found:
                    path.unlink()
        finally:
            self.cluster.plugstack(f"optional {PLUGIN}\n")

    def test_of_a_heterogeneous_step_one_component_is_recorded(self):
        """srun launches the components side by side, and calls the plugin for the one that comes first."""
        self.environment["GPUWHY_SLURM"] = "on"
        status, out, err = self.run_it("srun", "-n1", "sh", "-c", "echo first", ":", "-n1", "sh", "-c", "echo second; exit 6")
        self.assertEqual((status, sorted(out.splitlines())), (6, ["first", "second"]), err)
        self.assertEqual(len(self.recordings()), 1)

    def test_a_folder_of_somebody_else_is_not_used(self):
        """Its name is known before the step begins: the next job's number."""
        shared = self.folder / "shared"
        shared.mkdir()
        shared.chmod(0o1777)
        numbers = [int(path.name.split("-")[1].split(".")[0]) for path in self.place.glob("*/gpuwhy-*")]
        for number in range(max(numbers, default=0), max(numbers, default=0) + 200):
            (shared / f"gpuwhy-{number}.0").mkdir()
            shutil.chown(shared / f"gpuwhy-{number}.0", "nobody")
        self.cluster.plugstack(f"optional {PLUGIN} default=on folder={shared}\n")
        try:
            status, out, err = self.srun("sh", "-c", "echo ran; exit 6")
        finally:
            self.cluster.plugstack(f"optional {PLUGIN}\n")
        self.assertEqual((status, out), (6, "ran\n" * 3), err)
        self.assertEqual(err.count("gpuwhy: not recorded: "), 1, err)
        self.assertEqual(list(shared.glob("*/*")), [])

    def test_the_verdict_can_be_interrupted(self):
        """srun blocks signals, such as SIGINT, SIGALRM and SIGTERM. gpuwhy must not inherit that: SIGALRM ends it if it
        takes too long."""
        prefix = self.folder / "prefix"
        (prefix / "bin").mkdir(parents=True)
        (prefix / "lib").symlink_to(BUILD / "lib")
        gpuwhy = prefix / "bin" / "gpuwhy"
        gpuwhy.write_text("#!/bin/sh\nexec grep SigBlk /proc/self/status\n")
        gpuwhy.chmod(0o755)
        self.cluster.plugstack(f"optional {PLUGIN} prefix={prefix}\n")
        try:
            status, _, err = self.srun("--gpuwhy", WAIT, "--end", "return")
        finally:
            self.cluster.plugstack(f"optional {PLUGIN}\n")
        self.assertEqual(status, 0, err)
        self.assertRegex(err, r"SigBlk:\s+0+\n")

    def test_a_folder_is_no_command(self):
        plain, wrapped = self.srun(self.folder), self.srun("--gpuwhy", self.folder)
        self.assertEqual(plain[0], wrapped[0], wrapped)
        self.assertEqual(self.recordings(), [])

    def test_a_user_who_is_not_root(self):
        user = ["runuser", "-u", "nobody", "--"]
        self.place.chmod(0o755)
        if subprocess.run([*user, "test", "-x", WAIT], check=False).returncode != 0:
            self.skipTest(f"nobody cannot run {WAIT}")
        shutil.chown(self.folder, "nobody")
        status, _, err = self.run_it(*user, "srun", "-N3", "-n3", "--gpuwhy", WAIT, "--end", "exit")
        self.assertEqual(status, 3, err)
        self.assertIn("Verdict  not determined: ", err)
        self.assertEqual(len(self.recordings()), 3)
        self.assertEqual({path.owner() for path in [*self.recordings(), *self.folder.glob("state")]}, {"nobody"})

    def test_a_rank_fails(self):
        script = self.script(f'[ "$SLURM_PROCID" != 1 ] || exec {CNN} --runs 2 --bad-address\nexec {WAIT} --end wait\n')
        plain = self.srun("--kill-on-bad-exit=1", "sh", "-c", '[ "$SLURM_PROCID" != 1 ] || { sleep 1; exit 1; }; exec sleep 100')
        status, _, err = self.srun("--gpuwhy", "--kill-on-bad-exit=1", script)
        self.assertEqual(status, plain[0], err)
        self.assertRegex(err, r"Verdict  illegal-address \(\w+\): node2, rank 1 ")
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "illegal-address")
        self.assertRegex(verdict["headline"], r"^node2, rank 1 \(pid ")
        job = re.search(r"gpuwhy-(\d+)\.0$", str(next(self.folder.glob("gpuwhy-*"))))[1]
        self.assertEqual(self.verdict(f"slurm:{job}")["headline"], verdict["headline"])
        self.assertEqual(self.verdict(f"slurm:{job}.0")["headline"], verdict["headline"])

    def waiting(self, *options):
        """A step whose tasks use the GPU and wait for a signal."""
        script = self.script(f"exec {WAIT} --end wait --truth ready.$SLURM_PROCID\n")
        self.process = self.start("srun", "-N3", "-n3", "--gpuwhy", *options, script)
        return self.process

    def test_scancel(self):
        process = self.waiting("--job-name=cancelled")
        self.wait_for_recordings(3)
        self.run_it("scancel", "--name=cancelled")
        process.communicate(timeout=cluster.WAIT_S)
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "killed-by-scheduler-or-user")
        self.assertTrue(verdict["headline"].startswith("all 3 recordings: signal 15"), verdict["headline"])

    def test_a_rank_is_killed(self):
        """As by the kernel, for lack of host memory."""
        script = self.script(f'[ "$SLURM_PROCID" != 2 ] || {{ {WAIT} --end return; sleep 1; kill -9 $$; }}\n'
                             f"exec {WAIT} --end wait\n")
        plain = self.srun("--kill-on-bad-exit=1", "sh", "-c", '[ "$SLURM_PROCID" != 2 ] || { sleep 1; kill -9 $$; }; exec sleep 100')
        status, _, err = self.srun("--gpuwhy", "--kill-on-bad-exit=1", script)
        self.assertEqual(status, plain[0], err)
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "killed-by-scheduler-or-user")
        self.assertRegex(verdict["headline"], r"^node3, rank 2 \(pid \d+\): signal 9 ")

    def test_a_rank_exceeds_the_memory_of_its_host(self):
        if self.cluster.group.folder is None:
            self.skipTest(f"no control group with a limit on memory can be made here: {self.cluster.group.why}")
        eats = f"{sys.executable} -c 'data = [bytearray(b\"x\" * (1 << 24)) for _ in range(256)]'"
        script = self.script(f'[ "$SLURM_PROCID" = 1 ] || exec {WAIT} --end wait\n{WAIT} --end return\nexec {eats}\n')
        status, _, err = self.srun("--gpuwhy", "--kill-on-bad-exit=1", script)
        self.assertNotEqual(status, 0)
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "host-oom-kill", err)
        self.assertTrue(verdict["headline"].startswith("node2, rank 1 "), verdict["headline"])

    def test_y_a_batch_job_reached_its_time_limit(self):
        """The job of setUpClass: Slurm's shortest limit is a minute."""
        job = re.search(r"(\d+)", self.limited)[1]
        folder = self.place / "limited"
        state = lambda: re.search(r"JobState=(\w+)", self.run_it("scontrol", "show", "job", job)[1])[1]
        cluster.wait_for("the time limit", lambda: state() not in ("PENDING", "RUNNING", "COMPLETING"))
        self.assertEqual(state(), "TIMEOUT", (folder / "job.out").read_text())
        cluster.wait_for("the end", lambda: "DUE TO TIME LIMIT" in (folder / "job.out").read_text())
        self.environment["XDG_STATE_HOME"] = str(folder / "state")
        verdict = self.verdict(f"slurm:{job}")
        self.assertEqual(verdict["cause"], "killed-by-scheduler-or-user")
        self.assertTrue(verdict["headline"].startswith("all 3 recordings"), verdict["headline"])

    def test_z_a_node_is_lost(self):
        """Last, because it takes a node away."""
        process = self.waiting()
        self.wait_for_recordings(3)
        time.sleep(2)
        self.cluster.kill_node("node3")
        out, err = process.communicate(timeout=cluster.WAIT_S)
        self.assertNotEqual(process.returncode, 0)
        verdict = self.verdict()
        self.assertEqual(verdict["cause"], "host-lost", f"{verdict['headline']} {err}")
        self.assertTrue(verdict["headline"].startswith("node3, rank 2"), verdict["headline"])
        self.assertIn("host-lost", err)


if __name__ == "__main__":
    needs()
    if INSIDE not in os.environ:
        os.environ[INSIDE] = "1"
        os.execvp("unshare", [*cluster.NAMESPACES, sys.executable, "-B", *sys.argv])
    unittest.main(verbosity=2)
