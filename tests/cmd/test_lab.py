"""`gpuwhy lab`: every lesson and its repaired twin give the verdict of the lesson's table, and the table agrees with that
of the end-to-end tests."""
import concurrent.futures
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "e2e"))
from support import GPU, GPUWHY, WAIT_S, Case
import json_schemas

os.environ.setdefault("GPUWHY_BUILD", str(pathlib.Path(GPUWHY).parent))
import scenarios

SANITIZE = os.environ.get("GPUWHY_SANITIZE", "")
# Lessons whose scenario has another name in the table of the end-to-end tests. Those of e2e/hangs.py have none there.
NAMES = {"S15": "S15-threads", "S25": "S25-lost", "S26": "S26-arch", "S28": "S28-segfault", "S29": "S29-twice",
         "S32": "S32-pointer", "S33": "S33-block", "S36": "S36-address"}
HANGS = {"S27", "S27b"}
WASTE = scenarios.SCENARIOS / "waste"


def words_of(argv):
    """Return the program's name and its arguments, without the file for the truth."""
    words = [str(word) for word in argv]
    return pathlib.Path(words[0]).name, " ".join(words[1:-2])


class Lab(Case):
    def lessons(self):
        done = self.run_gpuwhy("lab", "list", "--json")
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)["lessons"]

    def runnable(self):
        return [lesson for lesson in self.lessons() if lesson["by_hand"] is None]

    def check(self, *words, status, **more):
        done = self.run_gpuwhy("lab", "check", *words, **more)
        self.assertEqual(done.returncode, status, done.stdout.decode() + done.stderr.decode())
        return done.stdout.decode()

    def test_a_lesson_leaves_the_folder_of_the_user_alone(self):
        (self.folder / "weights.bin").write_text("mine")
        (self.folder / "tmp").mkdir()
        done = self.run_gpuwhy("lab", "run", "S01", env=self.environment | {"TMPDIR": str(self.folder / "tmp")}, cwd=self.folder)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual((self.folder / "weights.bin").read_text(), "mine")
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_an_interrupt_ends_the_lesson(self):
        """As ^C does: it reaches all processes of the group. There is no grade for half of a lesson."""
        (self.folder / "tmp").mkdir()
        started = self.folder / "started"
        with subprocess.Popen([GPUWHY, "lab", "check", "--expect", "clean", "--", "sh", "-c", f"touch '{started}'; exec sleep 600"],
                              env=self.environment | {"TMPDIR": str(self.folder / "tmp")}, start_new_session=True,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            deadline = time.monotonic() + WAIT_S
            while not started.exists():
                self.assertLess(time.monotonic(), deadline)
                time.sleep(0.02)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=WAIT_S)
        self.assertEqual((process.returncode, out), (-signal.SIGINT, ""), err)
        self.assertIn("died of signal 2", " ".join(err.split()))
        self.assertEqual(list((self.folder / "tmp").iterdir()), [])

    def test_the_json_of_the_run_is_not_ignored(self):
        done = self.run_gpuwhy("lab", "check", "--expect", "clean", "--run-option=--json=x", "--", "true")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"use --json of lab check", done.stderr)

    def test_options_of_all_commands_and_help(self):
        self.assertEqual(self.run_gpuwhy("lab", "--color", "never", "list").returncode, 0)
        for words in ["-h"], ["--help"], ["list", "-h"], ["run", "-h"], ["check", "-h"]:
            done = self.run_gpuwhy("lab", *words)
            self.assertEqual((done.returncode, done.stderr), (0, b""), words)
            self.assertIn(b"gpuwhy lab run ID", done.stdout)

    def test_the_list_names_every_scenario(self):
        lessons = self.lessons()
        lines = self.run_gpuwhy("lab", "list").stdout.decode().splitlines()
        self.assertEqual([line.split()[0] for line in lines], [lesson["id"] for lesson in lessons])
        self.assertEqual({lesson["id"][:3] for lesson in lessons}, {f"S{number:02}" for number in range(1, 38)})
        causes = {line.split()[0] for line in self.run_gpuwhy("causes").stdout.decode().splitlines()}
        for lesson in lessons:
            self.assertTrue(lesson["cause"] is None or lesson["cause"] in causes, lesson)

    @unittest.skipIf(SANITIZE, "under a sanitizer, the scenarios have other sizes")
    def test_the_table_agrees_with_the_scenarios(self):
        for lesson in self.runnable():
            if lesson["id"] in HANGS:
                continue
            scenario = scenarios.TABLE[NAMES.get(lesson["id"], lesson["id"])]
            self.assertEqual(lesson["cause"], scenario.cause, lesson["id"])
            self.assertEqual((lesson["program"], lesson["arguments"]), words_of(scenario.argv), lesson["id"])
            self.assertEqual(lesson["card"], scenario.card.specification(), lesson["id"])
            self.assertEqual(lesson["run_options"] or "", " ".join(scenario.options), lesson["id"])
            self.assertEqual(lesson["real_gpu"], scenario.on == "both", lesson["id"])
            if scenario.twin is None:
                self.assertIsNone(lesson["repaired_arguments"], lesson["id"])
            else:
                self.assertEqual((lesson["program"], lesson["repaired_arguments"]), words_of(scenario.twin), lesson["id"])
                self.assertEqual(lesson["repaired_card"], scenario.twin_card.specification(), lesson["id"])

    def run_lesson(self, words):
        done = self.run_gpuwhy("lab", "run", "--json", *words)
        return words, done.returncode, done.stdout.decode(), done.stderr.decode()

    @unittest.skipIf(SANITIZE, "a sanitizer's runtime would have to be preloaded into the programs")
    def test_every_lesson_and_its_twin(self):
        lessons = {lesson["id"]: lesson for lesson in self.runnable()}
        runs = [[id] for id in lessons]
        runs += [[id, "--repaired"] for id, lesson in lessons.items() if lesson["repaired_arguments"] is not None]
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for words, status, out, err in pool.map(self.run_lesson, runs):
                self.assertEqual(status, 0, f"{words}: {out}{err}")
                result = json_schemas.check(json.loads(out))
                wanted = None if "--repaired" in words else lessons[words[0]]["cause"]
                self.assertEqual((result["lesson"], result["passed"], result["found"]["cause"]), (words[0], True, wanted))
                self.assertEqual(result["found"]["status"], "clean" if wanted is None else "fault")
                for label in ("What happens", "Often thought", "What to do"):
                    self.assertIn(label, err)
        self.assertGreater(len(runs), 40)

    @unittest.skipIf(SANITIZE, "a sanitizer's runtime would have to be preloaded into the program")
    def test_a_lesson_for_a_reader(self):
        done = self.run_gpuwhy("lab", "run", "s15")
        out, err = done.stdout.decode(), done.stderr.decode()
        self.assertEqual(done.returncode, 0, out + err)
        self.assertIn("$ gpuwhy run --gpu virtual:h200 -- s15_launch_config\n", out)
        self.assertIn("Verdict  launch-config-invalid", err)
        self.assertRegex(out.splitlines()[-1], r"^passed: expected launch-config-invalid, found launch-config-invalid \(")
        self.assertLessEqual(max(map(len, out.splitlines()[:-1])), 80)
        explained = self.run_gpuwhy("explain").stdout.decode()
        self.assertIn("launch-config-invalid", explained)

    def test_the_source_is_printed(self):
        for lesson in self.runnable():
            done = self.run_gpuwhy("lab", "run", lesson["id"], "--source")
            self.assertEqual(done.returncode, 0, done.stderr)
            source = ROOT / "tests" / "scenarios" / "driver" / f"{lesson['program']}.c"
            source = source if source.exists() else ROOT / "examples" / "cnn" / "cnn.c"
            self.assertEqual(done.stdout, source.read_bytes(), lesson["id"])

    def test_files_named_by_hand_exist(self):
        for lesson in self.lessons():
            if lesson["by_hand"] is None:
                continue
            for word in lesson["by_hand"].split():
                self.assertTrue(not word.startswith("tests/") or (ROOT / word).exists(), lesson)
            done = self.run_gpuwhy("lab", "run", lesson["id"])
            self.assertEqual(done.returncode, 2)
            self.assertIn(lesson["by_hand"], done.stderr.decode())

    @unittest.skipIf(SANITIZE, "a sanitizer's runtime would have to be preloaded into the programs")
    def test_check_grades_any_program(self):
        leak = [scenarios.CNN, "--batch", "512", "--iterations", "1000", "--leak-batch"]
        card = ["--gpu", f"{GPU},memory=2GiB"]
        self.check(*leak, "--expect", "gpu-oom-leak", *card, status=0)
        self.check(*card, "--expect", "gpu-oom-leak", "--", *leak, status=0)
        self.check("--expect=gpu-oom-leak", "--run-option=--memory=2GiB", "--", *leak, status=0)
        line = self.check(*leak, "--expect", "gpu-oom-capacity", *card, status=1).splitlines()[-1]
        self.assertEqual(line, "failed: expected gpu-oom-capacity, found gpu-oom-leak (supported)")
        self.check(*leak, "--expect", "gpu-oom-leak", "--certainty", "established", *card, status=1)
        self.check(*leak, "--expect", "clean", *card, status=1)
        self.check(scenarios.CNN, "--expect", "clean", status=0)
        self.check(scenarios.CNN, "--expect", "gpu-oom-leak", status=1)
        self.check(WASTE, "--expect", "sync-storm", status=0)  # advice of a clean run
        self.check(WASTE, "--repaired", "--expect", "sync-storm", status=1)
        self.check(scenarios.SCENARIOS / "s15_launch_config", "--expect", "launch-config-invalid", "--certainty=established",
                   status=0)

    def test_check_as_json_and_statuses(self):
        shell = ["sh", "-c", "echo printed; exit 3"]
        done = self.run_gpuwhy("lab", "check", *shell, "--expect", "clean", "--json")
        result = json.loads(done.stdout)
        self.assertEqual((done.returncode, result["passed"], result["lesson"]), (1, False, None))
        self.assertEqual(result["expected"], {"cause": None, "certainty": None})
        self.assertEqual((result["found"]["status"], result["found"]["cause"]), ("undetermined", None))
        self.assertFalse(result["found"]["observed"])
        self.assertIn(b"printed", done.stderr)
        self.assertTrue(pathlib.Path(result["recording"]).exists())
        self.check("/no/such/program", "--expect", "clean", status=127)
        # All words before the last --expect belong to the program.
        lines = self.check("echo", "--expect", "x", "--expect", "clean", status=1).splitlines()
        self.assertEqual(lines, ["--expect x", "failed: expected clean, found undetermined, but no CUDA driver call was observed"])
        temporary = self.folder / "temporary"
        temporary.mkdir()
        self.check("true", "--expect", "clean", status=1, env={**self.environment, "TMPDIR": str(temporary)})
        self.assertEqual(list(temporary.iterdir()), [])

    def test_mistakes_are_named(self):
        for words, says in (((), "must be list, run or check"), (("play",), "play: must be"),
                            (("list", "x"), "takes no x"), (("run",), "needs the id"), (("run", "S99"), "unknown lesson S99"),
                            (("run", "S01", "S04"), "one lesson"), (("run", "S02", "--repaired"), "has no repaired program"),
                            (("run", "S10", "--gpu", "real"), "needs the virtual card"),
                            (("run", "S01", "--gpu", "x"), "must be virtual or real"),
                            (("check",), "needs a program"), (("check", "true"), "needs --expect"),
                            (("check", "true", "--expect", "gpu-oom-leek"), "did you mean gpu-oom-leak?"),
                            (("check", "true", "--expect", "clean", "--certainty", "x"), "--certainty x"),
                            (("check", "true", "--expect", "clean", "--run-option", "--x"), "--x"),
                            (("check", "true", "--expect", "clean", "--gpu", "virtual:x"), "unknown card")):
            done = self.run_gpuwhy("lab", *words)
            self.assertEqual(done.returncode, 2, (words, done.stderr))
            self.assertEqual(len(done.stderr.splitlines()), 1, (words, done.stderr))
            self.assertIn(says, done.stderr.decode(), words)
