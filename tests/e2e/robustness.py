"""Run programs in hostile surroundings, without and with gpuwhy, and compare.

    robustness.py [--only PATTERN] [--markdown FILE]

The virtual GPU stands in for a machine's driver: in a mount namespace of the test, the loader's cache names it as
libcuda.so.1. So it is found without our environment, and gpuwhy takes it for a real one. Each row runs a program that
succeeds and one that dies of an illegal address. In every row, the program's status and output are those of a run
without gpuwhy, and the verdict either knows the cause or says what was not recorded.
"""
import argparse
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import textwrap

from harness import BUILD, CNN, GPUWHY, VIRT_LIB, Failure, Workplace, base_environment, main, skip

SECONDS = 120
GOOD = [str(CNN), "--runs", "2"]
BAD = [str(CNN), "--runs", "2", "--bad-address"]
HERE = pathlib.Path(__file__).resolve()

# Numbers of x86-64.
CALLS = {"fallocate": 285, "process_vm_readv": 310, "process_vm_writev": 311, "inotify_init1": 294, "socket": 41,
         "prctl": 157, "pidfd_open": 434, "memfd_create": 319, "ptrace": 101, "kcmp": 312, "getrandom": 318,
         "prlimit64": 302}
RARE = "process_vm_readv,process_vm_writev,inotify_init1,socket,pidfd_open,memfd_create,ptrace"


def become_filtered(action, names, command):
    """Install a filter of system calls and execute the command."""
    import ctypes
    result = {"refuse": 0x00050001, "kill": 0x80000000}[action]
    code = [(0x20, 0, 0, 0)]  # load the number
    for name in names.split(","):
        code += [(0x15, 0, 1, CALLS[name]), (0x06, 0, 0, result)]
    code.append((0x06, 0, 0, 0x7FFF0000))
    program = b"".join(struct.pack("HBBI", *line) for line in code)
    room = ctypes.create_string_buffer(program, len(program))

    class Filter(ctypes.Structure):
        _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
    libc = ctypes.CDLL(None)
    filter_ = Filter(len(code), ctypes.addressof(room))
    if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, ctypes.byref(filter_), 0, 0) != 0:
        sys.exit("no filter could be installed")
    os.execvp(command[0], command)


def filtered(action, names):
    return f"{sys.executable} {HERE} --filter {action} {names} --"


class Row:
    """`outer`: shell lines before gpuwhy or the program. `inner`: words in front of the program. `coverage`: "recorded",
    "told" (the verdict says that the run was not recorded) or "bare" (the program runs without gpuwhy)."""

    def __init__(self, name, outer="", inner="", coverage="recorded", needs="",
                 recording="$W/run.gpuwhy"):
        self.name, self.outer, self.inner, self.coverage = name, outer, inner, coverage
        self.needs, self.recording = needs, recording


NOBODY = "65534"
SETPRIV = f"setpriv --reuid {NOBODY} --regid {NOBODY} --clear-groups"
ROWS = [
    Row("nothing special"),
    # the folder for the buffers
    Row("/dev/shm is full", "mount -t tmpfs -o size=64k none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm has 15 MiB", "mount -t tmpfs -o size=15m none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm has room for few buffers", "mount -t tmpfs -o size=17m none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm is read-only", "mount -t tmpfs -o ro none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm has room for few files", "mount -t tmpfs -o nr_inodes=3 none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm is noexec and nosuid", "mount -t tmpfs -o noexec,nosuid none /dev/shm; unset XDG_RUNTIME_DIR"),
    Row("/dev/shm is missing", "mount -t tmpfs none /dev; mknod -m 666 /dev/null c 1 3; unset XDG_RUNTIME_DIR"),
    Row("no folder has room", "mount -t tmpfs -o size=64k none /dev/shm; unset XDG_RUNTIME_DIR; mount --bind $W $W; "
        "for d in /tmp /var/tmp; do mount --rbind $d $d; mount -o remount,bind,ro $d; done; "
        "mkdir $W/s; mount -t tmpfs -o size=64k none $W/s; export XDG_STATE_HOME=$W/s",
        coverage="told"),
    Row("XDG_RUNTIME_DIR of another user", "mkdir -m 700 $W/other; chown 65534 $W/other; export XDG_RUNTIME_DIR=$W/other"),
    Row("XDG_RUNTIME_DIR is no folder", "export XDG_RUNTIME_DIR=/etc/passwd"),
    # limits
    Row("file size limited in the program", inner="sh -c 'ulimit -f 0; exec \"$@\"' sh"),
    Row("file size limited to 2 MiB in the program", inner="sh -c 'ulimit -f 2048; exec \"$@\"' sh"),
    Row("soft limit of file size around gpuwhy", "ulimit -Sf 100"),
    Row("soft limit of 128 KiB of stack around gpuwhy", "ulimit -Ss 128"),
    Row("8 open files around gpuwhy", "ulimit -n 8", coverage="bare"),
    Row("soft limit of 20 open files around gpuwhy", "ulimit -Sn 20"),
    Row("16 open files in the program", inner="sh -c 'ulimit -n 16; exec \"$@\"' sh"),
    Row("no core dumps, no locked memory", "ulimit -c 0; ulimit -l 0"),
    Row("small stacks", inner="sh -c 'ulimit -s 256; exec \"$@\"' sh"),
    Row("processor time limited", inner="sh -c 'ulimit -t 20; exec \"$@\"' sh"),
    # rights
    Row("another user (setpriv)", inner=SETPRIV, needs="root"),
    Row("another user (su)", inner="su nobody -s /bin/sh -c '\"$0\" \"$@\"' --", needs="root su"),
    Row("another user (runuser)", inner="runuser -u nobody --", needs="root runuser"),
    Row("no new rights (no_new_privs)", inner="setpriv --no-new-privs"),
    Row("no capabilities", inner="setpriv --bounding-set -all --inh-caps -all", needs="root"),
    Row("a restrictive umask", "umask 0777"),
    Row("another root folder, the same files", inner="chroot /", needs="root"),
    Row("another root folder without our files", "mkdir -p $W/root/{tmp,dev,proc,etc}; for d in bin sbin lib lib64 usr; do "
        "mkdir -p $W/root/$d; mount --rbind /$d $W/root/$d; done; mount --bind $B $W/root/dev; cp /etc/ld.so.cache $W/root/etc; "
        "mount -t proc proc $W/root/proc; mkdir -p $W/root$B; mount --bind $B $W/root$B; mkdir -p $W/root$V; "
        "mount --bind $V $W/root$V", inner="chroot $W/root", needs="root", coverage="told"),
    Row("a container of the same files (bwrap)", inner="bwrap --dev-bind / /", needs="bwrap"),
    # environment
    Row("an empty environment (env -i)", inner="env -i", coverage="told"),
    Row("without LD_PRELOAD", inner="env -u LD_PRELOAD"),
    Row("without our variables", inner="env -u GPUWHY_RUN_DIR -u GPUWHY_HANDOUT", coverage="told"),
    Row("no HOME", "unset HOME XDG_CACHE_HOME"),
    Row("HOME of another user", "mkdir -m 755 $W/alice; chown 65534 $W/alice; export HOME=$W/alice; unset XDG_STATE_HOME; "
        "export XDG_CACHE_HOME=$W/alice/.cache"),
    Row("HOME cannot be written", "mkdir -m 555 $W/ro; mount -t tmpfs -o ro none $W/ro; export HOME=$W/ro XDG_STATE_HOME=$W/ro"),
    Row("the cache is a file", "touch $W/file; export XDG_CACHE_HOME=$W/file"),
    Row("the cache is full", "mkdir $W/c; mount -t tmpfs -o size=4k none $W/c; export XDG_CACHE_HOME=$W/c"),
    Row("the cache is noexec", "mkdir $W/c; mount -t tmpfs -o noexec none $W/c; export XDG_CACHE_HOME=$W/c"),
    Row("others may write to the cache", "mkdir -p $W/c/gpuwhy; chmod 777 $W/c $W/c/gpuwhy; export XDG_CACHE_HOME=$W/c"),
    Row("the state folder is full", "mkdir $W/s; mount -t tmpfs -o size=4k none $W/s; export XDG_STATE_HOME=$W/s"),
    *[Row(f"the disk of the recording has {size} KiB", f"mkdir $W/d; mount -t tmpfs -o size={size}k none $W/d",
          recording="$W/d/run.gpuwhy") for size in (4, 8, 16, 32, 64, 1024)],
    Row("relative folders", "export XDG_STATE_HOME=s XDG_CACHE_HOME=c XDG_RUNTIME_DIR=r TMPDIR=t; mkdir s c r t"),
    Row("a newline in HOME", "mkdir \"$W/a\nb\"; export HOME=\"$W/a\nb\"; unset XDG_STATE_HOME XDG_CACHE_HOME"),
    Row("a current folder that was removed", "mkdir $W/gone; cd $W/gone; rmdir $W/gone"),
    Row("variables of another locale", "export LC_ALL=xx_YY.utf8 LANG= TZ=:nowhere"),
    # system calls
    Row("fallocate refused", inner=filtered("refuse", "fallocate")),
    Row("rare calls refused in the program", inner=filtered("refuse", RARE + ",fallocate")),
    Row("rare calls kill the program", inner=filtered("kill", RARE)),
    Row("rare calls refused around gpuwhy", filtered("refuse", RARE + ",fallocate") + " \\"),
    Row("rare calls kill gpuwhy", filtered("kill", RARE) + " \\"),
    Row("a filter as in containers, and another user", filtered("refuse", "kcmp") + " \\", inner=SETPRIV, needs="root"),
    Row("another user whose rare calls kill", inner=SETPRIV + " " + filtered("kill", RARE), coverage="told", needs="root"),
    # what the system lacks
    Row("no /proc", "mount -t tmpfs none /proc"),
    Row("no /sys", "mount -t tmpfs none /sys"),
    Row("/proc hides other users' processes", "mount -o remount,hidepid=2 /proc", inner=SETPRIV, needs="root"),
    # other namespaces
    Row("an own network", inner="unshare -n"),
    Row("an own network and another user", inner="unshare -n " + SETPRIV, coverage="told", needs="root"),
    Row("own process numbers", inner="unshare -pf"),
    Row("own process numbers and /proc", inner="unshare -pf --mount-proc"),
    Row("an own user namespace", inner="unshare -U"),
    Row("a user namespace around gpuwhy", "unshare -U \\"),
    Row("a user namespace around gpuwhy, as root", "unshare -Ur \\"),
    Row("own mounts, /dev/shm hidden", inner="unshare -m sh -c 'mount -t tmpfs none /dev/shm; exec \"$@\"' sh"),
    # starters
    Row("setsid", inner="setsid -w"),
    Row("nohup", inner="nohup"),
    Row("timeout", inner="timeout 60"),
    Row("nice", inner="nice -n 19"),
    Row("a shell behind a shell", inner="sh -c 'sh -c \"\\\"\\$@\\\"\" sh \"$@\"' sh"),
    Row("child signals ignored", "trap '' CHLD"),
    Row("stdin closed", "exec <&-"),
    Row("stdout closed", "exec >&-"),
    Row("all outputs closed", "exec <&- >&- 2>&-"),
    Row("strace", inner="strace -f -o /dev/null", needs="strace"),
]


def quoted(words):
    return " ".join("'" + w.replace("'", "'\\''") + "'" for w in words)


class Place:
    """The namespace of all rows: the loader's cache, the virtual driver as the machine's driver."""

    def __init__(self, folder):
        self.folder = folder
        self.drivers = folder / "drivers"
        self.drivers.mkdir()
        shutil.copy(VIRT_LIB.resolve(), self.drivers / "libcuda.so.1")
        (self.drivers / "libcuda.so").symlink_to("libcuda.so.1")
        self.code = folder / "code"  # every user can read it, as /var/cache
        self.code.mkdir(mode=0o755)
        self.cache = folder / "ld.so.cache"
        subprocess.run(["/sbin/ldconfig", "-C", str(self.cache), str(self.drivers)], stderr=subprocess.DEVNULL)
        os.chmod(folder, 0o755)

    def is_possible(self):
        return self.cache.exists() and subprocess.run(self.around("mount --bind /proc/self /mnt && setpriv true"),
                                                      stderr=subprocess.DEVNULL).returncode == 0

    def around(self, script):
        return ["unshare", "-mp", "--fork", "--kill-child", "--mount-proc", "bash", "-c", script]

    def run(self, row, name, words, observed):
        """Return (status, stdout, stderr, verdict or None)."""
        work = self.folder / re.sub(r"\W+", "-", f"{row.name}-{name}-{'with' if observed else 'without'}")
        work.mkdir(mode=0o755)
        environment = base_environment(work)
        environment["XDG_CACHE_HOME"] = str(self.code)
        environment.update(W=str(work), B=str(BUILD), V=str(self.drivers))
        command = (row.inner + " " if row.inner else "") + quoted(words)
        if observed:
            command = (f"{GPUWHY} run --gpu real --quiet -o {row.recording} --json $W/verdict.json -- " + command)
        script = f"mount --bind {self.cache} /etc/ld.so.cache\n{row.outer}\n{command}"
        try:
            done = subprocess.run(self.around(script), stdin=subprocess.DEVNULL, capture_output=True, cwd=work,
                                  env=environment, timeout=SECONDS)
        except subprocess.TimeoutExpired:
            return "not over", b"", b"", None
        path = work / "verdict.json"
        verdict = json.loads(path.read_text()) if path.exists() and path.stat().st_size else None
        return done.returncode, done.stdout, done.stderr, verdict


def own_lines(text):
    """Return the lines of the program: not ours, and without what differs between two runs."""
    text = re.sub(rb"(\A|\n)gpuwhy: [^\n]*(\n {8}[^\n]*)*\n\nVerdict .*", rb"\1", text, flags=re.S)
    lines = [line for line in text.splitlines() if line and not line.startswith(b"gpuwhy:")]
    return [re.sub(rb"\b(line \d+: +\d+|0x[0-9a-f]+)\b", b"#", line) for line in lines]


def claims(verdict):
    words = " ".join([verdict["headline"] or ""] + verdict["ruled_out"])
    return [w for w in ("no fault found", "the GPU (", "not at fault") if w in words]


def judge_coverage(row, name, verdict):
    """Return (what is shown, what is wrong or None)."""
    if row.coverage == "bare":
        return "runs without gpuwhy", None if verdict is None else "there is a verdict"
    if verdict is None:
        return "no verdict", "no verdict was written"
    coverage, cause = verdict["coverage"], verdict.get("cause")
    told = coverage["processes"] == 0 or bool(coverage["unobserved"])
    shown = f"{coverage['processes']} recorded" + (f", {len(coverage['unobserved'])} told" if coverage["unobserved"] else "")
    text = cause + f" ({verdict['certainty']})" if cause else verdict["headline"].split(";")[0].split(",")[0]
    shown = f"{shown}: {text}"
    if row.coverage == "recorded":
        if coverage["processes"] == 0:
            return shown, "nothing was recorded"
        if name == "bad" and cause != "illegal-address":
            return shown, f"the cause is not illegal-address"
        if name == "good" and verdict["status"] == "fault":
            return shown, "a fault was found"
        return shown, None
    if not told:
        return shown, "it is not told that the run was not recorded"
    if verdict.get("certainty") == "established" and name == "bad" or claims(verdict):
        return shown, f"too much is claimed: {verdict['headline']} {claims(verdict)}"
    return shown, None


def lacks(row):
    for need in row.needs.split():
        if need == "root" and os.geteuid() != 0:
            return "not root"
        if need != "root" and shutil.which(need) is None and not pathlib.Path("/usr/sbin", need).exists():
            return f"no {need}"
    return None


def judge_row(place, row):
    """Return (cells of the table, list of what is wrong)."""
    wrong, shown = [], []
    for name, words in (("good", GOOD), ("bad", BAD)):
        plain = place.run(row, name, words, False)
        observed = place.run(row, name, words, True)
        if plain[0] != observed[0]:
            wrong.append(f"{name}: status {observed[0]} instead of {plain[0]}: {observed[2][-300:]!r}")
        if plain[1] != observed[1]:
            wrong.append(f"{name}: stdout is {observed[1][-200:]!r} instead of {plain[1][-200:]!r}")
        if own_lines(plain[2]) != own_lines(observed[2]):
            wrong.append(f"{name}: stderr is {observed[2][-400:]!r} instead of {plain[2][-400:]!r}")
        text, problem = judge_coverage(row, name, observed[3])
        shown.append(text)
        if problem:
            wrong.append(f"{name}: {problem} ({text})")
    same = not any(re.match(r"\w+: (status|std)", w) for w in wrong)
    return [row.name, "the same" if same else "DIFFERENT", row.coverage, *shown], wrong


def write_markdown(path, table, skipped):
    """Name the surroundings in which all is as in the first row in one paragraph, and show the others as a table."""
    (name, *usual), *others = table
    heads = ["surroundings", "status and output", "coverage", "a good program", "one that dies of an illegal address"]
    rows = [heads, ["---"] * len(heads), [f"{name}, and those named below", *usual]]
    rows += [cells for cells in others if cells[1:] != usual]
    rows += [[name, f"not possible here: {why}", "", "", ""] for name, why in skipped]
    named = textwrap.fill("As usual: " + "; ".join(cells[0] for cells in others if cells[1:] == usual) + ".", 118)
    lines = ["| " + " | ".join(cells) + " |" for cells in rows] + ["", named]
    text = path.read_text()
    head, _, rest = text.partition("<!-- rows -->\n")
    path.write_text(head + "<!-- rows -->\n" + "\n".join(lines) + "\n<!-- end -->" + rest.partition("<!-- end -->")[2])


def test(only=None, markdown=None):
    table, skipped, failures = [], [], []
    with Workplace() as folder:
        place = Place(folder)
        if not place.is_possible():
            skip("no mount namespace can be made here")
        for row in ROWS:
            if only and not re.search(only, row.name):
                continue
            why = lacks(row)
            if why:
                skipped.append((row.name, why))
                print(f"skipped: {row.name}: {why}")
                continue
            cells, wrong = judge_row(place, row)
            table.append(cells)
            print("WRONG" if wrong else "right", " | ".join(cells), flush=True)
            for line in wrong:
                print("      ", line)
            failures += [f"{row.name}: {line}" for line in wrong]
    print(f"{len(table)} rows, {len(skipped)} skipped, {len(failures)} wrong")
    if markdown:
        write_markdown(markdown, table, skipped)
    if failures:
        raise Failure("\n".join(failures))


if __name__ == "__main__":
    if len(sys.argv) > 4 and sys.argv[1] == "--filter":
        become_filtered(sys.argv[2], sys.argv[3], sys.argv[5:])
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only")
    parser.add_argument("--markdown", type=pathlib.Path)
    arguments = parser.parse_args()
    main(lambda: test(arguments.only, arguments.markdown))
