"""Past runs: the database, and what `gpuwhy history` prints of it."""
import errno
import json
import os
import pathlib
import re
import shutil
import socket
import sqlite3
import stat
import subprocess
import sys
import time
import unicodedata
import unittest

from support import BEGIN, GPU, GPUWHY, PythonCase, WAIT_S

NO_LOCKS = os.environ.get("NO_LOCKS", "")
GIB = 1 << 30
ROOT = pathlib.Path(__file__).resolve().parents[2]
# The five arguments of a row in past_columns.def; the last one may be several strings.
ROW = re.compile(r'^GWI_COLUMN\((\w+), (\w+), "(\w+)", "(\w+)",\s*((?:"[^"]*"\s*)+)\)', re.M)


def column_rows():
    return ROW.findall((ROOT / "src" / "apps" / "past" / "past_columns.def").read_text())

# Allocates GIB gigabytes and exits with CODE.
PROGRAM = BEGIN + """
pointer = ctypes.c_uint64()
assert cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(int(open("gib").read()) << 30)) == 0
sys.exit(int(open("code").read()))
"""

# Changes the database, without room to keep the changes in memory, and is killed.
UNFINISHED = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
for line in ("pragma cache_size = 1", "begin", "update runs set batch = 9",
             "create table more as with recursive n(i) as (select 1 union all select i + 1 from n limit 9999) select i from n"):
    database.execute(line)
os.kill(os.getpid(), 9)
"""


class History(PythonCase):
    def setUp(self):
        super().setUp()
        self.state = self.folder / "state" / "gpuwhy"
        self.program = self.folder / "train.py"
        self.program.write_text(PROGRAM)

    def run_program(self, gib=1, code=0, batch=8, **more):
        (self.folder / "gib").write_text(str(gib))
        (self.folder / "code").write_text(str(code))
        done = self.execute([GPUWHY, "run", "--gpu", GPU, "--json", self.json, "--", sys.executable, self.program,
                             "--batch-size", batch], **more)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stderr.decode()

    def history(self, *arguments, status=0, **more):
        done = self.run_gpuwhy("history", *arguments, **more)
        self.assertEqual(done.returncode, status, done.stderr)
        return (done.stdout if status == 0 else done.stderr).decode()

    def runs(self, *arguments, **more):
        return json.loads(self.history("--json", *arguments, **more))

    def columns(self, sql):
        with sqlite3.connect(self.state / "runs.db") as database:
            return database.execute(sql).fetchall()

    def names(self):
        return sorted(path.name for path in self.state.iterdir() if path.name.startswith("runs"))

    def environment_without_locks(self, error):
        count = self.folder / "locks"
        return {**self.environment, "LD_PRELOAD": NO_LOCKS, "NO_LOCKS_ERRNO": str(error), "NO_LOCKS_COUNT": str(count)}

    def test_a_run_is_one_row(self):
        self.run_program(gib=2, code=3, batch=16)
        self.assertEqual(self.names(), ["runs.db"])
        self.assertEqual(stat.S_IMODE((self.state / "runs.db").stat().st_mode), 0o600)
        [row] = self.columns("select kind, status, cause, good, observed, batch, ended, exit, signal, folder from runs")
        self.assertEqual(row[0], "run")
        self.assertEqual(row[3:9], (0, 1, 16, "exited 3", 3, None))
        self.assertEqual(row[9], str(self.folder))
        [(peak, card, seconds, recording, host)] = self.columns("select peak, card, seconds, recording, host from runs")
        self.assertEqual(host, socket.gethostname())
        verdict = json.loads(self.json.read_text())
        self.assertEqual(peak, verdict["peak"]["bytes"])
        self.assertGreaterEqual(peak, 2 * GIB)
        self.assertLess(peak, 3 * GIB)
        self.assertIn("H200", card)
        self.assertIn("(virtual)", card)
        self.assertGreater(seconds, 0)
        self.assertEqual(recording, verdict["recording"])

    def test_the_peak_of_the_last_runs(self):
        for gib in (1, 2, 3):
            self.run_program(gib=gib)
        text = " ".join(self.run_program(gib=5, code=1).split())
        self.assertRegex(text, r"the last 3 good runs of this command peaked at 1.00 GiB to 3.00 GiB, this one peaked at 5.00 GiB and failed")
        [line] = [one for one in json.loads(self.json.read_text())["evidence"] if one["source"] == "earlier runs"]
        self.assertIn("this one peaked at 5.00 GiB and failed", line["text"])
        out = self.history("train.py")
        self.assertIn("the last 3 good runs of this command peaked at 1.00 GiB to 3.00 GiB, the newest peaked at 5.00 GiB and failed", out)
        self.assertRegex(out, r"\n@1  .* exited 1  +[0-9.]+ s  5.00 GiB  ")
        self.assertRegex(out, r"\n@2  .* clean  +[0-9.]+ s  3.00 GiB  ")
        peaks = self.runs("train.py")["attempts"]["peaks"]
        self.assertEqual((peaks["earlier"], peaks["earlier_good"], peaks["newest_failed"]), (3, True, True))
        self.assertGreaterEqual(peaks["newest_bytes"], 5 * GIB)

    def explained(self, *words):
        return json.loads(self.run_gpuwhy("explain", "--json", *words).stdout)

    def test_a_handle_is_a_run(self):
        for gib in (1, 2, 3):
            self.run_program(gib=gib, batch=gib)
        runs = self.runs()["runs"]
        self.assertEqual([run["handle"] for run in runs], ["@3", "@2", "@1"])
        self.assertEqual([run["handle"] for run in self.runs("--where", "peak < 3e9")["runs"]], ["@3", "@2"])
        self.assertEqual([run["handle"] for run in self.runs("--where", "peak > 3e9", "train.py")["runs"]], ["@1"])
        for run in runs:
            self.assertEqual(self.explained(run["handle"])["recording"], run["recording"])
        diff = json.loads(self.run_gpuwhy("diff", "--json", "@3", "@1").stdout)
        self.assertEqual([diff[side]["command"][-1] for side in ("good", "bad")], ["1", "3"])
        page = self.folder / "page.html"
        self.assertEqual(self.run_gpuwhy("report", "-o", page, "@2").returncode, 0)
        self.assertIn(pathlib.Path(runs[1]["recording"]).name, page.read_text())
        self.assertEqual(self.run_gpuwhy("export", "@2", "--to", "csv").returncode, 0)
        whatif = json.loads(self.run_gpuwhy("whatif", "--json", "@1").stdout)
        self.assertEqual((whatif["recording"], whatif["possible"]), (runs[2]["recording"], False))
        self.assertIn(b"no fault found", self.run_gpuwhy("@1").stdout)
        self.assertEqual(self.run_gpuwhy("explain", "-m", "@1").returncode, 1)  # a message, not a run
        (self.folder / "@1").write_text("CUDA error: out of memory\n")
        self.assertIn("gpu-oom", self.run_gpuwhy("explain", "./@1").stdout.decode())

    def test_wrong_handles(self):
        self.assertIn("@1: no runs recorded yet", self.run_gpuwhy("explain", "@1").stderr.decode())
        self.run_program(gib=1)
        self.run_program(gib=2)
        for words, reason in ((["@0"], "@0 is no run: @1 is the newest"), (["@"], "@ is no run"), (["@x"], "a file is ./@x"),
                              (["@-1"], "@-1 is no run"), (["@1x"], "@1x is no run"), (["@01"], "@01 is no run"),
                              (["@999"], "@999: there are only 2 runs"), (["@99999999999999999999"], "is no run"),
                              (["@1", "@3"], "@3: there are only 2 runs"), (["@1", "@"], "@ is no run")):
            for command in ("explain", "report", "diff", "export", "whatif"):
                done = self.run_gpuwhy(command, *words, *(["--to", "csv"] if command == "export" else []))
                [line] = done.stderr.decode().splitlines()
                self.assertEqual(done.returncode, 2, (command, words))
                if len(words) == {"diff": 2, "export": 1, "whatif": 1}.get(command, len(words)):
                    self.assertIn(reason, line, (command, words))
        os.unlink(self.runs()["runs"][1]["recording"])
        self.assertIn("@1: the recording of this run was removed: /", self.run_gpuwhy("explain", "@1").stderr.decode())
        self.assertEqual(self.run_gpuwhy("explain", "@2").returncode, 0)
        self.columns("update runs set recording = null")
        self.assertIn("@2: the recording of this run was not kept", self.run_gpuwhy("report", "@2").stderr.decode())
        self.columns("update runs set kind = 'fit'")
        self.assertIn("@2 is an answer of `gpuwhy fit`", self.run_gpuwhy("report", "@2").stderr.decode())

    def test_a_word_for_each_kind_and_end(self):
        self.run_program()
        self.execute([GPUWHY, "rehearse", "--gpu", GPU, "--", sys.executable, self.program], check=True)
        going = self.start(sys.executable, "-c", BEGIN + "print(flush=True); sys.stdin.read()", stdin=subprocess.PIPE,
                           stdout=subprocess.PIPE)
        going.stdout.readline()
        virtual, rehearsal, running = self.runs()["runs"]
        self.assertEqual([virtual["kind"], rehearsal["kind"], running["kind"]], ["run", "rehearsal", "run"])
        self.assertEqual([virtual["status"], rehearsal["status"], running["end"]], ["clean", "clean", "still running"])
        self.assertIn("is running after", self.run_gpuwhy("explain", "@1").stdout.decode())
        self.assertEqual(running["handle"], "@1")
        self.assertLess(abs(running["start_s"] - time.time()), WAIT_S)
        out = self.history()
        self.assertRegex(out, r"@3 .*  virtual    clean  ")
        self.assertRegex(out, r"@2 .*  rehearsal  clean  ")
        self.assertRegex(out, r"@1 .*  virtual    still running  ")
        self.assertEqual(len(self.runs("no such words")["runs"]), 0)
        going.kill()
        going.communicate()
        self.assertRegex(self.history(), r"@1 .*  gpuwhy was killed  ")

    def test_lines_fit_80_columns(self):
        self.program.rename(self.folder / "训练模型的程序.py")
        self.program = self.folder / "训练模型的程序.py"
        self.run_program(batch="9" * 70)
        self.run_program(code=1)
        lines = self.history().splitlines()
        self.assertEqual(len(lines), 3)
        for line in lines:
            self.assertLessEqual(sum(2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in line), 80, line)
            self.assertNotIn("\N{REPLACEMENT CHARACTER}", line)
        self.assertIn("...", lines[1])
        self.assertRegex(lines[2], r"^@1 .* python\S* \.\.\. .*--batch-size 8$")

    def test_where_lists_some_runs_and_compares_all(self):
        self.run_program(gib=1)
        self.run_program(gib=2)
        self.run_program(gib=6, code=1)
        shown = self.runs("--where", "peak > 5e9")
        self.assertEqual([run["exit"] for run in shown["runs"]], [1])
        self.assertEqual((shown["attempts"]["good"], shown["attempts"]["failed"]), (2, 1))
        self.assertEqual(shown["attempts"]["peaks"]["earlier"], 2)
        self.assertEqual(len(self.runs("--where", "batch = 8 and seconds > 0 and exit = 0")["runs"]), 2)
        self.assertEqual(len(self.runs("--where", "start_ns > 1e9 * strftime('%s', 'now', '-7 days')")["runs"]), 3)
        self.assertEqual(len(self.runs("--where", "batch = 8", "another.py")["runs"]), 0)
        self.assertEqual(self.history("--where", "batch = 9"), "--where is true for no run\n")
        self.assertIn("no such column: peek", self.history("--where", "peek > 1", status=2))
        self.assertIn("only one expression", self.history("--where", "1; drop table runs", status=2))
        self.assertEqual(len(self.runs("--all")["runs"]), 3)

    @unittest.skipUnless(NO_LOCKS, "no shim without locks")
    def test_a_file_system_without_locks(self):
        for error in (errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP):
            with self.subTest(errno.errorcode[error]):
                environment = self.environment_without_locks(error)
                count = self.folder / "locks"
                self.run_program(gib=2, env=environment)
                self.assertEqual(self.names(), ["runs.db"])  # and no lock stays
                locks = count.stat().st_size
                self.assertGreater(locks, 0)
                self.assertLessEqual(locks, 2)  # one look at the past runs, and one attempt to add this one: no waiting
                [run] = self.runs("--where", "batch = 8", env=environment)["runs"][-1:]
                self.assertTrue(run["good"])
                self.assertGreaterEqual(run["peak_bytes"], 2 * GIB)
                count.unlink()
        self.assertEqual(len(self.runs()["runs"]), 3)  # with locks again

    @unittest.skipUnless(NO_LOCKS, "no shim without locks")
    def test_a_lock_without_a_program(self):
        """A killed program leaves its lock. It counts while it may still be held, and is removed when it is old."""
        environment = self.environment_without_locks(errno.ENOLCK)
        self.run_program(env=environment)
        lock = self.state / "runs.db.lock"
        lock.mkdir()
        text = self.run_program(env=environment)
        self.assertIn(f"history: this run was not added: {self.state}/runs.db: database is locked\n", text)
        os.utime(lock, (1, 1))
        self.run_program(env=environment)
        self.assertEqual(self.names(), ["runs.db"])
        self.assertEqual(len(self.runs(env=environment)["runs"]), 2)

    @unittest.skipUnless(NO_LOCKS, "no shim without locks")
    def test_an_unfinished_write_without_locks(self):
        """A program is killed while it writes, after it changed the file."""
        self.run_program()
        subprocess.run([sys.executable, "-c", UNFINISHED, self.state / "runs.db"], check=False)
        self.assertIn("runs.db-journal", self.names())
        environment = self.environment_without_locks(errno.ENOLCK)
        self.assertEqual([run["batch"] for run in self.runs(env=environment)["runs"]], [8])
        self.assertEqual(self.names(), ["runs.db"])
        self.run_program(env=environment)
        self.assertEqual(self.columns("pragma integrity_check"), [("ok",)])
        self.assertEqual(self.columns("select batch from runs"), [(8,), (8,)])

    @unittest.skipUnless(NO_LOCKS, "no shim without locks")
    def test_many_programs_without_locks(self):
        environment = self.environment_without_locks(errno.ENOLCK)
        self.check_many_programs(environment)

    def test_a_damaged_database(self):
        self.run_program()
        database = self.state / "runs.db"
        whole = database.read_bytes()
        for damage in (b"no database" * 100, whole[:len(whole) // 2], whole[:100] + b"\xff" * (len(whole) - 100)):
            database.write_bytes(damage)
            text = self.run_program()
            self.assertIn("no fault found", text)
            self.assertIn(f"{database}: ", text)
            self.assertIn("history: this run was not added: ", text)
            self.assertLess(text.index("no fault found"), text.index("history: "))  # the verdict comes first
            self.assertEqual(database.read_bytes(), damage)
            printed = self.history(status=2)
            self.assertIn(str(database), printed)
            command = printed.split("begin a new list: ")[1]
            (self.state / "runs.db-journal").write_bytes(b"old")
            subprocess.run(["sh", "-c", command], check=True)
            self.assertEqual((self.state / "runs.db.damaged").read_bytes(), damage)
            self.assertFalse((self.state / "runs.db-journal").exists())
            self.run_program()
            self.assertEqual(len(self.runs()["runs"]), 1)

    def test_a_locked_database_does_not_keep_a_run(self):
        """The program that holds the lock ends only after the run."""
        self.run_program()
        database = sqlite3.connect(self.state / "runs.db", isolation_level=None)
        self.addCleanup(database.close)
        database.execute("begin exclusive")
        text = self.run_program(code=3)
        database.execute("rollback")
        self.assertIn(f"history: this run was not added: {self.state}/runs.db: database is locked\n", text)
        self.assertNotIn("waiting", text)
        self.assertEqual(len(self.runs()["runs"]), 1)

    def test_an_old_text_list_is_ignored(self):
        self.state.mkdir(parents=True)
        old = "1\t5\t00000000000000aa\tf\t0\t1.500\tgpu-oom-leak\texited 1\t/r.gpuwhy\t/srv\ttrain a\n"
        (self.state / "runs").write_text(old)
        self.run_program()
        self.assertEqual(len(self.runs()["runs"]), 1)
        self.assertEqual((self.state / "runs").read_text(), old)

    def test_a_long_wait_is_announced(self):
        self.run_program()
        database = sqlite3.connect(self.state / "runs.db", isolation_level=None)
        self.addCleanup(database.close)
        database.execute("begin exclusive")
        with subprocess.Popen([GPUWHY, "history", "--json"], env=self.environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE) as process:
            self.assertIn(b"waiting for another program", process.stderr.readline())
            database.execute("rollback")
            self.assertEqual(len(json.loads(process.stdout.read())["runs"]), 1)
            self.assertEqual((process.wait(WAIT_S), process.stderr.read()), (0, b""))

    def test_an_unknown_end_is_not_a_failure(self):
        self.run_program(gib=1)
        self.run_program(gib=2, code=1)
        with sqlite3.connect(self.state / "runs.db") as database:
            database.execute("update runs set exit = null, ended = 'unknown' where exit = 1")
        attempts = self.runs("train.py")["attempts"]
        self.assertIsNone(attempts["peaks"]["newest_failed"])
        self.assertEqual((attempts["good"], attempts["failed"], attempts["unknown"]), (1, 0, 1))
        text = self.run_gpuwhy("history", "train.py").stdout.decode()
        self.assertIn("0 of 2 runs failed; whether 1 other failed is unknown\n", text)
        self.assertIn("no run is known to have failed", text)

    # Five runs of the last build with 19 columns: a good one, one with three attempts, two failed ones, and an answer of fit.
    def with_old_database(self):
        self.state.mkdir(parents=True)
        with sqlite3.connect(self.state / "runs.db") as database:
            database.executescript((ROOT / "tests" / "fixtures" / "runs_schema_1.sql").read_text())

    def check_old_runs(self, **more):
        listed = self.runs(**more)["runs"]
        self.assertEqual([run["kind"] for run in listed], ["run"] * 4 + ["fit"])
        self.assertEqual([run["cause"] for run in listed],
                         [None, None, "gpu-oom-leak", "killed-by-scheduler-or-user", None])
        self.assertEqual([(run["exit"], run["signal"]) for run in listed],
                         [(0, None), (0, None), (1, None), (None, 9), (None, None)])
        self.assertEqual([run["end"] for run in listed[1]["earlier_attempts"]], ["exited 1"] * 2)
        self.assertEqual(listed[2]["peak_bytes"], 15830389064)
        self.assertEqual(listed[4]["fit"], "batch at least 2")
        for column in self.newer_columns():
            self.assertEqual(len(self.runs("--where", f"{column} is null", **more)["runs"]), 5)
        [run] = self.runs("--where", "certainty = 'supported' and observed", **more)["runs"]
        self.assertEqual((run["batch"], run["good"]), (16384, False))
        self.assertIn("attempt 2 of 3", self.history("./cnn", **more))

    def newer_columns(self):
        old = (ROOT / "tests" / "fixtures" / "runs_schema_1.sql").read_text()
        return [row[2] for row in column_rows() if f",{row[2]} " not in old]

    def test_a_database_of_an_older_version(self):
        for first in (self.check_old_runs, self.run_program):  # a reader or a writer adds the columns
            with self.subTest(first):
                self.with_old_database()
                first()
                self.assertEqual(sorted(row[1] for row in self.columns("pragma table_info(runs)")),
                                 sorted(["id", *(row[2] for row in column_rows())]))
                self.assertEqual(self.columns("pragma user_version"), [(len(column_rows()) - 18,)])
                if first == self.run_program:
                    self.columns("delete from runs where id > 5")
                self.check_old_runs()
                self.run_program()
                [run] = self.runs("--where", "id = 6")["runs"]
                self.assertTrue(run["good"])
                shutil.rmtree(self.state)

    def test_an_older_database_that_cannot_be_changed(self):
        """Another program reads it all the time."""
        self.with_old_database()
        before = (self.state / "runs.db").read_bytes()
        database = sqlite3.connect(self.state / "runs.db", isolation_level=None)
        self.addCleanup(database.close)
        database.execute("begin")
        database.execute("select * from runs").fetchone()
        for column in ("recording", *self.newer_columns()):
            where = f"exit = 0 and peak = (select min(peak) from runs where {column} is not null or 1)"
            self.assertEqual(len(self.runs("--where", where)["runs"]), 1)
        database.execute("rollback")
        self.assertEqual((self.state / "runs.db").read_bytes(), before)

    def test_a_newer_database(self):
        self.run_program()
        self.columns("pragma user_version = 7")
        self.assertIn("newer version of gpuwhy", self.run_program())
        self.assertIn("newer version of gpuwhy", self.history(status=2))

    def test_a_state_folder_that_is_read_only(self):
        """A bind mount, because root may write to a folder of any mode."""
        self.run_program()
        read_only = ["unshare", "-m", "sh", "-c",
                     'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"', self.state]
        if subprocess.run([*read_only, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("cannot mount here")
        recording = self.folder / "run.gpuwhy"
        done = self.execute([*read_only, GPUWHY, "run", "--gpu", GPU, "-o", recording, "--", sys.executable, self.program])
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("no fault found", done.stderr.decode())
        done = self.execute([*read_only, GPUWHY, "history", "--json", "--where", "good"])
        self.assertEqual(done.returncode, 0)
        self.assertEqual(len(json.loads(done.stdout)["runs"]), 1)

    def test_no_history_adds_nothing(self):
        done = self.run_gpuwhy("run", "--gpu", GPU, "--no-history", "--", sys.executable, "-c", "pass")
        self.assertEqual(done.returncode, 0)
        self.assertEqual(self.runs()["runs"], [])

    def check_many_programs(self, environment, before=0):
        (self.folder / "gib").write_text("1")
        (self.folder / "code").write_text("0")
        programs = [subprocess.Popen([GPUWHY, "run", "--gpu", GPU, "--quiet", "--", sys.executable, self.program],
                                     env=environment, cwd=self.folder, stderr=subprocess.PIPE) for _ in range(10)]
        errors = b"".join(program.communicate(timeout=WAIT_S)[1] for program in programs)
        self.assertEqual([program.returncode for program in programs], [0] * 10)
        [(count,)] = self.columns("select count(*) from runs")  # on a slow machine, a run may give up, and says so
        self.assertEqual(count - before + errors.count(b"runs.db: database is locked\n"), 10, errors)
        self.assertGreater(count, before)

    def test_many_programs_that_end_at_once(self):
        """Ten whole runs; src/apps/past/past_db_test.c adds 100 runs at once."""
        self.check_many_programs(self.environment)

    def test_many_programs_that_find_an_older_database(self):
        self.with_old_database()
        self.check_many_programs(self.environment, before=5)
