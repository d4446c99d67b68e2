"""Bad input of every kind gets one clear line and the right exit status. Nothing crashes, no good data is lost, and
the program under test is not affected.
"""
import os
import random
import shutil
import stat
import struct
import subprocess

from harness import (BUILD, CNN, GPUWHY, SCENARIOS, Card, CaseSkipped, Workplace, base_environment, by_name, execute, expect,
                     gpuwhy, main, new_folder, run_cases, run_observed, run_plain)

USAGE = 2  # bad usage or unreadable input


def one_line(text, *patterns):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    expect(1 <= len(lines) <= 2, f"expected one clear line, got {len(lines)}: {text!r}")
    for pattern in patterns:
        expect(pattern.lower() in text.lower(), f"{pattern!r} is not in {text!r}")


def fails(place, words, *patterns, status=USAGE):
    """gpuwhy ends with this status, and one line on stderr has the patterns."""
    got, out, err = gpuwhy(*words, folder=place)
    expect(got == status, f"exit {got}, expected {status}: {out}{err}")
    one_line(err, *patterns)


# ---- gpuwhy explain --------------------------------------------------------------------------------------------------

def recorded(place):
    """Make a small recording of a run with a fault."""
    run = run_observed([CNN, "--runs", "2", "--bad-address", "--truth", "{truth}"], Card("4GiB"),
                       new_folder(place, "recorded"))
    expect(run.recording.exists(), f"no recording: {run.stderr.decode(errors='replace')}")
    return run.recording


def files_that_are_no_recordings(place, recording):
    fails(place, ["explain"])
    (place / "folder.gpuwhy").mkdir()
    (place / "empty.gpuwhy").write_bytes(b"")
    (place / "noise.gpuwhy").write_bytes(random.Random(7).randbytes(10000))
    for name in ("nowhere.gpuwhy", "folder.gpuwhy", "empty.gpuwhy", "noise.gpuwhy"):
        fails(place, ["explain", place / name], name)


def file_is_unreadable(place, recording):
    path = place / "secret.gpuwhy"
    shutil.copy(recording, path)
    path.chmod(0)
    if os.geteuid() != 0:
        return fails(place, ["explain", path], "secret.gpuwhy", "permission")
    for folder in (place, place.parent):  # root may read everything, so another user reads it
        folder.chmod(0o755)
    try:
        done = subprocess.run([str(GPUWHY), "explain", str(path)], capture_output=True, text=True, user=65534, group=65534,
                              env={"PATH": os.environ["PATH"], "HOME": "/"}, cwd="/")
    except OSError as error:
        raise CaseSkipped(f"another user may not start gpuwhy here: {error}")
    expect(done.returncode == USAGE, f"exit {done.returncode}: {done.stdout}{done.stderr}")
    one_line(done.stderr, "secret.gpuwhy", "permission")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def newer_version(place, recording):
    data = bytearray(recording.read_bytes())
    data[8:12] = struct.pack("<I", 99)
    data[28:32] = struct.pack("<I", crc32c(data[:28]))
    (place / "newer.gpuwhy").write_bytes(data)
    fails(place, ["explain", place / "newer.gpuwhy"], "newer.gpuwhy", "99", "newer")


def judged(place, data, what):
    """Judge a damaged recording. Return the status and all that is said."""
    path = place / "damaged.gpuwhy"
    path.write_bytes(data)
    status, out, err = gpuwhy("explain", path, folder=place)
    expect(status in (0, 1, USAGE), f"{what}: exit {status}: {out}{err}")
    return status, (out + err).strip().lower()


def truncated(place, recording):
    """A recording that is cut after its header is either judged or reported as too short. gpuwhy never crashes on
    it."""
    data = recording.read_bytes()
    count = 0
    lengths = sorted({random.Random(1).randrange(len(data)) for _ in range(24)} | {0, 1, 31, 32, len(data) - 1})
    for length in lengths:
        status, said = judged(place, data[:length], f"cut to {length} of {len(data)}")
        expect(said, f"cut to {length}: nothing is said")
        count += status != USAGE
    expect(count > 0, "no cut recording could be judged")


def damaged(place, recording):
    data = recording.read_bytes()
    chance = random.Random(2)
    for _ in range(24):
        broken = bytearray(data)
        offset = chance.randrange(len(data))
        broken[offset] ^= 1 << chance.randrange(8)
        status, said = judged(place, broken, f"byte {offset} flipped")
        expect("damage" in said or "offset" in said or status == USAGE,
               f"byte {offset} flipped: the damage is not mentioned: {said}")


# ---- gpuwhy report -----------------------------------------------------------------------------------------------------

def charts_needed():
    if not (BUILD / "lib" / "gpuwhy" / "report" / "dygraph.min.js").exists():
        raise CaseSkipped("this build has no dygraphs")


def report_of_bad_files(place, recording):
    """Without a page, there is one line that names the file. The recording is never overwritten."""
    charts_needed()
    page = place / "page.html"
    fails(place, ["report", place / "nowhere.gpuwhy", "-o", page], "nowhere.gpuwhy")
    (place / "noise.gpuwhy").write_bytes(random.Random(3).randbytes(5000))
    fails(place, ["report", place / "noise.gpuwhy", "-o", page], "noise.gpuwhy")
    fails(place, ["report", recording, "-o", place / "no" / "folder.html"], "no/folder.html")
    expect(not page.exists(), "a page was written")
    before = recording.read_bytes()
    fails(place, ["report", recording, "-o", recording], "would overwrite")
    expect(recording.read_bytes() == before, "the recording was overwritten")
    other = place / "other.gpuwhy"
    other.write_bytes(before)
    fails(place, ["report", recording, "-o", other], "would overwrite a recording")
    expect(other.read_bytes() == before, "another recording was overwritten")
    (place / "none").mkdir()
    (place / "loop").symlink_to("loop")
    (place / "link.gpuwhy").symlink_to(recording)
    os.mkfifo(place / "pipe")
    for name, text in (("train.log", "CUDA error: out of memory\n"), ("empty", ""), ("book.ipynb", '{"cells": []}')):
        (place / name).write_text(text)
    page = ("-o", "page.html")
    for words, patterns in (
            (["train.log", *page], ["train.log"]), (["book.ipynb", *page], ["book.ipynb"]),
            (["empty", *page], ["empty: ", "the file is empty"]), (["none", *page], ["none", "no recordings"]),
            (["loop", *page], ["loop", "symbolic links"]), (["pipe", *page], ["pipe: not a regular file"]),
            (["/dev/null", *page], ["/dev/null: not a regular file"]), (["", *page], ["No such file"]),
            ([recording, "-o", ""], ["-o", "the name is empty"]), ([recording, "-o", "/dev/full"], ["No space left"]),
            ([recording, "link.gpuwhy", *page], ["link.gpuwhy: named twice"]),
            ([recording, "train.log", *page], ["train.log"]), ([recording, "--outptu", "x"], ["--outptu"])):
        fails(place, ["report", *words], *patterns)
        expect(not (place / "page.html").exists(), f"{words}: a page was written")


def report_into_a_folder(place, recording):
    """-o names a folder, a run folder, or a file in a run folder."""
    charts_needed()
    folder = place / "pages"
    folder.mkdir()
    fails(place, ["report", recording, "-o", folder], "is a folder")
    expect(not list(folder.iterdir()), "a file was written")
    live = place / "live"
    run_observed(["sh", "-c", f'cp -r "$GPUWHY_RUN_DIR" "{live}"'], Card("4GiB"), new_folder(place, "copied"))
    shutil.rmtree(live / "virtual", ignore_errors=True)
    before = {file.name: file.read_bytes() for file in live.iterdir()}
    expect("run.meta" in before, f"no run folder was copied: {before.keys()}")
    fails(place, ["report", live, "-o", live], "is a folder")
    for name in before:
        fails(place, ["report", live, "-o", live / name], "would overwrite")
        fails(live, ["report", live, "-o", name], "would overwrite")
    expect({file.name: file.read_bytes() for file in live.iterdir()} == before, "the run folder has changed")


def report_of_damaged_recordings(place, recording):
    """Every recording that can be judged gets a page, which says what was lost."""
    charts_needed()
    data = recording.read_bytes()
    chance = random.Random(4)
    pages = 0
    for number in range(24):
        broken = bytearray(data)
        if number % 2:
            del broken[chance.randrange(len(data) // 2, len(data)):]
        else:
            broken[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path, page = place / "damaged.gpuwhy", place / f"{number}.html"
        path.write_bytes(broken)
        status, out, err = gpuwhy("report", path, "-o", page, folder=place)
        expect(status in (0, 1, USAGE), f"damage {number}: exit {status}: {out}{err}")
        expect(page.exists() == (status != USAGE), f"damage {number}: exit {status}, page: {page.exists()}")
        if page.exists():
            pages += 1
            text = page.read_text()
            expect("damaged block" in text or "was cut" in text, f"damage {number}: the page does not mention it")
            expect(text.rstrip().endswith("</html>"), f"damage {number}: the page has no end")
    expect(pages > 0, "no damaged recording got a page")


# ---- gpuwhy run: the user's options ----------------------------------------------------------------------------------

def wrong_words(place, recording):
    """An unknown option, command or card, a value that is no size, and nothing to run."""
    for words, *patterns in ((["run", "--frobnicate", "--", "true"], "--frobnicate"), (["frobnicate"], "frobnicate"),
                             (["run", "--memory", "much", "--", "true"], "much"),
                             (["run", "--gpu", "virtual:abacus", "--", "true"], "abacus"),
                             (["run", "--gpu", "virtual:h200"],), (["run", "--gpu", "virtual:h200", "--"],)):
        fails(place, words, *patterns)


def virtual(*command):
    return ["--gpu", "virtual:h200", "--quiet", "--", *command]


def program_is_missing(place, recording):
    fails(place, ["run", *virtual("/nowhere/at/all")], "/nowhere/at/all", status=127)
    fails(place, ["run", *virtual("no-such-program-anywhere")], "no-such-program-anywhere", status=127)


def program_is_not_executable(place, recording):
    path = place / "plain-text"
    path.write_text("no program\n")
    path.chmod(0o644)
    fails(place, ["run", *virtual(path)], "plain-text", status=126)
    fails(place, ["run", *virtual(place)], str(place), status=126)


# ---- gpuwhy run: programs that cannot be observed ---------------------------------------------------------------------

def same_without_and_with(place, name, argv, stderr_has=()):
    plain = run_plain(argv, Card(), new_folder(place, name + "-plain"))
    observed = run_observed(argv, Card(), new_folder(place, name))
    expect((plain.status, plain.stdout) == (observed.status, observed.stdout),
           f"{(plain.status, plain.stdout)} without, {(observed.status, observed.stdout)} with: "
           f"{observed.stderr.decode(errors='replace')}")
    for word in stderr_has:
        expect(word.encode() in observed.stderr.lower(), f"{word!r} is not in {observed.stderr!r}")
    return observed


def not_called_clean(observed):
    verdict = observed.verdict()
    expect(verdict["status"] != "clean", f"what could not be observed is called clean: {verdict['headline']}")


def static_program(place, recording):
    source, path = place / "static.c", place / "static-program"
    source.write_text('#include <stdio.h>\nint main(void)\n{\n    puts("static");\n    return 4;\n}\n')
    built = subprocess.run(["cc", "-static", "-o", str(path), str(source)], capture_output=True)
    if built.returncode != 0:
        raise CaseSkipped("cc -static does not work here")
    observed = same_without_and_with(place, "static", [path], ["static"])
    expect(observed.status == 4, f"exit {observed.status}")
    not_called_clean(observed)


def elf32():
    """Write a complete 32-bit x86 program by hand: exit(5)."""
    code = bytes.fromhex("b801000000" "bb05000000" "cd80")
    base, head = 0x08048000, 52 + 32
    header = struct.pack("<16sHHIIIIIHHHHHH", b"\x7fELF\x01\x01\x01", 2, 3, 1, base + head, 52, 0, 0, 52, 32, 1, 0, 0, 0)
    segment = struct.pack("<IIIIIIII", 1, 0, base, base, head + len(code), head + len(code), 5, 4096)
    return header + segment + code


def program_of_32_bits(place, recording):
    path = place / "program32"
    path.write_bytes(elf32())
    path.chmod(0o755)
    try:
        runs = subprocess.run([str(path)]).returncode == 5
    except OSError:
        runs = False
    if runs:
        not_called_clean(same_without_and_with(place, "elf32", [path], ["32"]))
    else:  # this kernel cannot run 32-bit programs, so the status is the shell's
        status, out, err = gpuwhy("run", *virtual(path), folder=place)
        expect(status == 126 or status < 0 or status >= 126, f"exit {status}: {out}{err}")


def setuid_program(place, recording):
    """The loader ignores the preload in a setuid program of another user. This is reported and harmless."""
    path = place / "setuid-program"
    shutil.copy(SCENARIOS / "s28_host", path)
    if os.geteuid() != 0:
        raise CaseSkipped("only root can make a program of another user")
    os.chown(path, 65534, 65534)
    path.chmod(0o4755)
    for folder in (place, *place.parents):
        if not os.stat(folder).st_mode & stat.S_IXOTH:
            folder.chmod(0o755)
    observed = same_without_and_with(place, "setuid", [path, "--help"], ["set"])
    not_called_clean(observed)


def file_for_output_exists(place, recording):
    taken = place / "taken.gpuwhy"
    taken.write_text("precious\n")
    fails(place, ["run", "--gpu", "virtual:h200", "-o", taken, "--", "true"], "taken.gpuwhy")
    expect(taken.read_text() == "precious\n", "a file of the user was overwritten")


# ---- gpuwhy run: a machine in trouble ---------------------------------------------------------------------------------

def in_own_mounts(script):
    """Run a shell script as root in a separate mount namespace."""
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        raise CaseSkipped("needs root and unshare")
    if subprocess.run(["unshare", "-m", "sh", "-c", "mount -t tmpfs -o size=64k none /mnt"],
                      capture_output=True).returncode != 0:
        raise CaseSkipped("this root may not mount")
    return ["unshare", "-m", "sh", "-c", script, "sh"]


def supervised(place, name, script, *options):
    """Run a healthy program under gpuwhy, in mounts made by `script`, which ends in exec "$@"."""
    folder = new_folder(place, name)
    prefix = in_own_mounts(script)
    command = [*prefix, str(GPUWHY), "run", "--gpu", "virtual:h200,memory=4GiB", *map(str, options), "--", str(CNN),
               "--iterations", "300"]
    run = execute(command, folder, base_environment(folder))
    plain = run_plain([CNN, "--iterations", "300"], Card("4GiB"), new_folder(place, name + "-plain"))
    expect((run.status, run.stdout) == (plain.status, plain.stdout),
           f"the program suffered: exit {run.status}: {run.stderr.decode(errors='replace')}")
    return run


def disk_is_full(place, recording):
    run = supervised(place, "full", 'mount -t tmpfs -o size=8k none /mnt && exec "$@"', "-o", "/mnt/run.gpuwhy")
    text = run.stderr.decode(errors="replace")
    expect("space" in text.lower() or "full" in text.lower(), f"the full disk is not mentioned: {text}")


def no_tmpfs(place, recording):
    run = supervised(place, "no-tmpfs",
                     'mount --bind /proc/sys /dev/shm 2>/dev/null || mount -t proc none /dev/shm; '
                     'unset XDG_RUNTIME_DIR; exec "$@"')
    text = run.stderr.decode(errors="replace")
    expect(text.strip(), "nothing is said")


def tmpfs_is_full(place, recording):
    run = supervised(place, "full-tmpfs", 'mount -t tmpfs -o size=64k none /dev/shm && unset XDG_RUNTIME_DIR; exec "$@"')
    expect(run.stderr.decode(errors="replace").strip(), "nothing is said")


def state_folder_is_read_only(place, recording):
    folder = new_folder(place, "state")
    environment = base_environment(folder) | {"XDG_STATE_HOME": "/proc/nowhere", "HOME": "/proc/nowhere"}
    run = execute([str(GPUWHY), "run", "--gpu", "virtual:h200", "--", str(CNN)], folder, environment)
    expect(run.status == 0, f"the program suffered: exit {run.status}: {run.stderr.decode(errors='replace')}")
    expect(b"run 1" in run.stdout, "the program's output is gone")


CASES = by_name(files_that_are_no_recordings, file_is_unreadable, newer_version, truncated, damaged, report_of_bad_files,
                report_into_a_folder, report_of_damaged_recordings, wrong_words, program_is_missing,
                program_is_not_executable, static_program, program_of_32_bits, setuid_program, file_for_output_exists,
                disk_is_full, no_tmpfs, tmpfs_is_full, state_folder_is_read_only)


def test():
    with Workplace() as place:
        run_cases(CASES, recorded(place))


if __name__ == "__main__":
    main(test)
