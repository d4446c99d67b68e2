"""Programs that run on an older C library than the one with which gpuwhy was built.

apt downloads the C library of the distribution's older release, with separate settings, lists and cache, so the
machine is not changed. It is unpacked into the build folder and kept there. Programs are compiled against it and
started by its loader, together with the facade, the hook and the virtual GPU of this build. gpuwhy itself runs on
the machine's C library.

Skipped, with the reason, if that library is not available: no network, not Debian or Ubuntu, no compiler.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess

from harness import (BUILD, CNN, VIRT_LIB, Card, Workplace, expect, gpuwhy, main, new_folder, run_observed,
                     run_plain, skip)

SOURCE = pathlib.Path(__file__).resolve().parents[2]
OLDER = {"debian": "bullseye", "ubuntu": "focal"}  # both: glibc 2.31
PACKAGES = ("libc6", "libc6-dev", "linux-libc-dev")
COMPILER = os.environ.get("CC", "cc")


class Unavailable(Exception):
    """The reason why there is no older C library here."""


# ---- downloading it ------------------------------------------------------------------------------------------------

def system():
    """Read /etc/os-release: {"ID": "debian", ...}."""
    try:
        text = open("/etc/os-release", encoding="utf-8").read()
    except OSError as error:
        raise Unavailable(f"which system this is, is not known: {error}") from error
    return {key: value.strip("\"'") for key, value in re.findall(r"^(\w+)=(.*)$", text, re.M)}


def ask(*command, folder=None):
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, errors="replace", timeout=240,
                              env={**os.environ, "LC_ALL": "C"})
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{command[0]}: {error}") from error
    if done.returncode != 0:
        last = (done.stderr.strip() or done.stdout.strip() or "no reason given").splitlines()[-1]
        raise Unavailable(f"{command[0]}: {last}")
    return done.stdout


def archive_address(codename):
    """Return the server from which this machine gets its own packages."""
    found = re.search(rf"^'([^']+)/dists/{re.escape(codename)}/InRelease'", ask("apt-get", "--print-uris", "update"), re.M)
    if found is None:
        raise Unavailable(f"apt has no source for {codename}, so there is none to ask for the older release")
    return found.group(1)


def apt_get(place, *arguments):
    settings = [f"Dir::Etc::SourceList={place}/sources.list", "Dir::Etc::SourceParts=/dev/null",
                f"Dir::State={place}/state", "Dir::State::status=/dev/null", f"Dir::Cache={place}/cache",
                "Acquire::Languages=none", "Acquire::Retries=2", "Acquire::http::Timeout=30"]
    if os.geteuid() == 0:
        settings.append("APT::Sandbox::User=root")  # other users need not be able to read the build folder
    options = [word for setting in settings for word in ("-o", setting)]
    return ask("apt-get", "-q", *options, *arguments, folder=place)


def keep_links_inside(root):
    """Make a package's absolute links point into this folder instead of the root."""
    for link in [path for path in root.rglob("*") if path.is_symlink()]:
        target = os.readlink(link)
        if os.path.isabs(target):
            link.unlink()
            link.symlink_to(os.path.relpath(root / target.lstrip("/"), link.parent))


def fetch():
    """The unpacked C library of the older release, made once per build folder."""
    what = system()
    suite = OLDER.get(what.get("ID"))
    if suite is None or "VERSION_CODENAME" not in what:
        raise Unavailable("neither Debian nor Ubuntu: there is no older release to ask for")
    place = BUILD / "tests" / "e2e" / "old-glibc" / suite
    root = place / "root"
    if root.exists():
        return root
    shutil.rmtree(place, ignore_errors=True)
    for folder in ("state/lists/partial", "cache/archives/partial", "unpacked"):
        (place / folder).mkdir(parents=True)
    keys = f"/usr/share/keyrings/{what['ID']}-archive-keyring.gpg"
    (place / "sources.list").write_text(
        f"deb [signed-by={keys}] {archive_address(what['VERSION_CODENAME'])} {suite} main\n")
    apt_get(place, "update", "--error-on=any")
    apt_get(place, "download", *PACKAGES)
    for package in sorted(place.glob("*.deb")):
        ask("dpkg", "-x", str(package), str(place / "unpacked"))
        package.unlink()
    for folder in ("state", "cache"):
        shutil.rmtree(place / folder)
    keep_links_inside(place / "unpacked")
    (place / "unpacked").rename(root)  # last, so that the folder is complete if it exists
    return root


# ---- programs on it ------------------------------------------------------------------------------------------------

class OldLibrary:
    def __init__(self, root):
        self.root = root
        self.folder = next(root.glob("lib/*/libc.so.6")).parent
        self.loader = next(self.folder.glob("ld-linux*.so.*"))
        said = subprocess.run([self.loader, self.folder / "libc.so.6"], capture_output=True, text=True, check=True).stdout
        self.version = re.search(r"release version (\d+\.\d+)", said).group(1)

    def compile(self, program, sources, includes, driver=VIRT_LIB, more=()):
        """Make `program` load the old loader and libraries by itself, as on a machine that has no others."""
        develop = self.root / "usr" / "lib" / self.folder.name  # before the compiler's defaults
        command = [COMPILER, "-O1", "-g", "-std=gnu17", f"--sysroot={self.root}", f"-B{develop}", f"-L{develop}",
                   "-o", program, *sources,
                   SOURCE / "tests" / "e2e" / "old_glibc.c", *(f"-I{folder}" for folder in includes), *more,
                   *([driver] if driver else []), "-ldl", "-lpthread", f"-Wl,--dynamic-linker={self.loader}",
                   f"-Wl,--disable-new-dtags,-rpath,{self.folder}"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        expect(done.returncode == 0, f"{program.name} does not build against the older C library:\n{done.stderr}")
        return program

    def cnn(self, folder):
        examples = SOURCE / "examples"
        return self.compile(folder / "cnn", [*(examples / "cnn").glob("*.c"), *(examples / "common").glob("*.c")],
                            [examples / "common", SOURCE / "src" / "api", BUILD / "generated"])

    def conformance(self, folder):
        return self.compile(folder / "conformance",
                            [SOURCE / "tests" / "conformance" / "conformance.c", SOURCE / "tests" / "conformance" / "card.c",
                             BUILD / "tests" / "conformance" / "conformance_kernels.c"],
                            [SOURCE / "virtual-gpu", SOURCE / "src" / "api", BUILD / "generated"])

    def probe(self, folder, name, driver=None, more=()):
        """Build the program of tests/hook that calls the driver by a given route and prints the results."""
        source = SOURCE / "src"
        return self.compile(folder / name, [SOURCE / "tests" / "hook" / "probe.c"],
                            [source / "base", source / "format", source / "api", BUILD / "generated"], driver,
                            ["-D_GNU_SOURCE", *more])

    def runs(self, stderr, what):
        """The program itself prints the C library that it runs on."""
        expect(f"C library: {self.version}\n".encode() in stderr, f"{what} did not run on glibc {self.version}:\n"
               + stderr.decode(errors="replace"))


def events(recording, kind):
    """Count the events of one kind in a recording."""
    status, out, err = gpuwhy("export", recording, "--to", "json")
    expect(status == 0, f"export: exit {status}: {err}")
    return sum(1 for item in json.loads(out)["items"] if item.get("kind") == kind)


def judged_as_on_the_new_one(old, place, argv_of, card, status, cause):
    """The same job on both C libraries has the same status, verdict and number of events."""
    seen = {}
    for name, argv in argv_of.items():
        run = run_observed(argv, card, new_folder(place, f"{name}-{status}"))
        verdict = run.verdict()
        expect((verdict["status"], verdict["cause"]) == (status, cause), f"{name}: judged {verdict['status']}, "
               f"{verdict['cause']}: {verdict['headline']}; stderr:\n{run.stderr.decode(errors='replace')}")
        expect(verdict["certainty"] in ("supported", None), f"{name}: not {verdict['certainty']}")
        seen[name] = (run.status, events(run.recording, "ALLOC"), events(run.recording, "FREE"))
        if name != "new":
            old.runs(run.stderr, name)
    expect(seen["new"][1] > 10, f"hardly an allocation was recorded: {seen}")
    expect(len(set(seen.values())) == 1, f"(exit status, allocations, frees) differ: {seen}")
    print(f"{status}: {seen}")


def the_whole_driver(old, place):
    """The conformance suite passes on the virtual GPU, and prints the same under gpuwhy as on the new C library."""
    suite = old.conformance(place)
    plain = run_plain([suite, "--card-memory-light"], Card(), new_folder(place, "suite-plain"))
    old.runs(plain.stderr, "the conformance suite")
    expect(plain.status == 0, "conformance:\n" + "\n".join(odd_lines(plain)))
    new = run_observed([BUILD / "tests" / "conformance" / "conformance", "--card-memory-light"], Card(),
                       new_folder(place, "suite-new"))
    observed = run_observed([suite, "--card-memory-light"], Card(), new_folder(place, "suite-observed"))
    old.runs(observed.stderr, "the observed conformance suite")
    expect(odd_lines(observed) == odd_lines(new), f"conformance, observed: {odd_lines(observed)}, not {odd_lines(new)}")
    print("conformance:", plain.stdout.decode().splitlines()[-1])


def odd_lines(run):
    return [line for line in run.stdout.decode(errors="replace").splitlines() if not line.startswith("ok ")]


def every_route(old, place):
    """The hook's own tests with their programs on the old C library: all routes to the driver, fork, threads, exits."""
    tests = BUILD / "tests" / "hook"
    fake = tests / "fake_same" / "libcuda.so.1"
    environment = {**os.environ, "GPUWHY_TEST_PROBE": str(old.probe(place, "hook_probe")),
                   "GPUWHY_TEST_PROBE_LINKED": str(old.probe(place, "hook_probe_linked", fake,
                                                             ["-DPROBE_LINKED"]))}
    for part in ("routes", "processes", "fork_sites", "buffer", "room", "fallback", "threads", "guard", "guard_kinds",
                 "inject", "fence"):
        done = subprocess.run([tests / "hook_test", part], env=environment, capture_output=True, text=True, timeout=240)
        expect(done.returncode == 0, f"hook_test {part}:\n{done.stdout}{done.stderr}")
        old.runs(done.stderr.encode(), f"hook_test {part}")
        print("hook:", done.stdout.strip().splitlines()[-1])


def test():
    if shutil.which(COMPILER) is None:
        skip(f"no compiler ({COMPILER})")
    try:
        old = OldLibrary(fetch())
    except Unavailable as reason:
        skip(f"no older C library: {reason}")
    own = os.confstr("CS_GNU_LIBC_VERSION").split()[1]
    if [int(n) for n in old.version.split(".")] >= [int(n) for n in own.split(".")]:
        skip(f"this machine's own C library ({own}) is not newer than the older release's ({old.version})")
    print(f"programs on glibc {old.version}, gpuwhy on glibc {own}")
    with Workplace() as place:
        cnn = old.cnn(place)
        by_loader = [old.loader, "--library-path", old.folder, cnn]
        leak, twin = ["--runs", "2", "--batch", "16384", "--keep-runs"], ["--runs", "2", "--batch", "16384"]
        for options, status, cause in ((leak, "fault", "gpu-oom-leak"), (twin, "clean", None)):
            judged_as_on_the_new_one(old, place, {"new": [CNN, *options], "old": [cnn, *options],
                                                  "old-by-loader": [*by_loader, *options]},
                                     Card("16GiB"), status, cause)
        the_whole_driver(old, place)
        every_route(old, place)


if __name__ == "__main__":
    main(test)
