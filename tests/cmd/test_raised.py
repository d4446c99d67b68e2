"""The exception that ended a Python program, wherever its output went. It is read inside the process if stderr does
not have it."""
import json
import pathlib
import subprocess
import sys

from support import BEGIN, PythonCase, lines_of, run_command


def interpreters():
    """Return this interpreter, and one of each other version that is installed beside it."""
    found = {sys.version_info[:2]: sys.executable}
    roots = [pathlib.Path(sys.base_prefix).parent, pathlib.Path("/usr")]
    for root in roots:
        for path in sorted([*root.glob("*/bin/python3.*"), *root.glob("bin/python3.*")]):
            name = path.name.removeprefix("python3.")
            if name.isdigit() and int(name) >= 9:
                found.setdefault((3, int(name)), str(path))
    return found


class Raised(PythonCase):
    def setUp(self):
        super().setUp()
        self.program = self.folder / "train.py"

    def verdict_of(self, body, shell="2>/dev/null", python=sys.executable, status=1, options=(), begin=BEGIN):
        self.program.write_text(begin + body)
        argv = run_command(python, str(self.program), options=["--json", str(self.json), *options])
        line = " ".join(f"'{word}'" for word in argv) + " " + shell
        self.json.unlink(missing_ok=True)
        done = self.execute(["bash", "-o", "pipefail", "-c", line], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertEqual(done.returncode, status)
        return json.loads(self.json.read_text())

    def texts(self, verdict, source=None):
        return [e["text"] for e in verdict["evidence"] if source in (None, e["source"])]

    def assert_raised(self, verdict, message, certainty="established", source=None):
        self.assertEqual((verdict["cause"], verdict["certainty"]), ("script-exception", certainty), verdict["headline"])
        self.assertIn(message, self.texts(verdict, source), verdict["evidence"])

    def test_wherever_it_went(self):
        body = "def step(x):\n    raise ValueError('bad label %d' % x)\nprint('epoch 1')\nstep(7)\n"
        for shell, source in (("2>/dev/null", "python"), (">/dev/null 2>&1", "python"), ("2>&1 | tee log >/dev/null", "stderr"),
                              ("> log 2>&1", "stderr"), ("&> log", "stderr"), ("2> log", "stderr"), ("2>&1 | cat > log", "stderr"),
                              ("2>&-", "python"), ("2> >(cat >/dev/null)", "stderr")):
            with self.subTest(shell):
                verdict = self.verdict_of(body, shell)
                self.assert_raised(verdict, "ValueError: bad label 7", source=source)
                self.assertTrue(any(f'File "{self.program}", line 10, in step' in t for t in self.texts(verdict, source)))
                self.assertEqual(verdict["coverage"]["processes"], 1)
        self.assert_raised(self.verdict_of(body, options=["--no-stderr"]), "ValueError: bad label 7", source="python")

    def test_every_version(self):
        for version, python in interpreters().items():
            with self.subTest(version):
                verdict = self.verdict_of("{}['missing']\n", python=python)
                self.assert_raised(verdict, "KeyError: 'missing'", source="python")

    def test_a_failed_call_is_why_only_where_nobody_caught_its_exception(self):
        """On a machine without a GPU: the exception is raised, or printed or ignored until the program ends
        silently."""
        begin = ("import ctypes, os, sys, time, traceback\ndef begin():\n    if ctypes.CDLL('libcuda.so.1').cuInit(0) != 0:\n"
                 "        raise RuntimeError('cuInit failed: CUDA_ERROR_NO_DEVICE')\n")
        caught = "try:\n    begin()\nexcept RuntimeError:\n    {}\ntime.sleep(0.2)\nos._exit(1)\n"
        for body, certainty in (("begin()\n", "established"), (caught.format("traceback.print_exc()"), "supported"),
                                (caught.format("pass"), "supported")):
            with self.subTest(body):
                verdict = self.verdict_of(body, "2> log", options=["--gpu", "virtual:h200,memory=1GiB,fault=init:100"], begin=begin)
                self.assertEqual((verdict["cause"], verdict["certainty"]), ("no-device-visible", certainty))

    def test_swallowed_by_a_hook(self):
        """The program prints another text instead of the exception, and that text is the last line on stderr."""
        body = "sys.excepthook = lambda *a: print('training failed', file=sys.stderr)\nopen('/no/such/file')\n"
        verdict = self.verdict_of(body, "2> log")
        self.assert_raised(verdict, "FileNotFoundError: [Errno 2] No such file or directory: '/no/such/file'", source="python")

    def test_chains_and_types_of_its_own(self):
        body = ("class Bad(RuntimeError):\n    pass\ntry:\n    {}['x']\nexcept KeyError as e:\n    raise Bad('two\\nlines') from e\n")
        verdict = self.verdict_of(body)
        self.assert_raised(verdict, "Bad: two", source="python")

    def test_code_of_the_program_is_not_run(self):
        """Neither a custom text nor replaced attributes are evaluated; the type, or the first argument, is used
        instead."""
        body = ("class Text(Exception):\n"
                "    def __str__(self):\n        open('ran', 'a').write('str ')\n        return 'made'\n"
                "    def __getattribute__(self, name):\n        open('ran', 'a').write(name + ' ')\n"
                "        return super().__getattribute__(name)\n"
                "class Odd:\n    def __str__(self):\n        open('ran', 'a').write('odd ')\n        return 'odd'\n    __repr__ = __str__\n"
                "sys.excepthook = lambda *a: None\n")
        for what, text in (("Text('first')", "Text: first"), ("ValueError(Odd())", "ValueError"),
                           ("OSError(2, 'gone', Odd())", "FileNotFoundError")):
            with self.subTest(what):
                verdict = self.verdict_of(body + f"raise {what}\n")
                self.assert_raised(verdict, text, source="python")
                self.assertEqual(lines_of(self.folder / "ran"), [])

    def test_deep_recursion(self):
        verdict = self.verdict_of("def f(n):\n    return f(n + 1)\nf(0)\n")
        self.assertTrue(any(t.startswith("RecursionError: maximum recursion depth") for t in self.texts(verdict, "python")))

    def test_no_exception_ended_it(self):
        for body, status in (("try:\n    1 / 0\nexcept ZeroDivisionError:\n    pass\n", 0),
                             ("sys.exit(3)\n", 3), ("sys.exit('no labels')\n", 1), ("os._exit(1)\n", 1),
                             ("sys.last_exc = sys.last_value = 'nonsense'\nsys.exit(1)\n", 1),
                             ("sys.last_value = sys.last_exc = ValueError('an old one')\n", 0),
                             ("sys.last_value = sys.last_exc = ValueError('an old one')\nsys.exit(3)\n", 3)):
            with self.subTest(body):
                verdict = self.verdict_of(body, status=status)
                self.assertIsNone(verdict["cause"])
                self.assertEqual(verdict["status"], "clean" if status == 0 else "undetermined")

    def test_an_older_exception_is_not_established(self):
        body = "try:\n    1 / 0\nexcept ZeroDivisionError as e:\n    sys.last_value = sys.last_exc = e.with_traceback(None)\nsys.exit(1)\n"
        verdict = self.verdict_of(body)
        self.assertNotEqual(verdict["certainty"], "established")

    def test_a_forked_child(self):
        body = ("pid = os.fork()\nif pid == 0:\n    raise ValueError('in the child')\n"
                "sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))\n")
        verdict = self.verdict_of(body,)
        self.assertNotEqual(verdict["certainty"], "established", "the child made no driver call, and the parent did not raise")

    def test_out_of_memory_is_what_it_was(self):
        body = ("class OutOfMemoryError(RuntimeError):\n    pass\n"
                "pointer = ctypes.c_uint64()\nkept = 0\nwhile cu.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(16 << 30)) == 0:\n"
                "    kept += 1\nraise OutOfMemoryError('CUDA out of memory. Tried to allocate 16.00 GiB.')\n")
        verdict = self.verdict_of(body)
        self.assertTrue(verdict["cause"].startswith("gpu-oom"), verdict["headline"])

    def test_the_last_lines_are_quoted(self):
        body = "print('one\\ntwo\\nthree', flush=True)\nprint('four', file=sys.stderr, flush=True)\nos._exit(5)\n"
        for shell in ("2>&1 | tee log >/dev/null", "> log 2>&1"):
            verdict = self.verdict_of(body, shell, status=5)
            self.assertEqual(self.texts(verdict, "output"), ["last output: two", "three", "four"])
            self.assertNotIn("printed no reason", verdict["headline"])
        self.assertEqual(self.texts(self.verdict_of(body, "2> log", status=5), "stderr"), ["last output: four"])
        self.assertIn("printed no reason", self.verdict_of("os._exit(5)\n", "> log 2>&1", status=5)["headline"])
        self.assertNotIn("printed no reason", self.verdict_of("os._exit(5)\n", "2> /dev/null", status=5)["headline"])
