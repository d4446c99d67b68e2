"""The configuration: its files, its order, its errors, and what commands do with it."""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from support import BEGIN, Case, GPU, GPUWHY, WAIT_S

ROOT = pathlib.Path(__file__).resolve().parents[2]
SITE = "/etc/gpuwhy/config"
# In a mount namespace: an /etc of our own, with the files that programs need, and the site's file "$0".
OWN_ETC = """set -e
mount -t tmpfs none "$1"
for f in passwd group nsswitch.conf ld.so.cache ld.so.conf; do [ ! -e /etc/$f ] || cp /etc/$f "$1/"; done
mkdir -p "$1/gpuwhy"
cp "$0" "$1/gpuwhy/config"
chmod "$2" "$1/gpuwhy/config"
mount --bind "$1" /etc
shift 2
exec "$@"
"""


class ConfigCase(Case):
    def setUp(self):
        super().setUp()
        self.environment["XDG_CONFIG_HOME"] = str(self.folder / "config")
        self.path = self.folder / "config" / "gpuwhy" / "config"

    def configure(self, text):
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.write_text(text if isinstance(text, str) else json.dumps(text))
        self.path.chmod(0o600)

    def config(self, *words, status=0, **variables):
        done = self.run_gpuwhy("config", *words, env={**self.environment, **variables})
        self.assertEqual(done.returncode, status, done.stderr)
        self.error = done.stderr.decode()
        return done.stdout.decode()

    def keys(self, *words, **variables):
        return {row["key"]: row for row in json.loads(self.config("--json", *words, **variables))["keys"]}

    def run_real(self, *words, program=("sh", "-c", "exit 3"), **more):
        """`gpuwhy run` without a virtual card."""
        return self.run_gpuwhy("run", *words, "--", *program, **more)


class Show(ConfigCase):
    def test_without_a_file_all_is_built_in(self):
        keys = self.keys()
        self.assertEqual({row["from"] for row in keys.values()}, {"built in"})
        self.assertEqual(keys["folder"]["value"], str(self.folder / "state" / "gpuwhy"))
        self.assertEqual(keys["keep.bytes"]["value"], 8 << 30)
        self.assertEqual(self.config("keep.days"), "90\n")
        self.assertFalse((self.folder / "state").exists(), "the folder is only named")

    def test_the_order_of_the_sources(self):
        self.configure('{\n"keep": {"days": 1},\n"memory": "2GiB"}')
        row = self.keys()["keep.days"]
        self.assertEqual((row["value"], row["from"], row["place"]), (1, "user", f"{self.path}:2"))
        row = self.keys(GPUWHY_KEEP_DAYS="2")["keep.days"]
        self.assertEqual((row["value"], row["from"], row["place"]), (2, "environment", "GPUWHY_KEEP_DAYS"))
        row = self.keys("--keep-days", "3", GPUWHY_KEEP_DAYS="2")["keep.days"]
        self.assertEqual((row["value"], row["from"], row["place"]), (3, "option", "--keep-days"))
        self.assertEqual(self.config("memory"), f"{2 << 30}\n")
        line = [l for l in self.config().splitlines() if l.startswith("memory ")][0]
        self.assertRegex(line, rf"^memory +2147483648 +bytes \(2\.00 GiB\) +{re.escape(str(self.path))}:3$")

    def test_every_key_has_a_variable_and_a_valid_option(self):
        values = {"off": "true", "folder": "/some/where", "record.environment": "A,B_*", "add_to_history": "false",
                  "hang_after": "7", "ask_ras": "false", "color": "never", "watch.alarm_at": "80%"}
        for key, row in self.keys().items():
            text = values.get(key, "true" if row["standard"] == "false" else "5")
            self.assertEqual(self.keys(**{row["variable"]: text})[key]["from"], "environment", key)
            words = [row["option"]] if isinstance(row["value"], bool) else [row["option"], text]
            self.assertEqual(self.keys(*words)[key]["from"], "option", key)
            for command in (row["commands"] or "explain").split():
                help_text = self.run_gpuwhy(command, "--help").stdout.decode()
                self.assertRegex(help_text, rf"(?m)^  {row['option']}\b", command)

    def test_wrong_words(self):
        self.config("keep.day", status=2)
        self.assertIn("did you mean keep.days?", self.error)
        for words in (["a", "b"], ["--json", "memory"], ["--memory", "lots"], ["--nonsense"]):
            self.config(*words, status=2)
            self.assertEqual(len(self.error.splitlines()), 1)

    def test_the_document_has_the_table(self):
        """Each row: key, variable, option, standard value."""
        text = (ROOT / "docs" / "config.md").read_text()
        rows = {m[1]: m[0] for m in re.finditer(r"^\| `([a-z_.]+)` \|.*$", text, re.M)}
        keys = self.keys()
        self.assertEqual(list(rows), list(keys))
        for key, row in keys.items():
            cells = [cell.strip() for cell in rows[key].strip("|").split("|")]
            option = ", ".join(f"`{command} {row['option']}`" for command in (row["commands"] or "").split())
            option = option or f"`{row['option']}`"
            standard = f"`{row['standard']}`" if row["standard"] else ""
            self.assertEqual(cells[:4], [f"`{key}`", f"`{row['variable']}`", option, standard])


class Check(ConfigCase):
    def test_errors_of_a_file(self):
        draft = self.folder / "draft"
        draft.write_text('{\n"kep": {"days": 3},\n"memory": "lots"}')
        self.assertEqual(self.config("--check", draft, status=1), "")
        self.assertEqual(self.error.splitlines(),
                         [f'gpuwhy: {draft}:2: unknown key "kep"; did you mean "keep"?',
                          f'gpuwhy: {draft}:3: memory: expected a size such as "8GiB"'])
        draft.write_text("{}")
        draft.chmod(0o666)
        self.assertEqual(self.config("--check", draft), f"{draft}: no errors\n")
        self.config("--check", self.folder / "missing", status=2)

    def test_errors_of_the_configuration(self):
        self.assertIn(f"{self.path}: there is no such file", self.config("--check"))
        self.configure({"quiet": True})
        self.assertIn(f"{self.path}: no errors", self.config("--check"))
        self.config("--check", status=1, GPUWHY_MEMORY="lots")
        self.assertIn("GPUWHY_MEMORY=lots: expected", self.error)
        self.configure("nonsense")
        self.config("--check", status=1)
        self.assertIn(f"{self.path}:1: ", self.error)

    def test_a_file_that_others_may_write_is_ignored(self):
        self.configure({"quiet": True})
        self.path.chmod(0o666)
        self.assertEqual(self.config("quiet"), "false\n")
        self.assertIn(f"{self.path}: ignored, because other users may write to it (mode 666)", self.error)
        self.path.chmod(0o600)
        self.path.parent.chmod(0o777)
        self.assertEqual(self.config("quiet"), "false\n")
        self.assertIn("may replace it", self.error)


class Runs(ConfigCase):
    """What `gpuwhy run` and the other commands do with the values."""

    def recordings(self, folder=None):
        return sorted((folder or self.folder / "state" / "gpuwhy").glob("*.gpuwhy"))

    def environment_of(self, recording):
        items = self.run_gpuwhy("export", recording, "--to", "json").stdout.decode()
        return dict(re.findall(r'"key":\s*"env\.([^"]*)",\s*"value":\s*"([^"]*)"', items))

    def test_the_folder(self):
        place = self.folder / "runs here"
        self.configure({"folder": str(place)})
        self.run_both("sh", "-c", "exit 3")
        self.assertEqual(len(self.recordings(place)), 1)
        self.assertEqual(place.stat().st_mode & 0o777, 0o700)
        self.assertFalse((self.folder / "state").exists())
        self.assertIn(b"exited 3", self.run_gpuwhy("explain").stdout)
        self.assertEqual(len(json.loads(self.run_gpuwhy("history", "--json").stdout)["runs"]), 1)

    def test_the_option_for_the_folder(self):
        """For every command, also before it. It wins over the variable."""
        folder, other = self.folder / "mine", self.folder / "other"
        self.environment["GPUWHY_FOLDER"] = str(other)
        self.assertEqual(self.run_real("--folder", folder).returncode, 3)
        self.assertEqual(len(self.recordings(folder)), 1)
        self.assertFalse(other.exists())
        for words in (["explain", "--folder", folder], ["--folder", folder, "explain"]):
            self.assertIn(b"exited 3", self.run_gpuwhy(*words).stdout)
        self.assertEqual(self.run_gpuwhy("explain").returncode, 2)
        self.assertIn(b"sh -c", self.run_gpuwhy("history", f"--folder={folder}").stdout)
        self.assertEqual(self.config("folder", "--folder", "/some/where"), "/some/where\n")
        done = self.run_real("--folder", "mine")
        self.assertEqual((done.returncode, done.stderr.decode()),
                         (2, "gpuwhy: run: --folder mine: expected an absolute path, or one that begins with ~/\n"))

    def test_a_lesson_uses_the_folder_of_its_command(self):
        folder = self.folder / "mine"
        done = self.run_gpuwhy("lab", "run", "S15", "--folder", folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(self.recordings(folder)), 1)
        self.assertFalse((self.folder / "state" / "gpuwhy").exists())

    def test_home_and_user_in_the_folder(self):
        home = self.folder / "home"
        home.mkdir()
        name = subprocess.run(["id", "-un"], stdout=subprocess.PIPE, text=True).stdout.strip()
        self.configure({"folder": "~/x/%u/%%"})
        self.assertEqual(self.config("folder", HOME=str(home)), f"{home}/x/{name}/%%\n")

    def test_a_folder_that_cannot_be_used_stops_nobody(self):
        self.configure({"folder": "/proc/none"})
        bare, done = self.run_both("sh", "-c", "echo ran; exit 3")
        self.assertEqual((bare.returncode, bare.stdout), (done.returncode, done.stdout))

    def test_root_uses_no_folder_of_somebody_else(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to give a folder away")
        place = self.folder / "theirs"
        place.mkdir()
        os.chown(place, 4711, 4711)
        self.configure({"folder": str(place / "runs")})
        bare, done = self.run_both("sh", "-c", "echo ran; exit 3")
        self.assertEqual((bare.returncode, bare.stdout), (done.returncode, done.stdout))
        self.assertEqual(list(place.iterdir()), [])
        self.assertIn(b"belongs to another user", done.stderr)

    def test_quiet_and_history(self):
        self.configure({"quiet": True, "add_to_history": False})
        done = self.run_gpuwhy("run", "--gpu", GPU, "--", "true")
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertEqual(json.loads(self.run_gpuwhy("history", "--json").stdout)["runs"], [])
        done = self.run_gpuwhy("run", "--gpu", GPU, "--", "true", env={**self.environment, "GPUWHY_QUIET": "0"})
        self.assertNotEqual(done.stderr, b"")

    def test_quiet_is_quiet_only_on_success(self):
        """The recording's name is printed, too, also if no cause was found."""
        for script, status in (("exit 0", 0), ("exit 3", 3), ("echo 'CUDA error: out of memory' >&2; exit 1", 1),
                               ("kill -9 $$", -9)):
            done = self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--", "sh", "-c", script)
            self.assertEqual((done.returncode, b"Verdict" in done.stderr), (status, status != 0), done.stderr)
            self.assertEqual(re.search(rb"Details .*gpuwhy explain\s.*\.gpuwhy", done.stderr, re.S) is not None, status != 0,
                             done.stderr)

    def test_memory(self):
        """The option wins over the file, and the user learns of a limit that no option set."""
        program = [sys.executable, "-c", """
import ctypes
cu = ctypes.CDLL("libcuda.so.1")
c, total, free = ctypes.c_void_p(), ctypes.c_size_t(), ctypes.c_size_t()
assert cu.cuInit(0) == 0 and cu.cuCtxCreate_v2(ctypes.byref(c), 0, 0) == 0
assert cu.cuMemGetInfo_v2(ctypes.byref(free), ctypes.byref(total)) == 0
print(total.value >> 30)"""]
        if os.environ.get("GPUWHY_SANITIZE"):
            self.skipTest("a sanitizer's runtime would have to be preloaded into Python")
        self.configure({"memory": "3GiB", "memory_shared": True})
        done = self.run_gpuwhy("run", "--gpu", GPU, "--", *program)
        self.assertEqual(done.stdout, b"3\n")
        self.assertIn(f"the program sees at most 3.00 GiB of GPU memory ({self.path}:1)", done.stderr.decode())
        done = self.run_gpuwhy("run", "--gpu", GPU, "--memory", "5GiB", "--", *program)
        self.assertEqual(done.stdout, b"5\n")
        self.assertNotIn(b"sees at most", done.stderr)
        done = self.run_gpuwhy("run", "--gpu", GPU, "--", *program, env={**self.environment, "GPUWHY_MEMORY": "0"})
        self.assertGreater(int(done.stdout), 100)
        # A run inside the run has no limit of its own: the variable that it inherits is the outer run's.
        inner = [GPUWHY, "config", "memory"]
        done = self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--memory", "5GiB", "--", *inner)
        self.assertEqual(done.stdout, f"{3 << 30}\n".encode())

    def test_recorded_variables(self):
        self.configure({"record": {"environment": ["MY_*"]}})
        self.environment.update(MY_MODE="fast", MY_TOKEN="x1y2z3", THEIR_MODE="slow")
        self.run_both("sh", "-c", "exit 3")
        self.assertEqual({k: v for k, v in self.environment_of(self.recordings()[0]).items() if k.endswith(("MODE", "TOKEN"))},
                         {"MY_MODE": "fast", "MY_TOKEN": "***"})
        self.run_both("true", options=["-o", "other.gpuwhy", "--record-environment", "THEIR_MODE"])
        self.assertEqual(self.environment_of("other.gpuwhy").get("THEIR_MODE"), "slow")
        self.assertEqual(self.run_real("--record-environment", "1X").returncode, 2)

    def test_values_that_do_not_go_with_an_option(self):
        """A value of the configuration gives way; it never stops a run."""
        self.configure({"hang_after": "off", "memory_shared": True})
        for options in ([], ["--kill-on-hang"]):
            self.assertEqual(self.run_both("true", options=options)[1].returncode, 0)
        self.assertEqual(self.run_both("true", options=["--kill-on-hang", "--hang-after", "off"])[1].returncode, 2)
        self.assertEqual(self.run_both("true", options=["--hang-after", "auto"])[1].returncode, 0)

    def test_a_hang_is_reported_after_the_configured_time(self):
        """Two threads that wait for each other: only gpuwhy ends the program."""
        if os.environ.get("GPUWHY_SANITIZE"):
            self.skipTest("a sanitizer's runtime would have to be preloaded into Python")
        self.configure({"hang_after": 1})
        program = BEGIN + """
import threading
a, b, barrier = threading.Lock(), threading.Lock(), threading.Barrier(2)
def take(x, y):
    with x:
        barrier.wait()
        with y:
            pass
threading.Thread(target=take, args=(a, b)).start()
take(b, a)
"""
        done = self.run_gpuwhy("run", "--gpu", GPU, "--kill-on-hang", "--", sys.executable, "-c", program)
        self.assertLess(done.returncode, 0)
        self.assertIn(b"no progress for 1.", done.stderr)

    def test_a_run_goes_on_with_what_is_good(self):
        self.configure('{"quiet": true, "memory": "lots", "nonsense": 1}')
        bare, done = self.run_both("sh", "-c", "echo out; exit 3")
        self.assertEqual((done.returncode, done.stdout), (bare.returncode, bare.stdout))
        self.assertEqual(len(self.recordings()), 1)
        for text in (f"{self.path}:1: memory: expected a size", f'{self.path}:1: unknown key "nonsense"',
                     "old recordings are not removed"):
            self.assertIn(text, done.stderr.decode())

    def test_prune_with_options(self):
        state = self.folder / "state" / "gpuwhy"
        state.mkdir(parents=True, mode=0o700)
        for day in range(1, 6):
            path = state / f"2026010{day}-120000-7.gpuwhy"
            path.write_bytes(b"x")
        self.assertEqual(self.run_gpuwhy("history", "--prune", "--keep-recordings", "2").returncode, 0)
        self.assertEqual(len(self.recordings()), 2)
        self.assertEqual(self.run_gpuwhy("history", "--keep-days", "2").returncode, 2)

    def test_colours(self):
        self.configure({"color": "always"})
        self.assertIn(b"\x1b", self.run_gpuwhy("explain", "700").stdout)
        for words, variables in ((["--color", "never"], {}), ([], {"GPUWHY_COLOR": "never"}), ([], {"NO_COLOR": "1"})):
            done = self.run_gpuwhy("explain", "700", *words, env={**self.environment, **variables})
            self.assertNotIn(b"\x1b", done.stdout)
        done = self.run_gpuwhy("explain", "700", env={**self.environment, "NO_COLOR": "1", "GPUWHY_COLOR": "always"})
        self.assertIn(b"\x1b", done.stdout)

    def test_watch(self):
        self.configure({"watch": {"alarm_at": "0%"}})
        self.assertIn(b"watch.alarm_at: expected", self.run_gpuwhy("watch", "--help").stderr)


class Off(ConfigCase):
    PROGRAM = ("sh", "-c", 'cat; echo "$$ $0 $LD_PRELOAD $GPUWHY_RUN_DIR"; echo err >&2; exit 5')

    def setUp(self):
        super().setUp()
        self.environment.pop("LD_PRELOAD", None)
        self.configure({"off": True})

    def start_real(self, *words, **more):
        return subprocess.Popen([GPUWHY, "run", *words], env=self.environment, cwd=self.folder, stdin=subprocess.PIPE,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)

    def test_the_program_replaces_gpuwhy(self):
        process = self.start_real("--quiet", "--", *self.PROGRAM)
        out, error = process.communicate(b"in\n", WAIT_S)
        self.assertEqual((process.returncode, error), (5, b"err\n"))
        self.assertEqual(out.decode(), f"in\n{process.pid} sh  \n")
        files = ["ls", "/proc/self/fd"]
        bare = subprocess.run(files, stdout=subprocess.PIPE, timeout=WAIT_S)
        self.assertEqual(self.run_real("--quiet", program=files).stdout, bare.stdout)
        self.assertFalse((self.folder / "state").exists())

    def test_a_line_says_so(self):
        done = self.run_real()
        self.assertEqual((done.returncode, done.stderr.decode()),
                         (3, f"gpuwhy: switched off ({self.path}:1): the program runs without gpuwhy\n"))
        self.assertEqual(self.run_real(program=["/no/program"]).returncode, 127)
        self.assertEqual(self.run_real(program=[str(self.path)]).returncode, 126)

    def test_the_variable_switches_on_and_off(self):
        done = self.run_real(env={**self.environment, "GPUWHY_OFF": "0"})
        self.assertEqual(done.returncode, 3)
        self.assertEqual(len(list((self.folder / "state" / "gpuwhy").glob("*.gpuwhy"))), 1)
        self.path.unlink()
        done = self.run_real(env={**self.environment, "GPUWHY_OFF": "1"})
        self.assertEqual((done.returncode, done.stderr.decode()),
                         (3, "gpuwhy: switched off (GPUWHY_OFF): the program runs without gpuwhy\n"))

    def test_the_option_switches_off(self):
        self.path.unlink()
        done = self.run_real("--off", "--json", "-")
        self.assertEqual((done.returncode, done.stdout, done.stderr.decode()),
                         (3, b"", "gpuwhy: switched off (--off): the program runs without gpuwhy\n"))
        done = self.run_real("--off", "--memory", "1GiB")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"--memory does not work while gpuwhy is switched off (--off)", done.stderr)
        self.assertFalse((self.folder / "state").exists())

    def test_what_needs_gpuwhy_is_refused(self):
        """Otherwise the program would use another card, or memory that it must not take."""
        for words in (["--gpu", "virtual:h200"], ["--memory", "1GiB"], ["--inject", "oom@alloc"], ["--fence"]):
            done = self.run_real(*words, program=["sh", "-c", "echo ran"])
            self.assertEqual((done.returncode, done.stdout), (2, b""), words)
            self.assertIn(f"{words[0]} does not work while gpuwhy is switched off", done.stderr.decode())
        for command in ("rehearse", "fit"):
            done = self.run_gpuwhy(command, "--", "sh", "-c", "echo ran {batch}")
            self.assertEqual((done.returncode, done.stdout), (2, b""), command)
            self.assertIn(b"switched off", done.stderr)
        done = self.run_gpuwhy("lab", "check", "--expect", "clean", "--", "sh", "-c", "echo ran")
        self.assertEqual((done.returncode, done.stdout), (1, b""))
        self.assertIn(b"switched off", done.stderr)

    def test_other_commands_work(self):
        for words, status in ((["explain", "700"], 1), (["causes"], 0), (["history"], 0)):
            self.assertEqual(self.run_gpuwhy(*words).returncode, status, words)


class Site(ConfigCase):
    """The site's file, in a mount namespace with an /etc of its own."""

    def setUp(self):
        super().setUp()
        self.site = self.folder / "site"
        self.site.write_text("{}")
        self.etc = self.folder / "etc"
        self.etc.mkdir()
        unshare = ["unshare", "-m"] if os.geteuid() == 0 else ["unshare", "-rm"]
        self.before = [*unshare, "sh", "-c", OWN_ETC, str(self.site), str(self.etc)]
        if shutil.which("unshare") is None or self.inside("true").returncode != 0:
            self.skipTest("cannot mount here")

    def inside(self, *words, mode="644", **variables):
        return self.execute([*self.before, mode, *words], env={**self.environment, **variables})

    def test_the_user_wins_over_the_site(self):
        self.site.write_text('{\n"memory": "1GiB",\n"keep": {"days": 5, "recordings": 7}}')
        self.configure({"keep": {"days": 6}})
        done = self.inside(GPUWHY, "config", "--json", GPUWHY_KEEP_RECORDINGS="8")
        keys = {row["key"]: row for row in json.loads(done.stdout)["keys"]}
        self.assertEqual([(keys[key]["value"], keys[key]["place"]) for key in ("memory", "keep.days", "keep.recordings")],
                         [(1 << 30, f"{SITE}:2"), (6, f"{self.path}:1"), (8, "GPUWHY_KEEP_RECORDINGS")])

    def test_an_error_of_the_site_is_reported_and_the_run_goes_on(self):
        self.site.write_text('{"memory": "lots", "quiet": true}')
        done = self.inside(GPUWHY, "run", "--gpu", GPU, "--", "sh", "-c", "echo out; exit 3")
        self.assertEqual((done.returncode, done.stdout), (3, b"out\n"))
        self.assertIn(f"{SITE}:1: memory: expected a size", done.stderr.decode())
        self.assertEqual(self.inside(GPUWHY, "config", "--check").returncode, 1)

    def test_a_file_that_others_may_write_is_ignored(self):
        self.site.write_text('{"quiet": true}')
        done = self.inside(GPUWHY, "config", "quiet", mode="666")
        self.assertEqual(done.stdout, b"false\n")
        self.assertIn(f"{SITE}: ignored, because other users may write to it (mode 666)", done.stderr.decode())

    def test_an_admin_switches_it_off(self):
        self.site.write_text('{"off": true}')
        done = self.inside(GPUWHY, "run", "--", "sh", "-c", "exit 5")
        self.assertEqual((done.returncode, done.stderr.decode()),
                         (5, f"gpuwhy: switched off ({SITE}:1): the program runs without gpuwhy\n"))
        self.assertEqual(self.inside(GPUWHY, "config", "off", GPUWHY_OFF="0").stdout, b"false\n")

    def test_a_folder_that_others_may_replace_is_not_used(self):
        shared = self.folder / "shared"
        shared.mkdir()
        self.site.write_text(json.dumps({"folder": f"{shared}/%u/runs"}))
        for mode, is_used in ((0o1777, True), (0o777, False)):
            shutil.rmtree(shared)
            shared.mkdir()
            shared.chmod(mode)
            done = self.inside(GPUWHY, "run", "--gpu", GPU, "--", "sh", "-c", "exit 3")
            self.assertEqual(done.returncode, 3)
            self.assertEqual(bool(list(shared.rglob("*.gpuwhy"))), is_used, done.stderr)
            self.assertEqual(b"another user owns or may replace a folder on the way" in done.stderr, not is_used)

    def test_a_file_of_another_user_is_ignored(self):
        if os.geteuid() != 0:
            self.skipTest("needs root to give a file away")
        self.site.write_text('{"quiet": true}')
        done = self.inside("sh", "-c", f'chown 4711 {SITE}; exec "$0" config quiet', GPUWHY)
        self.assertEqual(done.stdout, b"false\n")
        self.assertIn(f"{SITE}: ignored, because it belongs to user 4711, not to root", done.stderr.decode())
