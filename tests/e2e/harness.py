"""Run programs with and without gpuwhy, on a virtual or a real GPU, and read gpuwhy's output.

Standard library only. Environment variables:

    GPUWHY_BUILD      the build folder (build/): gpuwhy, examples/, tests/scenarios/; or an installed tree: bin/gpuwhy
    GPUWHY_PRODUCT    the build folder of a product that is tested with gpuwhy: libgpuscope, trainer
    GPUWHY_VIRT_LIB   the virtual GPU's driver library
    GPUWHY_SANITIZE   "", "address,undefined" or "thread": the build's sanitizer
    GPUWHY_E2E_GPU    "virtual" (default) or "real"
"""
import filecmp
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import json_schemas
import screen

SKIPPED = 77  # ctest prints a test with this status as skipped
TIMEOUT_S = float(os.environ.get("GPUWHY_E2E_TIMEOUT_S", "240"))

BUILD = pathlib.Path(os.environ.get("GPUWHY_BUILD", pathlib.Path(__file__).parents[2] / "build")).resolve()
GPUWHY = next((path for path in (BUILD / "gpuwhy", BUILD / "bin" / "gpuwhy") if path.is_file()), BUILD / "gpuwhy")
PRODUCT = pathlib.Path(os.environ.get("GPUWHY_PRODUCT", BUILD)).resolve()
CNN = BUILD / "examples" / "cnn"
SCENARIOS = BUILD / "tests" / "scenarios"
VIRT_LIB = pathlib.Path(os.environ.get("GPUWHY_VIRT_LIB", BUILD / "lib" / "gpuwhy" / "virtual" / "libcuda.so.1"))
REAL = os.environ.get("GPUWHY_E2E_GPU", "virtual") == "real"
SANITIZE = os.environ.get("GPUWHY_SANITIZE", "")


class Failure(Exception):
    """What is wrong, in one sentence."""


def expect(condition, text):
    if not condition:
        raise Failure(text)


def checked(document):
    """Return a JSON document of gpuwhy after checking it against its schema."""
    try:
        return json_schemas.check(document)
    except json_schemas.SchemaError as error:
        raise Failure(str(error)) from None


class CaseSkipped(Exception):
    """Why a case cannot run on this machine."""


def skip(reason):
    print(f"skipped: {reason}")
    sys.exit(SKIPPED)


# ---- GPUs ----------------------------------------------------------------------------------------------------------

class Card:
    """A GPU of a given size: virtual, or a real one limited by --memory."""

    def __init__(self, memory=None, name="h200", more="", whole_if_real=False):
        """`whole_if_real`: the fault comes from the GPU itself or needs two processes, so a limit by --memory cannot
        show it."""
        self.memory, self.name, self.more = memory, name, more
        if REAL and whole_if_real:
            self.memory = None

    def same_without_gpuwhy(self):
        """A limit exists only on the virtual GPU, or on a real one under gpuwhy."""
        return not (REAL and self.memory)

    def specification(self):
        return self.name + (f",memory={self.memory}" if self.memory else "") + (f",{self.more}" if self.more else "")

    def options(self):
        if REAL:
            return ["--gpu", "real"] + (["--memory", self.memory] if self.memory else [])
        return ["--gpu", "virtual:" + self.specification()]


# ---- environments --------------------------------------------------------------------------------------------------

@functools.cache
def sanitizer_runtime():
    """Return the library that must be loaded first in a sanitized process."""
    name = {"address": "libasan.so", "thread": "libtsan.so"}.get(SANITIZE.split(",")[0])
    if name is None:
        return None
    path = subprocess.run(["gcc", f"-print-file-name={name}"], capture_output=True, text=True).stdout.strip()
    return str(pathlib.Path(path).resolve()) if os.path.isabs(path) else None


def base_environment(folder):
    environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
    environment["XDG_STATE_HOME"] = str(folder / "state")
    if SANITIZE:
        # The programs crash and leak on purpose, and signals must have the same effect as without a sanitizer.
        common = "handle_segv=0:handle_sigbus=0:handle_abort=0:handle_sigill=0:handle_sigfpe=0"
        environment["ASAN_OPTIONS"] = "detect_leaks=0:abort_on_error=0:allow_user_segv_handler=1:" + common
        environment["TSAN_OPTIONS"] = "halt_on_error=1:report_signal_unsafe=0:" + common
        environment["UBSAN_OPTIONS"] = "halt_on_error=1:print_stacktrace=1"
    return environment


def behind_sanitizer(argv, ours=None):
    """Return the command with the sanitizer's runtime as the first preload. Use it only for programs of our own
    build, which load sanitized libraries: libtsan alone crashes some other programs (dash)."""
    runtime = sanitizer_runtime()
    ours = any(pathlib.Path(argv[0]).is_relative_to(folder) for folder in (BUILD, PRODUCT)) if ours is None else ours
    if runtime is None or not ours:
        return [str(a) for a in argv]
    line = f'LD_PRELOAD="{runtime}${{LD_PRELOAD:+:$LD_PRELOAD}}" exec "$@"'
    return ["/bin/sh", "-c", line, "sh"] + [str(a) for a in argv]


# ---- runs ----------------------------------------------------------------------------------------------------------

class Run:
    """One finished run: status (negative: the signal), outputs, the files it left, and its truth file."""

    def __init__(self, folder, status, stdout, stderr, seconds):
        self.folder, self.status, self.stdout, self.stderr, self.seconds = folder, status, stdout, stderr, seconds
        self.work = folder / "work"
        self.json_path = folder / "verdict.json"
        self.recording = folder / "run.gpuwhy"

    def truth(self, key, index=0):
        values = self.truths(key)
        expect(index < len(values), f"the program said nothing about {key}")
        return values[index]

    def truths(self, key):
        path = self.folder / "truth"
        found = re.findall(rf"^truth {re.escape(key)}=(.*)$", path.read_text(), re.M) if path.exists() else []
        return [int(v) if re.fullmatch(r"-?\d+", v) else v for v in found]

    def verdict(self, by_schema=True):
        """Return the verdict. `by_schema`: check it against its schema."""
        expect(self.json_path.exists(), f"gpuwhy wrote no verdict; its stderr: {self.stderr.decode(errors='replace')}")
        verdict = json.loads(self.json_path.read_text())
        return checked(verdict) if by_schema else verdict


def new_folder(parent, name):
    folder = pathlib.Path(parent) / name
    (folder / "work").mkdir(parents=True)
    return folder


def fill_in(argv, folder):
    return [str(a).replace("{truth}", str(folder / "truth")) for a in argv]


def execute(argv, folder, environment, signal_when=None):
    """Run to the end. `signal_when`: (text, signal): when stdout has the text, send the signal to the pid in the
    truth file."""
    started = time.monotonic()
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(argv, cwd=folder / "work", env=environment, stdin=subprocess.DEVNULL, stdout=out,
                                   stderr=err, start_new_session=True)
        try:
            if signal_when is not None:
                send_when(process, folder, *signal_when)
            status = process.wait(TIMEOUT_S)
        except BaseException as reason:  # also when this test is stopped: leave nothing running
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            if isinstance(reason, subprocess.TimeoutExpired):
                raise Failure(f"not over after {TIMEOUT_S:.0f} s: {' '.join(argv)}")
            raise
    return Run(folder, status, (folder / "stdout").read_bytes(), (folder / "stderr").read_bytes(),
               time.monotonic() - started)


def must(*command, environment=None, folder=None):
    """Run a command that has to succeed, and return the words that it printed."""
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, env=environment, cwd=folder,
                          timeout=240)
    expect(done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}")
    return done.stdout.split()


def wait_until(condition, failure, seconds=TIMEOUT_S):
    """Wait until the condition is true, and return its value. `failure` describes what is wrong if this takes too long."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        expect(time.monotonic() < deadline, f"waited {seconds:.0f} s: {failure}")
        time.sleep(0.01)
    return value


def is_alive(pid):
    """True if the process exists and is not a zombie."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def send_when(process, folder, text, number):
    deadline = time.monotonic() + TIMEOUT_S
    while process.poll() is None and time.monotonic() < deadline:
        pid = Run(folder, 0, b"", b"", 0).truths("pid")
        if pid and text in (folder / "stdout").read_bytes():
            os.kill(pid[0], number)
            return
        time.sleep(0.01)


def run_plain(argv, card, folder, signal_when=None):
    """Run as a user without gpuwhy would: the virtual GPU is found through the library path."""
    environment = base_environment(folder)
    if not REAL:
        (folder / "card").mkdir()
        environment["LD_LIBRARY_PATH"] = str(library_folder(folder))
        environment["GPUWHY_VIRTUAL"] = card.specification()
        environment["GPUWHY_VIRTUAL_DIR"] = str(folder / "card")
    return execute(behind_sanitizer(fill_in(argv, folder)), folder, environment, signal_when)


def library_folder(folder):
    """Make a folder with the virtual driver under the names that programs load."""
    libraries = folder / "libraries"
    libraries.mkdir()
    for name in ("libcuda.so.1", "libcuda.so"):
        (libraries / name).symlink_to(VIRT_LIB.resolve())
    return libraries


def run_observed(argv, card, folder, options=(), signal_when=None, variables=None):
    """`variables`: more environment variables."""
    command = [str(GPUWHY), "run", *card.options(), "--json", str(folder / "verdict.json"), "-o",
               str(folder / "run.gpuwhy"), *options, "--", *behind_sanitizer(fill_in(argv, folder))]
    return execute(command, folder, {**base_environment(folder), **(variables or {})}, signal_when)


def documents(text):
    """Return the JSON documents at the beginning of a text; `watch` prints several."""
    found, decoder = [], json.JSONDecoder()
    while text.startswith("{"):
        document, end = decoder.raw_decode(text)
        found.append(document)
        text = text[end:].lstrip()
    return found


def gpuwhy(*arguments, folder=None, stdin=b"", environment=None, timeout=240):
    """Run any other gpuwhy command. Returns (status, stdout, stderr) as text."""
    environment = environment or base_environment(pathlib.Path(folder or tempfile.gettempdir()))
    done = subprocess.run([str(GPUWHY), *map(str, arguments)], input=stdin, capture_output=True, cwd=folder,
                          env=environment, timeout=timeout)
    if "--json" in map(str, arguments) and done.stdout.startswith(b"{") and done.returncode in (0, 1):
        for document in documents(done.stdout.decode()):
            checked(document)
    return done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")


# ---- comparisons ---------------------------------------------------------------------------------------------------

def expect_same(plain, observed):
    """With gpuwhy, the program's stdout, exit status and files are the same as without."""
    expect(plain.status == observed.status, f"exit status {observed.status} with gpuwhy, {plain.status} without")
    expect(plain.stdout == observed.stdout,
           f"stdout differs:\n--- without\n{plain.stdout.decode()}\n--- with\n{observed.stdout.decode()}")
    difference = filecmp.dircmp(plain.work, observed.work)
    odd = difference.left_only + difference.right_only + difference.diff_files + difference.funny_files
    expect(not odd, f"files differ with gpuwhy: {odd}")
    for line in plain.stderr.splitlines():
        expect(line in observed.stderr, f"a line of the program's stderr is gone: {line.decode(errors='replace')}")


# ---- reading a verdict ---------------------------------------------------------------------------------------------

def texts(verdict):
    """Return everything that a user reads, as one string."""
    parts = [verdict.get("headline") or ""] + [e["text"] or "" for e in verdict["evidence"]]
    for key in ("ruled_out", "consequences", "next", "advice"):
        parts += verdict.get(key) or []
    return "\n".join(parts)


def expect_screens(text, count, verdict=None):
    """Each of the `count` verdicts in the output fits on a screen; the last one is that of `verdict`."""
    found = screen.screens(text)
    expect(len(found) == count, f"{len(found)} verdicts instead of {count} in:\n{text}")
    for lines in found:
        problems = screen.wrong(lines, verdict if lines is found[-1] else None)
        expect(not problems, "\n".join(["the screen is wrong: " + "; ".join(problems), *lines]))


def has_value(verdict, value, tolerance=0.02, unit=None):
    return any(e["value"] is not None and abs(e["value"] - value) <= tolerance * abs(value)
               and (unit is None or e["unit"] == unit) for e in verdict["evidence"])


def expect_value(verdict, value, what, tolerance=0.02, unit=None):
    lines = [(e["value"], e["unit"], e["text"]) for e in verdict["evidence"]]
    expect(has_value(verdict, value, tolerance, unit), f"no evidence for {what} = {value}; there is {lines}")


def expect_text(verdict, pattern, what):
    expect(re.search(pattern, texts(verdict), re.I), f"nothing is said about {what} ({pattern}) in:\n{texts(verdict)}")


def bytes_text(count):
    """Format bytes like src/base."""
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.2f} {unit}"
    return f"{count} B"


class Workplace:
    """A temporary folder. If a test fails and GPUWHY_E2E_KEEP is set, it is kept and its name printed."""

    def __enter__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-e2e-"))
        return self.path

    def __exit__(self, kind, value, trace):
        if kind is not None and kind is not SystemExit and os.environ.get("GPUWHY_E2E_KEEP"):
            print(f"kept: {self.path}")
        else:
            shutil.rmtree(self.path, ignore_errors=True)


def remove_run_folders(pid):
    """Remove what a killed gpuwhy left behind."""
    for root in filter(None, (os.environ.get("XDG_RUNTIME_DIR"), "/dev/shm", "/tmp")):
        for folder in pathlib.Path(root).glob(f"gpuwhy-{os.getuid()}-{pid}-*"):
            shutil.rmtree(folder, ignore_errors=True)


def by_name(*cases):
    return {case.__name__: case for case in cases}


def run_cases(cases, *arguments):
    """Run the cases (see by_name), or those that the command line names, each in a folder of its own as `case(folder,
    *arguments)`. Print a line for each. A case that cannot run on this machine is printed as skipped."""
    failed = []
    with Workplace() as place:
        for name, case in cases.items():
            if sys.argv[1:] and name not in sys.argv[1:]:
                continue
            words = name.replace("_", " ")
            try:
                said = case(new_folder(place, name), *arguments)
                print(f"  ok       {words}" + (f": {said}" if said else ""), flush=True)
            except CaseSkipped as reason:
                print(f"skipped: {words}: {reason}", flush=True)
            except (Failure, OSError, ValueError, LookupError, subprocess.SubprocessError) as failure:
                failed.append(words)
                print(f"  FAILED   {words}: {failure!r}", flush=True)
    expect(not failed, f"{len(failed)} cases failed: {', '.join(failed)}")


def main(test):
    """Run `test()`, print a failure completely, and exit with 0 or 1."""
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if not GPUWHY.exists():
        sys.exit(f"{GPUWHY} is not there: build first, or set GPUWHY_BUILD")
    try:
        test()
    except Failure as failure:
        print(f"FAILED: {failure}")
        sys.exit(1)
    print("passed")
