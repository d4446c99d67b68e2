"""Where: functions, files and lines of call sites, against marks in the sources. C++ with deep inlining, stripped and
without frame pointers; Python by ctypes; names on a machine that no longer has the program.

Prints a line a case. A case that this machine cannot show is printed as skipped; the test fails when one case fails.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from harness import (GPUWHY, SANITIZE, Card, Failure, Workplace, base_environment, expect, gpuwhy, library_folder, main,
                     new_folder, run_observed)

SOURCES = pathlib.Path(__file__).parents[1] / "scenarios" / "sites"
CARD = Card("5GiB")


class CaseSkipped(Exception):
    pass


def line_of(source, mark):
    found = [n for n, line in enumerate(source.read_text().splitlines(), 1) if re.search(rf"mark: {mark}\b", line)]
    expect(len(found) == 1, f"{source.name}: mark {mark} stands at {found}")
    return found[0]


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
    """The frames of the user's own, from the user's frame on."""
    where = verdict["where"]
    own = [(f["function"], f["line"]) for f in where["frames"][where["user"]:] if f["whose"] in ("own", "user")]
    expect(own[:len(wanted)] == wanted, f"found {own}, wanted {wanted}")


def observe(place, name, argv):
    run = run_observed(argv, CARD, new_folder(place, name))
    verdict = run.verdict()
    expect(verdict["cause"] == "gpu-oom-leak", f"{verdict['cause']}: {verdict['headline']}")
    return run, verdict


# ---- C++ ---------------------------------------------------------------------------------------------------------------

def build(place, name, *options):
    compiler = shutil.which(os.environ.get("CXX", "c++"))
    if compiler is None:
        raise CaseSkipped("no C++ compiler")
    if SANITIZE:
        raise CaseSkipped("a C++ program of its own cannot load sanitized libraries")
    folder = library_folder(new_folder(place, name + "-build"))
    program = folder / name
    done = subprocess.run([compiler, "-O2", "-std=c++17", *options, str(SOURCES / "deep.cpp"), "-o", str(program),
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
    expect("tells no lines" in verdict["where_reason"], verdict["where_reason"])
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
    """The program is gone, then another one stands in its place: what was recorded stays."""
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
    subprocess.run([str(GPUWHY), "run", *CARD.options(), "-o", str(folder / "run.gpuwhy"), "--", "/bin/sh", "-c", line,
                    str(program)], cwd=folder, env=base_environment(folder), stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL, timeout=120)
    deadline = time.monotonic() + 60
    while not (folder / "over").exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    status, out, err = gpuwhy("explain", "--json", folder / "run.gpuwhy")
    expect(status == 0, err)
    expect_user(json.loads(out), "data::Loader<float>::next", SOURCES / "deep.cpp", "allocated")


# ---- Python --------------------------------------------------------------------------------------------------------------

def python_argv(*arguments):
    if SANITIZE:
        raise CaseSkipped("this interpreter loads no sanitized libraries")
    return [sys.executable, str(SOURCES / "keeps.py"), *arguments]


def python(place):
    source = SOURCES / "keeps.py"
    _, verdict = observe(place, "python", python_argv())
    name = "Loader.__iter__" if sys.version_info >= (3, 11) else "__iter__"
    expect_user(verdict, name, source, "kept")
    deeper = ("train", line_of(source, "deeper"))
    below(verdict, [(name, line_of(source, "kept")), ("train", line_of(source, "loop")), deeper, deeper, deeper,
                    ("work", line_of(source, "train")), ("<module>", line_of(source, "main"))])
    expect(any("Loader.__iter__" in e["text"] or "__iter__" in e["text"] for e in verdict["evidence"]),
           "the evidence names no place")


def python_on_a_thread(place):
    source = SOURCES / "keeps.py"
    _, verdict = observe(place, "thread", python_argv("thread"))
    name = "Loader.__iter__" if sys.version_info >= (3, 11) else "__iter__"
    expect_user(verdict, name, source, "kept")
    expect(not any("_bootstrap" in (f["function"] or "") and f["whose"] != "runtime" for f in frames(verdict)),
           "the thread's own start is taken for the user's")


CASES = [deep_inlining, without_frame_pointers_or_lines, stripped, separate_debug_file, names_survive,
         explain_names_what_a_dead_supervisor_did_not, python, python_on_a_thread]


def all_cases():
    failed = []
    for case in CASES:
        with Workplace() as place:
            try:
                case(place)
                print(f"passed: {case.__name__}")
            except CaseSkipped as reason:
                print(f"skipped: {case.__name__}: {reason}")
            except Failure as failure:
                failed.append(case.__name__)
                print(f"FAILED: {case.__name__}: {failure}")
    expect(not failed, f"{len(failed)} cases failed: {', '.join(failed)}")


if __name__ == "__main__":
    main(all_cases)
