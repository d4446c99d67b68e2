"""Check that check_gpu.py detects errors, with verdicts and programs that each have one error."""

import json
import os
import sys
import tempfile
import unittest

import check_gpu
import scenarios

MIB = 1 << 20


class Options:
    limit, seconds, python = 20, 60, sys.executable


class Judging(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        options = Options()
        options.build = self.folder.name
        self.harness = check_gpu.Harness(options)

    def judge(self, row, verdict, status=1):
        path = os.path.join(self.folder.name, "verdict.json")
        with open(path, "w") as f:
            f.write(verdict if isinstance(verdict, str) else json.dumps(verdict))
        result = {"wrong": [], "verdict": None}
        self.harness.judge(row, path, check_gpu.Finished(status, "", "", 1.0, False), result)
        return result["wrong"]

    def leak(self, **changes):
        verdict = {"status": "fault", "cause": "gpu-oom-leak", "certainty": "established", "program": {"exit": 1},
                   "evidence": [{"text": "kept by the first run", "value": 5000 * MIB, "unit": "bytes"}]}
        verdict.update(changes)
        return verdict

    row = scenarios.Row("S01", "torch", "x", (), "gpu-oom-leak", memory="8GiB",
                        facts=[scenarios.Bytes(4000 * MIB, 6000 * MIB), scenarios.Says("first run")])

    def test_right(self):
        self.assertEqual(self.judge(self.row, self.leak()), [])

    def test_wrong_in_one_way(self):
        for changes in ({"cause": "gpu-oom-capacity"}, {"certainty": "hypothesis"}, {"status": "clean"}, {"evidence": []},
                        {"evidence": [{"text": "first run", "value": 5000, "unit": "bytes"}]},
                        {"evidence": [{"text": "first run", "value": 5000 * MIB, "unit": "count"}]},
                        {"program": {"exit": 0}}, {"cause": None}):
            self.assertNotEqual(self.judge(self.row, self.leak(**changes)), [], changes)

    def test_options_are_given_and_shown(self):
        row = scenarios.Row("S12", "cuda static", "x", (), "illegal-address", options=["--core"])
        self.assertIn("--core", row.name())
        self.assertFalse(row.compare)
        verdict = self.leak(cause="illegal-address")
        self.assertEqual(self.judge(row, verdict, status=-6), [])
        self.assertIn("did not end the process", self.judge(row, verdict, status=1)[0])

    def test_not_determined_is_right_only_where_a_row_says_so(self):
        row = scenarios.Row("L24", "torch", "x", (), ("gpu-oom-capacity", None), certain=("supported",))
        none = self.leak(status="undetermined", cause=None, certainty=None)
        self.assertEqual(self.judge(row, none), [])
        self.assertEqual(self.judge(row, self.leak(cause="gpu-oom-capacity", certainty="supported")), [])
        self.assertNotEqual(self.judge(row, self.leak(cause="gpu-oom-capacity")), [], "established is too much")
        self.assertNotEqual(self.judge(row, self.leak(certainty="supported")), [], "a leak")
        self.assertNotEqual(self.judge(row, {**none, "status": "clean"}), [])
        self.assertNotEqual(self.judge(self.row, none), [], "a row that wants a cause")

    def test_one_pipe_for_both_outputs(self):
        code = "import sys; print(1, flush=True); print(2, file=sys.stderr, flush=True); print(3)"
        self.assertEqual(check_gpu.run([sys.executable, "-c", code], dict(os.environ), "/", 20, merged=True).out, "1\n2\n3\n")
        self.assertEqual(check_gpu.run([sys.executable, "-c", code], dict(os.environ), "/", 20).out, "1\n3\n")
        self.assertFalse(scenarios.Row("L28", "torch", "x", (), "script-exception", merged=True).compare)

    def test_skipped_where_a_module_is_missing(self):
        self.assertIsNone(self.harness.look_for("no_such_module_here") or None)
        row = scenarios.clean("L09", "torch", "x", needs=("no_such_module_here",))
        self.assertIn("no_such_module_here", self.harness.why_skipped(row))
        self.assertIsNone(self.harness.why_skipped(scenarios.clean("L09", "torch", "x")))
        self.harness.devices = 1
        self.assertIn("needs two", self.harness.why_skipped(scenarios.clean("S22", "torch", "x", needs=scenarios.TWO_GPUS)))

    def test_no_verdict(self):
        self.assertNotEqual(self.judge(self.row, "not json"), [])

    def test_twin(self):
        twin = scenarios.clean("S01", "torch", "x")
        good = {"status": "clean", "cause": None, "certainty": None, "program": {"exit": 0}, "evidence": []}
        self.assertEqual(self.judge(twin, good, status=0), [])
        self.assertNotEqual(self.judge(twin, self.leak(), status=0), [])
        self.assertNotEqual(self.judge(twin, {**good, "program": {"exit": 1}}, status=1), [], "a twin that failed")

    def compare(self, code, status, out):
        result = {"wrong": []}
        observed = check_gpu.Finished(status, out, "", 1.0, False)
        self.harness.compare([sys.executable, "-c", code], dict(os.environ), self.folder.name, observed, result)
        return result["wrong"]

    def test_compare(self):
        self.assertEqual(self.compare("print(5)", 0, "5\n"), [])
        self.assertIn("stdout differs", self.compare("print(5)", 0, "6\n")[0])
        self.assertIn("exit status", self.compare("print(5)", 1, "5\n")[0])
        self.assertIn("does not repeat", self.compare("import time; print(time.time())", 0, "5\n")[0])

    def test_time_limit_ends_the_whole_group(self):
        done = check_gpu.run(["sh", "-c", "sleep 60 & sleep 60"], dict(os.environ), "/", 0.5)
        self.assertTrue(done.timed_out)
        self.assertLess(done.seconds, 30)

    def test_every_row_has_its_program(self):
        for row in scenarios.rows():
            kind = {"snapshot": "torch"}.get(row.kind, row.kind.split()[0])
            path = os.path.join(check_gpu.HERE, kind, row.program + (".cu" if kind == "cuda" else ".py"))
            self.assertTrue(os.path.exists(path), path)


if __name__ == "__main__":
    unittest.main()
