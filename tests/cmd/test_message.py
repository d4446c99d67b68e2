"""`gpuwhy run --message FILE`: a short text about a failure, as for the termination message of a container."""
import shlex
import sys

from support import BEGIN, Case, PythonCase

MESSAGE_BYTES_MAX = 4096


class Message(Case):
    """How the file is written. The programs are shell lines."""

    def setUp(self):
        super().setUp()
        self.path = self.folder / "message"

    def observe(self, line, path=None):
        return self.run_gpuwhy("run", "--gpu", "virtual:h200", "--quiet", "--message", path or self.path, "--", "sh", "-c",
                               line)

    def test_a_failure_is_written(self):
        self.assertEqual(self.observe("exit 3").returncode, 3)
        self.assertRegex(self.path.read_text(), r"(?s)\Agpuwhy: sh -c 'exit 3' exited 3 after .*\nVerdict  not determined: ")

    def test_a_signal_is_a_failure(self):
        self.observe("kill -SEGV $$")
        self.assertIn("died of signal 11", self.path.read_text())

    def test_a_clean_run_writes_nothing(self):
        self.assertEqual(self.observe("true").returncode, 0)
        self.assertFalse(self.path.exists())
        self.path.write_text("from before\n")
        self.assertEqual(self.observe("true").returncode, 0)
        self.assertEqual(self.path.read_text(), "from before\n")

    def test_older_text_is_replaced(self):
        self.path.write_text("from before\n" * 1000)
        self.observe("exit 3")
        self.assertRegex(self.path.read_text(), r"\Agpuwhy: ")
        self.assertLess(self.path.stat().st_size, 1000)

    def test_the_text_of_the_program_stays(self):
        def written(count):
            file = shlex.quote(str(self.path))
            done = self.observe(f"printf 'epoch 3: %0{count}d' 0 > {file}; exit 3")
            return done, self.path.read_text()
        self.assertRegex(written(10)[1], r"\Aepoch 3: 0{10}\ngpuwhy: ")
        _, text = written(MESSAGE_BYTES_MAX - 250)  # what is left is less than the message needs
        self.assertLessEqual(len(text), MESSAGE_BYTES_MAX)
        self.assertRegex(text, r"(?s)\Aepoch 3: 0+\ngpuwhy: .*\n\(cut here\)\n\Z")
        done, text = written(5000)
        self.assertRegex(text, r"\Aepoch 3: 0{5000}\Z")
        self.assertIn(b"no room for the verdict", done.stderr)

    def test_a_full_disk_is_one_sentence(self):
        done = self.observe("exit 3", "/dev/full")
        self.assertEqual((done.returncode, done.stderr.splitlines()[0]),
                         (3, b"gpuwhy: --message /dev/full: No space left on device"))


class Cause(PythonCase):
    def test_the_cause_the_place_and_the_recording(self):
        path = self.folder / "message"
        program = BEGIN + "assert cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 50)) == 0\n"
        done = self.run_gpuwhy("run", "--gpu", "virtual:h200", "--quiet", "--message", path, "--", sys.executable, "-c",
                               program)
        self.assertEqual(done.returncode, 1)
        text = path.read_text()
        self.assertIn("\nVerdict  gpu-oom-", text)
        labels = [line.split()[0] for line in text.splitlines() if line[:1].isalpha() and not line.startswith("gpuwhy:")]
        self.assertEqual(labels, ["Verdict", "Where", "Next", "Details", "Why"], text)
        self.assertIn(f"gpuwhy explain '{self.folder}/state/gpuwhy/", " ".join(text.split()))
        self.assertTrue(all(len(line) <= 72 or "/" in line for line in text.splitlines()), text)
