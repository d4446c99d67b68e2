#!/usr/bin/env python3
"""Explain the same inputs with the build of an older commit and with this one, and print every difference: `make golden`.

For work on the code that must not change a verdict. The older commit is built below build-golden/ and kept there with its
answers, so the next call explains the inputs only with the new build. Inputs: see KINDS. Each is explained with --json and
with --all. A line that also differs between two runs of the older build does not count. GOLDEN_WORK names another folder
than build-golden/. Exit status: 0 without a difference, 1 with one, 2 if the comparison is impossible.
"""
import argparse
import collections
import concurrent.futures
import csv
import difflib
import hashlib
import json
import os
import pathlib
import pickle
import re
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = pathlib.Path(os.environ.get("GOLDEN_WORK", ROOT / "build-golden"))
KINDS = {"recordings": "*.gpuwhy below tests/, also compressed, and PyTorch snapshots", "logs": "*.log beside an index.tsv",
         "messages": "each row of messages.tsv as a log", "questions": "the same rows with -m",
         "generated": "recordings of generated programs (tests/truth)", "symbols": "dynamic symbols of each library in lib/",
         "bench": "the time of a recorded launch, printed as a ratio"}
UNPACK = {".xz": ["xz", "-dc"], ".gz": ["gzip", "-dc"], ".zst": ["zstd", "-dqc"]}
TIMEOUT_S = 120
SAMPLE = 12  # inputs of each kind that the older build explains twice
EXAMPLES, LINES_SHOWN, GROUPS_SHOWN = 3, 12, 60
BENCH_PAIRS = 4
Input = collections.namedtuple("Input", "kind name arguments text path", defaults=("", None))


def fail(reason):
    print(f"golden: {reason}", file=sys.stderr)
    sys.exit(2)


def run(argv, **more):
    """Run a command of our own preparation; its failure ends the comparison."""
    done = subprocess.run([str(a) for a in argv], cwd=more.pop("cwd", ROOT), stdout=subprocess.PIPE, **more)
    if done.returncode != 0:
        fail(f"{' '.join(map(str, argv))}: exit status {done.returncode}\n{done.stdout.decode(errors='replace')}")
    return done.stdout


# ---- the older build -----------------------------------------------------------------------------------------------

def build_base(commit, build):
    """Build a commit as this tree is built, unless it has been built. Returns its folders of sources and of the build."""
    name = run(["git", "rev-parse", "--verify", f"{commit}^{{commit}}"]).decode().strip()[:12]
    cache = (build / "CMakeCache.txt").read_text() if (build / "CMakeCache.txt").exists() else fail(f"{build} is not built")
    options = [f"-D{key}={value}" for key, value in re.findall(r"^(CMAKE_BUILD_TYPE|GW_SANITIZE|CMAKE_C_FLAGS):\w+=(.*)$", cache, re.M)]
    folder = WORK / f"{name}-{hashlib.sha256(' '.join(options).encode()).hexdigest()[:8]}"
    source, built = folder / "source", folder / "source" / "build"
    if not (folder / "complete").exists():
        print(f"building {name}: once, then it is kept in {os.path.relpath(folder, ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        source.mkdir(parents=True)
        run(["tar", "-x", "-C", source], input=run(["git", "archive", name]))
        run(["sh", "tools/build.sh", "build", "-DGW_TESTS=no_unit_test", *options], cwd=source)
        (folder / "complete").touch()
    return source, built


def generate(source, built, seed, count):
    """Let the older build record generated programs, unless this generator has made them. Returns the recordings."""
    truth = source / "tests" / "truth"
    generator = hashlib.sha256(b"".join(p.read_bytes() for p in sorted(truth.glob("*.[pch]*")) if p.is_file())).hexdigest()[:8]
    folder = WORK / f"programs-{seed}-{count}-{generator}"
    if not (folder / "complete").exists():
        print(f"recording {count} programs: once, then they are kept in {os.path.relpath(folder, ROOT)}", flush=True)
        shutil.rmtree(folder, ignore_errors=True)
        subprocess.run([sys.executable, "-B", str(truth / "truth.py"), "--build", str(built), "--seed", str(seed), "--count", str(count),
                        "--keep", str(folder)], stdout=subprocess.DEVNULL, check=False)  # 1 says that a verdict was not right
        if len(list(folder.glob("*/run.gpuwhy"))) < count * 0.9:
            fail(f"tests/truth/truth.py --seed {seed} --count {count} left fewer than nine recordings for ten programs in {folder}")
        (folder / "complete").touch()
    return sorted(folder.glob("*/run.gpuwhy"))


# ---- the inputs ----------------------------------------------------------------------------------------------------

def unpacked(path):
    """Return the path of a recording, decompressed if it is compressed."""
    if path.suffix not in UNPACK:
        return path
    to = WORK / "unpacked" / f"{hashlib.sha256(path.read_bytes()).hexdigest()[:8]}-{path.stem}"
    to.parent.mkdir(parents=True, exist_ok=True)
    to.write_bytes(run([*UNPACK[path.suffix], path]))
    return to


def file_input(kind, path):
    name = os.path.relpath(path, ROOT)
    return Input(kind, name, (name,), path=path)


def inputs_below(tests, corpus):
    """Yield all inputs that are files of the tree or of the corpus."""
    for path in sorted(p for p in tests.rglob("*") if re.search(r"\.(gpuwhy|pickle)(\.(xz|gz|zst))?$", p.name)):
        yield file_input("recordings", unpacked(path))
    for folder in [*sorted(p.parent for p in tests.rglob("index.tsv")), *([corpus] if corpus else [])]:
        for path in sorted(folder.glob("*.log")):
            yield file_input("logs", path)
    for path in sorted(tests.rglob("messages.tsv")):
        with open(path, newline="") as file:
            for number, row in enumerate(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE), 2):
                text = row["message"].replace("\\n", "\n").replace("\\t", "\t")
                name = f"{os.path.relpath(path, ROOT)}:{number}"
                yield Input("messages", name, ("-",), text + "\n")
                yield Input("questions", f"-m of {name}", ("-m", text))


# ---- the answers ---------------------------------------------------------------------------------------------------

class Build:
    """A build and its answers. Those of the older build are kept in a file."""

    def __init__(self, folder, kept=None):
        self.program, self.folder = folder / "gpuwhy", folder
        if not os.access(self.program, os.X_OK):
            fail(f"{self.program} is not built")
        self.kept, self.answers = kept, {}
        self.stamp = self.program.stat().st_mtime_ns
        if kept and kept.exists():
            stamp, answers = pickle.loads(kept.read_bytes())
            self.answers = answers if stamp == self.stamp else {}

    def keep(self):
        if self.kept:
            self.kept.with_suffix(".new").write_bytes(pickle.dumps((self.stamp, self.answers)))
            self.kept.with_suffix(".new").replace(self.kept)

    def ask(self, item, how):
        """Return exit status, output and messages as lines."""
        environment = {k: v for k, v in os.environ.items() if not k.startswith("GPUWHY") and k not in ("COLUMNS", "TERM")}
        environment.update(LC_ALL="C.UTF-8", TZ="UTC", **{f"XDG_{n}_HOME": str(WORK / "empty") for n in ("STATE", "CONFIG", "CACHE")})
        try:
            done = subprocess.run([str(self.program), "explain", how, *item.arguments], input=item.text.encode(), cwd=ROOT, env=environment,
                                  capture_output=True, timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            return [f"no answer after {TIMEOUT_S} s"]
        except OSError as error:
            fail(f"{self.program}: {error.strerror}")
        text = done.stdout + b"--- stderr ---\n" + done.stderr
        return [f"exit status {done.returncode}", *text.decode(errors="replace").splitlines()]

    def answer(self, item, how):
        """The answer as kept, or a new one."""
        content = item.path.read_bytes() if item.path else item.text.encode()
        key = hashlib.sha256(repr((item.arguments, how)).encode() + content).digest()
        if key not in self.answers:
            self.answers[key] = self.ask(item, how)
        return self.answers[key]

    def symbols(self):
        """Return {library: its dynamic symbols, without addresses}."""
        lib = self.folder / "lib"
        return {str(p.relative_to(lib)): {line[16:].strip() for line in run(["nm", "-D", p]).decode().splitlines()}
                for p in lib.rglob("*.so*") if p.is_file() and not p.is_symlink()}


def shape(line):
    """A line without numbers and paths, which differ between equal kinds of differences."""
    return re.sub(r"\d+", "N", re.sub(r"[\w.@:-]*/[\w./@:-]+", "PATH", line)).strip()


def hunks(old, new, volatile):
    """Return the places where two answers differ, each as a tuple of lines with "-" or "+" before them."""
    found = []
    for tag, i1, i2, j1, j2 in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        lines = tuple("- " + line for line in old[i1:i2]) + tuple("+ " + line for line in new[j1:j2])
        if tag != "equal" and not all(shape(line[2:]) in volatile for line in lines):
            found.append(lines)
    return found


def volatile_lines(base, items, pool):
    """Return the shapes of lines in which two runs of the older build differ, from a sample of each kind."""
    jobs = []
    for kind in KINDS:
        of_kind = [item for item in items if item.kind == kind]
        jobs += [(item, how) for item in of_kind[::max(1, len(of_kind) // SAMPLE)][:SAMPLE] for how in ("--json", "--all")]
    found = pool.map(lambda job: hunks(base.ask(*job), base.ask(*job), set()), jobs)
    return {shape(line[2:]) for places in found for lines in places for line in lines}


def verdict_of(answer):
    """Return an answer's verdict, as in "gpu-oom-leak (supported)"; None: it is none."""
    try:
        found = json.loads("\n".join(answer[1:answer.index("--- stderr ---")]))
        return f"{found['cause'] or found['status']} ({found['certainty']})" if found["certainty"] else found["cause"] or found["status"]
    except (ValueError, KeyError, TypeError):
        return None


def compare(base, new, items, volatile, pool, verdicts):
    """Yield (kind, name, how, lines) for each difference."""
    def of_one(job):
        item, how = job
        old, now = base.answer(item, how), new.ask(item, how)
        if old != now:
            old = base.ask(item, how)  # a kept answer may be of another day or machine
        if how == "--json" and verdict_of(old) != verdict_of(now):
            verdicts[(item.kind, verdict_of(old), verdict_of(now))].append(item.name)
        return [(item.kind, item.name, "explain " + how, lines) for lines in hunks(old, now, volatile)]
    for found in pool.map(of_one, [(item, how) for item in items for how in ("--json", "--all")]):
        yield from found


def compare_symbols(old, new):
    for library in sorted(set(old) | set(new)):
        before, now = old.get(library, {"(no such library)"}), new.get(library, {"(no such library)"})
        if before != now:
            yield "symbols", library, "nm -D", tuple(f"- {s}" for s in sorted(before - now)) + tuple(f"+ {s}" for s in sorted(now - before))


def launch_ratio(base, new):
    """Return a sentence about a recorded launch of both builds, measured in turn."""
    ratios = []
    try:
        for turn in range(BENCH_PAIRS):
            on, recording = {}, WORK / "bench.gpuwhy"
            for build in (base, new) if turn % 2 == 0 else (new, base):
                recording.unlink(missing_ok=True)
                done = subprocess.run([str(build.program), "run", "--quiet", "--no-history", "--gpu", "virtual:h200", "-o", str(recording), "--",
                                       str(build.folder / "bench" / "bench-hook-cost")], capture_output=True, text=True, timeout=TIMEOUT_S)
                on[build] = statistics.median(json.loads(done.stdout[done.stdout.index("{"):])["launch_on_ns"])
            ratios.append(on[new] / on[base])
    except (OSError, ValueError, KeyError, statistics.StatisticsError, subprocess.TimeoutExpired) as error:
        return f"not measured: {error}"
    return f"{statistics.median(ratios):.3f} times the older build's time ({min(ratios):.3f} to {max(ratios):.3f} in {BENCH_PAIRS} pairs)"


# ---- printing ------------------------------------------------------------------------------------------------------

def report(differences, verdicts, counts, file):
    """Print each kind of difference once, and how the verdicts changed; the file gets all differences."""
    groups = collections.defaultdict(list)
    for kind, name, how, lines in differences:
        groups[(kind, how, tuple(map(shape, lines)))].append((name, lines))
    for (kind, how, _), found in sorted(groups.items(), key=lambda g: -len(g[1]))[:GROUPS_SHOWN]:
        print(f"\n{len(found)} x {kind}, {how}: " + ", ".join(name for name, _ in found[:EXAMPLES]) + (", ..." if found[EXAMPLES:] else ""))
        print("\n".join("    " + line for line in found[0][1][:LINES_SHOWN]) + ("\n    ..." if found[0][1][LINES_SHOWN:] else ""))
    file.write_text("".join(f"{kind} {name}, {how}\n" + "".join(f"    {line}\n" for line in lines) for kind, name, how, lines in differences))
    if differences:
        print(f"\nall differences, also of kinds that are not shown: {os.path.relpath(file, ROOT)}")
    for (kind, old, now), names in sorted(verdicts.items(), key=lambda v: -len(v[1])):
        print(f"verdicts of {kind}: {old} -> {now}: {len(names)}: " + ", ".join(names[:EXAMPLES]) + (", ..." if names[EXAMPLES:] else ""))
    said = ", ".join(f"{counts[kind]:,} {kind}" for kind in KINDS if counts[kind])
    inputs = len({(kind, name) for kind, name, _, _ in differences})
    print(f"{said}: {len(differences):,} differences of {len(groups):,} kinds in {inputs:,} inputs" if differences else f"{said}: no difference")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0],
                                     epilog="kinds: " + "; ".join(f"{kind}: {what}" for kind, what in KINDS.items()))
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--base", metavar="COMMIT", help="compare with this commit")
    which.add_argument("--base-build", type=pathlib.Path, metavar="FOLDER", help="compare with this build; nothing is generated")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build")
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "tests", help="folder with the inputs [tests]")
    parser.add_argument("--corpus", type=pathlib.Path, help="one more folder with logs")
    parser.add_argument("--programs", type=int, default=3000, help="programs to generate [3000]")
    parser.add_argument("--seed", type=int, default=20261128, help="of the programs")
    parser.add_argument("--kinds", default=",".join(KINDS), help="inputs to compare [all]")
    options = parser.parse_args()
    kinds = options.kinds.split(",")
    if not set(kinds) <= set(KINDS):
        parser.error(f"--kinds: {options.kinds}: the kinds are {', '.join(KINDS)}")
    began = time.monotonic()
    (WORK / "empty").mkdir(parents=True, exist_ok=True)
    items = list(inputs_below(options.tests.resolve(), options.corpus and options.corpus.resolve()))
    if options.base_build:
        base, kinds = Build(options.base_build.resolve()), [kind for kind in kinds if kind != "generated"]
    else:
        source, built = build_base(options.base, options.build.resolve())
        base = Build(built, source.parent / "answers")
        if "generated" in kinds:
            items += [file_input("generated", path) for path in generate(source, built, options.seed, options.programs)]
    new, items = Build(options.build.resolve()), [item for item in items if item.kind in kinds]
    counts = collections.Counter(item.kind for item in items)
    symbols = (base.symbols(), new.symbols()) if "symbols" in kinds else ({}, {})
    counts["symbols"] = len(symbols[0])
    lacking = [kind for kind in kinds if kind != "bench" and not counts[kind]]
    if lacking:
        fail(f"no inputs of the kind {', '.join(lacking)}")
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        try:
            volatile = volatile_lines(base, items, pool)
            verdicts = collections.defaultdict(list)
            differences = [*compare(base, new, items, volatile, pool, verdicts), *compare_symbols(*symbols)]
        finally:
            base.keep()
    if new.program.stat().st_mtime_ns != new.stamp:
        fail(f"{new.program} was built again during the comparison")
    if volatile:
        print("not compared, because two runs of the older build differ there:\n    " + "\n    ".join(sorted(volatile)))
    if "bench" in kinds:
        print(f"a recorded launch takes {launch_ratio(base, new)}")
    report(differences, verdicts, counts, WORK / "differences.txt")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
