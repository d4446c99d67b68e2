"""`gpuwhy version`: every library has a name and a version, or the reason why it is missing."""
import re
import subprocess
import unittest

from support import GPUWHY

PARTS = {"JSON": ["json-c"], "compression": ["zstd"], "symbols, core dumps": ["elfutils"], "past runs": ["SQLite"],
         "text logs": ["Hyperscan", "PCRE2"], "text logs in gzip": ["zlib"], "text logs in xz": ["liblzma"],
         "screen of watch": ["ncurses"], "watch --listen": ["libmicrohttpd"], "HTML reports": ["dygraphs"]}


class Version(unittest.TestCase):
    def test_every_part_has_a_version(self):
        lines = subprocess.run([GPUWHY, "version"], capture_output=True, text=True, check=True).stdout.splitlines()
        self.assertRegex(lines[0], r"^gpuwhy \d+\.\d+\.\d+$")
        told = dict(line.split(":", maxsplit=1) for line in lines[1:])
        self.assertEqual(list(told), list(PARTS))
        for part, libraries in PARTS.items():
            with_versions = ", ".join(re.escape(library) + r" \d+\.[\d.]*\d" for library in libraries)
            without = re.escape(f"no (built without {' and '.join(libraries)})")
            self.assertRegex(told[part].strip(), f"^({with_versions}|{without})$")
