"""`gpuwhy run --message FILE`: a short text about a failure, as for the termination message of a container."""
import os
import sys
import unittest

from support import BEGIN, PythonCase

FAIL = BEGIN + 'assert cu.cuMemAlloc_v2(ctypes.byref(ctypes.c_uint64()), ctypes.c_size_t(1 << 50)) == 0, "the card is full"\n'
MESSAGE_BYTES_MAX = 4096


class Message(PythonCase):
    def setUp(self):
        super().setUp()
        self.path = self.folder / "message"

    def observe(self, program, path=None, **more):
        return self.run_gpuwhy("run", "--gpu", "virtual:h200", "--quiet", "--message", path or self.path, "--",
                               sys.executable, "-c", program, **more)

    def test_a_failure_is_written_and_names_its_recording(self):
        done = self.observe(FAIL)
        self.assertEqual(done.returncode, 1)
        text = self.path.read_text()
        words = " ".join(text.split())
        self.assertRegex(words, r"\Agpuwhy: .* exited 1 after")
        self.assertIn("\nVerdict  gpu-oom-", text)
        labels = [line.split()[0] for line in text.splitlines() if line[:1].isalpha() and not line.startswith("gpuwhy:")]
        self.assertEqual(labels, ["Verdict", "Where", "Next", "Details", "Why"], text)
        self.assertIn(f"gpuwhy explain {self.folder}/state/gpuwhy/", words)
        self.assertTrue(all(len(line) <= 72 or "/" in line for line in text.splitlines()), text)
        self.assertNotIn(b"--message:", done.stderr)

    def test_a_clean_run_writes_nothing(self):
        self.assertEqual(self.observe(BEGIN).returncode, 0)
        self.assertFalse(self.path.exists())
        self.path.write_text("from before\n")
        self.assertEqual(self.observe(BEGIN).returncode, 0)
        self.assertEqual(self.path.read_text(), "from before\n")

    def test_a_failure_without_a_cause_is_written(self):
        self.assertEqual(self.observe(BEGIN + "sys.exit(3)").returncode, 3)
        self.assertIn("exited 3", self.path.read_text())

    def test_older_text_is_replaced(self):
        self.path.write_text("from before\n" * 1000)
        self.observe(FAIL)
        text = self.path.read_text()
        self.assertNotIn("from before", text)
        self.assertIn("Verdict", text)

    def test_the_text_of_the_program_stays(self):
        write = f"open({str(self.path)!r}, 'w').write('epoch 3: ' + 'x' * {{}})\n"
        self.observe(write.format(10) + FAIL)
        self.assertRegex(self.path.read_text(), r"\Aepoch 3: x{10}\ngpuwhy: ")
        # What is left is less than the message needs.
        self.observe(write.format(MESSAGE_BYTES_MAX - 400) + FAIL)
        text = self.path.read_text()
        self.assertLessEqual(len(text), MESSAGE_BYTES_MAX)
        self.assertRegex(text, r"(?s)\Aepoch 3: x+\ngpuwhy: .*\n\(cut here\)\n\Z")
        done = self.observe(write.format(5000) + FAIL)
        self.assertRegex(self.path.read_text(), r"\Aepoch 3: x{5000}\Z")
        self.assertIn(b"no room for the verdict", done.stderr)

    def test_what_cannot_be_written_is_one_sentence(self):
        os.mkfifo(self.folder / "pipe")
        for path in (self.folder, self.folder / "missing" / "file", self.folder / "pipe", "/dev/full"):
            done = self.observe(FAIL, path)
            self.assertEqual(done.returncode, 1, path)
            said = [line for line in done.stderr.decode().splitlines() if line.startswith("gpuwhy: --message")]
            self.assertEqual(len(said), 1, done.stderr)
            self.assertIn(str(path), said[0])
            self.assertIn(b"Verdict", done.stderr)


if __name__ == "__main__":
    unittest.main()
