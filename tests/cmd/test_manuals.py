"""The manual pages, the help and the documents that are generated from the tables of commands and options."""
import pathlib
import re
import shutil
import subprocess
import unittest

from support import Case, WAIT_S

DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Manuals(Case):
    def commands(self):
        overview = self.run_gpuwhy("help").stdout.decode()
        return re.findall(r"^  (\w+) ", overview.split("commands:\n")[1].split("\n\n")[0], re.M)

    def page(self, *name):
        done = self.run_gpuwhy("help", "--man", *name)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        path = self.folder / ("-".join(["gpuwhy", *name]) + ".1")
        path.write_bytes(done.stdout)
        return path

    def pages(self):
        return [self.page()] + [self.page(name) for name in self.commands()]

    def test_groups(self):
        """The short help of run has a dozen options in four groups. The long help and the page have the same groups."""
        short, long = (self.run_gpuwhy("run", word).stdout.decode() for word in ("-h", "--help"))
        page = self.run_gpuwhy("help", "--man", "run").stdout.decode()
        titles = re.findall(r"(?m)^(\w[^:\n]*):$", short)
        options, all_options = (re.findall(r"(?m)^  (--?[a-z-]+)", text) for text in (short, long))
        self.assertEqual((len(titles), len(set(options) - set(all_options))), (4, 0))
        self.assertIn(len(options), range(10, 15))
        self.assertLessEqual(len(short.splitlines()), 45)
        self.assertEqual([title for title in re.findall(r"(?m)^\.SS (.*)$", page) if title in titles], titles)
        self.assertEqual([title for title in re.findall(r"(?m)^(\w[^:\n]*):$", long) if title in titles], titles)
        groups = re.findall(r"(?m)^ (\w.*)$", self.run_gpuwhy("help").stdout.decode())
        self.assertEqual(re.findall(r"(?m)^\.SS (.*)$", self.run_gpuwhy("help", "--man").stdout.decode()), groups)
        self.assertEqual(len(groups), 4)

    def test_documents_of_a_site(self):
        for name in ("slurm", "kubernetes", "launchers", "admins"):
            title = (DOCS / f"{name}.md").read_text().splitlines()[0].lstrip("# ")
            self.assertIn(title, self.run_gpuwhy("help", name).stdout.decode())

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_mandoc_finds_nothing_wrong(self):
        done = subprocess.run(["mandoc", "-T", "lint", *self.pages()], capture_output=True, text=True, timeout=WAIT_S)
        self.assertEqual((done.stdout, done.stderr, done.returncode), ("", "", 0))

    @unittest.skipUnless(shutil.which("man"), "man is not installed")
    def test_man_finds_nothing_wrong(self):
        environment = {**self.environment, "LC_ALL": "C.UTF-8", "MANWIDTH": "80", "MANROFFSEQ": ""}
        for page in self.pages():
            done = subprocess.run(["man", "--warnings", "-l", page], env=environment, capture_output=True, text=True,
                                  timeout=WAIT_S)
            self.assertEqual((done.stderr, done.returncode), ("", 0), page.name)

    @unittest.skipUnless(shutil.which("mandoc"), "mandoc is not installed")
    def test_a_page_has_all_that_the_help_has(self):
        """Compare the words of a page, as a formatter prints it, with those of --help, and its characters, too: what troff
        would change, such as quotes and dashes, is escaped."""
        for name in self.commands():
            page = subprocess.run(["mandoc", "-T", "ascii", "-O", "width=500", self.page(name)], capture_output=True,
                                  text=True, timeout=WAIT_S).stdout
            shown = " ".join(re.sub(".\b", "", page).split()).lower()
            helped = self.run_gpuwhy("help", name).stdout.decode()
            for option in re.findall(r"^  (--?[a-z-]+)", helped, re.M):
                self.assertIn(option, shown, name)
            for part in re.split(r"\n(?=  \S)|\n\n", helped):
                text = " ".join(part.split()).rstrip(":")
                if part.startswith("  ") and not part.startswith("   "):
                    text = re.split(r"  +|\n", part.strip(), maxsplit=1)[-1]
                    text = " ".join(text.split())
                if text in ("exit status", "examples", "all", "list", "run", "check", "install", "formats"):
                    continue
                for line in part.splitlines() if part.startswith("gpuwhy ") else [text]:
                    self.assertIn(line.lower().strip(), shown, name)

    def test_sections(self):
        page = self.page("run").read_text()
        for title in ("NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "FILES", "EXAMPLES",
                      "SEE ALSO"):
            self.assertIn(f".SH {title}\n", page)
        main = self.page().read_text()
        for name in self.commands():
            self.assertIn(f".BR gpuwhy\\-{name} (1)", main)

    def test_references_exist(self):
        names = {"", *("\\-" + name for name in self.commands())}
        for page in self.pages():
            for name in re.findall(r"^\.BR gpuwhy(\S*) \(1\)", page.read_text(), re.M):
                self.assertIn(name, names, page.name)

    def test_every_variable_is_documented(self):
        document = (DOCS / "environment.md").read_text()
        for page in self.pages():
            section = re.search(r"^\.SH ENVIRONMENT\n(.*?)(?=^\.SH )", page.read_text(), re.M | re.S)
            for name in re.findall(r"\\fB(.*?)\\fR", section[1] if section else ""):
                self.assertIn(f"`{name}`", document, page.name)


class Topics(Case):
    def topics(self):
        listed = self.run_gpuwhy("help", "topics").stdout.decode()
        return re.findall(r"^  (\S+) ", listed, re.M)

    def test_each_one_is_printed(self):
        self.assertIn("exit-status", self.topics())
        for topic in self.topics():
            done = self.run_gpuwhy("help", topic)
            self.assertEqual((done.returncode, done.stderr), (0, b""), topic)
            self.assertGreater(len(done.stdout.splitlines()), 10, topic)

    def test_a_document_is_plain_text(self):
        text = self.run_gpuwhy("help", "configuration").stdout.decode()
        self.assertTrue(text.startswith("Configuration\n\n"))
        self.assertNotIn("`", text)
        self.assertNotIn("](", text)
        self.assertIn("    {\n        \"folder\":", text)  # an indented block is left alone
        self.assertRegex(text, r"\n  keep\.days +GPUWHY_KEEP_DAYS")
        for topic in self.topics():
            for line in self.run_gpuwhy("help", topic).stdout.decode().splitlines():
                self.assertNotRegex(line, r"\]\([a-zA-Z/.-]+\.md", topic)

    def test_all_words_of_a_document_are_there(self):
        for topic, file in (("exit-status", "exit-status.md"), ("environment", "environment.md"),
                            ("glossary", "GLOSSARY.md"), ("json", "json-schema.md")):
            words = lambda text: re.findall(r"[A-Za-z]{3,}", text)
            shown = words(self.run_gpuwhy("help", topic).stdout.decode())
            source = re.sub(r"\]\([^)]*\)", "]", (DOCS / file).read_text())
            # The heads of tables are left out.
            source = re.sub(r"^\|.*\n(?=\|[-|]+$)", "", source, flags=re.M)
            self.assertEqual(shown, words(source), topic)

    def test_an_unknown_one(self):
        done = self.run_gpuwhy("help", "exit-statsu")
        self.assertEqual(done.returncode, 2)
        self.assertIn(b"did you mean exit-status?", done.stderr)
