"""Programs that take away what gpuwhy needs behave as without it, and the verdict says what was not recorded.

The twin of each is the same program that takes nothing away.
"""
import json
import os
import shutil
import subprocess
import sys

from harness import (CNN, GPUWHY, SCENARIOS, Card, CaseSkipped, base_environment, by_name, checked, expect, expect_same,
                     expect_text, gpuwhy, main, new_folder, run_cases, run_observed, run_plain, texts)

FORBIDS = str(SCENARIOS / "forbids")
CARD = Card(memory="4GiB")


def both(folder, *words):
    """Run with and without gpuwhy, compare, and return the verdict."""
    plain = run_plain([FORBIDS, *words], CARD, new_folder(folder, "plain"))
    observed = run_observed([FORBIDS, *words], CARD, new_folder(folder, "observed"))
    expect(plain.stdout.endswith(b"alive\n") and plain.status == 7, f"the program does not run here: {plain.stdout}")
    expect_same(plain, observed)
    may_lack_card = words in (("descriptors",), ("address-space",))
    expect(may_lack_card or plain.stdout.startswith(b"started"), f"no card: {plain.stdout}")
    return observed.verdict()


def told(verdict):
    unobserved = verdict["coverage"]["unobserved"]
    expect(verdict["coverage"]["processes"] == 0 or unobserved, "the verdict does not say that calls were not recorded")
    claims = [line for line in verdict["ruled_out"] if "the GPU" in line or "no request" in line]
    expect(not claims, f"ruled out without a recording: {claims}")
    return unobserved[0] if unobserved else "no process was recorded"


def nothing_is_taken(folder):
    verdict = both(folder)
    expect(verdict["coverage"]["processes"] == 1 and not verdict["coverage"]["unobserved"], "the twin is not recorded")


def the_clock(folder):
    text = told(both(folder, "clock"))
    expect("time stamp counter" in text, text)


def the_clock_before_the_first_call(folder):
    return told(both(folder, "clock-first"))


def system_calls(folder):
    text = told(both(folder, "calls"))
    expect("system calls" in text, text)


def descriptors(folder):
    both(folder, "descriptors")


def address_space(folder):
    return told(both(folder, "address-space"))


def locked_memory(folder):
    """mlockall(MCL_FUTURE) fills new mappings with pages. The card's memory must not take the host's."""
    if os.geteuid() != 0:
        raise CaseSkipped("needs the right to lock memory")
    plain = run_plain([FORBIDS, "lock"], Card(memory="1GiB"), new_folder(folder, "plain"))
    text = plain.stdout.decode()
    expect(text.startswith("started") and plain.status == 7, f"the program does not run here: {text}")
    resident = int(text.split(" KiB resident")[0].split()[-1])
    expect(resident < 300 << 10, f"{resident} KiB are resident")


def another_user(folder):
    """A program that becomes another user before its first call may not open the state that the cards share."""
    if os.geteuid() != 0:
        raise CaseSkipped("needs root")
    return both(folder, "user")["headline"]


def another_root_folder(folder):
    """A program that changes its root folder before its first call finds neither the cards' state nor the hook."""
    if os.geteuid() != 0:
        raise CaseSkipped("needs root")
    return told(both(folder, "root"))


FILLS = ("import ctypes, sys\n"
         "cu = ctypes.CDLL('libcuda.so.1')\n"
         "device, context, block = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_uint64()\n"
         "cu.cuInit(0), cu.cuDeviceGet(ctypes.byref(device), 0), cu.cuCtxCreate_v2(ctypes.byref(context), 0, device)\n"
         "cu.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(1 << 30))\n"
         "for i in range(int(sys.argv[1])):\n"
         "    cu.cuMemsetD8_v2(ctypes.c_uint64(block.value + (i << 20)), 1, ctypes.c_size_t(1 << 20))\n")


def memory_of_the_host(folder):
    """A program that fills the virtual card is ended before the host's memory is used up; there is no verdict."""
    card = Card(more="host=64MiB")
    run = run_observed([sys.executable, "-c", FILLS, "256"], card, new_folder(folder, "full"))
    said = run.stderr.decode()
    expect(run.status == 124, f"status {run.status}: {said}")
    expect("no memory left" in said and "no verdict" in said and "Verdict " not in said, said)
    expect(not run.json_path.exists() or not run.json_path.read_text(), "there is a verdict")
    later = json.loads(gpuwhy("explain", "--json", run.recording, folder=folder)[1])
    expect(later["cause"] is None and "no memory left for the virtual cards" in later["headline"], later["headline"])
    verdict = run_observed([sys.executable, "-c", FILLS, "16"], card, new_folder(folder, "twin")).verdict()
    expect(verdict["status"] != "fault", f"the twin: {verdict['headline']}")


def memory_of_the_host_in_another_run(folder):
    """What ended a run on the same cards, at any time, is not held against this one."""
    shared = new_folder(folder, "cards")
    (shared / "notes").write_text("host-memory /dev/shm/gpuwhy-0-1-abcdef: 512 MiB more, 1 MiB were left\n")
    run = run_observed([sys.executable, "-c", FILLS + "sys.exit(3)", "16"], CARD, new_folder(folder, "run"),
                       variables={"GPUWHY_VIRTUAL_DIR": str(shared)})
    expect(run.status == 3 and "no memory left" not in json.dumps(run.verdict()), run.stderr)


def disk_of_the_recording(folder):
    """A recording on a full disk says from where on it is silent, and rules nothing out after that."""
    def explained(size):
        disk = folder / f"disk-{size}"
        disk.mkdir()
        script = (f'mount -t tmpfs -o size={size}k none {disk} || exit 77\n'
                  f'{GPUWHY} run {" ".join(CARD.options())} --no-history --no-verdict -o {disk}/run.gpuwhy -- '
                  f'{CNN} --runs 2 --bad-address >/dev/null 2>&1\n'
                  f'{GPUWHY} explain --no-history --json {disk}/run.gpuwhy')
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], capture_output=True, text=True, timeout=200,
                              env=base_environment(folder))
        if "unshare" in done.stderr or done.returncode == 77:
            raise CaseSkipped("no tmpfs can be mounted here")
        return checked(json.loads(done.stdout))

    for size in (16, 64):
        verdict = explained(size)
        expect_text(verdict, "from here on, nothing is in the recording: .*No space left", "the full disk")
        expect("itself died" not in texts(verdict), f"{size} KiB: {texts(verdict)}")
        expect(verdict["status"] == "undetermined" or verdict["cause"] == "illegal-address", verdict["headline"])
        told(verdict)
    verdict = explained(4096)
    expect(verdict["cause"] == "illegal-address" and not verdict["coverage"]["unobserved"], verdict["headline"])


def recording_that_goes_away(folder):
    """A program that removes or renames the recording of its own run still gets its verdict."""
    for line in ('rm "$0"', 'mv "$0" "$0.kept.gpuwhy"'):
        place = new_folder(folder, line[:2])
        argv = ["/bin/sh", "-c", line + ' && exec "$@"', place / "run.gpuwhy", CNN, "--runs", "2", "--bad-address"]
        run = run_observed(argv, CARD, place)
        verdict = run.verdict()
        expect(verdict["cause"] == "illegal-address" and verdict["certainty"] == "established", verdict["headline"])
        said = " ".join(run.stderr.decode().split())
        expect("was removed or renamed while the program ran" in said and verdict["recording"] is None, said)
        expect(not run.recording.exists(), "the name is used again")
    status, out, _ = gpuwhy("explain", "--json", place / "run.gpuwhy.kept.gpuwhy")
    expect(status == 0 and json.loads(out)["cause"] == "illegal-address", f"the renamed recording: {out}")


def rights_of_root(folder):
    """A program that starts as root and becomes another user can load the libraries, wherever root's cache is."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        raise CaseSkipped("needs root and setpriv")
    cache = folder / "cache"
    cache.mkdir(mode=0o700)
    done = subprocess.run([GPUWHY, "run", *CARD.options(), "--no-history", "-o", folder / "run.gpuwhy", "--no-verdict", "--",
                           "setpriv", "--reuid", "65534", "--clear-groups", "true"], capture_output=True, text=True,
                          env={**base_environment(folder), "XDG_CACHE_HOME": str(cache)})
    expect("ld.so" not in done.stderr, done.stderr)
    expect(done.returncode == 0, f"status {done.returncode}: {done.stderr}")


if __name__ == "__main__":
    main(lambda: run_cases(by_name(nothing_is_taken, the_clock, the_clock_before_the_first_call, system_calls,
                                   descriptors, address_space, memory_of_the_host,
                                   memory_of_the_host_in_another_run, disk_of_the_recording, recording_that_goes_away,
                                   rights_of_root, locked_memory, another_user, another_root_folder)))
