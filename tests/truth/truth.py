#!/usr/bin/env python3
"""Programs with known truth, run under gpuwhy on the virtual GPU, and how often the verdict was right. docs/truth.md

Program INDEX of a seed is always the same. The truth about it follows from its construction (families.py), and is
checked by arithmetic over the program and its repaired twin (plans.py); for a sample the twin is also run on the GPU
without gpuwhy. Standard library only. Needs a build with gpuwhy and the virtual GPU, and a C compiler.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
import families  # noqa: E402
import plans  # noqa: E402
import writers  # noqa: E402

LANGUAGES = [("plan", 62), ("c", 16), ("c++", 10), ("python", 12)]
TIMEOUT_S = 60


class Program:
    """One program: its two versions, the one that is run, and the truth about it."""

    def __init__(self, seed, index, has_cxx=True):
        self.seed, self.index = seed, index
        for attempt in range(400):
            rng = random.Random(f"truth {seed} {index} {attempt}")
            try:
                self.draw(rng, has_cxx)
                return
            except (plans.Impossible, IndexError):
                continue
        raise RuntimeError(f"no program could be drawn for seed {seed}, index {index}")

    def draw(self, rng, has_cxx):
        # Choose family and version independently of which drafts are possible; otherwise families that are hard to draw
        # would be rare.
        fixed = random.Random(f"truth {self.seed} {self.index}")
        weights = [weight for weight, _, _ in families.FAMILIES]
        _, build, has_twin = fixed.choices(families.FAMILIES, weights)[0]
        self.repaired = has_twin and fixed.random() < 0.28
        self.verified = fixed.random() < 0.06
        self.twice = fixed.random() < 0.04
        language = fixed.choices([n for n, _ in LANGUAGES], [w for _, w in LANGUAGES])[0]
        if build is families.neighbour:  # it is started by the interpreter
            language = "plan"
        if build is families.leak_thread and language == "python":
            language = "c"
        if build is families.thread_ends:
            language = "python"
        if language == "c++" and not has_cxx:
            language = "c"
        self.language, self.family = language, build.__name__
        draft = plans.Draft(rng, language)
        if build is families.healthy and language == "python":
            draft.fail = "raise"
        nodes, self.truth = build(draft)
        self.truth.lists = self.truth.lists or "small_leak" in draft.notes  # in both versions
        self.draft, self.notes, self.card = draft, draft.notes, draft.card
        self.versions = {False: plans.resolve(nodes, False), True: plans.resolve(nodes, True)}
        self.neighbours = {}
        if draft.neighbour is not None:
            self.neighbours = {v: plans.resolve(draft.neighbour, v) for v in (False, True)}
        self.check_arithmetic(has_twin)
        if language == "plan":
            longest = max(self.line_count(v) for v in (False, True))
            if longest > 4000:
                raise plans.Impossible("too many statements")

    def line_count(self, version):
        return sum(2 for _ in families.flat(self.versions[version]))

    def usable(self, version):
        usable = self.draft.usable
        if self.draft.neighbour is not None:
            usable -= self.draft.neighbour_bytes_repaired if version else self.draft.neighbour_bytes
        return usable

    def check_arithmetic(self, has_twin):
        by_page = self.family == "fragmentation"
        faulty = plans.holds(self.versions[False], self.usable(False), self.draft.ops_max, by_page)
        if faulty.unsure or faulty.end != self.truth.ends:
            raise plans.Impossible(f"it ends by {faulty.end}")
        if has_twin:
            twin = plans.holds(self.versions[True], self.usable(True), self.draft.ops_max)
            if twin.unsure or twin.end != "exit" or twin.detail != 0:
                raise plans.Impossible(f"its twin ends by {twin.end}")
        if self.family == "neighbour":  # alone it fits
            alone = plans.holds(self.versions[False], self.draft.usable, self.draft.ops_max)
            if alone.unsure or alone.end != "exit":
                raise plans.Impossible("no room even alone")
        if self.truth.leak and faulty.end == "oom" and faulty.detail is not None:
            kept = (faulty.detail - self.notes.get("start", 0)) // self.notes.get("every", 1)
            if kept < 3:
                self.truth.ambiguous = self.truth.ambiguous or f"only {max(kept, 0)} steps kept something before it died"
        self.steps = faulty.detail
        self.refusals = faulty.refusals

    # -- files and commands

    def name(self):
        return self.truth.name + (" (repaired)" if self.repaired else "")

    def ends(self):
        return "exit" if self.repaired else self.truth.ends

    def write_text(self):
        """The faulty version as a plan."""
        return writers.Interpreted(self.versions[False], self.draft.fail).text

    def write(self, folder, tools, version):
        """Returns (argv of the program, its source)."""
        folder.mkdir(parents=True, exist_ok=True)
        nodes = self.versions[version]
        style = random.Random(f"style {self.seed} {self.index}")
        if self.language == "python":
            source = folder / "train.py"
            source.write_text(writers.Scripted(nodes, self.draft.fail).text)
            shutil.copy(HERE / "truth_run.py", folder)
            return [sys.executable, "-B", str(source)], source
        if self.language == "plan":
            neighbour = None
            if self.neighbours:
                neighbour = folder / "neighbour.plan"
                neighbour.write_text(writers.Interpreted(self.neighbours[version]).text)
            source = folder / "plan"
            source.write_text(writers.Interpreted(nodes, self.draft.fail, neighbour).text)
            return [str(tools.interpreter), str(source)], source
        source = folder / ("train.c" if self.language == "c" else "train.cc")
        source.write_text(writers.Compiled(nodes, style, self.draft.fail, self.language).text)
        tools.compile(source, folder / "train", style.choice(["-O0", "-O0", "-O1", "-O2"]),
                      style.choice(["-g"] * 9 + ["-s"]))
        return [str(folder / "train")], source

    def command(self, argv):
        """Run it as a user would: directly, from a shell script, or with its output in a file."""
        dice = random.Random(f"shell {self.seed} {self.index}").random()
        if self.family == "own_exception" and dice < 0.2:
            self.notes["output"] = "log"
            return ["/bin/sh", "-c", 'exec "$@" >log 2>&1', "sh", *argv]
        if self.family != "killed" and dice > 0.95:
            self.notes["started"] = "by a shell"
            return ["/bin/sh", "-c", '"$@"; exit $?', "sh", *argv]
        return argv

    def specification(self):
        return f"h200,memory={self.card // plans.GIB}GiB"


class Tools:
    """gpuwhy, the virtual GPU, the compilers, and the interpreter built with them."""

    def __init__(self, build, folder):
        self.build, self.folder = pathlib.Path(build).resolve(), folder
        self.gpuwhy = self.build / "gpuwhy"
        self.virtual = self.build / "lib" / "gpuwhy" / "virtual"
        self.cc, self.cxx = os.environ.get("CC", "cc"), os.environ.get("CXX", "c++")
        if not self.gpuwhy.exists() or not (self.virtual / "libcuda.so.1").exists():
            sys.exit(f"truth.py: no gpuwhy with a virtual card in {self.build}")
        self.has_cxx = shutil.which(shlex.split(self.cxx)[0]) is not None
        self.interpreter = folder / "truth_plan"
        self.compile(HERE / "truth_plan.c", self.interpreter, "-O1")

    def compile(self, source, program, level, symbols="-g"):
        cxx = source.suffix == ".cc"
        command = shlex.split(self.cxx if cxx else self.cc) + [
            "-std=gnu++17" if cxx else "-std=gnu17", symbols, level, "-w", "-D_GNU_SOURCE", f"-I{HERE}",
            f"-I{self.build / 'generated'}", f"-I{HERE.parents[1] / 'src' / 'api'}", str(source), "-o", str(program),
            f"-L{self.virtual}", "-lcuda", "-lpthread"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise RuntimeError(f"{source} does not compile:\n{done.stderr}")

    def environment(self, folder):
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY_") and k != "LD_PRELOAD"}
        environment["XDG_STATE_HOME"] = str(folder / "state")
        return environment


# ---- running -------------------------------------------------------------------------------------------------------

def execute(argv, folder, environment):
    with open(folder / "stdout", "wb") as out, open(folder / "stderr", "wb") as err:
        process = subprocess.Popen(argv, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                                   start_new_session=True)
        try:
            return process.wait(TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return None


def run_bare(program, tools, folder, version):
    """Run on the GPU without gpuwhy; return the program's status."""
    argv, _ = program.write(folder, tools, version)
    environment = tools.environment(folder)
    environment["LD_LIBRARY_PATH"] = str(tools.virtual)
    environment["GPUWHY_VIRTUAL"] = program.specification()
    (folder / "card").mkdir(exist_ok=True)
    environment["GPUWHY_VIRTUAL_DIR"] = str(folder / "card")
    return execute(argv, folder, environment)


def run_observed(program, tools, folder):
    argv, _ = program.write(folder, tools, program.repaired)
    verdict = folder / "verdict.json"
    command = [str(tools.gpuwhy), "run", "--gpu", "virtual:" + program.specification(), "--quiet", "--no-history", "--json",
               str(verdict), "-o", str(folder / "run.gpuwhy"), "--", *program.command(argv)]
    status = execute(command, folder, tools.environment(folder))
    return status, json.loads(verdict.read_text()) if verdict.exists() else None


def raised(tools, recording):
    """Return what the verdict claims with less evidence but not with all (src/judge/less_test.c), as text; None:
    nothing."""
    done = subprocess.run([str(tools.build / "src" / "judge" / "verdict_less_test"), *tools.copies, str(recording)],
                          capture_output=True, text=True, timeout=TIMEOUT_S)
    return None if done.returncode == 0 else done.stdout + done.stderr


def expected_status(program, version):
    """Return the status that the program must have; None: any status except 0."""
    ends = "exit" if version else program.truth.ends
    if program.truth.status is not None and not version:
        return program.truth.status
    return 0 if ends == "exit" and (version or program.truth.right.keys() == {"clean"}) else None


class Result:
    def __init__(self, program):
        self.index, self.seed, self.name, self.language = program.index, program.seed, program.name(), program.language
        self.notes, self.ambiguous = program.notes, program.truth.ambiguous if not program.repaired else None
        self.steps, self.ends = program.steps, program.ends()
        self.place_right = self.build = None  # build: the build folder, if it is not the usual one
        self.broken = self.verdict = self.certainty = self.headline = None
        self.right = self.overclaim = self.lists_leaks = self.unstable = False
        self.rules_out_leak = False
        self.decisive = None if program.repaired else program.truth.decisive
        self.raised = None
        self.seconds = 0

    def said(self):
        return f"{self.verdict} ({self.certainty})" if self.certainty else self.verdict


def judge(program, verdict, result):
    status, cause, certainty = verdict["status"], verdict["cause"], verdict["certainty"]
    result.verdict = cause if status == "fault" else {"clean": "clean", "undetermined": "not determined"}[status]
    result.certainty, result.headline = certainty, verdict["headline"]
    result.lists_leaks = bool(verdict["leaks"])
    result.rules_out_leak = any("a leak" in text for text in verdict["ruled_out"])
    truth = program.truth
    right = families.CLEAN if program.repaired else truth.right
    true = set() if program.repaired else truth.true
    if status == "clean":
        result.right = "clean" in right
    elif status == "undetermined":
        result.right = "undetermined" in right or result.ambiguous is not None
    else:
        result.right = cause in right and certainty in (right[cause] or ())
    named = {cause} | {other["cause"] for other in verdict["alternatives"]}
    if truth.beside and not program.repaired and not named & set(truth.beside):
        result.right = False
    if result.verdict == "gpu-oom-leak" and "gpu-oom-leak" in true:
        result.place_right = names_a_place(program, verdict["where"])
    leaky = truth.leak and not program.repaired
    if status == "fault" and certainty == "established" and cause not in true:
        result.overclaim = True
    if leaky and result.rules_out_leak:
        result.overclaim, result.right = True, False
    if right is families.CLEAN and result.lists_leaks and not truth.lists:
        result.right = False


def names_a_place(program, where):
    """Whether the verdict's stack has a function that keeps memory; None: the functions of this program are not
    tracked."""
    if program.language not in ("plan", "python") or not program.draft.kept_bags:
        return None
    places = {writers.PLACES[n.args[1] % len(writers.PLACES)] for n in families.flat(program.versions[False])
              if n.op in ("alloc", "try") and n.args[0] in program.draft.kept_bags}
    functions = [f["function"] or "" for f in where["frames"]] if where else []
    return any(f == p or f.startswith(p + "_") for f in functions for p in places)


def run_one(job):
    seed, index, tools, parent, keep, verify = job
    started = time.monotonic()
    folder = pathlib.Path(parent) / f"{seed}-{index}"
    shutil.rmtree(folder, ignore_errors=True)  # of an earlier run with --keep, because recordings are not overwritten
    program = Program(seed, index, tools.has_cxx)
    result = Result(program)
    if tools.build != HERE.parents[1] / "build":
        result.build = os.path.relpath(tools.build, HERE.parents[1])
    try:
        status, verdict = run_observed(program, tools, folder)
        wanted = expected_status(program, program.repaired)
        if status is None:
            result.broken = f"it was not over after {TIMEOUT_S} s"
        elif (status == 0) != (wanted == 0):
            result.broken = f"it ended with status {status}: " + (folder / "stderr").read_text(errors="replace")[:300]
        elif verdict is None:
            result.broken = "gpuwhy wrote no verdict: " + (folder / "stderr").read_text(errors="replace")[:300]
        else:
            judge(program, verdict, result)
            result.raised = raised(tools, folder / "run.gpuwhy")
        if program.twice and result.broken is None:
            _, again = run_observed(program, tools, folder / "again")
            keys = ("status", "cause", "certainty")
            result.unstable = again is None or any(verdict[k] != again[k] for k in keys)
        if (program.verified or verify) and result.broken is None:
            check_twin(program, tools, folder / "twin", result)
    except Exception as error:  # noqa: BLE001 - one program must not end the run
        result.broken = f"{type(error).__name__}: {error}"
    if not keep:
        shutil.rmtree(folder, ignore_errors=True)
    result.seconds = time.monotonic() - started
    return result


def check_twin(program, tools, folder, result):
    """Check the other version by really running it on the same GPU."""
    if program.truth.right.keys() == {"clean"}:
        return
    other = not program.repaired
    status = run_bare(program, tools, folder, other)
    if (status == 0) != (expected_status(program, other) == 0):
        result.broken = f"its {'repaired' if other else 'faulty'} twin ended with status {status}"


# ---- printing ------------------------------------------------------------------------------------------------------

def command_of(result):
    build = f" --build {result.build}" if result.build else ""
    return f"python3 tests/truth/truth.py{build} --seed {result.seed} --only {result.index}"


def print_table(results):
    said = collections.Counter(r.said() for r in results)
    columns = [name for name, _ in said.most_common()]
    rows = collections.defaultdict(collections.Counter)
    for r in results:
        rows[r.name][r.said()] += 1
    print("\nWhat is true (rows), what gpuwhy said (columns):")
    letters = {name: chr(ord("A") + i) if i < 26 else chr(ord("a") + i - 26) for i, name in enumerate(columns)}
    for name in columns:
        print(f"  {letters[name]}  {name}")
    width = max(len(name) for name in rows)
    print(f"\n{'':{width}}   all right over " + "".join(f"{letters[c]:>5}" for c in columns))
    for name in sorted(rows):
        of = [r for r in results if r.name == name]
        right, over = sum(r.right for r in of), sum(r.overclaim for r in of)
        print(f"{name:{width}} {len(of):5} {right:5} {over:4} " +
              "".join(f"{rows[name][c] or '.':>5}" for c in columns))


def print_proofs(results):
    """Print how often each cause was established, and how often where the program shows its decisive observation."""
    proved = [r for r in results if r.certainty == "established"]
    print("\nEstablished (right of all), and where the decisive observation is shown (established of all):")
    for cause in sorted({r.verdict for r in proved} | {r.decisive for r in results if r.decisive}):
        of = [r for r in proved if r.verdict == cause]
        shown = [r for r in results if r.decisive == cause]
        print(f"  {cause:34} {sum(not r.overclaim for r in of):5} of {len(of):5}"
              f"   {sum(r.verdict == cause for r in proved if r.decisive == cause):5} of {len(shown):5}")
    shown = [r for r in results if r.decisive]
    reached = sum(r.verdict == r.decisive and r.certainty == "established" for r in shown)
    print(f"decisive observations: {reached} of {len(shown)} established ({100 * reached / max(len(shown), 1):.1f} %)")


def describe(result):
    notes = " ".join(f"{k}={v}" for k, v in result.notes.items())
    leak = ', "a leak" ruled out' if result.rules_out_leak else ""
    leaks = ", leaks listed" if result.lists_leaks else ""
    steps = f" died in step {result.steps}" if result.steps is not None and result.ends == "oom" else ""
    return (f"  {result.name} [{result.language}] {notes}{steps}\n"
            f"    said {result.said()}{leak}{leaks}: {result.headline}\n    {command_of(result)}")


def report(results, options, seconds):
    broken = [r for r in results if r.broken]
    judged = [r for r in results if not r.broken]
    for r in broken:
        print(f"  {r.name} [{r.language}] is no test: {r.broken}\n    {command_of(r)}")
    if not judged:
        return 1
    over = [r for r in judged if r.overclaim]
    misses = [r for r in judged if not r.right and not r.overclaim]
    unstable = [r for r in judged if r.unstable]
    for found, what in ((over, "overclaims"), (misses, "misses"), (unstable, "were judged otherwise the second time")):
        if found:
            print(f"\n{len(found)} {what}:", *map(describe, found[:options.show]), sep="\n")
    print_table(judged)
    placed = [r for r in judged if r.place_right is not None]
    if placed:
        print(f"\nOf {len(placed)} leaks that were told and whose places are followed, {sum(r.place_right for r in placed)} "
              "name a place that keeps")
    print_proofs(judged)
    healthy = [r for r in judged if r.name.startswith("healthy") or "repaired" in r.name]
    noisy = [r for r in healthy if not r.right]
    right = sum(r.right for r in judged)
    print(f"\nseed {options.seed}: {len(judged)} programs in {seconds:.0f} s, {right} right ({100 * right / len(judged):.1f} %), "
          f"{len(over)} overclaims, {len(noisy)} of {len(healthy)} healthy ones not silent, {len(unstable)} unstable, "
          f"{len(broken)} were no test")
    bad = len(over) > options.overclaims_max or 100 * right < options.right_min * len(judged) or bool(broken)
    raised_ones = [r for r in results if r.raised]
    for r in raised_ones[:options.show]:
        print(f"less evidence, but more claims: {command_of(r)}\n{r.raised}")
    bad = bad or len(noisy) > options.noisy_max or bool(unstable) or bool(raised_ones)
    return 1 if bad else 0


def main():
    signal.signal(signal.SIGHUP, signal.SIG_DFL)  # nohup ignores it for all programs that are started below
    parser = argparse.ArgumentParser(description="How often gpuwhy's verdict on programs with known truth is right.")
    parser.add_argument("--build", default=os.environ.get("GPUWHY_BUILD", HERE.parents[1] / "build"))
    parser.add_argument("--seed", type=int, help="of the programs [the clock]")
    parser.add_argument("--count", type=int, default=3000, help="of programs [3000]")
    parser.add_argument("--first", type=int, default=0, help="index of the first one [0]")
    parser.add_argument("--only", type=int, metavar="INDEX", help="run one program, and show it and its verdict")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--keep", metavar="FOLDER", help="keep sources, recordings and verdicts there")
    parser.add_argument("--verify", action="store_true", help="run the twin of each program on the bare card, not of 6 %%")
    parser.add_argument("--show", type=int, default=40, help="overclaims and misses to print [40]")
    parser.add_argument("--right-min", type=float, default=0, metavar="PERCENT", help="fail under this share")
    parser.add_argument("--overclaims-max", type=int, default=0, metavar="N", help="fail with more [0]")
    parser.add_argument("--noisy-max", type=int, default=0, metavar="N",
                        help="fail when more healthy ones are not silent [0]")
    parser.add_argument("--few", action="store_true", help="leave out evidence in fixed ways alone, not at random")
    parser.add_argument("--json", metavar="FILE", help="write one line a program there")
    options = parser.parse_args()
    if options.seed is None:
        options.seed = int(time.time())
    print(f"seed {options.seed}", flush=True)
    parent = pathlib.Path(options.keep or tempfile.mkdtemp(prefix="gpuwhy-truth-"))
    parent.mkdir(parents=True, exist_ok=True)
    try:
        tools = Tools(options.build, parent)
        tools.copies = ["--few"] if options.few else []
        if options.only is not None:
            return show_one(options, tools, parent)
        started = time.monotonic()
        indices = range(options.first, options.first + options.count)
        jobs = [(options.seed, i, tools, parent, options.keep, options.verify) for i in indices]
        with concurrent.futures.ProcessPoolExecutor(options.jobs) as pool:
            results = []
            for result in pool.map(run_one, jobs, chunksize=4):
                results.append(result)
                if sys.stderr.isatty():
                    print(f"\r{len(results)} of {len(jobs)}", end="", file=sys.stderr, flush=True)
        if options.json:
            with open(options.json, "w") as file:
                for r in results:
                    file.write(json.dumps({**vars(r), "said": r.said() if not r.broken else None}) + "\n")
        return report(results, options, time.monotonic() - started)
    finally:
        if not options.keep:
            shutil.rmtree(parent, ignore_errors=True)


def show_one(options, tools, parent):
    program = Program(options.seed, options.only, tools.has_cxx)
    argv, source = program.write(parent / "shown", tools, program.repaired)
    print(source.read_text() if source.stat().st_size < 20000 else source.read_text()[:20000] + "\n...")
    result = run_one((options.seed, options.only, tools, parent, True, options.verify))
    folder = parent / f"{options.seed}-{options.only}"
    print((folder / "stderr").read_text(errors="replace"))
    print("card:", program.specification(), "| truth:", program.name(), "| right would be:",
          "clean" if program.repaired else program.truth.right,
          f"| not determined is right, too: {result.ambiguous}" if result.ambiguous else "")
    print(f"no test: {result.broken}" if result.broken else describe(result))
    print("right" if result.right else "OVERCLAIM" if result.overclaim else "miss")
    return 0 if result.right else 1


if __name__ == "__main__":
    sys.exit(main())
