"""`gpuwhy watch --once`, `--json` and `gpuwhy who`: what is on the cards."""
import glob
import json
import pathlib
import shutil
import signal
import struct
import subprocess

from support import CARD_USER, GIB, GPUWHY, WAIT_S, Case, needed, wait_for


class Snapshot(Case):
    def test_two_runs_and_a_program_that_is_not_recorded(self):
        small, large, other = self.run_program(gib=10), self.run_program(gib=60), self.other_program(gib=20)
        self.assertEqual(large.do(f"alloc {1000 * GIB}"), 2)
        self.wait_run(small, lambda run: (needed(run) or 0) > 10 * GIB)
        snapshot, run = self.wait_run(large, lambda run: run["failed_calls"] == 1)
        card = snapshot["gpus"][0]
        self.assertEqual(len(snapshot["gpus"]), 1)
        self.assertEqual(run["last_failure"]["call"], "cuMemAlloc_v2")
        self.assertEqual(run["last_failure"]["result_name"], "CUDA_ERROR_OUT_OF_MEMORY")
        self.assertEqual(run["memory"][0]["allocated_bytes"], 60 * GIB)
        self.assertEqual(run["memory"][0]["gpu"], 0)
        self.assertGreater(run["memory"][0]["held_by_driver_bytes"], 0)
        # The card's numbers are the sums of the processes'.
        own = [process for process in snapshot["processes"] if process["run"] is not None]
        foreign = [process for process in snapshot["processes"] if process["run"] is None]
        self.assertEqual((len(own), len(foreign)), (2, 1))
        self.assertEqual(card["needed_bytes"], sum(process["used_bytes"] for process in own))
        self.assertEqual(card["unjudged_bytes"], foreign[0]["used_bytes"])
        self.assertEqual(foreign[0]["pid"], other.process.pid)
        self.assertIn("card_user", foreign[0]["command"])
        self.assertFalse(card["alarm"])
        text = self.gpuwhy("watch", "--once").stdout
        self.assertRegex(text, r"needs 6[12]\d{3} MiB")
        self.assertRegex(text, r"last failed call: cuMemAlloc_v2 CUDA_ERROR_OUT_OF_MEMORY")
        self.assertRegex(text, rf"(?m)^0 +{other.process.pid} root +2[01]\d\d\d MiB +unknown ")
        self.assertLessEqual(max(map(len, text.splitlines())), 80)

    def test_alarms_look_at_what_is_needed(self):
        self.other_program(gib=100)
        run = self.run_program(gib=30)
        snapshot, state = self.wait_run(run, lambda run: (needed(run) or 0) > 30 * GIB, "--alarm-at", "50%")
        self.assertGreater(snapshot["gpus"][0]["used_bytes"], 130 * GIB)
        self.assertFalse(snapshot["gpus"][0]["alarm"] or state["memory"][0]["alarm"])
        snapshot = self.snapshot("--alarm-at", "20%")
        self.assertTrue(snapshot["gpus"][0]["alarm"] and self.run_of(run, snapshot)["memory"][0]["alarm"])
        self.assertIn("ALARM", self.gpuwhy("watch", "--once", "--alarm-at", "30GiB").stdout)
        self.assertNotIn("ALARM", self.gpuwhy("watch", "--once", "--alarm-at", "32GiB").stdout)

    def test_the_limit_of_a_run_counts(self):
        run = self.run_program("--memory", "16GiB", gib=15)
        snapshot, state = self.wait_run(run, lambda run: (needed(run) or 0) > 15 * GIB)
        self.assertEqual(state["memory"][0]["limit_bytes"], 16 * GIB)
        self.assertTrue(state["memory"][0]["alarm"])
        self.assertFalse(snapshot["gpus"][0]["alarm"])

    def test_steady_growth_is_the_forecast_of_the_run(self):
        run = self.run_program()

        def grow():
            self.obey(run, f"alloc {64 << 20}", "launch 0", "sync")
            found = self.run_of(run, self.snapshot())
            return found if found and found["memory"] and found["memory"][0]["growth_bytes_per_minute"] else None
        state = wait_for(grow, "a forecast")
        self.assertGreater(state["memory"][0]["growth_bytes_per_minute"], 0)
        self.assertGreater(state["memory"][0]["full_in_s"], 0)

    def test_ended_runs_disappear(self):
        run = self.run_program()
        self.wait_run(run, lambda state: state["pids"])
        run.end()
        snapshot = self.snapshot()
        self.assertEqual((snapshot["runs"], snapshot["processes"]), ([], []))

    def test_a_run_has_its_own_virtual_card(self):
        del self.environment["GPUWHY_VIRTUAL"], self.environment["GPUWHY_VIRTUAL_DIR"]
        run = self.run_program(gib=5)
        snapshot, state = self.wait_run(run, lambda state: (needed(state) or 0) > 5 * GIB)
        self.assertEqual([card["virtual"] for card in snapshot["gpus"] if card["virtual"]], [True])
        self.assertIsNotNone(snapshot["gpus_unreadable_because"])

    def test_a_rehearsal_needs_nothing(self):
        command = [GPUWHY, "rehearse", "--gpu", "virtual:h200", "--until", "end", "--", CARD_USER]
        process = subprocess.Popen(command, env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.DEVNULL, text=True)
        self.addCleanup(process.communicate)
        for words in "open 0", f"alloc {130 * GIB}":
            process.stdin.write(words + "\n")
            process.stdin.flush()
            self.assertEqual(process.stdout.readline(), "0\n")
        run = wait_for(lambda: next((r for r in self.snapshot()["runs"] if r["cards"] == "rehearsal" and r["memory"]),
                                    None), "the rehearsal")
        self.assertIsNone(run["memory"][0]["needed_bytes"])
        self.assertFalse(run["memory"][0]["alarm"])

    def test_a_lost_card(self):
        self.environment["GPUWHY_VIRTUAL"] = self.cards + ",fault=lost@cuMemAlloc_v2"
        self.cards = self.environment["GPUWHY_VIRTUAL"]
        run = self.run_program()
        self.assertNotEqual(run.do(f"alloc {GIB}"), 0)
        card = wait_for(lambda: next((c for c in self.snapshot()["gpus"] if c["lost"]), None), "the loss")
        self.assertIsNone(card["used_bytes"])
        self.assertIsNone(card["temperature_c"])
        self.assertIn("the card is lost", self.gpuwhy("watch", "--once").stdout)

    def test_json_is_repeated(self):
        with subprocess.Popen([GPUWHY, "watch", "--json", "--interval", "1"], env=self.environment,
                              stdout=subprocess.PIPE, text=True) as process:
            times = [json.loads(process.stdout.readline())["time_s"] for _ in range(2)]
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(WAIT_S), 0)
        self.assertLess(times[0], times[1])

    def test_an_unreadable_run_is_counted(self):
        run = self.run_program()
        _, state = self.wait_run(run, lambda state: state["pids"])
        folder = glob.glob(f"/dev/shm/gpuwhy-*-{run.process.pid}-*")[0]
        run.process.send_signal(signal.SIGSTOP)  # so that it does not replace the file
        self.addCleanup(run.process.send_signal, signal.SIGCONT)
        with open(folder + "/live", "r+b") as file:
            file.seek(100)
            file.write(b"damage")
        snapshot = self.snapshot()
        self.assertEqual((snapshot["runs"], snapshot["unreadable_runs"]), ([], 1))
        self.assertIn("the checksum is wrong", self.gpuwhy("watch", "--once").stdout)

    def test_nohup_is_respected(self):
        with subprocess.Popen([GPUWHY, "watch", "--json", "--interval", "1"], env=self.environment, stdout=subprocess.PIPE,
                              preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)) as process:
            process.stdout.readline()
            process.send_signal(signal.SIGHUP)
            self.assertTrue(process.stdout.readline() and process.stdout.readline(), "it ended")
            process.terminate()
            process.stdout.read()
            self.assertEqual(process.wait(WAIT_S), 0)


PID_COUNT_AT = 44  # in gw_live (src/format/gw_live.h); the pids follow


def crc32c(data):
    """The checksum of gw_live."""
    value = 0xffffffff
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = value >> 1 ^ (0x82f63b78 if value & 1 else 0)
    return value ^ 0xffffffff


class OtherUsers(Case):
    NOBODY = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]

    def setUp(self):
        super().setUp()
        del self.environment["GPUWHY_VIRTUAL"], self.environment["GPUWHY_VIRTUAL_DIR"]
        home = self.folder / "nobody"
        home.mkdir(mode=0o700)
        self.folder.chmod(0o755)
        self.theirs = self.environment | {"HOME": str(home), "XDG_STATE_HOME": str(home)}
        try:
            shutil.chown(home, 65534, 65534)
            subprocess.run([*self.NOBODY, GPUWHY, "version"], env=self.theirs, check=True, stdout=subprocess.DEVNULL)
        except (OSError, subprocess.CalledProcessError):
            self.skipTest("needs root, setpriv, and a build folder that others can read")

    def their_program(self, gib=0):
        return self.open_program([*self.NOBODY, GPUWHY, "run", "--gpu", "virtual:h200", "--quiet", "--", CARD_USER],
                                 self.theirs, gib)

    def their_watch(self, *options, setpriv=NOBODY):
        done = subprocess.run([*setpriv, GPUWHY, "watch", "--once", *options], env=self.theirs, text=True,
                              stdout=subprocess.PIPE, check=True)
        return done.stdout

    def test_runs_of_others_are_seen_by_root_alone(self):
        mine, theirs = self.run_program(gib=1), self.their_program(gib=1)
        self.wait_run(mine, lambda state: state["memory"])
        snapshot, state = self.wait_run(theirs, lambda state: state["memory"])
        self.assertEqual((state["user"], state["memory"][0]["allocated_bytes"]), ("nobody", GIB))
        # The folder of their virtual cards is not touched: they could have named any other one.
        self.assertEqual(len(snapshot["gpus"]), 1)
        snapshot = json.loads(self.their_watch("--json"))
        self.assertEqual(([run["user"] for run in snapshot["runs"]], snapshot["hidden_runs"]), (["nobody"], 1))
        self.assertIn("1 more of other users (root), which only they and root can see", self.their_watch())

    def test_a_capability_shows_the_runs_of_others(self):
        """As the user of the systemd unit has it."""
        mine = self.run_program(gib=1)
        self.wait_run(mine, lambda state: state["memory"])
        capable = [*self.NOBODY, "--inh-caps=+dac_read_search,+sys_ptrace", "--ambient-caps=+dac_read_search,+sys_ptrace"]
        snapshot = json.loads(self.their_watch("--json", setpriv=capable))
        self.assertEqual(([run["user"] for run in snapshot["runs"]], snapshot["hidden_runs"]), (["root"], 0))
        self.assertEqual(snapshot["runs"][0]["pids"], self.run_of(mine, self.snapshot())["pids"])
        why = snapshot["runs"][0]["memory"][0]["needed_unknown_because"]  # its card is not read, but its libraries are
        self.assertEqual(why, "what the driver holds for it is not known")

    def test_a_run_claims_no_process_of_another_user(self):
        mine, theirs = self.other_program(gib=None), self.their_program()
        self.wait_run(theirs, lambda state: state["pids"])
        folder = glob.glob(f"/dev/shm/gpuwhy-65534-{theirs.process.pid}-*")[0]
        theirs.process.send_signal(signal.SIGSTOP)  # so that it does not replace the file
        self.addCleanup(theirs.process.send_signal, signal.SIGCONT)
        path = pathlib.Path(folder, "live")
        bytes_ = bytearray(path.read_bytes())
        count, own = struct.unpack_from("II", bytes_, PID_COUNT_AT)
        self.assertEqual((count, len(bytes_) % 8), (1, 0))
        struct.pack_into("III", bytes_, PID_COUNT_AT, 2, mine.process.pid, own)
        struct.pack_into("I", bytes_, len(bytes_) - 4, crc32c(bytes_[:-4]))
        path.write_bytes(bytes_)
        run = self.run_of(theirs, self.snapshot())
        self.assertEqual(run["pids"], [own])


class Who(Case):
    def test_each_process_is_a_line(self):
        self.run_program(gib=1)
        other = self.other_program(gib=1)
        lines = self.gpuwhy("who").stdout.splitlines()
        self.assertEqual(len(lines), 3)
        self.assertRegex(lines[0], "^GPU +PID USER +IN USE  IDLE +STARTED BY +COMMAND$")
        self.assertTrue(any(str(other.process.pid) in line and "card_user" in line for line in lines))
        found = json.loads(self.gpuwhy("who", "--json").stdout)
        self.assertEqual({process["user"] for process in found["processes"]}, {"root"})
        filtered = self.gpuwhy("who", str(other.process.pid)).stdout.splitlines()
        self.assertEqual(len(filtered), 2)
        found = json.loads(self.gpuwhy("who", "--json", str(other.process.pid)).stdout)
        self.assertEqual([process["pid"] for process in found["processes"]], [other.process.pid])

    def test_idle_processes_are_told_from_busy_ones(self):
        run = self.run_program(gib=1)

        def idle():
            found = json.loads(self.gpuwhy("who", "--json").stdout)["processes"]
            return found[0] if found else None

        def busy():
            self.assertEqual(run.do("launch 100"), 0)
            found = idle()
            return found and found["idle_s"] is not None and not found["idle_at_least"] and found["idle_s"] <= 5
        wait_for(busy, "a busy process")
        self.assertEqual(run.do("sync"), 0)
        wait_for(lambda: (idle()["idle_s"] or 0) > 5, "an idle process")

    def test_an_empty_card(self):
        self.assertEqual(self.gpuwhy("who").stdout, "no process holds memory on a card\n")


class MetricsFile(Case):
    def test_a_file_is_written_once(self):
        run = self.run_program(gib=1)
        self.wait_run(run, lambda state: state["memory"])
        path = self.folder / "gpuwhy.prom"
        path.write_text("old")
        done = self.gpuwhy("watch", "--once", "--metrics-file", str(path))
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        text = path.read_text()
        self.assertRegex(text, r'(?m)^gpuwhy_run_memory_allocated_bytes\{run="[^"]+",device="0"\} 1073741824$')
        self.assertNotIn("# EOF", text)  # of OpenMetrics
        self.assertEqual(sorted(self.folder.glob("gpuwhy*")), [path])
        self.assertEqual(path.stat().st_mode & 0o777, 0o644)
        if shutil.which("promtool"):
            checked = subprocess.run(["promtool", "check", "metrics"], input=text, text=True, stdout=subprocess.PIPE,
                                     stderr=subprocess.STDOUT)
            self.assertEqual(checked.returncode, 0, checked.stdout)

    def test_a_file_is_replaced_until_the_end(self):
        path = self.folder / "gpuwhy.prom"
        with subprocess.Popen([GPUWHY, "watch", "--interval", "1", "--metrics-file", path], env=self.environment,
                              stderr=subprocess.PIPE, text=True) as process:
            wait_for(path.exists, "the file")
            first = path.stat().st_ino
            wait_for(lambda: path.stat().st_ino != first, "the next file")
            path.unlink()
            path.mkdir()
            self.assertIn("trying again", process.stderr.readline())
            path.rmdir()
            wait_for(path.exists, "the file after the failure")
            process.terminate()
            self.assertEqual((process.wait(WAIT_S), process.stderr.read()), (0, ""))
        self.assertEqual(list(self.folder.glob("gpuwhy*")), [])

    def test_what_cannot_be_written(self):
        (self.folder / "link").symlink_to("/dev/null")
        for path in "", "/dev/null", str(self.folder), str(self.folder / "link"), str(self.folder / "none" / "x.prom"):
            done = self.gpuwhy("watch", "--once", "--metrics-file", path)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), path)
            self.assertIn("--metrics-file", done.stderr)


class Usage(Case):
    def test_wrong_options(self):
        for words in (["--alarm-at", "0%"], ["--alarm-at", "x"], ["--alarm-at", "nan%"], ["--interval", "0"],
                      ["--interval", "99999"], ["word"], ["--listen", "127.0.0.1:1", "--once"],
                      ["--metrics-file", "x", "--json"], ["--metrics-file", "x", "--listen", "127.0.0.1:1"], ["--allow-remote"]):
            done = self.gpuwhy("watch", *words)
            self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), words)

    def test_without_nvml_the_reason_is_printed(self):
        del self.environment["GPUWHY_VIRTUAL"], self.environment["GPUWHY_VIRTUAL_DIR"]
        done = self.gpuwhy("watch", "--once")
        if "GPU 0" in done.stdout:
            self.skipTest("this machine has a card")
        self.assertEqual(done.returncode, 0)
        self.assertIn("The cards of this machine cannot be read: ", done.stdout)
        self.assertIn("cannot be read", self.gpuwhy("who").stderr)
