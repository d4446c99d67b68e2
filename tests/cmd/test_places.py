"""Where recordings are stored, and what happens if they cannot be stored there."""
import pathlib

from support import Case, GPU, GPUWHY


class Places(Case):
    def recordings(self):
        return sorted((self.folder / "state" / "gpuwhy").glob("*.gpuwhy"))

    def test_the_standard_place_is_private(self):
        self.run_both("true")
        found = self.recordings()
        self.assertEqual(len(found), 1)
        self.assertEqual(found[0].stat().st_mode & 0o777, 0o600)
        self.assertEqual(found[0].parent.stat().st_mode & 0o777, 0o700)
        self.assertRegex(found[0].name, r"^\d{8}-\d{6}-\d+\.gpuwhy$")

    def test_a_given_place_with_spaces(self):
        path = self.folder / "my run.gpuwhy"
        self.run_both("true", options=["-o", str(path)])
        self.assertTrue(path.exists())
        self.assertEqual(self.recordings(), [])

    def test_what_exists_is_never_overwritten(self):
        path = self.folder / "precious"
        path.write_text("precious")
        _, observed = self.run_both("sh", "-c", "echo ran", options=["-o", str(path)])
        self.assertEqual((observed.returncode, observed.stdout), (2, b""))
        self.assertEqual(path.read_text(), "precious")

    def test_an_unwritable_place_of_an_option_is_refused(self):
        """A place of the configuration stops nobody; see test_config.py."""
        _, observed = self.run_both("sh", "-c", "echo ran; exit 3", options=["-o", "/proc/none/x.gpuwhy"])
        self.assertEqual((observed.returncode, observed.stdout), (2, b""))
        self.assertIn(b"-o /proc/none/x.gpuwhy: ", observed.stderr)

    def test_no_home_stops_nobody(self):
        for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "HOME"):
            self.environment[name] = "/proc/none"
        plain, observed = self.run_both("sh", "-c", "echo ran; exit 3")
        self.assertEqual((plain.returncode, plain.stdout), (observed.returncode, observed.stdout))

    def test_a_home_with_spaces_and_colons_still_loads(self):
        """LD_PRELOAD is split at spaces and colons; the loader prints on the program's stderr what it cannot find."""
        odd = self.folder / "a b:c"
        odd.mkdir()
        self.environment["HOME"] = self.environment["XDG_CACHE_HOME"] = str(odd)
        _, observed = self.run_both("env")
        self.assertEqual(observed.stderr, b"")
        preload = [l for l in observed.stdout.decode().splitlines() if l.startswith("LD_PRELOAD=")][0]
        first = preload.split("=", 1)[1].split(":")[-1]
        self.assertTrue(pathlib.Path(first).exists(), first)

    def test_an_older_preload_is_kept(self):
        self.environment["LD_PRELOAD"] = "libm.so.6"
        _, observed = self.run_both("env")
        preload = [l for l in observed.stdout.decode().splitlines() if l.startswith("LD_PRELOAD=")][0]
        self.assertRegex(preload, r"libcuda\.so\.1:.*libm\.so\.6$")

    def test_explain_takes_the_last_one(self):
        self.run_both("sh", "-c", "exit 3")
        done = self.run_gpuwhy("explain")
        self.assertIn(done.returncode, (0, 1))
        self.assertIn(b"exited 3", done.stdout)

    def test_no_recording_yet_is_said(self):
        done = self.run_gpuwhy("explain")
        self.assertEqual(done.returncode, 2)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_the_program_runs_where_gpuwhy_lies_behind_spaces(self):
        link = self.folder / "bin dir"
        link.symlink_to(pathlib.Path(GPUWHY).parent)
        done = self.execute([link / "gpuwhy", "run", "--gpu", GPU, "--quiet", "--", "sh", "-c", "exit 4"])
        self.assertEqual(done.returncode, 4)


class Arguments(Case):
    def test_wrong_ones_are_named_in_one_line(self):
        for arguments in (["run", "--nonsense", "--", "true"], ["run", "--memory", "lots", "--", "true"], ["run"],
                          ["run", "--gpu", "quantum", "--", "true"], ["run", "--gpu", "virtual:", "--", "true"],
                          ["nonsense"], ["explain", "--nonsense"], ["causes", "nonsense"], ["explain", "/no/file"],
                          ["help", "nonsense"]):
            done = self.run_gpuwhy(*arguments)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_every_command_has_help(self):
        overview = self.run_gpuwhy("help").stdout.decode()
        names = [line.split()[0] for line in overview.split("commands:\n")[1].split("\n\n")[0].splitlines()
                 if line.startswith("  ")]
        self.assertIn("run", names)
        for name in names:
            done = self.run_gpuwhy("help", name)
            self.assertEqual(done.returncode, 0, name)
            self.assertTrue(done.stdout, name)

    def test_the_programs_own_options_are_its_own(self):
        _, observed = self.run_both("echo", "--quiet", "-o", "x", "--help")
        self.assertEqual(observed.stdout, b"--quiet -o x --help\n")
