"""`gpuwhy fit`: its answer holds in runs of the virtual card with that memory, and the next batch fails there."""
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

from support import GPU, GPUWHY, Case, lines_of, wait_until
import json_schemas

CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
SIZES = [int(size) for size in os.environ.get("GPUWHY_FIT_GIB", "1,2").split(",")]


def processes_with(mark):
    """Return the pids whose environment contains `mark`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes() and (entry / "cmdline").read_bytes():
                found.append(int(entry.name))
        except OSError:  # it has ended, or is another user's
            pass
    return found


class Fit(Case):
    def fit(self, *options, command=(CNN, "--batch", "{batch}"), status=0):
        path = self.folder / "fit.json"
        done = self.run_gpuwhy("fit", "--gpu", GPU, "--json", path, *options, "--", *command)
        self.assertEqual(done.returncode, status, done.stdout.decode() + done.stderr.decode())
        return json_schemas.check(json.loads(path.read_text())), done.stdout.decode()

    def run_card(self, gib, batch, *more):
        done = self.run_gpuwhy("run", "--gpu", f"{GPU},memory={gib}GiB", "--quiet", "--no-history", "--", CNN,
                               "--batch", batch, *more)
        return done.returncode

    def check_holds(self, gib, one, *more):
        self.assertEqual(one["answer"], "found")
        self.assertEqual(one["next"], one["largest"] + 1)
        self.assertEqual(self.run_card(gib, one["largest"], *more), 0, f"{gib} GiB: {one['largest']} does not run")
        self.assertNotEqual(self.run_card(gib, one["next"], *more), 0, f"{gib} GiB: {one['next']} runs")

    def test_the_answer_holds_and_the_next_batch_fails(self):
        for gib in SIZES:
            answer, text = self.fit("--memory", f"{gib}GiB", "--jobs", 2)
            self.check_holds(gib, answer["combinations"][0])
            first = " ".join(text.split("\nTook")[0].split())
            self.assertIn(f"batch {answer['combinations'][0]['largest']} is the largest that fits {gib}.00 GiB", first)
            self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_values_are_compared(self):
        answer, text = self.fit("--memory", "2GiB", "--values", "alloc=plain,pool", "--from", 1024,
                                command=(CNN, "--batch", "{batch}", "--allocator", "{alloc}"))
        plain, pool = answer["combinations"]
        self.assertEqual([plain["values"], pool["values"]], [{"alloc": "plain"}, {"alloc": "pool"}])
        self.check_holds(2, plain, "--allocator", "plain")
        self.check_holds(2, pool, "--allocator", "pool")
        self.assertNotEqual(plain["largest"], pool["largest"])
        self.assertIn("alloc=pool: batch", text)

    def test_values_do_not_control_the_terminal(self):
        _, text = self.fit("--memory", "1GiB", "--max", 1, "--values", "x=a\x1b]52;c;x\x07\u202e\nVerdict  clean",
                           command=("sh", "-c", "exec \"$0\" --batch $1", CNN, "{batch}", "{x}"))
        for character in ("\x1b", "\x07", "\u202e"):
            self.assertNotIn(character, text)
        self.assertNotIn("Verdict  clean", text.splitlines())

    def test_steps_and_limits(self):
        one = self.fit("--memory", "1GiB", "--step", 64, "--from", 100)[0]["combinations"][0]
        self.assertEqual((one["largest"] % 64, one["next"]), (0, one["largest"] + 64))
        self.assertEqual(min(trial["batch"] for trial in one["trials"]), 128)
        answer, text = self.fit("--memory", "1GiB", "--max", 5)
        self.assertEqual((answer["combinations"][0]["answer"], answer["combinations"][0]["largest"]), ("max", 5))
        self.assertIn("--max allows", " ".join(text.split()))

    def test_nothing_fits(self):
        answer, text = self.fit("--memory", "400MiB", status=1)
        one = answer["combinations"][0]
        self.assertEqual((one["answer"], one["largest"], one["next"]), ("none", None, 1))
        self.assertGreater(one["fixed_bytes"], 400 << 20)
        self.assertGreaterEqual(one["need_bytes"], one["fixed_bytes"])
        self.assertIn("no batch fits, because what does not depend on the batch", " ".join(text.split()))
        answer, text = self.fit("--memory", "1GiB", "--from", 4096, status=1)
        self.assertIn("batch 4096, the smallest that was asked for, does not fit", " ".join(text.split()))

    def test_a_card_is_named(self):
        answer, text = self.fit("--card", "t4", "--step", 4096, "--from", 16384)
        self.assertEqual((answer["card"], answer["memory_bytes"]), ("Tesla T4", 15828320256))
        self.assertIn("Kernels, workspaces and the context are those of NVIDIA H200", " ".join(text.split()))

    def test_real_runs_confirm(self):
        speed = [] if GPU.startswith("virtual:") else ["--speed"]
        answer, text = self.fit("--memory", "1GiB", "--real", *speed, "--from", 512,
                                command=(CNN, "--batch", "{batch}", "--iterations", "1000000"))
        one = answer["combinations"][0]
        real = {trial["batch"]: trial for trial in one["trials"] if trial["kind"] == "real run"}
        self.assertEqual(sorted(real), [one["largest"], one["next"]])
        self.assertTrue(real[one["largest"]]["fits"])
        self.assertTrue(real[one["largest"]]["ended_by_gpuwhy"])
        self.assertFalse(real[one["next"]]["fits"])
        if speed:
            self.assertGreater(one["items_per_second"], 0)
            self.assertEqual(answer["fastest"], 0)
        self.assertIn(f"batch {one['next']} fails in a real run", " ".join(text.split()))

    def test_a_virtual_card_has_no_speed(self):
        done = self.run_gpuwhy("fit", "--gpu", "virtual:h200", "--speed", "--", "sh", "-c", "echo > ran", "{batch}")
        self.assertEqual((done.returncode, done.stdout, done.stderr.decode()),
                         (2, b"", "gpuwhy: fit: --speed: virtual:h200 computes nothing, so its speed says nothing; it needs "
                                  "a real GPU\n"))
        self.assertFalse((self.folder / "ran").exists())

    def test_real_runs_search_where_a_rehearsal_fails(self):
        # The program stops because what it reads from the card is zero, as it always is in a rehearsal.
        program = ("import ctypes, os, sys\n"
                   "if os.environ.get('GPUWHY_REHEARSE'):\n"
                   "    sys.exit('the loss is zero')\n"
                   "os.execv(sys.argv[1], sys.argv[1:])\n")
        command = (sys.executable, "-c", program, CNN, "--batch", "{batch}")
        options = ("--memory", "1GiB", "--from", 512, "--max", 1024, "--step", 128)
        answer, text = self.fit(*options, command=command, status=1)
        self.assertEqual(answer["combinations"][0]["answer"], "unknown")
        self.assertIn("with --real, gpuwhy searches", " ".join(text.split()))
        one = self.fit(*options, "--real", command=command)[0]["combinations"][0]
        self.assertEqual((one["answer"], one["by"]), ("found", "real runs"))
        self.assertEqual((self.run_card(1, one["largest"]), one["next"]), (0, one["largest"] + 128))
        self.assertNotEqual(self.run_card(1, one["next"]), 0)

    def test_real_runs_that_differ_are_followed(self):
        # In a rehearsal, the program takes another batch than in a real run.
        program = ("import os, sys\n"
                   "more = int(sys.argv[3]) if os.environ.get('GPUWHY_REHEARSE') else 0\n"
                   "os.execv(sys.argv[1], [sys.argv[1], '--batch', str(int(sys.argv[2]) + more)])\n")
        for more in (2, -2, -20):
            command = (sys.executable, "-c", program, CNN, "{batch}", more)
            one = self.fit("--memory", "1GiB", "--from", 512, "--real", command=command)
            answer, text = one[0]["combinations"][0], " ".join(one[1].split())
            self.check_holds(1, answer)
            self.assertEqual(answer["largest_rehearsed"], answer["largest"] - more)
            self.assertIn(f"by rehearsals batch {answer['largest'] - more} is the largest; the answer is what", text)

        # The limits of the search: rehearsals end at --max, or find nothing that fits.
        largest = answer["largest"]
        for more, options in ((-2, ("--from", 512, "--max", largest + 1)), (2, ("--from", largest))):
            command = (sys.executable, "-c", program, CNN, "{batch}", more)
            one = self.fit("--memory", "1GiB", "--real", *options, command=command)[0]["combinations"][0]
            self.assertEqual((one["answer"], one["largest"], one["next"]), ("found", largest, largest + 1), options)

    def test_a_larger_card_has_no_real_runs(self):
        answer, text = self.fit("--memory", "400GiB", "--real", "--from", 4096, "--max", 4096)
        self.assertEqual({trial["kind"] for trial in answer["combinations"][0]["trials"]}, {"rehearsal"})
        self.assertIn("no real runs, because the real card has", " ".join(text.split()))

    def test_a_disturbed_rehearsal_does_not_change_the_answer(self):
        # The first rehearsal of batch 640 lacks memory, as if the contexts of others had taken it.
        program = ("import os, sys\n"
                   "if sys.argv[-1] == '640' and not os.path.exists('disturbed'):\n"
                   "    open('disturbed', 'w').close()\n"
                   "    sys.argv[-1] = '900000'\n"
                   "os.execv(sys.argv[1], sys.argv[1:])\n")
        command = (sys.executable, "-c", program, CNN, "--batch", "{batch}")
        options = ("--memory", "1GiB", "--from", 512, "--step", 16)
        alone = self.fit(*options, "--jobs", 1)[0]["combinations"][0]
        disturbed = self.fit(*options, "--jobs", 4, command=command)[0]["combinations"][0]
        self.assertGreater(alone["largest"], 640)
        for key in ("answer", "largest", "next", "fails_below"):
            self.assertEqual(disturbed[key], alone[key])
        self.assertEqual([trial["fits"] for trial in disturbed["trials"] if trial["batch"] == 640], [False, True])

    def test_mistakes_are_named(self):
        for words, says in (((), "no program given"), (("--", "a"), "does not contain {batch}"),
                            (("--", "a", "{batch}", "{b}"), "{b} has no values"),
                            (("--values", "b=1", "--", "a", "{batch}"), "does not contain {b}"),
                            (("--step", "x", "--", "a", "{batch}"), "--step x"),
                            (("--from", "9", "--max", "8", "--", "a", "{batch}"), "no multiple of 1 from 9 to 8"),
                            (("--card", "t5", "--", "a", "{batch}"), "unknown card"),
                            (("--card", "t4", "--memory", "1GiB", "--", "a", "{batch}"), "cannot be combined"),
                            (("--real=x", "--", "a", "{batch}"), "--real=x"),
                            (("--gpu", "virtual:x", "--", "true", "{batch}"), "unknown card"),
                            (("--gpu", GPU, "--until", "x", "--", "true", "{batch}"), "--until x")):
            done = self.run_gpuwhy("fit", *words)
            self.assertEqual(done.returncode, 2, words)
            self.assertIn(says, done.stderr.decode())
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        done = self.run_gpuwhy("fit", "--gpu", GPU, "--", "no-such-program", "{batch}")
        self.assertEqual(done.returncode, 127)

    def test_the_answer_is_in_the_history_and_nothing_else_is(self):
        one = self.fit("--memory", "1GiB", "--from", 512)[0]["combinations"][0]
        runs = json.loads(self.run_gpuwhy("history", "--json").stdout)["runs"]
        self.assertEqual([run["fit"] for run in runs], [f"batch {one['largest']}"])
        self.assertRegex(self.run_gpuwhy("history").stdout.decode(), rf"@1 .* fit +batch {one['largest']} ")
        self.assertEqual([path.name for path in (self.folder / "state" / "gpuwhy").iterdir()], ["runs.db"])

    def check_stop(self, number):
        mark = f"FIT_MARK={self.folder.name}-{number}"
        temporary = self.folder / "temporary"
        temporary.mkdir(exist_ok=True)
        environment = dict(self.environment, TMPDIR=str(temporary))
        environment.update([mark.split("=", 1)])
        program = "import time\nprint('started', flush=True)\ntime.sleep(600)"
        fit = subprocess.Popen([GPUWHY, "fit", "--gpu", GPU, "--jobs", "2", "--", sys.executable, "-c", program,
                                "{batch}"], env=environment, cwd=self.folder, start_new_session=True,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(fit.kill)
        wait_until(lambda: sum("started" in path.read_text() for path in temporary.glob("*/*.log")) == 2,
                   "two rehearsals to start")
        fit.send_signal(number)
        self.assertEqual(fit.wait(60), -number)
        if number == signal.SIGKILL:  # they notice it themselves
            wait_until(lambda: not processes_with(mark), "the trials to end")
        self.assertEqual(processes_with(mark), [])
        self.assertEqual(list(temporary.iterdir()) if number != signal.SIGKILL else [], [])

    def test_the_next_search_removes_what_a_killed_one_left(self):
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.environment["TMPDIR"] = str(temporary)
        left, other = temporary / "gpuwhy-fit.abcdef", temporary / "gpuwhy-fit-abcdef"
        for folder in (left, other):
            folder.mkdir(mode=0o700)
            (folder / "0.gpuwhy").write_text("x")
        used = temporary / "gpuwhy-fit.ghijkl"  # its twin: a search that still runs
        used.mkdir(mode=0o700)
        lock = os.open(used, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_EX)
        self.fit("--memory", "1GiB", "--max", 1)
        self.assertEqual(sorted(temporary.iterdir()), sorted([other, used]))

    # The program leaves a process in a session of its own, which holds a context.
    LEAVES = ("import ctypes, os, sys, time\n"
              "cu = ctypes.CDLL('libcuda.so.1')\n"
              "def begin():\n"
              "    device, context = ctypes.c_int(), ctypes.c_void_p()\n"
              "    cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(device), 0)\n"
              "    cu.cuCtxCreate_v2(ctypes.byref(context), 0, device)\n"
              "ready, told = os.pipe()\n"
              "if os.fork() == 0:\n"
              "    nothing = os.open('/dev/null', os.O_RDWR)\n"
              "    os.dup2(nothing, 1), os.dup2(nothing, 2), os.setsid(), begin()\n"
              "    open(sys.argv[1], 'a').write('%d\\n' % os.getpid())\n"
              "    os.write(told, b'x'), time.sleep(600), os._exit(0)\n"
              "os.read(ready, 1), begin()\n")

    def left(self, *words, before=(), code=LEAVES):
        """Run the command with the program above. Returns its output and the pids of what is still running."""
        pids = self.folder / f"{words[0]}.pids"
        pids.unlink(missing_ok=True)
        done = self.execute([*before, GPUWHY, *words, "--no-history", "--", sys.executable, "-c", code, pids, "{batch}"])
        found = [int(line) for line in pids.read_text().split()]
        self.assertTrue(found)
        alive = [pid for pid in found if pathlib.Path(f"/proc/{pid}/stat").exists()
                 and pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"]
        for pid in alive:
            os.kill(pid, signal.SIGKILL)
        return done.stderr.decode(), alive

    def test_what_a_trial_leaves_behind_is_ended(self):
        said, alive = self.left("rehearse", "--gpu", GPU)
        self.assertEqual(alive, [])
        self.assertRegex(said, r"left 1 process behind, which was ended: .*python.* \(pid [0-9]+\)")
        said, alive = self.left("fit", "--gpu", GPU, "--max", 2, "--jobs", 1, "--memory", "1GiB")
        self.assertEqual(alive, [])
        self.assertRegex(said, r"the trials left [0-9]+ processes behind, which were ended: .*python.* \(pid [0-9]+\), ")
        said, alive = self.left("run", "--gpu", GPU, "--quiet")  # its twin: a program's own daemon stays
        self.assertEqual(len(alive), 1, said)

    def test_what_hides_its_program_is_ended(self):
        """It forbids other users, and gpuwhy without rights of root, to look at it (PR_SET_DUMPABLE)."""
        before = [] if os.geteuid() else ["setpriv", "--bounding-set", "-sys_ptrace"]
        hides = self.LEAVES.replace("os.setsid()", "os.setsid(), ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)")
        if before and shutil.which(before[0]) is None:
            self.skipTest("no setpriv")
        said, alive = self.left("rehearse", "--gpu", GPU, before=before, code=hides)
        self.assertEqual(alive, [])
        self.assertIn("left 1 process behind", said)

    def test_a_killed_rehearsal_ends_its_program(self):
        for command, is_left in (("rehearse", False), ("run", True)):  # its twin: a killed run leaves the program alone
            started = self.folder / command
            trial = subprocess.Popen([GPUWHY, command, "--gpu", GPU, "--no-history", "--", sys.executable, "-c",
                                      "import os, sys, time; open(sys.argv[1], 'w').write('%d\\n' % os.getpid()); "
                                      "time.sleep(1000)", started], env=self.environment, cwd=self.folder,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            wait_until(lambda: lines_of(started), "the program")
            pid = int(lines_of(started)[0])
            trial.kill()
            trial.wait()
            if is_left:
                os.kill(pid, signal.SIGKILL)  # fails if it has ended
            wait_until(lambda: not pathlib.Path(f"/proc/{pid}/cmdline").exists() or
                       not pathlib.Path(f"/proc/{pid}/cmdline").read_bytes(), "the program to end")

    def test_a_signal_ends_all_trials(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            with self.subTest(signal=number):
                self.check_stop(number)
