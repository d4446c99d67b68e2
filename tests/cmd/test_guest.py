"""A program under gpuwhy sees and leaves the same as without it: status, streams, descriptors, environment."""
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

from support import Case, GPU, WAIT_S, children_of, lines_of, run_command, wait_until


class Status(Case):
    def test_exit_statuses_pass_through(self):
        for status in (0, 1, 3, 127, 255):
            plain, observed = self.run_both("sh", "-c", f"exit {status}")
            self.assertEqual((plain.returncode, observed.returncode), (status, status))

    def test_a_deadly_signal_ends_gpuwhy_the_same_way(self):
        for number in (signal.SIGTERM, signal.SIGSEGV, signal.SIGKILL, signal.SIGUSR1, signal.SIGPIPE, signal.SIGALRM):
            plain, observed = self.run_both("sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual((plain.returncode, observed.returncode), (-number, -number))

    def test_gpuwhy_leaves_no_core_of_its_own(self):
        script = "ulimit -c unlimited; exec \"$@\""
        self.execute(["sh", "-c", script, "sh", *run_command("sh", "-c", "ulimit -c 0; kill -ABRT $$")])
        self.assertEqual([p.name for p in self.folder.iterdir() if p.name.startswith("core")], [])

    def test_what_cannot_run_answers_as_a_shell(self):
        plain_file = self.folder / "plain"
        plain_file.write_text("x")
        script = self.folder / "script"
        script.write_text("#!/no/such/interpreter\n")
        script.chmod(0o755)
        for argument, status in (("no-such-program", 127), ("/no/such/program", 127), (plain_file, 126),
                                 (self.folder, 126), (script, 126)):
            done = self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--", argument)
            self.assertEqual(done.returncode, status, argument)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
            self.assertIn(str(argument).encode(), done.stderr)
        state = self.folder / "state" / "gpuwhy"
        self.assertEqual([p for p in (state.iterdir() if state.exists() else [])
                          if p.name.endswith(".gpuwhy")], [], "a recording of what never ran")

    def test_a_script_without_a_head_runs(self):
        script = self.folder / "headless"
        script.write_text("echo headless; exit 7\n")
        script.chmod(0o755)
        done = self.run_gpuwhy("run", "--gpu", GPU, "--quiet", "--", script)
        self.assertEqual((done.returncode, done.stdout), (7, b"headless\n"))


class Streams(Case):
    def test_stdin_and_stdout_pass_through(self):
        data = os.urandom(1 << 20)
        plain, observed = self.run_both("cat", input=data)
        self.assertEqual(plain.stdout, data)
        self.assertEqual(observed.stdout, data)

    def test_a_stderr_pipe_passes_everything(self):
        script = "i=0; while [ $i -lt 3000 ]; do echo line $i of many, long enough to fill a pipe >&2; i=$((i+1)); done"
        plain, observed = self.run_both("sh", "-c", script)
        self.assertEqual(plain.stderr, observed.stderr)

    def test_one_pipe_for_both_keeps_its_order(self):
        script = "for i in 1 2 3 4 5 6 7 8 9; do echo out $i; echo err $i >&2; done"
        plain, observed = self.run_both("sh", "-c", script, stderr=subprocess.STDOUT)
        self.assertEqual(plain.stdout, observed.stdout)

    def test_one_pipe_for_both_passes_everything(self):
        """Write more than any pipe holds, in pieces of many sizes, to a reader that is slow at first."""
        script = ("import os\nfor i in range(4000): os.write(1 + i % 2, b'%d:' % i + bytes([65 + i % 26]) * (i * 7 % 700) + b'\\n')")
        plain = subprocess.run([sys.executable, "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                               timeout=WAIT_S)
        process = self.start(sys.executable, "-c", script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                             options=["--json", "-"])
        with process.stdout:
            time.sleep(0.3)
            observed = process.stdout.read()
        self.assertEqual(process.wait(WAIT_S), 0)
        self.assertEqual(observed[:len(plain.stdout)], plain.stdout)
        self.assertTrue(observed[len(plain.stdout):].startswith(b"{"), "what gpuwhy prints overtook the program")

    def test_what_one_pipe_for_both_is(self):
        script = "import os, stat; print([(stat.S_IFMT(os.fstat(f).st_mode), os.isatty(f)) for f in (1, 2)], os.path.samestat(os.fstat(1), os.fstat(2)))"
        plain, observed = self.run_both(sys.executable, "-c", script, stderr=subprocess.STDOUT)
        self.assertEqual(plain.stdout, observed.stdout)
        outputs = []
        for prefix in ([], run_command()):
            with open(self.folder / "log", "wb") as log:
                self.execute([*prefix, sys.executable, "-c", script], stdout=log, stderr=log, check=True)
            outputs.append((self.folder / "log").read_bytes())
        self.assertEqual(outputs[0], outputs[1])

    def test_a_gone_reader_of_both_is_felt_at_once(self):
        """Only the first write matters, because the program makes only one."""
        for prefix in ([], run_command()):
            argv = ["sh", "-c", "echo first; read x; echo second; echo >&2 third; exit 9"]
            process = subprocess.Popen(prefix + argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, env=self.environment)
            process.stdout.readline()
            process.stdout.close()
            if prefix:
                wait_until(lambda: not self.relays_of(process.pid), "the copier and its watcher to end")
            process.stdin.close()
            self.assertEqual(process.wait(WAIT_S), -signal.SIGPIPE, prefix)

    @classmethod
    def relays_of(cls, supervisor):
        """Find the processes that watch the copiers, and have not ended: until then they hold the program's pipe."""
        def is_relay(pid):
            try:
                name, _, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")
            except OSError:
                return False
            return name.endswith("(stderr-relay") and rest.split()[0] not in "ZX"
        return [p for p in children_of(supervisor) if is_relay(p)]

    @classmethod
    def copiers_of(cls, supervisor):
        """Find the processes that copy output; they are children of the process that watches them."""
        return [c for p in cls.relays_of(supervisor) for c in children_of(p)]

    def test_a_killed_copier_is_replaced(self):
        script = "echo before; echo started >started; while [ ! -e go ]; do sleep 0.05; done; echo out; echo err >&2; exit 5"
        process = self.start("sh", "-c", script, options=["--no-verdict"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_until(lambda: lines_of(self.folder / "started"), "the program")
        for _ in range(3):
            wait_until(lambda: self.copiers_of(process.pid), "a copier")
            copier = self.copiers_of(process.pid)[0]
            os.kill(copier, signal.SIGKILL)
            wait_until(lambda: copier not in self.copiers_of(process.pid), "its end")
        (self.folder / "go").touch()
        with process.stdout:
            self.assertEqual(process.stdout.read(), b"before\nout\nerr\n")
        self.assertEqual(process.wait(WAIT_S), 5)

    def test_a_stderr_file_is_written_as_without_us(self):
        for mode in ("wb", "ab"):
            contents = []
            for prefix in ([], run_command()):
                path = self.folder / "stderr"
                path.write_bytes(b"before\n")
                with open(path, mode) as file:
                    argv = ["sh", "-c", "echo one >&2; echo two >&2"]
                    self.execute(prefix + argv, stderr=file, check=True)
                contents.append(path.read_bytes())
            self.assertEqual(contents[0], contents[1])

    def test_closed_streams_stay_closed(self):
        script = "for fd in 0 1 2; do [ -e /proc/self/fd/$fd ] && echo $fd >>{}; done; true"
        for closed in ("2>&-", ">&-", "<&-", "<&- >&- 2>&-"):
            results = []
            for name, prefix in (("plain", []), ("observed", run_command())):
                argv = prefix + ["sh", "-c", script.format(name)]
                shell = " ".join(f"'{a}'" for a in argv) + " " + closed
                done = self.execute(["sh", "-c", shell], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                    stderr=subprocess.DEVNULL)
                results.append((done.returncode, lines_of(self.folder / name)))
                (self.folder / name).unlink(missing_ok=True)
            self.assertEqual(results[0], results[1], closed)

    def test_a_gone_reader_of_stderr_is_felt(self):
        for prefix in ([], run_command()):
            argv = ["sh", "-c", "echo first >&2; read x; i=0; while [ $i -lt 100000 ]; do echo more >&2; "
                    "i=$((i+1)); done; exit 9"]
            process = subprocess.Popen(prefix + argv, stdin=subprocess.PIPE, stderr=subprocess.PIPE,
                                       env=self.environment)
            process.stderr.readline()
            process.stderr.close()
            process.stdin.close()
            self.assertEqual(process.wait(WAIT_S), -signal.SIGPIPE, prefix)

    def test_a_background_child_that_holds_stderr_delays_nobody(self):
        """A process in the background that ends after gpuwhy has ended."""
        script = "(while [ ! -e ended ]; do sleep 0.05; done; echo late >&2) & echo early >&2"
        process = self.start("sh", "-c", script, stderr=subprocess.PIPE)
        try:
            self.assertEqual(process.wait(WAIT_S), 0)
        finally:
            (self.folder / "ended").touch()
        with process.stderr:
            self.assertEqual(process.stderr.read(), b"early\nlate\n")


class Surroundings(Case):
    def test_signal_dispositions_and_descriptors_are_the_same(self):
        script = "grep -E '^(Sig|Shd)' /proc/self/status; ls /proc/self/fd; ulimit -a; umask; pwd"
        plain, observed = self.run_both("sh", "-c", script)
        self.assertEqual(self.comparable(plain.stdout), self.comparable(observed.stdout))

    @staticmethod
    def comparable(text):
        """Remove the count of queued signals. Under a sanitizer also remove the signals 32 and 33 of the C library,
        because the sanitizer's thread in gpuwhy makes the library use them."""
        text = re.sub(rb"SigQ:.*", b"", text)
        if os.environ.get("GPUWHY_SANITIZE"):
            text = re.sub(rb"(Sig\w+:\t)(\w+)", lambda m: m[1] + b"%016x" % (int(m[2], 16) & ~(3 << 31)), text)
        return text

    def test_only_our_variables_are_added(self):
        self.environment["LD_LIBRARY_PATH"] = "/a b:/c"
        plain, observed = self.run_both("env")

        def variables(text):
            return dict(line.split("=", 1) for line in text.decode().splitlines() if "=" in line)

        before, after = variables(plain.stdout), variables(observed.stdout)
        added = {k for k in after if k not in before}
        self.assertEqual({k for k in added if not k.startswith("GPUWHY_")} - {"LD_PRELOAD"}, set())
        changed = {k for k in before if before[k] != after.get(k) and k not in ("_", "SHLVL")}
        self.assertLessEqual(changed, {"LD_LIBRARY_PATH", "LD_PRELOAD", "PATH"})
        folders = after["PATH"].split(":")  # a virtual GPU adds only the folder of its nvidia-smi
        self.assertIn(before["PATH"].split(":"), (folders, folders[1:]))
        self.assertTrue(after["LD_LIBRARY_PATH"].endswith(":/a b:/c"))
        for element in after["LD_LIBRARY_PATH"].split(":"):
            self.assertTrue(element, "an empty element means the current folder")

    def test_what_is_preloaded_is_loaded_once(self):
        self.environment.update(LD_PRELOAD="/missing.so", GLIBC_TUNABLES="glibc.malloc.check=0")
        for stderr in (subprocess.PIPE, subprocess.STDOUT):
            process = self.start("/usr/bin/env", stdout=subprocess.PIPE, stderr=stderr)
            out, err = process.communicate(timeout=WAIT_S)
            self.assertIn(b"GLIBC_TUNABLES=glibc.malloc.check=0\n", out)
            self.assertEqual((err or out).count(b"'/missing.so' from LD_PRELOAD"), 2, "by gpuwhy and by the program")

    def test_a_timer_of_the_caller_ends_the_program(self):
        for timer, waits in (("REAL", "sleep 60"), ("VIRTUAL", "while :; do :; done"), ("PROF", "while :; do :; done")):
            process = self.start("sh", "-c", waits, stderr=subprocess.DEVNULL, options=("--no-verdict",),
                                 preexec_fn=lambda: signal.setitimer(getattr(signal, f"ITIMER_{timer}"), 1))
            ends = {"REAL": signal.SIGALRM, "VIRTUAL": signal.SIGVTALRM, "PROF": signal.SIGPROF}
            self.assertEqual(process.wait(WAIT_S), -ends[timer], timer)

    def test_the_program_stays_in_the_process_group(self):
        process = self.start("sh", "-c", "cut -d' ' -f5,6 /proc/self/stat", stdout=subprocess.PIPE)
        out, _ = process.communicate(timeout=WAIT_S)
        self.assertEqual(out.split(), [str(process.pid).encode()] * 2)

    def test_nothing_is_left_behind(self):
        def folders():
            roots = [os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm"]
            return {str(p) for r in roots if r for p in pathlib.Path(r).glob(f"gpuwhy-{os.getuid()}-*")}

        before = folders()
        process = self.start("true")
        process.wait(WAIT_S)
        self.assertEqual({f for f in folders() - before if f"-{process.pid}-" in f}, set())


class Supervisor(Case):
    def kill_it_and_go_on(self, stderr):
        """A program that writes before and after its supervisor is killed, and then prints that it reached its end."""
        script = "echo started >started; echo before >&2; read x; echo after >&2; echo out; echo done >done; exit 5"
        process = self.start("sh", "-c", script + " ; true", stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr)
        wait_until(lambda: lines_of(self.folder / "started"), "the program")
        process.kill()
        process.wait(WAIT_S)
        process.stdin.write(b"go\n")
        process.stdin.close()
        return process

    def test_its_death_harms_nobody(self):
        process = self.kill_it_and_go_on(subprocess.PIPE)
        with process.stdout, process.stderr:
            self.assertEqual(process.stdout.read(), b"out\n")
            self.assertEqual(process.stderr.read(), b"before\nafter\n")
        self.assertEqual(lines_of(self.folder / "done"), ["done"])

    def test_its_death_harms_nobody_with_one_pipe_for_both(self):
        process = self.kill_it_and_go_on(subprocess.STDOUT)
        with process.stdout:
            self.assertEqual(process.stdout.read(), b"before\nafter\nout\n")
        self.assertEqual(lines_of(self.folder / "done"), ["done"])

    def test_its_helpers_do_not_outlive_it(self):
        process = self.start("sh", "-c", "echo started >started; sleep 60")
        wait_until(lambda: lines_of(self.folder / "started"), "the program")
        process.kill()
        process.wait(WAIT_S)

        def witnesses():
            found = []
            for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
                try:
                    text = stat.read_text()
                except OSError:
                    continue
                if "(gpuwhy-witness)" in text and text.split(") ")[1].split()[3] == str(process.pid):
                    found.append(text)
            return found

        wait_until(lambda: not witnesses(), "the witness to end")
        os.killpg(process.pid, signal.SIGKILL)
