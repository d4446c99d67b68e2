"""libgpuscope from the user's view: a hundred runs in one process in which gpuwhy finds no fault, a fault that stays
in a child, a machine without a driver, and programs in C and C++ that are built against the installed library.

Prints one line per case. A case that cannot run on this machine is printed as skipped; the test fails if a case
fails.
"""
import pathlib
import re
import shutil
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from harness import (PRODUCT, SANITIZE, Card, Failure, Workplace, base_environment, behind_sanitizer, expect, execute, main,
                     must, new_folder, run_observed)

DEMO = PRODUCT / "examples" / "scope_demo"
CARD = Card("16GiB")

PROGRAM = r"""
#include <gpuwhy/scope.h>

static const char ptx[] = ".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry step(.param .u64 p)\n{\nret;\n}\n";

int main(int argc, char **argv)
{
    static const gs_child_entry entries[] = {{NULL, NULL}};
    gs_child_main(argc, argv, entries);
    gs_scope *scope;
    gs_report *report;
    CUdeviceptr block;
    CUmodule module;
    CUfunction step;
    int count = 3;
    if (gs_open(NULL, &scope, NULL) != GS_OK || gs_alloc(scope, 1 << 20, &block) != GS_OK ||
        gs_module(scope, ptx, &module) != GS_OK || gs_kernel(scope, module, "step", &step) != GS_OK ||
        GS_LAUNCH(step, gs_dim(1, 1, 1), gs_dim(32, 1, 1), 0, NULL, &block, &count) != GS_OK ||
        GS_TRY(0) != GS_OK)
        return 1;
    if (gs_end(scope, &report) != GS_OK || report->held_count != 2)
        return 2;
    gs_report_free(report);
    return 0;
}
"""


class CaseSkipped(Exception):
    pass


def hundred_runs(place, *options):
    folder = new_folder(place, "runs")
    run = run_observed([DEMO, "--runs", "100", *options], CARD, folder)
    expect(run.status == 0, f"exit {run.status}: {run.stderr.decode(errors='replace')}")
    lines = re.findall(r"^run (\d+): success, (.*)$", run.stdout.decode(), re.M)
    expect([number for number, _ in lines] == [str(i + 1) for i in range(100)], f"runs: {lines}")
    different = {text for _, text in lines[1:]}
    expect(len(different) == 1, f"runs 2 to 100 differ: {different}")
    expect("nothing is missing" in run.stdout.decode(), run.stdout.decode())
    verdict = run.verdict()
    expect(verdict["status"] == "clean", f"{verdict['status']}: {verdict['headline']}")


def runs_each_with_a_context(place):
    hundred_runs(place)


def runs_on_one_context(place):
    hundred_runs(place, "--warm")


def fault_stays_in_the_child(place):
    run = run_observed([DEMO, "--fault", "--runs", "3"], CARD, new_folder(place, "fault"))
    said = run.stdout.decode()
    expect(run.status == 0, f"exit {run.status}: {said}")
    expect('a child answered "ruined": a sticky error' in said and "CUDA_ERROR_ILLEGAL_ADDRESS (700)" in said, said)
    expect("newest launch before it: step at " in said and said.count(": success, ") == 3, said)
    verdict = run.verdict()
    expect(verdict["cause"] == "illegal-address", f"{verdict['cause']}: {verdict['headline']}")


def no_driver(place):
    folder = new_folder(place, "bare")
    environment = base_environment(folder)
    (folder / "libcuda.so.1").write_bytes(b"")
    environment["LD_LIBRARY_PATH"] = str(folder)
    run = execute(behind_sanitizer([DEMO, "--runs", "1"]), folder, environment)
    said = run.stderr.decode()
    expect(run.status == 1 and "dlopen(libcuda.so.1): " in said, f"exit {run.status}: {said}")
    expect("run 1: the driver library is missing" in run.stdout.decode(), run.stdout.decode())


# ---- the installed library -----------------------------------------------------------------------------------------

def installed_library(place):
    if SANITIZE:
        raise CaseSkipped("a sanitized library is not installed")
    if not (PRODUCT / "cmake_install.cmake").exists():
        raise CaseSkipped("this build was carried here without what installs it")
    for tool in ("cmake", "pkg-config", "cc", "c++"):
        if shutil.which(tool) is None:
            raise CaseSkipped(f"no {tool}")
    root = place / "moved" / "tree"
    must("cmake", "--install", PRODUCT, "--prefix", place / "tree")
    (place / "moved").mkdir()
    (place / "tree").rename(root)
    packages = list(root.glob("lib*/**/gpuscope.pc"))
    expect(len(packages) == 1, f"package files: {packages}")
    environment = base_environment(place)
    environment["PKG_CONFIG_PATH"] = str(packages[0].parent)
    expect(must("pkg-config", "--modversion", "gpuscope", environment=environment), "no version")
    flags = must("pkg-config", "--cflags", "--libs", "gpuscope", environment=environment)
    static = must("pkg-config", "--static", "--cflags", "--libs", "gpuscope", environment=environment)
    static = [str(next(root.glob("lib*/**/libgpuscope.a"))) if word == "-lgpuscope" else word for word in static]
    libraries = next(root.glob("lib*/**/libgpuscope.so")).parent
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]
    for suffix, compiler, linked in (("c", ["cc", "-std=c11"], flags), ("cc", ["c++", "-std=c++11"], flags),
                                     ("c", ["cc", "-std=c17"], static)):
        program = place / "program"
        source = place / f"program.{suffix}"
        source.write_text(PROGRAM)
        must(*compiler, *strict, source, "-o", program, *linked, f"-Wl,-rpath,{libraries}")
        folder = new_folder(place, f"{suffix}-{len(linked)}")
        run = run_observed([program], CARD, folder)
        expect(run.status == 0, f"{compiler}: exit {run.status}: {run.stderr.decode(errors='replace')}")
        expect(run.verdict()["status"] == "clean", run.verdict()["headline"])


def exports_its_own_names_alone(place):
    if not (PRODUCT / "libgpuscope.so").exists():
        raise CaseSkipped("this build was carried here without the shared library")
    if shutil.which("nm") is None:
        raise CaseSkipped("no nm")
    names = must("nm", "-D", "--defined-only", "--format=just-symbols", PRODUCT / "libgpuscope.so")
    strange = [name for name in names if not name.startswith("gs_")]
    expect(names and (not strange or SANITIZE), f"exported: {strange}")


CASES = [runs_each_with_a_context, runs_on_one_context, fault_stays_in_the_child, no_driver, installed_library,
         exports_its_own_names_alone]


def test():
    failed = []
    for case in CASES:
        with Workplace() as place:
            try:
                case(place)
                print(f"  passed   {case.__name__}")
            except CaseSkipped as reason:
                print(f"  skipped  {case.__name__}: {reason}")
            except Failure as failure:
                failed.append(case.__name__)
                print(f"  FAILED   {case.__name__}: {failure}")
    expect(not failed, f"{len(failed)} cases failed: {', '.join(failed)}")


main(test)
