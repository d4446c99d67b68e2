"""Run size.py in a small repository: it must count right, and complain about each way to outgrow or forget a budget."""
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
CODE = """\
/* A comment
 * of two lines, with "quotes". */
#include <stdio.h>

const char *url = "http://x"; // code with a comment
// only a comment
char quote = '"'; /* begins here
  and ends here */
int f(void);
"""
PAGE = """\
| room | product | tests | what it is for |
|---|---|---|---|
| `src/base` | 9 | 2 | a base |
| `docs` | 100 | 0 | a page |
| `tools` | 1,000 | 0 | a tool |

| feature | files |
|---|---|
| base | `src/base/*` |
| paper | `docs/*` |
"""


@unittest.skipUnless(shutil.which("git"), "git is not installed")
class Size(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy size "))
        self.addCleanup(shutil.rmtree, self.folder, True)
        self.write("src/base/a.c", CODE)
        self.write("src/base/a_test.c", "1\n2\n")
        self.write("docs/size.md", PAGE)
        self.write("tools/size.py", (HERE / "size.py").read_text())
        self.git("init", "-q")
        self.git("add", ".")

    def write(self, name, text):
        (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (self.folder / name).write_text(text)

    def git(self, *arguments):
        subprocess.run(["git", "-C", str(self.folder), "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments], check=True,
                       stdout=subprocess.DEVNULL)

    def size(self, *arguments):
        done = subprocess.run([sys.executable, "-B", str(self.folder / "tools" / "size.py"), *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def complains(self, *complaints):
        status, said = self.size("--check")
        self.assertEqual((status, said.splitlines()), (1, list(complaints)))

    def test_kept(self):
        self.assertEqual(self.size("--check"), (0, "3 rooms keep their budgets\n"))

    def test_outgrown(self):
        self.write("src/base/a.c", CODE + "\n")
        self.write("src/base/a_test.c", "1\n" * 5)
        what = "or raise the budget in docs/size.md in the same commit and give the reason in its message"
        self.complains(f"src/base: 10 lines of product, budget 9: remove some, {what}",
                       f"src/base: 5 lines of tests, budget 2: remove some, {what}")

    def test_only_files_in_git_count(self):
        self.write("src/base/b.c", CODE)
        self.assertEqual(self.size("--check")[0], 0)
        self.git("add", ".")
        self.assertEqual(self.size("--check")[0], 1)

    def test_rooms_without_and_with_too_much(self):
        self.write("src/new/b.c", CODE)
        self.git("add", ".")
        self.complains("docs/size.md: no budget for src/new: add a row in the commit that makes the room")
        self.git("rm", "-q", "-r", "--cached", "src/new", "src/base")
        self.complains("docs/size.md: src/base has a budget, but no file: remove its row", "docs/size.md: src/base/* (base) matches no file")

    def test_bad_row(self):
        self.write("docs/size.md", PAGE.replace("| 9 |", "| nine |"))
        self.complains("docs/size.md:3: a room has two numbers: lines of product, lines of tests")
        self.write("docs/size.md", PAGE.replace("| 9 | 2 |", "| 9 |"))
        self.complains("docs/size.md:3: a row has four cells (a room) or two (a feature), not 3")

    def test_picture(self):
        self.assertEqual(self.size("--picture"), (0, ""))
        self.assertEqual(self.size("--check")[0], 0)
        drawing = self.folder / "docs" / "rooms.svg"
        drawing.write_text(drawing.read_text().replace("base 0k", "base 3k"))
        self.complains("docs/rooms.svg: base has 9 lines: draw it again with tools/size.py --picture")

    def test_tables(self):
        self.git("commit", "-q", "-m", "first")
        self.write("src/base/a.c", CODE + "\n")
        status, said = self.size("--base", "HEAD")
        self.assertEqual(status, 0, said)
        self.assertRegex(said, r"\nsrc/base +2 +10 +2 +12 +\+1 +9 \+ 2\n")
        self.assertRegex(said, r"\nbase +2 +10 +2 +0 +12 +\+1\n")
        self.assertRegex(said, r"\nno feature +1 ")
        self.assertRegex(said, r"\nC of the product: lines of code +4\n")
        self.assertRegex(said, r"\nC of the product: lines of comment only +4 ")
        status, said = self.size("--base", "no-such")
        self.assertEqual(status, 1)
        self.assertIn("size: there is no commit no-such", said)

    def test_last_release(self):
        self.git("commit", "-q", "-m", "first")
        self.assertIn("there is no release to compare with", self.size()[1])
        self.git("tag", "v1")
        self.assertIn("beside v1\n", self.size()[1])

    def test_no_checkout(self):
        shutil.rmtree(self.folder / ".git")
        status, said = self.size("--check")
        self.assertEqual(status, 77)
        self.assertIn("skipped: ", said)


if __name__ == "__main__":
    unittest.main()
