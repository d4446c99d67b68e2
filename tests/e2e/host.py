"""The host's own faults, for real where this machine allows them: a control group that runs out of memory, a full
/dev/shm, a core dump. Each with a twin that dies alike for another reason.

    host.py [NAME]    one of CASES; exit 77: this machine does not allow it
"""
import json
import os
import pathlib
import resource
import signal
import subprocess
import sys
import time

from harness import GPUWHY, SCENARIOS, Workplace, base_environment, expect, main, new_folder, skip

EATS = "import time\nkept = []\nfor i in range(600):\n    kept.append(b'x' * (1 << 20))\n    time.sleep(0.001)\nprint('ate all')\n"
EATS_LITTLE_AND_IS_KILLED = """import os, signal, time
kept = [b'x' * (1 << 20) for i in range(8)]
time.sleep(1.5)
os.kill(os.getpid(), signal.SIGKILL)
"""
FILLS_SHARED_MEMORY = """import mmap, os
file = open('/dev/shm/gpuwhy-test', 'w+b')
file.truncate(64 << 20)
memory = mmap.mmap(file.fileno(), 64 << 20)
for at in range(0, 64 << 20, 4096):
    memory[at] = 1
"""
IS_REFUSED_SHARED_MEMORY = """with open('/dev/shm/gpuwhy-test', 'wb') as file:
    for i in range(64):
        file.write(b'x' * (1 << 20))
"""
DIES_ALIKE_WITH_ROOM = """import os, signal, time
open('/dev/shm/gpuwhy-test', 'wb').write(b'x' * (1 << 20))
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGBUS)
"""


# ---- a control group of our own ----------------------------------------------------------------------------------------

def group_folders():
    """Where a group below ours would be: (version, folder)."""
    mounts = [line.split() for line in open("/proc/self/mountinfo")]
    for line in open("/proc/self/cgroup").read().splitlines():
        _, controllers, path = line.split(":", 2)
        for mount in mounts:
            dash = mount.index("-")
            kind, options = mount[dash + 1], mount[dash + 3].split(",")
            is_v1 = kind == "cgroup" and "memory" in controllers.split(",") and "memory" in options
            is_v2 = kind == "cgroup2" and controllers == ""
            if is_v1 or is_v2:
                rest = path[len(mount[3]):] if mount[3] != "/" and path.startswith(mount[3]) else path
                yield (1 if is_v1 else 2), pathlib.Path(mount[4] + "/" + rest.strip("/"))


class Group:
    """A control group with little memory."""
    BYTES = 96 << 20

    def __enter__(self):
        reasons = []
        for version, above in group_folders():
            self.folder = above / f"gpuwhy-test-{os.getpid()}"
            try:
                self.folder.mkdir()
                self.set_limit(version)
                print(f"control group version {version}: {self.folder}")
                return self
            except OSError as error:
                reasons.append(f"version {version}: {error}")
                self.remove()
        skip("no control group with a memory limit can be made here: " + "; ".join(reasons))

    def set_limit(self, version):
        (self.folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(self.BYTES))
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):  # killed, not swapped
            if (self.folder / name).exists():
                (self.folder / name).write_text("0" if "swap.max" in name else str(self.BYTES))

    def enter(self):
        (self.folder / "cgroup.procs").write_text(str(os.getpid()))

    def remove(self):
        for _ in range(50):
            try:
                self.folder.rmdir()
                return
            except FileNotFoundError:
                return
            except OSError:
                time.sleep(0.05)

    def __exit__(self, *_):
        self.remove()


# ---- runs ----------------------------------------------------------------------------------------------------------------

def judge(folder, program, before=(), preexec=None):
    command = [*before, str(GPUWHY), "run", "--json", str(folder / "verdict.json"), "-o", str(folder / "run.gpuwhy"), "--",
               sys.executable, "-c", program]
    done = subprocess.run(command, cwd=folder, env=base_environment(folder), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240, preexec_fn=preexec)
    expect((folder / "verdict.json").exists(), f"no verdict: {done.stderr.decode(errors='replace')}")
    return done, json.loads((folder / "verdict.json").read_text())


def expect_cause(verdict, cause, certainty):
    got = f"{verdict['status']} {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(got)
    for line in verdict["evidence"]:
        print(f"    {line['text']}  [{line['source']}]")
    expect(verdict["cause"] == cause and verdict["certainty"] == certainty, f"{got}, not {cause} ({certainty})")


def killed_for_memory(folder):
    with Group() as group:
        done, verdict = judge(folder, EATS, preexec=group.enter)
    expect(done.returncode == -signal.SIGKILL, f"ended by {done.returncode}: the group's limit did not kill it")
    expect_cause(verdict, "host-oom-kill", "established")
    expect(any(line["value"] is not None and line["unit"] == "bytes" for line in verdict["evidence"]), "no number of bytes")


def killed_by_hand(folder):
    with Group() as group:
        done, verdict = judge(folder, EATS_LITTLE_AND_IS_KILLED, preexec=group.enter)
    expect(done.returncode == -signal.SIGKILL, f"ended by {done.returncode}")
    expect_cause(verdict, "killed-by-scheduler-or-user", "supported")
    expect(any("out-of-memory killer" in line for line in verdict["ruled_out"]), f"not ruled out: {verdict['ruled_out']}")


def small_shared_memory():
    """A command before the command that gives it a /dev/shm of 16 MiB of its own."""
    before = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16m none /dev/shm && exec "$@"', "sh"]
    try:
        able = subprocess.run([*before, "true"], capture_output=True, timeout=30).returncode == 0
    except OSError:
        able = False
    if not able:
        skip("a /dev/shm of our own cannot be mounted here (it takes root)")
    return before


def shared_memory_is_full(folder):
    done, verdict = judge(folder, FILLS_SHARED_MEMORY, before=small_shared_memory())
    expect(done.returncode == -signal.SIGBUS, f"ended by {done.returncode}")
    expect_cause(verdict, "shm-exhausted", "established")


def shared_memory_is_refused(folder):
    done, verdict = judge(folder, IS_REFUSED_SHARED_MEMORY, before=small_shared_memory())
    expect(done.returncode == 1, f"ended by {done.returncode}")
    expect("No space left" in done.stderr.decode(errors="replace"), "the file system was not full")
    # Which file system was full, the message does not say.
    expect(any(a["cause"] == "shm-exhausted" for a in verdict["alternatives"]), f"{verdict['alternatives']}")


def shared_memory_has_room(folder):
    done, verdict = judge(folder, DIES_ALIKE_WITH_ROOM, before=small_shared_memory())
    expect(done.returncode == -signal.SIGBUS, f"ended by {done.returncode}")
    expect_cause(verdict, "host-crash-of-process", "established")


# ---- core dumps --------------------------------------------------------------------------------------------------------

def judge_crash(folder, core_bytes, program, *options):
    """The kernel's log is not read: the core alone can tell the address."""
    pattern = open("/proc/sys/kernel/core_pattern").read().strip()
    if pattern.startswith(("|", "/")):
        skip(f"core dumps go elsewhere on this machine (core_pattern: {pattern})")
    command = [str(GPUWHY), "run", "--gpu", "virtual:h200,memory=4GiB", "--no-sense", "--json", str(folder / "verdict.json"),
               "-o", str(folder / "run.gpuwhy"), "--", str(SCENARIOS / program), *options, "--truth", str(folder / "truth")]
    done = subprocess.run(command, cwd=folder / "work", env=base_environment(folder), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=120,
                          preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CORE, (core_bytes, core_bytes)))
    expect(done.returncode == -signal.SIGSEGV, f"ended by {done.returncode}: {done.stderr.decode(errors='replace')}")
    if core_bytes and not any((folder / "work").iterdir()):
        skip("the kernel wrote no core dump")
    return json.loads((folder / "verdict.json").read_text())


def lines_of_the_core(verdict):
    return [line["text"] for line in verdict["evidence"] if line["source"] == "core dump"]


def core_of_a_touched_block(folder):
    verdict = judge_crash(folder, resource.RLIM_INFINITY, "s33_host_touch")
    expect_cause(verdict, "host-touched-device-memory", "established")
    address = next(line.split("=")[1] for line in (folder / "truth").read_text().splitlines() if "address=" in line)
    expect(any(f"{int(address):#x}" in text for text in lines_of_the_core(verdict)), f"{verdict['evidence']}")


def core_of_another_crash(folder):
    verdict = judge_crash(folder, resource.RLIM_INFINITY, "s28_host", "--end", "crash")
    expect_cause(verdict, "host-crash-of-process", "established")
    expect(any("at address" in text for text in lines_of_the_core(verdict)), f"{verdict['evidence']}")


def no_core(folder):
    verdict = judge_crash(folder, 0, "s33_host_touch")
    expect_cause(verdict, "host-crash-of-process", "established")
    expect(not lines_of_the_core(verdict), f"{verdict['evidence']}")


CASES = {f.__name__: f for f in (killed_for_memory, killed_by_hand, shared_memory_is_full, shared_memory_is_refused,
                                 shared_memory_has_room, core_of_a_touched_block, core_of_another_crash, no_core)}


def test():
    for name in sys.argv[1:] or list(CASES):
        with Workplace() as place:
            CASES[name](new_folder(place, name))


if __name__ == "__main__":
    main(test)
