#!/usr/bin/env python3
"""How often `gpuwhy run --rescue` gets a failing program through, and blind restarts beside it. docs/truth.md

Each row of rows.py is run three times on the virtual card: with --rescue, by a loop that starts the same command up to three
more times, and in surroundings in which it never fails. The last one gives the result that a rescued run must have. Standard
library only. Needs a build with gpuwhy and the virtual GPU, and a C compiler.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import rows  # noqa: E402

TIMEOUT_S, START_TIMEOUT_S = 300, 60  # of gpuwhy, and of a start without it
ATTEMPTS = 4  # the first start and three more, for both
SAVED_MIN = 0.9
HEALTHY = "16xh200"
PLACEHOLDER = re.compile(r"\{\{(\w+:[^{}]*)\}\}|\{(\w+):([^{}]*)\}")


# ---- commands ------------------------------------------------------------------------------------------------------

def filled(words, values=None):
    """Return the words with a value in place of each placeholder: the given one, or the first of its own."""
    def value(match):
        if match[1] is not None:
            return "{" + match[1] + "}"
        return (values or {}).get(match[2], match[3].partition(",")[0])
    return [PLACEHOLDER.sub(value, word) for word in words]


def values_of(words, found):
    """Return the values that were in place of the placeholders; None if other words were changed."""
    if len(words) != len(found):
        return None
    values = {}
    for word, text in zip(words, found):
        pattern, end = "", 0
        for match in PLACEHOLDER.finditer(word):
            pattern += re.escape(word[end:match.start()])
            pattern += re.escape("{" + match[1] + "}") if match[1] else f"(?P<{match[2]}>.+)"
            end = match.end()
        match = re.fullmatch(pattern + re.escape(word[end:]), text)
        if match is None:
            return None
        values.update(match.groupdict())
    return values


class Tools:
    """gpuwhy, the virtual GPU, and the programs that are compiled for this test."""

    def __init__(self, build, folder):
        self.build = pathlib.Path(build).resolve()
        self.gpuwhy, self.virtual = self.build / "gpuwhy", self.build / "lib" / "gpuwhy" / "virtual"
        self.cnn = self.build / "examples" / "cnn"
        if not self.gpuwhy.exists() or not (self.virtual / "libcuda.so.1").exists():
            sys.exit(f"rescue.py: no gpuwhy with a virtual card in {self.build}")
        self.trainer = folder / "train"
        self.compile(HERE / "train.c", self.trainer, "-g", f"-L{self.virtual}", "-lcuda")
        names = subprocess.run(["nm", "-D", "--defined-only", str(self.virtual / "libcuda.so.1")], capture_output=True, text=True,
                               check=True).stdout
        functions = sorted(set(re.findall(r" T (cu[A-Z]\w+)", names)))
        self.drivers = {"stubs": 34, "compat": 804}  # folders of driver libraries, and what their functions return
        for name, code in self.drivers.items():
            self.compile_text("".join(f"int {function}(void) {{ return {code}; }}\n" for function in functions),
                              folder / name / "libcuda.so.1")
        self.folder = folder

    def compile(self, source, target, *options):
        command = [*shlex.split(os.environ.get("CC", "cc")), "-std=gnu17", "-O1", "-w", str(source), "-o", str(target), *options]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr}")

    def compile_text(self, text, target):
        """Make a library, which the loader also finds by the name with only its major version."""
        target.parent.mkdir(parents=True, exist_ok=True)
        source, soname = target.with_suffix(".c"), re.sub(r"(\.so\.\d+)\..*", r"\1", target.name)
        if target.name == "METADATA":  # of a Python package: its folder has the version
            target.write_text("Name: package\n")
            return
        source.write_text(text)
        self.compile(source, target, "-shared", "-fPIC", f"-Wl,-soname,{soname}")
        if soname != target.name:
            target.with_name(soname).symlink_to(target.name)


class Place:
    """A folder of one run of a row, with what is beside the program."""

    def __init__(self, row, tools, folder, healthy=False):
        self.row, self.tools, self.folder, self.healthy = row, tools, folder, healthy
        self.work, self.starts_file = folder / "work", folder / "starts"
        for name in ("work", "cards"):
            (folder / name).mkdir(parents=True)
        self.port = free_port()
        for name in row.libraries:
            tools.compile_text("int empty;\n", folder / "libraries" / name)
        if healthy:  # a fault of the first start alone is over
            (self.work / "seen").touch()

    def specification(self):
        row = self.row
        if self.healthy:
            return HEALTHY
        return f"{row.card},memory={row.memory}" + ("," + row.more if row.more else "")

    def environment(self):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
        environment.update(XDG_STATE_HOME=str(self.folder / "state"), RESCUE_STARTS=str(self.starts_file),
                           GPUWHY_VIRTUAL_DIR=str(self.folder / "cards"), PYTHONDONTWRITEBYTECODE="1")
        if self.wrong_folder():
            environment["LD_LIBRARY_PATH"] = self.wrong_folder()[0]
        return environment

    def bare_environment(self):
        """The environment of a program that finds the virtual card without gpuwhy."""
        return {**self.environment(), "GPUWHY_VIRTUAL": self.specification(),
                "LD_LIBRARY_PATH": ":".join([*self.wrong_folder(), str(self.tools.virtual)])}

    def is_driver_wrong(self):
        return self.row.wrong in self.tools.drivers

    def wrong_folder(self):
        """The folder of libraries that must not be searched, as a list."""
        if self.row.wrong is None or self.healthy:
            return []
        return [str(self.tools.folder / self.row.wrong) if self.is_driver_wrong() else self.named(self.row.wrong)]

    def named(self, text):
        """Replace the names of rows.py for what only this run has."""
        names = {"PORT": str(self.port), "CNN": str(self.tools.cnn), "LIB": str(self.folder / "libraries"),
                 "ROOT": str(HERE.parents[1])}
        return re.sub(r"\b(PORT|CNN|LIB|ROOT)\b", lambda match: names[match[0]], text)

    def words(self):
        """The arguments of the row, with its placeholders."""
        return [self.named(word) for word in self.row.words]

    def program(self):
        return {"python": [sys.executable, "-B", str(HERE / "train.py")], "c": [str(self.tools.trainer)],
                "ranks": [sys.executable, "-B", str(HERE / "ranks.py")], "other": ["/bin/sh", str(HERE / "started.sh")],
                }[self.row.program]

    def command(self):
        return [*self.row.wrap, *self.program(), *self.words()]

    def starts(self):
        """The starts of the program, without rehearsals: for each its variables and its arguments."""
        text = self.starts_file.read_text() if self.starts_file.exists() else ""
        found = []
        for line in text.splitlines():
            words = line.split("\x1f")
            end = words.index("--")
            if words[0] == "run":
                found.append((dict(word.split("=", 1) for word in words[2:end]), words[end + 1:]))
        return found

    def result(self):
        lines = (self.folder / "stdout").read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else None

    def __enter__(self):
        self.other = None
        if self.row.beside and not self.healthy:
            words = [self.named(word) for word in self.row.beside]
            self.other = subprocess.Popen([sys.executable, "-B", str(HERE / "beside.py"), *words], env=self.bare_environment(),
                                          stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
            if self.other.stdout.readline() != b"held\n":
                raise RuntimeError("beside.py holds nothing")
        return self

    def __exit__(self, *_):
        if self.other is not None:
            self.other.kill()
            self.other.wait()
            self.other.stdout.close()

    def execute(self, argv, environment, timeout_s=START_TIMEOUT_S):
        """Run to the end, and return the status; None: it took too long."""
        with open(self.folder / "stdout", "ab") as out, open(self.folder / "stderr", "ab") as err:
            process = subprocess.Popen(argv, cwd=self.work, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                       start_new_session=True)
        try:
            if self.row.signal and not self.healthy:
                self.send_signal(process)
            return process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            process.wait()

    def is_waiting(self):
        """True if the program waits for a signal, or gpuwhy for something else, or if it rehearses the program."""
        said, started = (path.read_text(errors="replace") if path.exists() else ""
                         for path in (self.folder / "stderr", self.starts_file))
        is_busy = any(f"gpuwhy: {word}" in said for word in ("waiting", "rehearsing"))
        return (self.work / "ready").exists() or is_busy or "rehearsal\x1f" in started

    def send_signal(self, process):
        deadline = time.monotonic() + START_TIMEOUT_S
        while not self.is_waiting() and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.02)
        if process.poll() is None:
            os.killpg(process.pid, getattr(signal, self.row.signal))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


# ---- the three runs of a row ---------------------------------------------------------------------------------------

def rescued(row, tools, folder, first_only=False):
    """Run it under gpuwhy. Returns the place, the status and the verdict."""
    with Place(row, tools, folder) as place:
        verdict = folder / "verdict.json"
        is_real = place.is_driver_wrong()  # the real driver is the one that the loader finds: here, also a virtual one
        gpu = ["--gpu", "real" if is_real else "virtual:" + place.specification()]
        command, options = place.command(), list(row.options)
        if first_only:
            command = filled(command)
            if "--resume-with" in options:
                options = options[:options.index("--resume-with")]
        else:
            options.append("--rescue=leak" if row.leak else "--rescue")
        status = place.execute([str(tools.gpuwhy), "run", *gpu, "--no-history", "--json", str(verdict), "-o",
                                str(folder / "run.gpuwhy"), *options, "--", *command],
                               place.bare_environment() if is_real else place.environment(), TIMEOUT_S)
        return place, status, json.loads(verdict.read_text()) if verdict.exists() else None


def blind(row, tools, folder):
    """Start the same command again and again. Returns the place and the last status."""
    with Place(row, tools, folder) as place:
        for _ in range(ATTEMPTS):
            status = place.execute(filled(place.command()), place.bare_environment())
            if status in (0, None) or (row.signal and status < 0):  # a hang never ends, and ^C ends the loop, too
                break
        return place, status


def never_failed(row, tools, folder, values):
    """Return the result of a run with these values that nothing disturbs."""
    with Place(row, tools, folder, healthy=True) as place:
        status = place.execute(filled(place.command(), values), place.bare_environment())
        if status != 0:
            raise RuntimeError(f"it fails with status {status} even if nothing disturbs it: "
                               + (folder / "stderr").read_text(errors="replace")[-300:])
        return place.result()


class Result:
    def __init__(self, row):
        self.name, self.act, self.program = row.name, row.act, row.program
        self.broken = self.cause = self.status = self.wrong_act = self.wrong_cause = None
        self.acts, self.values = [], {}
        self.saved = self.blind_saved = self.differs = self.blind_differs = False
        self.starts = self.blind_starts = self.starts_max = 0
        self.seconds = self.blind_seconds = 0

    def restarted(self):
        """A hopeless row that was started more often than it may be."""
        return self.act is None and self.starts > self.starts_max


def all_values(row, place, start):
    """Return the values of the placeholders in a start; None if words were changed that the user did not mark."""
    variables, words = start
    expected, resume = place.words(), []
    if len(words) > len(expected) and row.resumes:
        words, resume = words[:len(expected)], words[len(expected):]
    values = values_of(expected, words)
    if values is None or (resume and (len(resume) != 2 or resume[0] != "--resume")):
        return None
    for word in row.wrap:  # env NAME={placeholder:..}
        name, _, template = word.partition("=")
        if name in variables and PLACEHOLDER.search(template):
            values.update(values_of([template], [variables[name]]) or {})
    return values


def variables_of(start):
    return [f"{name}={value}" for name, value in start[0].items()]


def wrong_act(row, place, starts, attempts):
    """Return what is wrong with how the program was changed, or None."""
    first, last = starts[0], starts[-1]
    found = [all_values(row, place, start) for start in starts]
    if None in found:
        return f"words that are no placeholders were changed: {starts[found.index(None)][1]}"
    changed = found[0] != found[-1]
    if changed != (row.act in ("values", "fewer-gpus")):
        return f"values: {found}"
    if row.settings and row.settings[0] not in variables_of(last):
        return f"{row.settings[0]} is not set"
    if row.act == "folder" and place.wrong_folder()[0] in last[0].get("LD_LIBRARY_PATH", "").split(":"):
        return "the wrong folder is still searched"
    if row.act in ("wait-memory", "wait-port") and attempts[0]["proof"] is None:
        return "it did not wait until what was in the way was gone"
    if row.resumes and "--resume" not in last[1]:
        return "it did not resume"
    if row.least and int(found[-1][row.least[0]]) < row.least[1]:
        return f"{row.least[0]} {found[-1][row.least[0]]}, but {row.least[1]} fits"
    more = [text for text in variables_of(last) if text not in variables_of(first) and text not in row.settings
            and not text.startswith(("BATCH=", "CUDA_VISIBLE_DEVICES=", "LD_LIBRARY_PATH="))]
    if more:
        return f"variables were changed: {', '.join(more)}"
    return None


def judge(row, place, status, verdict, tools, folder, result):
    starts = place.starts()
    result.status, result.starts = status, len(starts)
    attempts = verdict["attempts"] if verdict else []
    result.cause = attempts[0]["cause"] if attempts else verdict["cause"] if verdict else None
    result.acts = [attempt["change"] for attempt in attempts]
    result.wrong_cause = result.cause not in row.causes
    if status is None or not starts:
        result.broken = f"status {status}, {len(starts)} starts: " + (folder / "stderr").read_text(errors="replace")[-300:]
        return
    if len(attempts) > 1 and len(attempts) != len(starts):
        result.broken = f"{len(starts)} starts, but {len(attempts)} attempts in the verdict"
    if row.act is None:
        if status == 0 and not row.succeeds:
            result.broken = "it is called hopeless, and ended well"
        return
    result.saved = status == 0
    if not result.saved:
        return
    result.wrong_act = wrong_act(row, place, starts, attempts)
    values = all_values(row, place, starts[-1])
    if values is None and not row.same:
        result.differs = True  # with such words, no run can be compared
        return
    result.values = values or {}
    result.differs = place.result() != never_failed(row, tools, folder.with_name("whole"), {} if row.same else values)


def run_with_gpuwhy(row, tools, folder, first_only, result):
    started = time.monotonic()
    place, status, verdict = rescued(row, tools, folder / "rescue", first_only)
    result.seconds = time.monotonic() - started
    if not first_only:
        judge(row, place, status, verdict, tools, folder / "rescue", result)
        return
    result.status, result.starts = status, len(place.starts())
    result.cause = verdict["cause"] if verdict else "no verdict"
    result.wrong_cause = result.cause not in row.causes


def run_blindly(row, tools, folder, result):
    started = time.monotonic()
    place, status = blind(row, tools, folder / "blind")
    result.blind_seconds, result.blind_starts = time.monotonic() - started, len(place.starts())
    if row.act is not None and status == 0:
        result.blind_saved = True
        result.blind_differs = place.result() != never_failed(row, tools, folder / "blind-whole", {})
    if row.act is None and not row.signal and row.starts == 1 and status != result.status:
        result.wrong_act = f"exit status {result.status} instead of {status}"


def run_one(job):
    row, tools, parent, options = job
    folder, result = parent / row.name, Result(row)
    result.starts_max = row.starts
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run with --keep
    try:
        run_with_gpuwhy(row, tools, folder, options.first, result)
        if not options.first and not options.quick:
            run_blindly(row, tools, folder, result)
    except Exception as error:  # noqa: BLE001 - one row must not end the run
        result.broken = f"{type(error).__name__}: {error}"
    if not options.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return result


# ---- printing ------------------------------------------------------------------------------------------------------

def print_table(results, has_blind):
    print(f"\n{'act':14} {'rows':>5} {'saved':>6} {'starts':>7}" + (f" {'blind saved':>12} {'starts':>7}" if has_blind else ""))
    groups = collections.defaultdict(list)
    for result in results:
        groups[result.act or "hopeless"].append(result)
    for act, of in [*groups.items(), ("all", results)]:
        line = f"{act:14} {len(of):5} {sum(r.saved for r in of):6} {sum(r.starts for r in of):7}"
        if has_blind:
            line += f" {sum(r.blind_saved for r in of):12} {sum(r.blind_starts for r in of):7}"
        print(line)


def describe(result):
    acts = ", ".join(str(act) for act in result.acts if act)
    values = " ".join(f"{name}={value}" for name, value in result.values.items())
    return f"  {result.name}: cause {result.cause}, {result.starts} starts, status {result.status} {values} {acts}".rstrip()


def report(results, options, seconds):
    savable = [r for r in results if r.act is not None]
    hopeless = [r for r in results if r.act is None]
    saved = [r for r in savable if r.saved and not r.differs]
    lists = {"are no test": [r for r in results if r.broken],
             "could be saved, and were not": [r for r in savable if not r.saved and not r.broken],
             "are hopeless, and were started again": [r for r in hopeless if r.restarted()],
             "ended with another result": [r for r in savable if r.differs],
             "were changed in another way": [r for r in results if r.wrong_act],
             "had another first verdict": [r for r in results if r.wrong_cause]}
    for what, found in lists.items():
        if found:
            print(f"\n{len(found)} {what}:")
            for r in found:
                print(describe(r), *filter(None, [r.broken, r.wrong_act]), sep="\n      ")
    print_table(results, not options.quick)
    print(f"\n{len(results)} programs in {seconds:.0f} s. With --rescue: {len(saved)} of {len(savable)} saved, "
          f"{sum(r.restarted() for r in hopeless)} of {len(hopeless)} hopeless ones started again, "
          f"{sum(r.differs for r in savable)} with another result, {sum(bool(r.wrong_act) for r in results)} changed in "
          "another way")
    if not options.quick:
        print(f"Blind restarts: {sum(r.blind_saved and not r.blind_differs for r in savable)} of {len(savable)} saved, "
              f"{sum(r.blind_starts > 1 for r in hopeless)} of {len(hopeless)} hopeless ones started again, "
              f"{sum(r.blind_differs for r in savable)} with another result")
    bad = len(saved) < SAVED_MIN * len(savable) or any(r.restarted() or r.broken for r in results)
    return 1 if bad or any(r.differs for r in savable) else 0


def report_first(results):
    for r in results:
        print(("ok      " if not r.wrong_cause and not r.broken else "WRONG   ") + describe(r) + f" {r.seconds:.1f} s",
              *filter(None, [r.broken]))
    return 1 if any(r.wrong_cause or r.broken for r in results) else 0


def main():
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for programs in the background
    parser = argparse.ArgumentParser(description="How often gpuwhy run --rescue gets a failing program through.")
    parser.add_argument("--build", default=os.environ.get("GPUWHY_BUILD", HERE.parents[1] / "build"))
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", metavar="REGEX", help="only rows with such a name")
    parser.add_argument("--quick", action="store_true", help="12 fast rows, without blind restarts")
    parser.add_argument("--first", action="store_true", help="only the verdicts on the first starts, without --rescue")
    parser.add_argument("--keep", metavar="FOLDER", help="keep recordings, outputs and verdicts there")
    parser.add_argument("--json", metavar="FILE", help="write one line a row there")
    options = parser.parse_args()
    chosen = [row for row in rows.ROWS if re.search(options.only or "", row.name) and (row.quick or not options.quick)]
    parent = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-rescue-"))
    place = pathlib.Path(options.keep).resolve() if options.keep else parent
    try:
        tools = Tools(options.build, parent)
        started = time.monotonic()
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            results = list(pool.map(run_one, [(row, tools, place, options) for row in chosen]))
        if options.json:
            pathlib.Path(options.json).write_text("".join(json.dumps(vars(r)) + "\n" for r in results))
        return report_first(results) if options.first else report(results, options, time.monotonic() - started)
    finally:
        shutil.rmtree(parent, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
