"""The log that cuDNN writes with --deep. It stays small on disk however much is written. It belongs to the user if
the user has already requested one. If it cannot be created, the program runs as usual.

    library_log.py
"""
import re
import resource
import subprocess

from harness import GPUWHY, SCENARIOS, TIMEOUT_S, Workplace, base_environment, behind_sanitizer, expect, gpuwhy, main, new_folder, wait_until

LIBRARIES = {8: SCENARIOS / "fake" / "libcudnn.so.8.7.0", 9: SCENARIOS / "fake" / "libcudnn.so.9.3.0"}
ENTRY_BYTES = 300  # minimum size
HELD_BYTES = 12 << 20  # data waiting to be read, plus one read


def start(folder, major, *options, environment=(), before=None):
    command = [str(GPUWHY), "run", "--gpu", "virtual:h200,memory=4GiB", "--deep", "-o", str(folder / "run.gpuwhy"), "--",
               *behind_sanitizer([SCENARIOS / "s09_library_log", "--library", LIBRARIES[major], *options])]
    return subprocess.Popen(command, cwd=folder / "work", env={**base_environment(folder), **dict(environment)},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=before)


def facts(folder, key):
    status, out, err = gpuwhy("export", folder / "run.gpuwhy", "--to", "json", folder=folder)
    expect(status == 0, err)
    return re.findall(rf'"{re.escape(key)}", *"value": *"([^"]*)"', out) or re.findall(rf"{re.escape(key)}[^\n]*", out)


def much_stays_small(place, major):
    """The apparent size shows that everything was written; the blocks show that the space was released."""
    count = 150000
    folder = new_folder(place, f"much-{major}")
    log, go_on = folder / "run.cudnn.log", folder / "go-on"
    process = start(folder, major, "--repaired", "--warnings", str(count), "--until", str(go_on))
    try:
        wait_until(log.exists, "there is no log")
        wait_until(lambda: log.stat().st_size >= count * ENTRY_BYTES, "not everything was written")
        wait_until(lambda: log.stat().st_blocks * 512 <= HELD_BYTES, "the space was not released")
    finally:
        go_on.touch()
        out, err = process.communicate(timeout=TIMEOUT_S)
    expect(process.returncode == 0 and b"worked" in out, f"{process.returncode}: {err.decode(errors='replace')}")
    expect(not log.exists(), "the log was left behind")
    size = (folder / "run.gpuwhy").stat().st_size
    expect(size < 1 << 20, f"{count} equal warnings made a recording of {size} bytes")


def asked_for_by_the_user(place):
    """A log that the user requested belongs to the user."""
    folder = new_folder(place, "own")
    own = folder / "own.log"
    process = start(folder, 9, "--what", "argument", environment={"CUDNN_LOGDEST_DBG": str(own), "CUDNN_LOGLEVEL_DBG": "1"})
    process.communicate(timeout=TIMEOUT_S)
    expect("BAD_PARAM" in own.read_text(), "the user's own log is not where it was asked for")
    expect(not (folder / "run.cudnn.log").exists(), "a second log")
    expect("already configures" in str(facts(folder, "cudnn.log.none")), "not recorded why there is none")


def file_size_is_limited(place):
    """If the log reached the file size limit, SIGXFSZ would end the program."""
    limit = 64 << 20
    folder = new_folder(place, "limited")
    process = start(folder, 8, "--repaired", "--warnings", str(limit // ENTRY_BYTES),
                    before=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit)))
    out, err = process.communicate(timeout=TIMEOUT_S)
    expect(process.returncode == 0 and b"worked" in out, f"{process.returncode}: {err.decode(errors='replace')}")
    expect("ulimit -f" in str(facts(folder, "cudnn.log.none")), "not recorded why there is none")


def test():
    with Workplace() as place:
        for major in LIBRARIES:
            much_stays_small(place, major)
        asked_for_by_the_user(place)
        file_size_is_limited(place)


if __name__ == "__main__":
    main(test)
