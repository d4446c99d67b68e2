"""How long recordings are kept, and what happens to the run folder of a killed supervisor."""
import json
import os
import pathlib
import signal
import time

from support import BEGIN, Case, PythonCase, WAIT_S, wait_until

DAY_S = 24 * 3600


def end(process):
    os.killpg(process.pid, signal.SIGKILL)
    process.wait(WAIT_S)


class Shelf(Case):
    """A state folder with made-up recordings."""

    def setUp(self):
        super().setUp()
        self.state = self.folder / "state" / "gpuwhy"
        self.state.mkdir(parents=True, mode=0o700)
        self.environment["XDG_CONFIG_HOME"] = str(self.folder / "config")

    def configure(self, text):
        path = self.folder / "config" / "gpuwhy" / "config"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
        return path

    def put(self, name, days_old=1, size=4096):
        path = self.state / name
        path.write_bytes(b"x" * size)
        then = time.time() - days_old * DAY_S
        os.utime(path, (then, then))
        return path

    def names(self):
        return sorted(path.name for path in self.state.iterdir())

    def prune(self):
        done = self.run_gpuwhy("history", "--prune")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.decode()


class Limits(Shelf):
    def test_the_standard_keeps_ninety_days(self):
        self.put("20260101-120000-7.gpuwhy", days_old=91)
        self.put("20260102-120000-7.gpuwhy", days_old=89)
        self.put("20260103-120000-7.gpuwhy", days_old=1)
        self.assertIn("removed 1 recording (", self.prune())
        self.assertEqual(self.names(), ["20260102-120000-7.gpuwhy", "20260103-120000-7.gpuwhy"])

    def test_the_oldest_go_first(self):
        self.configure({"keep": {"recordings": 2}})
        for day in range(1, 6):
            self.put(f"2026010{day}-120000-7.gpuwhy", days_old=10 - day)
        self.prune()
        self.assertEqual(self.names(), ["20260104-120000-7.gpuwhy", "20260105-120000-7.gpuwhy"])

    def test_bytes_are_limited(self):
        self.configure({"keep": {"bytes": "1MiB"}})
        for day in range(1, 5):
            self.put(f"2026010{day}-120000-7.gpuwhy", days_old=10 - day, size=400 << 10)
        self.prune()
        self.assertEqual(self.names(), ["20260103-120000-7.gpuwhy", "20260104-120000-7.gpuwhy"])

    def test_a_recording_goes_with_all_its_files(self):
        self.configure({"keep": {"recordings": 1}})
        for end in (".gpuwhy", ".blame.gpuwhy", ".cudnn.log", ".4711.cudacore"):
            self.put(f"20260101-120000-7-2{end}", days_old=5)
        self.put("20260102-120000-7.gpuwhy", days_old=1)
        self.assertIn("removed 1 recording (", self.prune())
        self.assertEqual(self.names(), ["20260102-120000-7.gpuwhy"])

    def test_the_newest_stays_even_if_it_is_old_and_large(self):
        self.configure({"keep": {"recordings": 1, "bytes": 1, "days": 1}})
        self.put("20260101-120000-7.gpuwhy", days_old=400, size=100 << 10)
        self.prune()
        self.assertEqual(self.names(), ["20260101-120000-7.gpuwhy"])

    def test_zero_is_no_limit(self):
        self.configure({"keep": {"recordings": 0, "bytes": 0, "days": 0}})
        names = [f"2026010{day}-120000-7.gpuwhy" for day in range(1, 6)]
        for name in names:
            self.put(name, days_old=4000)
        self.prune()
        self.assertEqual(self.names(), names)

    def test_files_of_others_stay(self):
        self.configure({"keep": {"recordings": 1}})
        own = ["runs", "last", "mine.gpuwhy", "20260101.gpuwhy", "20260101-120000-7.txt", "20260101-120000-7.gpuwhy.bak",
               "20260101-120000-.gpuwhy", "20260101-120000-7.x.cudacore"]
        for name in own:
            self.put(name, days_old=500)
        victim = self.folder / "victim"
        victim.write_text("kept")
        (self.state / "20250101-120000-7.gpuwhy").symlink_to(victim)
        (self.state / "20250102-120000-7.gpuwhy").mkdir()
        for day in (1, 2):
            self.put(f"2026020{day}-120000-7.gpuwhy", days_old=10 - day)
        self.prune()
        self.assertEqual(self.names(), sorted(own + ["20250101-120000-7.gpuwhy", "20250102-120000-7.gpuwhy",
                                                     "20260202-120000-7.gpuwhy"]))
        self.assertEqual(victim.read_text(), "kept")

    def test_a_run_removes_what_is_over_the_limit(self):
        self.configure({"keep": {"recordings": 2}})
        for day in range(1, 5):
            self.put(f"2026010{day}-120000-7.gpuwhy", days_old=10 - day)
        process = self.start("true")
        self.assertEqual(process.wait(WAIT_S), 0)
        left = [name for name in self.names() if name.endswith(".gpuwhy")]
        self.assertEqual(len(left), 2)
        self.assertEqual(left[0], "20260104-120000-7.gpuwhy")

    def test_a_recording_that_is_being_written_stays(self):
        self.configure({"keep": {"recordings": 1}})
        process = self.start("sh", "-c", "echo begun >begun; sleep 60")
        self.addCleanup(end, process)
        wait_until((self.folder / "begun").exists, "the program")
        mine = next(name for name in self.names() if name.endswith(".gpuwhy"))
        then = time.time() - 500 * DAY_S
        os.utime(self.state / mine, (then, then))
        self.put("20260101-120000-7.gpuwhy", days_old=3)
        self.put("20260102-120000-7.gpuwhy", days_old=2)
        self.prune()
        self.assertIn(mine, self.names())
        self.assertNotIn("20260101-120000-7.gpuwhy", self.names())


class Configuration(Shelf):
    def refused(self, text):
        path = self.configure(text)
        self.put("20250101-120000-7.gpuwhy", days_old=500)
        self.put("20250102-120000-7.gpuwhy", days_old=499)
        done = self.run_gpuwhy("history", "--prune")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len([n for n in self.names() if n.endswith(".gpuwhy")]), 2, "removed in spite of an error")
        error = done.stderr.decode()
        self.assertIn(str(path), error)
        return error

    def test_an_error_is_told_with_its_place(self):
        for text, reason in (('{"keep": {"recordings": 5,,}}', ":1: "), ('{\n"keep": {\n"days": x}}', ":3: "),
                             ('{"keep": {"days": -1}}', "keep.days"), ('{"keep": {"days": "ten"}}', "keep.days"),
                             ('{"keep": {"bytes": "many"}}', "keep.bytes"), ('{"keep": 5}', "keep: expected an object"),
                             ('{"kept": {}}', 'unknown key "kept"'), ('{"keep": {"hours": 1}}', 'unknown key "keep.hours"'),
                             ("[]", "expected an object"), ("", "")):
            with self.subTest(text):
                self.assertIn(reason, self.refused(text))

    def test_a_run_goes_on_with_a_wrong_configuration(self):
        self.configure("nonsense")
        self.put("20250101-120000-7.gpuwhy", days_old=500)
        bare, done = self.run_both("sh", "-c", "echo out; exit 3")
        self.assertEqual((done.returncode, done.stdout), (bare.returncode, bare.stdout))
        self.assertIn("old recordings are not removed", done.stderr.decode())
        self.assertIn("20250101-120000-7.gpuwhy", self.names())

    def test_prune_stands_alone(self):
        for more in (["--json"], ["--all"], ["train.py"]):
            self.assertEqual(self.run_gpuwhy("history", "--prune", *more).returncode, 2)


class Left(PythonCase):
    """The run folder of a killed supervisor is in memory. The next run moves it to the disk."""

    def folders(self, pid):
        roots = [pathlib.Path(r) for r in (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp", "/var/tmp") if r]
        return [f for r in roots if r.exists() for f in r.glob(f"gpuwhy-{os.getuid()}-{pid}-*")]

    def lose_supervisor(self):
        """Kill a supervisor while its program waits after 20 allocations, then let the program end."""
        program = BEGIN + """
p = ctypes.c_uint64()
for i in range(20):
    cu.cuMemAlloc_v2(ctypes.byref(p), ctypes.c_size_t(1 << 20))
open("allocated", "w").close()
import time
while not os.path.exists("go"):
    time.sleep(0.01)
open("over", "w").close()
"""
        process = self.start("python3", "-c", program)
        wait_until((self.folder / "allocated").exists, "the program")
        process.kill()
        process.wait(WAIT_S)
        (self.folder / "go").touch()
        wait_until((self.folder / "over").exists, "the program's end")
        self.assertEqual(len(self.folders(process.pid)), 1)
        return process.pid, self.folders(process.pid)[0]

    def age(self, folder, seconds):
        then = time.time() - seconds
        os.utime(folder, (then, then))

    def recording(self):
        return next((self.folder / "state" / "gpuwhy").glob("*.gpuwhy"))

    def events(self):
        """All items of the recording, with those that are only in the run folder."""
        done = self.run_gpuwhy("explain", "--json", self.recording())
        verdict = json.loads(done.stdout)
        return verdict["status"], verdict["headline"], verdict["coverage"], verdict["evidence"]

    def next_run(self):
        self.assertEqual(self.start("true", options=["-o", str(self.folder / f"{time.monotonic_ns()}.gpuwhy")]).wait(WAIT_S), 0)

    def wait_until_unused(self, folder):
        """The program's process has to be gone."""
        pids = [int(f.name.split("-")[0]) for f in folder.glob("*.buf")]
        wait_until(lambda: not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids), "the end of the processes")

    def test_the_last_events_move_to_the_disk(self):
        pid, folder = self.lose_supervisor()
        self.wait_until_unused(folder)
        before = self.events()
        self.age(folder, 60)
        self.next_run()
        self.assertFalse(folder.exists(), "it is still in memory")
        moved = list((self.folder / "state" / "gpuwhy").glob(f"gpuwhy-{os.getuid()}-{pid}-*"))
        self.assertEqual(len(moved), 1)
        self.assertEqual(self.events(), before)
        self.next_run()
        self.assertTrue(moved[0].exists(), "it is needed as long as the recording is there")
        self.recording().unlink()
        self.age(moved[0], 2 * DAY_S)
        self.next_run()
        self.assertFalse(moved[0].exists(), "without a recording nobody needs it")

    def test_the_time_of_reading_is_not_the_end_of_the_run(self):
        _, folder = self.lose_supervisor()
        self.wait_until_unused(folder)
        seconds = lambda: json.loads(self.run_gpuwhy("explain", "--json", self.recording()).stdout)["program"]["seconds"]
        before = seconds()
        self.assertGreater(before, 0)
        time.sleep(0.5)
        self.assertEqual(seconds(), before)

    def test_a_living_supervisor_of_another_namespace_is_left_alone(self):
        """The lock decides, because pids of other namespaces mean nothing here."""
        process = self.start("sh", "-c", "echo begun >begun; sleep 60")
        self.addCleanup(end, process)
        wait_until((self.folder / "begun").exists, "the program")
        own = self.folders(process.pid)[0]
        dead = self.start("true")
        dead.wait(WAIT_S)
        foreign = own.with_name(own.name.replace(f"-{process.pid}-", f"-{dead.pid}-"))
        own.rename(foreign)
        self.addCleanup(foreign.rename, own)
        self.age(foreign, 60)
        self.next_run()
        self.assertTrue(foreign.exists())
