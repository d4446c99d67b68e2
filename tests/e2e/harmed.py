"""Programs that take away what gpuwhy needs behave as without it, and the verdict says what was not recorded.

The twin of each is the same program that takes nothing away.
"""
import os
import shutil
import subprocess

from harness import (GPUWHY, SCENARIOS, Card, CaseSkipped, base_environment, by_name, expect, expect_same, main,
                     new_folder, run_cases, run_observed, run_plain)

FORBIDS = str(SCENARIOS / "forbids")
CARD = Card(memory="4GiB")


def both(folder, *words):
    """Run with and without gpuwhy, compare, and return the verdict."""
    plain = run_plain([FORBIDS, *words], CARD, new_folder(folder, "plain"))
    observed = run_observed([FORBIDS, *words], CARD, new_folder(folder, "observed"))
    expect(plain.stdout.endswith(b"alive\n") and plain.status == 7, f"the program does not run here: {plain.stdout}")
    expect_same(plain, observed)
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
                                   descriptors, address_space, rights_of_root)))
