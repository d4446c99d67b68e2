"""The systemd unit of `gpuwhy watch --listen`: systemd accepts it, it is confined, and its command serves metrics."""
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest
import urllib.request

from support import GPUWHY, WAIT_S, Case

UNIT = pathlib.Path(os.environ["GPUWHY_SOURCE"]) / "packaging" / "systemd" / "gpuwhy-watch.service.in"
EXPOSURE_MAX = 30  # of `systemd-analyze security`, from 0 to 100; 23 with systemd 252


class Unit(Case):
    def setUp(self):
        super().setUp()
        self.text = UNIT.read_text().replace("@CMAKE_INSTALL_FULL_BINDIR@/gpuwhy", GPUWHY)
        self.path = self.folder / "gpuwhy-watch.service"
        self.path.write_text(self.text)

    def analyze(self, *words):
        if shutil.which("systemd-analyze") is None:
            self.skipTest("systemd-analyze is missing")
        return subprocess.run(["systemd-analyze", *words, self.path], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                              text=True, timeout=WAIT_S)

    def test_systemd_accepts_it(self):
        done = self.analyze("verify", "--man=no")
        self.assertEqual((done.returncode, done.stdout), (0, ""))
        self.path.write_text(self.text.replace("ProtectClock=yes", "ProtectClocks=yes"))
        self.assertIn("Unknown key", self.analyze("verify", "--man=no").stdout)  # it finds mistakes

    def test_it_is_confined(self):
        done = self.analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}")
        self.assertEqual(done.returncode, 0, done.stdout)

    @unittest.skipUnless(os.environ["HAVE_MICROHTTPD"] == "1", "this build has no libmicrohttpd")
    def test_its_command_serves_metrics(self):
        [command] = re.findall(r"(?m)^ExecStart=(.*)$", self.text)
        words = command.split()
        self.assertEqual(words[:4], [GPUWHY, "watch", "--listen", "127.0.0.1:9465"])
        words[3] = "127.0.0.1:0"
        with subprocess.Popen(words, env=self.environment, stderr=subprocess.PIPE, text=True) as process:
            found = re.search(r"http://\S+/metrics", process.stderr.readline())
            with urllib.request.urlopen(found[0], timeout=WAIT_S) as answer:
                self.assertIn(b"gpuwhy_gpus_readable 1", answer.read())
            process.send_signal(signal.SIGTERM)
            self.assertEqual(process.wait(WAIT_S), 0)
