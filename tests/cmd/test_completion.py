"""Completion: what `gpuwhy help --complete` prints, and what real shells make of it."""
import os
import pathlib
import pty
import re
import shutil
import signal
import subprocess
import threading
import unittest

from support import Case, GPU, GPUWHY, lines_of, wait_until

FILES = pathlib.Path(__file__).resolve().parents[2] / "completions"
BASH_COMPLETION = pathlib.Path("/usr/share/bash-completion/bash_completion")


class Values(Case):
    def complete(self, *words):
        """Return the values, and what the shell shall add."""
        done = self.run_gpuwhy("help", "--complete", "--", "gpuwhy", *words)
        self.assertEqual((done.returncode, done.stderr), (0, b""), words)
        lines = done.stdout.decode().splitlines()
        self.assertTrue(lines[-1].startswith(":"))
        for line in lines[:-1]:
            self.assertRegex(line, r"^\S+\t")
        return [line.split("\t")[0] for line in lines[:-1]], lines[-1]

    def test_commands(self):
        values, shell = self.complete("re")
        self.assertEqual((values, shell), (["rehearse", "report"], ":nothing"))
        self.assertIn("run", self.complete("")[0])
        self.assertEqual(self.complete("--color", "never", "do")[0], ["doctor"])

    def test_options(self):
        for command in self.complete("")[0]:
            values, _ = self.complete(command, "-")
            self.assertIn("--no-pager", values)
            helped = self.run_gpuwhy("help", command).stdout.decode()
            if command != "lab":
                for value in values:
                    self.assertIn(f"\n  {value}", helped)
        self.assertEqual(self.complete("run", "--memory-")[0], ["--memory-shared"])
        self.assertEqual(self.complete("lab", "run", "--rep")[0], ["--repaired"])
        self.assertEqual(self.complete("lab", "check", "--rep")[0], [])
        self.assertEqual(self.complete("lab", "no-such", "--exp")[0], [])

    def test_values(self):
        self.assertEqual(self.complete("run", "--gpu", "virtual:h2")[0], ["virtual:h200"])
        self.assertEqual(self.complete("run", "--gpu=virtual:h2")[0], ["--gpu=virtual:h200"])
        self.assertEqual(self.complete("--color", "n")[0], ["never"])
        self.assertEqual(self.complete("run", "--fence=")[0], ["--fence=exit"])
        self.assertIn("gpu-oom-leak:", self.complete("run", "--on", "gpu-oom")[0])
        self.assertEqual(self.complete("lab", "check", "--expect", "cle")[0], ["clean"])
        self.assertEqual(self.complete("run", "--fail-on", "an")[0], ["any"])
        self.assertEqual(self.complete("run", "--leaks", "")[0], ["strict"])
        self.assertEqual(self.complete("fit", "--card", "t")[0], ["t4"])
        self.assertEqual(self.complete("export", "x.gpuwhy", "--to", "perf")[0], ["perfetto"])
        self.assertEqual(self.complete("help", "exit")[0], ["exit-status"])
        self.assertEqual(self.complete("lab", "")[0], ["list", "run", "check"])
        self.assertEqual(self.complete("lab", "run", "S05")[0], ["S05"])
        self.assertEqual(self.complete("causes", "gpu-oom-lea")[0], ["gpu-oom-leak"])
        self.assertIn(str(os.getpid()), self.complete("poke", str(os.getpid()))[0])
        self.assertEqual(self.complete("run", "--memory", ""), ([], ":nothing"))
        self.assertEqual(self.complete("explain", "@"), ([], ":files"))
        self.run_gpuwhy("run", "--gpu", GPU, "--", "sh", "-c", "exit 3")
        self.assertEqual(self.complete("explain", "@"), (["@1"], ":files"))
        self.assertEqual(self.complete("export", ""), ([], ":files gpuwhy"))

    def test_every_card_exists(self):
        for card in self.complete("run", "--gpu", "virtual:")[0]:
            done = self.run_gpuwhy("run", "--gpu", card, "--quiet", "--no-history", "--", "true")
            self.assertEqual((done.returncode, done.stderr), (0, b""), card)

    def test_what_the_shell_adds(self):
        for words, shell in ((("explain", ""), ":files"), (("diff", ""), ":files gpuwhy"),
                             (("run", "-o", ""), ":files"), (("doctor", "--root", ""), ":folders"),
                             (("doctor", "--root="), ":folders"), (("run", "--", ""), ":program 3"),
                             (("run", "--", "python", "x"), ":program 3"), (("run", "--quiet", "python", "x"), ":program 3"),
                             (("run", "--gpu", "real", "ls", "-"), ":program 4"), (("doctor", "--", ""), ":program 3"),
                             (("doctor", ""), ":nothing"), (("lab", "check", "--", "x"), ":program 4"),
                             (("jupyter", "install", "--", ""), ":nothing"), (("nonsense", ""), ":files")):
            self.assertEqual(self.complete(*words)[1], shell, words)

    def test_odd_command_lines(self):
        for words in (("--",), ("--", "--"), ("--color",), ("--color", "x", "y"), ("run", "--gpu"), ("lab", "x", "y"),
                      ("run", "=", "=x"), ("\n", "\t"), ("a" * 100000, ""), ("run", "--gpu=", "--", "--"), ("-",),
                      ("run", "-o", "x", "-")):
            self.complete(*words)


class Shell(Case):
    def setUp(self):
        super().setUp()
        folder = self.folder / "bin"
        folder.mkdir()
        (folder / "gpuwhy").symlink_to(GPUWHY)
        self.environment["PATH"] = f"{folder}:{os.environ['PATH']}"
        self.environment["HOME"] = str(self.folder)
        self.environment.pop("BASH_ENV", None)
        work = self.folder / "work"
        (work / "logs").mkdir(parents=True)
        for name in ("monday.gpuwhy", "train.log", "notes.md"):
            (work / name).write_text("x")
        self.work = work

    def run_shell(self, *command):
        done = self.execute(command, cwd=self.work, text=True, stdin=subprocess.DEVNULL)
        self.assertEqual(done.stderr, "", command)
        return done.stdout

    def check(self, offered):
        """`offered(words)` returns the set of what the shell offers for the last of the words."""
        self.assertEqual(offered(["re"]), {"rehearse", "report"})
        self.assertIn("--memory-shared", offered(["run", "--mem"]))
        self.assertEqual(offered(["lab", "run", "--rep"]), {"--repaired"})
        self.assertEqual(offered(["diff", ""]) - {"logs", "logs/"}, {"monday.gpuwhy"})
        self.assertLessEqual({"monday.gpuwhy", "train.log", "notes.md"}, offered(["explain", ""]))
        self.assertEqual(offered(["export", "x", "--to", "perf"]), {"perfetto"})
        self.assertEqual(offered(["run", "--", "gpuwh"]), {"gpuwhy"})
        self.assertEqual(offered(["run", "--quiet", "gpuwh"]), {"gpuwhy"})
        self.assertEqual({name.rstrip("/") for name in offered(["doctor", "--root", ""])}, {"logs"})


@unittest.skipUnless(BASH_COMPLETION.exists() and shutil.which("bash"), "bash-completion is not installed")
class Bash(Shell):
    SCRIPT = """
    . "$1"; . "$2"; COMP_LINE=$3; shift 3
    COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_POINT=${#COMP_LINE}; COMP_TYPE=9; COMP_KEY=9
    compopt() { :; }  # works only while readline completes
    _gpuwhy gpuwhy "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
    printf '%s\\n' "${COMPREPLY[@]}"
    """

    def offered(self, words):
        split = [part for word in words for part in re.findall("[=:@]+|[^=:@]+", word) or [""]]
        out = self.run_shell("bash", "--norc", "-c", self.SCRIPT, "-", str(BASH_COMPLETION), str(FILES / "gpuwhy.bash"),
                             " ".join(["gpuwhy", *words]), "gpuwhy", *split)
        return {line.rstrip() for line in out.splitlines()} - {""}

    def test_it(self):
        self.check(self.offered)

    def test_words_that_readline_splits(self):
        """readline splits words at =, : and @, and replaces only the last part."""
        self.assertEqual(self.offered(["run", "--gpu", "virtual:h2"]), {"h200"})
        self.assertEqual(self.offered(["run", "--gpu=virtual:h2"]), {"h200"})
        self.assertEqual(self.offered(["run", "--color=n"]), {"never"})
        self.assertEqual({name.rstrip("/") for name in self.offered(["doctor", "--root=lo"])}, {"logs"})
        for code in "0", "1":
            self.run_gpuwhy("run", "--gpu", GPU, "--", "sh", "-c", f"exit {code}")
        self.assertEqual(self.offered(["explain", "@"]), {"1", "2"})
        self.assertEqual(self.offered(["diff", "@2", "@"]), {"1", "2"})


@unittest.skipUnless(shutil.which("fish"), "fish is not installed")
class Fish(Shell):
    def offered(self, words):
        line = "gpuwhy " + " ".join(words)
        out = self.run_shell("fish", "--no-config", "-c", f"source {FILES / 'gpuwhy.fish'}; complete -C '{line}'")
        return {value.split("\t")[0] for value in out.splitlines()}

    def test_it(self):
        self.check(self.offered)
        self.assertEqual(self.offered(["run", "--gpu", "virtual:h2"]), {"virtual:h200"})
        self.assertEqual(self.offered(["run", "--gpu=virtual:h2"]), {"--gpu=virtual:h200"})


@unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
class Zsh(Shell):
    """zsh completes only in its line editor, so it runs on a pseudo-terminal. A function in place of compadd writes what is
    offered to a file."""
    SETUP = r"""
    PROMPT= fpath=("$FUNCTIONS" $fpath); autoload -Uz compinit; compinit -u -d "$FUNCTIONS/dump"
    setopt no_list_beep; zstyle ':completion:*' menu no
    compadd() {
        local -a hits
        if [[ ${@[1,(i)(-|--)]} != *-(O|A|D)\ * ]]; then
            builtin compadd -A hits "$@"; print -lr -- $hits >> $OFFERED
        fi
        builtin compadd "$@"
    }
    complete-it() { zle complete-word; BUFFER=; print END >> $OFFERED }
    zle -N complete-it; bindkey '^I' complete-it
    print READY >> $OFFERED
    """

    def setUp(self):
        super().setUp()
        functions = self.folder / "functions"
        functions.mkdir()
        shutil.copy(FILES / "gpuwhy.zsh", functions / "_gpuwhy")
        self.file = self.folder / "offered"
        self.environment.update(FUNCTIONS=str(functions), OFFERED=str(self.file), TERM="vt100")
        (self.folder / "setup").write_text(self.SETUP)
        pid, self.terminal = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            os.execvpe("zsh", ["zsh", "-f", "-i"], self.environment)
        self.addCleanup(self.stop, pid)
        threading.Thread(target=self.drain, args=(self.terminal,), daemon=True).start()
        os.write(self.terminal, b" . ../setup\r")
        wait_until(lambda: "READY" in lines_of(self.file), "zsh")

    @staticmethod
    def stop(pid):
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)

    @staticmethod
    def drain(terminal):
        try:
            while os.read(terminal, 4096):
                pass
        except OSError:  # the shell has ended
            pass

    def offered(self, words):
        self.file.write_text("")
        os.write(self.terminal, " ".join(["gpuwhy", *words]).encode() + b"\t")
        wait_until(lambda: "END" in lines_of(self.file), "completion")
        return set(lines_of(self.file)) - {"END", ""}

    def test_it(self):
        self.check(self.offered)
        self.assertEqual(self.offered(["run", "--gpu", "virtual:h2"]), {"virtual:h200"})
        self.assertEqual(self.offered(["run", "--gpu=virtual:h2"]), {"--gpu=virtual:h200"})
