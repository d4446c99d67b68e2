"""Functions, files and lines of call sites, compared with marks in the sources. C++ with deep inlining, stripped and
without frame pointers; Python with ctypes; names on a machine that no longer has the program.
"""
import functools
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

from harness import (GPUWHY, SANITIZE, Card, CaseSkipped, base_environment, by_name, expect, gpuwhy, library_folder, main,
                     new_folder, remove_run_folders, run_cases, run_observed, wait_until)

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "python"))
import with_version

SOURCES = pathlib.Path(__file__).parents[1] / "scenarios" / "sites"
CARD = Card("5GiB")


def line_of(source, mark):
    found = [n for n, line in enumerate(source.read_text().splitlines(), 1) if re.search(rf"mark: {mark}\b", line)]
    expect(len(found) == 1, f"{source.name}: mark {mark} stands at {found}")
    return found[0]


def launches_from_python(place, options=()):
    """Run a Python program in which one of two kernels faults. Returns its source and the run."""
    source = SOURCES / "launches.py"
    if SANITIZE:
        raise CaseSkipped("this interpreter loads no sanitized libraries")
    card = Card("16GiB", more="fault=illegal-address@kernel:bad")
    return source, run_observed([sys.executable, source], card, new_folder(place, "python"), list(options))


def frames(verdict):
    where = verdict["where"]
    expect(where is not None, f"no place: {verdict['where_reason']}")
    return where["frames"]


def expect_user(verdict, function, source, mark):
    where = verdict["where"]
    expect(where is not None, f"no place: {verdict['where_reason']}")
    found = (where["function"], pathlib.Path(where["file"] or "?").name, where["line"])
    wanted = (function, source.name, line_of(source, mark))
    expect(found == wanted, f"found {found}, wanted {wanted}; the stack: "
           + ", ".join(f"{f['function']} {f['file']}:{f['line']}" for f in where["frames"]))


def below(verdict, wanted):
    """Return the user's own frames, from the frame that is shown as the place."""
    where = verdict["where"]
    own = [(f["function"], f["line"]) for f in where["frames"][where["user"]:] if f["whose"] in ("own", "user")]
    expect(own[:len(wanted)] == wanted, f"found {own}, wanted {wanted}")


def observe(place, name, argv):
    run = run_observed(argv, CARD, new_folder(place, name))
    verdict = run.verdict()
    expect(verdict["cause"] == "gpu-oom-leak", f"{verdict['cause']}: {verdict['headline']}")
    return run, verdict


# ---- C++ ---------------------------------------------------------------------------------------------------------------

def build(place, name, *options, source="deep.cpp"):
    cpp = source.endswith(".cpp")
    compiler = shutil.which(os.environ.get("CXX", "c++") if cpp else os.environ.get("CC", "cc"))
    if compiler is None:
        raise CaseSkipped("no compiler")
    if SANITIZE:
        raise CaseSkipped("a C++ program of its own cannot load sanitized libraries")
    folder = library_folder(new_folder(place, name + "-build"))
    program = folder / name
    done = subprocess.run([compiler, "-O2", *(["-std=c++17"] if cpp else []), *options, str(SOURCES / source), "-o", str(program),
                           f"-L{folder}", "-lcuda", "-Wl,--allow-shlib-undefined"], capture_output=True, text=True)
    expect(done.returncode == 0, f"not built: {done.stderr}")
    return program


def deep_inlining(place):
    source = SOURCES / "deep.cpp"
    _, verdict = observe(place, "deep", [build(place, "deep", "-g")])
    expect_user(verdict, "data::Loader<float>::next", source, "allocated")
    names = [(f["function"], f["line"], f["inlined"]) for f in frames(verdict) if f["whose"] == "own"]
    expect([line for _, line, _ in names] == [line_of(source, m) for m in ("allocated", "batch", "epoch")]
           + [names[3][1], line_of(source, "train")], f"lines: {names}")
    expect([inlined for _, _, inlined in names] == [True, True, True, False, False], f"inlined: {names}")
    expect("operator()" in names[1][0] and "each_epoch" in names[2][0] and names[3][0] == "train" and names[4][0] == "main",
           f"functions: {names}")


def without_frame_pointers_or_lines(place):
    _, verdict = observe(place, "bare", [build(place, "bare", "-fomit-frame-pointer")])
    where = verdict["where"]
    expect(where and where["function"] == "train" and where["line"] is None, f"{where and where['text']}")
    expect("has no line information" in verdict["where_reason"], verdict["where_reason"])
    expect([f["function"] for f in frames(verdict) if f["whose"] == "own"] == ["train", "main"], str(frames(verdict)))


def stripped(place):
    if shutil.which("strip") is None:
        raise CaseSkipped("no strip")
    program = build(place, "stripped", "-g")
    subprocess.run(["strip", str(program)], check=True)
    _, verdict = observe(place, "stripped", [program])
    where = verdict["where"]
    expect(where and re.fullmatch(r"stripped\+0x[0-9a-f]+", where["text"]), f"{where and where['text']}")
    expect(verdict["where_reason"], "no reason why there is no line")


def stripped_part(place):
    """The compiler moved a part of a function away. It must have the function's name although it has no symbol of
    its own."""
    if shutil.which("strip") is None or shutil.which("nm") is None:
        raise CaseSkipped("no strip, or no nm")
    program = build(place, "cold", "-rdynamic", source="cold.c")
    if "keep.cold" not in subprocess.run(["nm", str(program)], capture_output=True, text=True).stdout:
        raise CaseSkipped("this compiler leaves functions in one piece")
    subprocess.run(["strip", str(program)], check=True)
    _, verdict = observe(place, "cold", [program])
    own = [f["function"] for f in frames(verdict) if f["whose"] == "own"]
    expect(own[1:] == ["keep", "main"], f"functions: {own}")


def separate_debug_file(place):
    if shutil.which("objcopy") is None:
        raise CaseSkipped("no objcopy")
    program = build(place, "split", "-g", "-Wl,--build-id")
    debug = program.with_name("split.debug")
    subprocess.run(["objcopy", "--only-keep-debug", str(program), str(debug)], check=True)
    subprocess.run(["objcopy", "--strip-all", f"--add-gnu-debuglink={debug.name}", str(program)], check=True,
                   cwd=program.parent)
    _, verdict = observe(place, "split", [program])
    expect_user(verdict, "data::Loader<float>::next", SOURCES / "deep.cpp", "allocated")


def names_survive(place):
    """The program is deleted, then replaced by another one: the recorded names stay."""
    program = build(place, "gone", "-g")
    run, verdict = observe(place, "gone", [program])
    for replacement in (None, "/bin/true"):
        program.unlink(missing_ok=True)
        if replacement:
            shutil.copy(replacement, program)
        status, out, err = gpuwhy("explain", "--json", run.recording)
        expect(status == 0, err)
        expect(json.loads(out)["where"] == verdict["where"], f"another place: {json.loads(out)['where']}")


def explain_names_what_a_dead_supervisor_did_not(place):
    program = build(place, "orphan", "-g")
    folder = new_folder(place, "orphan")
    line = 'kill -9 $PPID; "$0"; echo over >over'
    gone = subprocess.Popen([str(GPUWHY), "run", *CARD.options(), "-o", str(folder / "run.gpuwhy"), "--", "/bin/sh", "-c",
                             line, str(program)], cwd=folder, env=base_environment(folder), stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL)
    gone.wait(timeout=240)
    wait_until((folder / "over").exists, "the program did not survive its supervisor")
    status, out, err = gpuwhy("explain", "--json", folder / "run.gpuwhy")
    remove_run_folders(gone.pid)
    expect(status == 1, err)  # not determined: the recording does not show whether the program survived the refusal
    expect_user(json.loads(out), "data::Loader<float>::next", SOURCES / "deep.cpp", "allocated")


# ---- Python --------------------------------------------------------------------------------------------------------------

VERSIONS = ("3.9", "3.10", "3.11", "3.12", "3.13", "3.14")


def python_argv(version, *arguments):
    if SANITIZE:
        raise CaseSkipped("this interpreter loads no sanitized libraries")
    interpreter = with_version.find(version)
    if interpreter is None:
        raise CaseSkipped(f"no CPython {version} here; tools/pythons.sh brings one")
    return [interpreter, "-B", str(SOURCES / "keeps.py"), *arguments]


def qualified(version):
    return "Loader.__iter__" if int(version.split(".")[1]) >= 11 else "__iter__"


def expect_mixed(verdict):
    """The interpreter's own frames inside and between Python frames are all in the right place."""
    where = verdict["where"]
    expect(not where["notes"], f"notes: {where['notes']}")
    kinds = [f["kind"] for f in where["frames"]]
    first, last = kinds.index("python"), len(kinds) - 1 - kinds[::-1].index("python")
    expect(0 < first and last < len(kinds) - 1, f"Python's frames are not among the native ones: {kinds}")
    inner = where["frames"][first - 1]
    expect("python" in (inner["module"] or ""), f"what Python's innermost frame calls is no part of the interpreter: {inner}")


def python(place, version):
    source = SOURCES / "keeps.py"
    _, verdict = observe(place, "python", python_argv(version))
    name = qualified(version)
    expect_user(verdict, name, source, "kept")
    deeper = ("train", line_of(source, "deeper"))
    below(verdict, [(name, line_of(source, "kept")), ("train", line_of(source, "loop")), deeper, deeper, deeper,
                    ("work", line_of(source, "train")), ("<module>", line_of(source, "main"))])
    expect(any("__iter__" in e["text"] for e in verdict["evidence"]), "the evidence names no place")
    expect_mixed(verdict)


def python_on_a_thread(place, version):
    source = SOURCES / "keeps.py"
    _, verdict = observe(place, "thread", python_argv(version, "thread"))
    expect_user(verdict, qualified(version), source, "kept")
    expect(not any("_bootstrap" in (f["function"] or "") and f["whose"] != "runtime" for f in frames(verdict)),
           "the thread's own start is taken for the user's")
    expect_mixed(verdict)


def native_column(place):
    """Of two calls in one line, the mark is under the one that was refused. Not if the source has changed."""
    if shutil.which("cc") is None:
        raise CaseSkipped("there is no C compiler")
    if SANITIZE:
        raise CaseSkipped("a program without the sanitizer loads no sanitized libraries")
    source, program = place / "column.c", place / "column"
    shutil.copy(SOURCES / "column.c", source)
    subprocess.run(["cc", "-g", "-o", program, source, "-ldl"], check=True)
    run = run_observed([program], CARD, new_folder(place, "run"))
    expect(run.status == 1, f"status {run.status}: {run.stderr.decode(errors='replace')}")
    lines = gpuwhy("explain", run.recording, folder=place)[1].splitlines()
    at = [i for i, line in enumerate(lines) if line.lstrip().startswith(f"> {line_of(source, 'refused')} |")]
    expect(len(at) == 1, f"the line is not shown: {lines}")
    line, mark = lines[at[0]], lines[at[0] + 1]
    expect(mark.strip() == "|" + " " * (line.rindex("alloc(") - line.index("|") - 1) + "^", f"a wrong mark:\n{line}\n{mark}")
    expect(all(len(line) <= 80 for line in lines), "a line is longer than 80 columns")
    source.write_text(source.read_text().replace("alloc", "claim"))
    out = gpuwhy("explain", run.recording, folder=place)[1]
    expect("the file has changed since" in out and "^" not in out, f"the changed file is shown: {out}")


CASES = by_name(native_column, deep_inlining, without_frame_pointers_or_lines, stripped, stripped_part, separate_debug_file, names_survive,
         explain_names_what_a_dead_supervisor_did_not)


for version in VERSIONS:
    for case in (python, python_on_a_thread):
        CASES[f"{case.__name__} {version}"] = functools.partial(case, version=version)


if __name__ == "__main__":
    main(lambda: run_cases(CASES))
