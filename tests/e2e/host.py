"""Faults of the host, produced for real if this machine allows it: a control group that runs out of memory, a full
/dev/shm, a core dump. Each has a twin that dies in the same way for another reason.

    host.py [NAME]    one of CASES; exit 77: not possible on this machine
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
FILLS_SHARED_MEMORY = """import mmap, os, time
time.sleep(1)
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
# Its core dump is quick, because mapped files are not included.
MAPS_A_FILE_THAT_IS_TRUNCATED = """import mmap, os, time
file = open({path!r}, 'w+b')
file.truncate(1 << 20)
memory = mmap.mmap(file.fileno(), 1 << 20)
memory[5] = 1
os.truncate({path!r}, 0)
time.sleep(0.1)
memory[4096]
"""
DIES_ALIKE_WITH_ROOM = """import os, signal, time
open('/dev/shm/gpuwhy-test', 'wb').write(b'x' * (1 << 20))
time.sleep(0.1)
os.kill(os.getpid(), signal.SIGBUS)
"""


# ---- a control group for the test ------------------------------------------------------------------------------------

def group_folders(controller):
    """Return (version, folder) of a group below the current one."""
    mounts = [line.split() for line in open("/proc/self/mountinfo")]
    for line in open("/proc/self/cgroup").read().splitlines():
        _, controllers, path = line.split(":", 2)
        for mount in mounts:
            dash = mount.index("-")
            kind, options = mount[dash + 1], mount[dash + 3].split(",")
            is_v1 = kind == "cgroup" and controller in controllers.split(",") and controller in options
            is_v2 = kind == "cgroup2" and controllers == ""
            if is_v1 or is_v2:
                rest = path[len(mount[3]):] if mount[3] != "/" and path.startswith(mount[3]) else path
                yield (1 if is_v1 else 2), pathlib.Path(mount[4] + "/" + rest.strip("/"))


class Group:
    """A control group with little memory."""
    BYTES = 96 << 20
    controller = "memory"

    def __enter__(self):
        reasons = []
        for version, above in group_folders(self.controller):
            self.folder = above / f"gpuwhy-test-{os.getpid()}"
            try:
                self.folder.mkdir()
                self.set_limit(version)
                print(f"control group version {version}: {self.folder}")
                return self
            except OSError as error:
                reasons.append(f"version {version}: {error}")
                self.remove()
        skip(f"no control group with a {self.controller} limit can be made here: " + "; ".join(reasons))

    def set_limit(self, version):
        (self.folder / ("memory.limit_in_bytes" if version == 1 else "memory.max")).write_text(str(self.BYTES))
        for name in ("memory.memsw.limit_in_bytes", "memory.swap.max"):  # the program must be killed, not swapped
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


class SlowGroup(Group):
    """A control group that may use half a processor, in periods of 10 ms."""
    controller = "cpu"

    def set_limit(self, version):
        if version == 2:
            (self.folder / "cpu.max").write_text("5000 10000")
        else:
            (self.folder / "cpu.cfs_period_us").write_text("10000")
            (self.folder / "cpu.cfs_quota_us").write_text("5000")

    def stopped_share(self):
        counts = dict(line.split() for line in (self.folder / "cpu.stat").read_text().splitlines())
        return int(counts["nr_throttled"]) / max(int(counts["nr_periods"]), 1)


class FreeGroup(SlowGroup):
    """The same group without a limit."""

    def set_limit(self, version):
        (self.folder / ("cpu.max" if version == 2 else "cpu.cfs_quota_us")).write_text("max" if version == 2 else "-1")


# ---- runs ----------------------------------------------------------------------------------------------------------------

def run(folder, argv, options=(), before=(), preexec=None):
    """Run a program under gpuwhy. Return the finished process and the verdict."""
    command = [*before, str(GPUWHY), "run", *options, "--json", str(folder / "verdict.json"), "-o",
               str(folder / "run.gpuwhy"), "--", *map(str, argv)]
    done = subprocess.run(command, cwd=folder / "work", env=base_environment(folder), stdin=subprocess.DEVNULL,
                          capture_output=True, timeout=240, preexec_fn=preexec)
    expect((folder / "verdict.json").exists(), f"no verdict: {done.stderr.decode(errors='replace')}")
    return done, json.loads((folder / "verdict.json").read_text())


def judge(folder, program, status, **more):
    """Run a Python program that must end like this. Return the verdict."""
    done, verdict = run(folder, [sys.executable, "-c", program], **more)
    expect(done.returncode == status, f"ended by {done.returncode}: {done.stderr.decode(errors='replace')}")
    return verdict


def expect_cause(verdict, cause, certainty):
    got = f"{verdict['status']} {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}"
    print(got)
    for line in verdict["evidence"]:
        print(f"    {line['text']}  [{line['source']}]")
    expect(verdict["cause"] == cause and verdict["certainty"] == certainty, f"{got}, not {cause} ({certainty})")


def killed_for_memory(folder):
    with Group() as group:
        verdict = judge(folder, EATS, -signal.SIGKILL, preexec=group.enter)  # the group's limit kills it
    expect_cause(verdict, "host-oom-kill", "established")
    expect(any(line["value"] is not None and line["unit"] == "bytes" for line in verdict["evidence"]), "no number of bytes")


def killed_by_hand(folder):
    with Group() as group:
        verdict = judge(folder, EATS_LITTLE_AND_IS_KILLED, -signal.SIGKILL, preexec=group.enter)
    expect_cause(verdict, "killed-by-scheduler-or-user", "supported")
    expect(any("out-of-memory killer" in line for line in verdict["ruled_out"]), f"not ruled out: {verdict['ruled_out']}")


def small_shared_memory():
    """Return a command prefix that gives the command its own /dev/shm of 16 MiB."""
    before = ["unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=16m none /dev/shm && exec "$@"', "sh"]
    try:
        able = subprocess.run([*before, "true"], capture_output=True, timeout=30).returncode == 0
    except OSError:
        able = False
    if not able:
        skip("a /dev/shm of our own cannot be mounted here (it takes root)")
    return before


def shared_memory_is_full(folder):
    # It had room before; this, or the core dump, proves that the program died because it is full.
    verdict = judge(folder, FILLS_SHARED_MEMORY, -signal.SIGBUS, before=small_shared_memory(), preexec=write_cores)
    expect_cause(verdict, "shm-exhausted", "established")


def shared_memory_is_refused(folder):
    done, verdict = run(folder, [sys.executable, "-c", IS_REFUSED_SHARED_MEMORY], before=small_shared_memory())
    expect(done.returncode == 1, f"ended by {done.returncode}")
    expect("No space left" in done.stderr.decode(errors="replace"), "the file system was not full")
    # The message does not name the file system that was full. The samples show it, but another one may have been full, too.
    expect_cause(verdict, "shm-exhausted", "supported")
    expect(any(a["cause"] == "disk-or-quota-full" for a in verdict["alternatives"]), f"{verdict['alternatives']}")


def shared_memory_has_room(folder):
    verdict = judge(folder, DIES_ALIKE_WITH_ROOM, -signal.SIGBUS, before=small_shared_memory())
    expect_cause(verdict, "host-crash-of-process", "supported")  # it might have become full at the last moment


def needs_cores():
    pattern = open("/proc/sys/kernel/core_pattern").read().strip()
    if pattern.startswith(("|", "/")):
        skip(f"core dumps go elsewhere on this machine (core_pattern: {pattern})")


def write_cores(core_bytes=resource.RLIM_INFINITY):
    resource.setrlimit(resource.RLIMIT_CORE, (core_bytes, core_bytes))


def bus_in_file(folder, path, before=()):
    """The core dump names the file; without a dump both causes remain possible."""
    needs_cores()
    program = MAPS_A_FILE_THAT_IS_TRUNCATED.format(path=str(path))
    bare = judge(folder, program, -signal.SIGBUS, before=before)
    expect_cause(bare, "host-crash-of-process", "supported")
    expect(any("memory-mapped data sets" in line for line in bare["next"]), f"{bare['next']}")
    verdict = judge(new_folder(folder, "with-core"), program, -signal.SIGBUS, before=before, preexec=write_cores)
    if not any(line["source"] == "core dump" for line in verdict["evidence"]):
        skip("the kernel wrote no core dump")
    return verdict


def data_file_is_truncated(folder):
    verdict = bus_in_file(folder, folder / "train.bin")
    expect_cause(verdict, "host-crash-of-process", "supported")  # no driver call was observed
    expect(any("train.bin was truncated" in line for line in verdict["next"]), f"{verdict['next']}")


def shared_file_is_truncated(folder):
    """A page in /dev/shm, which has room: neither cause is proved."""
    verdict = bus_in_file(folder, "/dev/shm/gpuwhy-test", before=small_shared_memory())
    expect_cause(verdict, "host-crash-of-process", "supported")
    expect(any(a["cause"] == "shm-exhausted" for a in verdict["alternatives"]), f"{verdict['alternatives']}")


# ---- processors ------------------------------------------------------------------------------------------------------

# Works until it has waited for a processor long enough, by the kernel's count, or for a maximum number of seconds.
WORKS = """import sys, time
def waited():
    return int(open('/proc/self/schedstat').read().split()[1]) / 1e9
begin, first, seconds = time.monotonic(), waited(), float(sys.argv[1])
while waited() - first < 6.0 and time.monotonic() - begin < seconds:
    sum(range(20000))
open('waited', 'w').write(str((waited() - first) / (time.monotonic() - begin)))
"""
SPINS = "while True:\n    pass\n"


def starved_lines(folder, seconds, preexec):
    """Return what the verdict reports about processors, and the share of time that the program itself measured as
    waiting."""
    done, verdict = run(folder, [sys.executable, "-c", WORKS, seconds], ["--gpu", "virtual:h200"], preexec=preexec)
    expect(done.returncode == 0, f"ended by {done.returncode}: {done.stderr.decode(errors='replace')}")
    share = float((folder / "work" / "waited").read_text())
    lines = [line for line in verdict["advice"] if line.startswith("cpu-starved")]
    print(f"waited {share:.0%} of the time: {lines}")
    return lines, share


def one_processor():
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def processor_is_crowded(folder):
    """Start three other processes on the only processor that the program may use, each in its own session and so in
    its own group."""
    crowd = [subprocess.Popen([sys.executable, "-c", SPINS], preexec_fn=one_processor, start_new_session=True)
             for _ in range(3)]
    try:
        lines, share = starved_lines(folder, 60, one_processor)
    finally:
        for process in crowd:
            process.kill()
            process.wait()
    if share < 0.45:
        skip("the scheduler gave the program a processor all the same")
    expect(len(lines) == 1 and "had to wait for a processor for" in lines[0], f"{lines}")


def processor_is_not_crowded(folder):
    lines, share = starved_lines(folder, 4, one_processor)
    if share > 0.25:
        skip("others keep this machine's processors busy")
    expect(not lines, f"{lines}")


def processor_time_is_limited(folder):
    with SlowGroup() as group:
        lines, _ = starved_lines(folder, 6, group.enter)
        stopped = group.stopped_share()
    if stopped < 0.4:
        skip(f"others kept the program from its limit: it was stopped in {stopped:.0%} of the periods")
    expect(len(lines) == 1 and "limit of 0.50 processors" in lines[0], f"{lines}")


def processor_time_is_not_limited(folder):
    with FreeGroup() as group:
        lines, _ = starved_lines(folder, 4, group.enter)
    expect(not any("limit of" in line for line in lines), f"{lines}")


# ---- core dumps --------------------------------------------------------------------------------------------------------

def judge_crash(folder, core_bytes, program, *options):
    """The kernel's log is not read, so only the core dump has the address."""
    needs_cores()
    done, verdict = run(folder, [SCENARIOS / program, *options, "--truth", folder / "truth"],
                        ["--gpu", "virtual:h200,memory=4GiB", "--no-sense"], preexec=lambda: write_cores(core_bytes))
    expect(done.returncode == -signal.SIGSEGV, f"ended by {done.returncode}: {done.stderr.decode(errors='replace')}")
    if core_bytes and not any((folder / "work").iterdir()):
        skip("the kernel wrote no core dump")
    return verdict


def lines_of_the_core(verdict):
    return [line["text"] for line in verdict["evidence"] if line["source"] == "core dump"]


def core_of_a_touched_block(folder):
    verdict = judge_crash(folder, resource.RLIM_INFINITY, "s33_host_touch")
    expect_cause(verdict, "host-touched-device-memory", "established")
    address = next(line.split("=")[1] for line in (folder / "truth").read_text().splitlines() if "address=" in line)
    expect(any(f"{int(address):#x}" in text for text in lines_of_the_core(verdict)), f"{verdict['evidence']}")


def core_of_another_crash(folder):
    verdict = judge_crash(folder, resource.RLIM_INFINITY, "s28_host", "--end", "crash")
    expect_cause(verdict, "host-crash-of-process", "supported")  # without samples, the card may be broken
    expect(any("at address" in text for text in lines_of_the_core(verdict)), f"{verdict['evidence']}")


def no_core(folder):
    verdict = judge_crash(folder, 0, "s33_host_touch")
    expect_cause(verdict, "host-crash-of-process", "supported")
    expect(not lines_of_the_core(verdict), f"{verdict['evidence']}")


CASES = {f.__name__: f for f in (killed_for_memory, killed_by_hand, shared_memory_is_full, shared_memory_is_refused,
                                 shared_memory_has_room, data_file_is_truncated, shared_file_is_truncated,
                                 core_of_a_touched_block, core_of_another_crash, no_core, processor_is_crowded,
                                 processor_is_not_crowded, processor_time_is_limited, processor_time_is_not_limited)}


def test():
    for name in sys.argv[1:] or list(CASES):
        with Workplace() as place:
            CASES[name](new_folder(place, name))


if __name__ == "__main__":
    main(test)
