"""The program receives each signal exactly as often as it would without gpuwhy."""
import os
import signal
import subprocess
import sys
import time

from support import Case, WAIT_S, lines_of, wait_until

# Records every signal it receives; ends when its stdin ends.
LISTENER = """
import os, signal, sys
def note(number, frame):
    with open('signals', 'a') as file:
        file.write(f'{number}\\n')
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2, signal.SIGHUP, signal.SIGQUIT,
               signal.SIGALRM, signal.SIGRTMIN + 3):
    signal.signal(number, note)
open('pid', 'w').write(f'{os.getpid()}\\n')
while True:
    try:
        if not os.read(0, 1):
            break
    except InterruptedError:
        pass
sys.exit(4)
"""


class Signals(Case):
    def listen(self):
        process = self.start(sys.executable, "-c", LISTENER, stdin=subprocess.PIPE)
        wait_until(lambda: lines_of(self.folder / "pid"), "the program")
        return process

    def finish(self, process, wanted):
        wait_until(lambda: len(lines_of(self.folder / "signals")) >= len(wanted), f"signals {wanted}")
        time.sleep(0.2)  # a duplicate signal would arrive now
        process.stdin.close()
        self.assertEqual(process.wait(WAIT_S), 4)
        self.assertEqual([int(line) for line in lines_of(self.folder / "signals")], [int(n) for n in wanted])

    def test_sent_to_gpuwhy_alone(self):
        process = self.listen()
        wanted = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP, signal.SIGQUIT, signal.SIGALRM,
                  signal.SIGRTMIN + 3]
        for count, number in enumerate(wanted):
            process.send_signal(number)
            wait_until(lambda: len(lines_of(self.folder / "signals")) > count, number)
        self.finish(process, wanted)

    def test_sent_to_the_group(self):
        process = self.listen()
        wanted = [signal.SIGTERM, signal.SIGINT, signal.SIGUSR2]
        for count, number in enumerate(wanted):
            os.killpg(process.pid, number)
            wait_until(lambda: len(lines_of(self.folder / "signals")) > count, number)
        self.finish(process, wanted)

    def test_sent_to_the_program_alone(self):
        process = self.listen()
        os.kill(int(lines_of(self.folder / "pid")[0]), signal.SIGUSR1)
        self.finish(process, [signal.SIGUSR1])

    def test_a_program_that_dies_of_it_takes_gpuwhy_along(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            process = self.start("sh", "-c", "echo started >started; exec sleep 60")
            wait_until(lambda: lines_of(self.folder / "started"), "the program")
            (self.folder / "started").unlink()
            process.send_signal(number)
            self.assertEqual(process.wait(WAIT_S), -number)

    def test_ignored_signals_stay_ignored(self):
        process = self.start("sh", "-c", "trap '' INT; echo started >started; sleep 0.5; exit 6")
        wait_until(lambda: lines_of(self.folder / "started"), "the program")
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(process.wait(WAIT_S), 6)

    def test_a_program_stopped_by_itself_is_not_our_stop(self):
        process = self.start("sh", "-c", "echo $$ >pid; kill -STOP $$; exit 8")
        wait_until(lambda: lines_of(self.folder / "pid"), "the program")
        pid = int(lines_of(self.folder / "pid")[0])

        def state(of):
            with open(f"/proc/{of}/stat") as file:
                return file.read().rsplit(")", 1)[1].split()[0]

        wait_until(lambda: state(pid) == "T", "the program to stop")
        time.sleep(0.3)
        self.assertNotIn(state(process.pid), "Tt")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(process.wait(WAIT_S), 8)
