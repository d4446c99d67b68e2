"""libgpuscope as other projects use it: the installed examples by pkg-config and by CMake, the layer for C++ with two
compilers, the manual pages, and a leaking program for the CUDA runtime before and after its repair.

Prints one line per case. A case that cannot run on this machine is printed as skipped; the test fails if a case
fails.
"""
import difflib
import pathlib
import re
import shutil
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from harness import (PRODUCT, REAL, Card, Failure, Workplace, base_environment, expect, main, must, new_folder, run_observed)

SOURCE = pathlib.Path(__file__).resolve().parents[1]
CARD = Card("2GiB")
STRICT = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Werror"]


class CaseSkipped(Exception):
    pass


trees = []


def installed():
    if isinstance(trees[0], Exception):
        raise trees[0]
    return trees[0]


def need(*tools):
    for tool in tools:
        if shutil.which(tool) is None:
            raise CaseSkipped(f"no {tool}")


class Tree:
    """libgpuscope, installed and then moved to another place. All cases use one."""

    def __init__(self, place):
        need("cmake")
        if not (PRODUCT / "cmake_install.cmake").exists():
            raise CaseSkipped("this build was carried here without what installs it")
        self.root = place / "moved" / "tree"
        must("cmake", "--install", PRODUCT, "--prefix", place / "tree")
        (place / "moved").mkdir()
        (place / "tree").rename(self.root)
        self.examples = self.root / "share" / "doc" / "gpuscope" / "examples"
        self.libraries = next(self.root.glob("lib*/**/libgpuscope.so")).parent
        self.environment = base_environment(place)
        self.environment["PKG_CONFIG_PATH"] = str(self.libraries / "pkgconfig")
        self.environment["LD_LIBRARY_PATH"] = str(self.libraries)

    def flags(self):
        need("pkg-config")
        return must("pkg-config", "--cflags", "--libs", "gpuscope", environment=self.environment)


def run_well(program, folder, words):
    """Run a program on the virtual card. It must succeed, and gpuwhy must find no fault."""
    run = run_observed([program], CARD, folder)
    said = run.stdout.decode()
    expect(run.status == 0, f"{program.name}: exit {run.status}: {said}{run.stderr.decode(errors='replace')}")
    expect(words in said, f"{program.name}: {said}")
    expect(run.verdict()["status"] == "clean", run.verdict()["headline"])
    return said


# ---- the installed tree --------------------------------------------------------------------------------------------

def one_line_builds_each_example(place):
    tree = installed()
    need("cc", "c++")
    flags = " ".join(tree.flags())
    for name, compiler in (("run.c", "cc"), ("run.cpp", "c++")):
        text = (tree.examples / name).read_text()
        line = re.search(rf"^\W+({re.escape(compiler)} .*) && \./run\b", text, re.M)
        expect(line, f"{name} does not say how it is built")
        command = line[1].replace("$(pkg-config --cflags --libs gpuscope)", flags)
        expect("$(" not in command, command)
        must(*command.split(), *STRICT, f"-Wl,-rpath,{tree.libraries}", folder=tree.examples)
        run_well(tree.examples / "run", new_folder(place, name), "the card answers 1\n")
        expect(line[1] in (tree.examples / "README.md").read_text(), f"README.md has not: {line[1]}")


def configure(tree, source, build):
    return subprocess.run(["cmake", "-S", str(source), "-B", str(build), f"-DCMAKE_PREFIX_PATH={tree.root}"],
                          capture_output=True, text=True, env=tree.environment, timeout=240)


def find_package_by_cmake(place):
    tree = installed()
    need("cc", "c++")
    build = place / "build"
    done = configure(tree, tree.examples, build)
    expect(done.returncode == 0, done.stdout + done.stderr)
    must("cmake", "--build", build, environment=tree.environment)
    for name in ("run-c", "run-cpp"): # the shared and the static library
        run_well(build / name, new_folder(place, name), "the card answers 1\n")


def find_package_checks_the_version(place):
    tree = installed()
    need("c++")
    version = must("pkg-config", "--modversion", "gpuscope", environment=tree.environment)[0]
    major, minor, _ = map(int, version.split("."))
    for wanted, is_good in ((f"{major}.{minor}", True), (version + " EXACT", True), (f"{major}.{minor + 1}", False)):
        folder = new_folder(place, wanted.replace(" ", "-"))
        (folder / "CMakeLists.txt").write_text(
            f"cmake_minimum_required(VERSION 3.18)\nproject(other LANGUAGES CXX)\nfind_package(gpuscope {wanted} REQUIRED)\n"
            f"if(NOT gpuscope_VERSION STREQUAL {version})\nmessage(FATAL_ERROR \"${{gpuscope_VERSION}}\")\nendif()\n"
            "if(NOT TARGET gpuscope::gpuscope OR NOT TARGET gpuscope::gpuscope-static)\nmessage(FATAL_ERROR)\nendif()\n")
        done = configure(tree, folder, folder / "build")
        expect((done.returncode == 0) == is_good, f"{wanted}: {done.stdout}{done.stderr}")
        expect(is_good or f"version: {version}" in done.stderr, done.stderr)


def manual_pages(place):
    del place
    tree = installed()
    folder = tree.root / "share" / "man" / "man3"
    if not folder.exists():
        raise CaseSkipped("this build has no manual pages of libgpuscope")
    need("nm")
    names = must("nm", "-D", "--defined-only", "--format=just-symbols", tree.libraries / "libgpuscope.so")
    pages = {page.stem for page in folder.iterdir()}
    missing = {re.sub("_at$", "", name) for name in names} - pages
    expect(names and not missing, f"no page: {missing}")
    expect({"gpuscope", "gpuscope_cpp", "gpuscope_cuda", "gs_report", "GS_TRY", "GS_RETURN_IF_FAILED"} <= pages, "a page is missing")
    for page in folder.iterdir():
        text = page.read_text() # a link that leads nowhere fails here
        unknown = set(re.findall(r"^\.BR (\w+) \(3\)", text, re.M)) - pages
        expect(not unknown, f"{page.name} refers to {unknown}")
        expect(re.search(rf"^[\w, \n]*\b{page.stem}\b[\w, \n]*\\- \S", text.split(".SH NAME\n")[1], re.M),
               f"{page.name} does not name itself")
    for name, callback in (("gs_adopt", "gs_release"), ("gs_fit", "gs_bytes_for")): # the page has the function's name
        text = (folder / f"{callback}.3").read_text()
        expect(text.startswith(f".TH {name.upper()} 3 "), text[:200])
        expect(not (folder / f"{name}.3").is_symlink(), f"{name}.3 is not the page, but a link")
    text = (folder / "gs_open.3").read_text()
    expect("gs_open(const gs_options *options, gs_scope **ret_scope, gs_failure\n" in text or
           "gs_open(const gs_options *options, gs_scope **ret_scope," in text, text)
    need("mandoc")
    done = subprocess.run(["mandoc", "-Tlint", *sorted(folder.glob("*.3"))], capture_output=True, text=True, timeout=240)
    expect(done.returncode == 0 and not done.stdout, done.stdout[:2000])


# ---- C++ -----------------------------------------------------------------------------------------------------------

def layer_for_cpp(place):
    tree = installed()
    need("g++")
    flags = tree.flags()
    for compiler, options, words in (("g++", ["-std=c++11", "-fno-exceptions"], "without exceptions"),
                                     ("g++", ["-std=c++20"], "with exceptions"),
                                     ("clang++", ["-std=c++11", "-fno-exceptions"], "without exceptions"),
                                     ("clang++", ["-std=c++11"], "with exceptions")):
        if shutil.which(compiler) is None:
            print(f"  skipped  layer_for_cpp with {compiler} {' '.join(options)}: no {compiler}")
            continue
        program = place / "program"
        must(compiler, *options, *STRICT, SOURCE / "tests" / "cpp" / "scope_test.cpp", "-o", program, *flags,
             "-pthread", f"-Wl,-rpath,{tree.libraries}")
        run = run_observed([program], Card("16GiB"), new_folder(place, "-".join([compiler, *options])))
        expect(run.status == 0 and run.stdout.decode() == words + "\n", f"{compiler} {options}: {run.stdout.decode()}")


def headers_for_cuda_in_cpp(place):
    """The headers for the CUDA runtime, in C++ with templates as in the runtime's own header."""
    tree = installed()
    need("g++")
    source = place / "use.cpp"
    source.write_text("#include <cuda_runtime.h>\n#include <gpuwhy/scope_cuda_wrap.h>\n"
                      "int use(gs_scope *scope)\n{\n    float *a, *b;\n    void *c;\n    cudaStream_t stream;\n"
                      "    return gs_cuda_malloc(scope, 4, &a) + gs_cuda_malloc_host(scope, 4, &c) + cudaMalloc(&b, 4) +\n"
                      "           cudaMallocManaged(&b, 4) + cudaMallocHost(&b, 4) + cudaStreamCreate(&stream) + cudaFree(b) +\n"
                      "           gs_cuda_adopt(scope, GS_KIND_STREAM, stream, 0) + GS_CUDA_LAUNCHED(step) +\n"
                      "           GS_TRY_CUDA(cudaMemsetAsync(a, 0, 4, stream));\n}\n")
    for compiler in ("g++", "clang++"):
        if shutil.which(compiler) is None:
            print(f"  skipped  headers_for_cuda_in_cpp with {compiler}: no {compiler}")
            continue
        for standard in ("c++11", "c++17"):
            must(compiler, f"-std={standard}", *STRICT, "-c", source, "-o", place / "use.o", f"-I{tree.root / 'include'}",
                 "-isystem", SOURCE / "tests" / "runtime")


# ---- the CUDA runtime ----------------------------------------------------------------------------------------------

EXAMPLES = PRODUCT / "examples"


def leaking_program_and_its_repair(place):
    leaky = run_observed([EXAMPLES / "leaky"], CARD, new_folder(place, "leaky"))
    verdict = leaky.verdict()
    expect(leaky.status == 1 and verdict["cause"] == "gpu-oom-leak", f"exit {leaky.status}: {verdict['headline']}")
    document = (SOURCE / "docs" / "scope.md").read_text()
    made = leaky.stdout.decode().count(" steps\n")
    if not REAL:
        expect(f"`leaky` makes {made} of its 40 runs" in document, f"docs/scope.md does not have {made} runs of leaky")
        commands = re.findall(r"^    build/gpuwhy run --gpu virtual:(\S+) -- build/libgpuscope/(examples/\w+)$", document, re.M)
        expect(commands == [(CARD.specification(), str((EXAMPLES / name).relative_to(PRODUCT))) for name in ("leaky", "repaired")],
               f"docs/scope.md has {commands}")
    folder = new_folder(place, "repaired")
    run_well(EXAMPLES / "repaired", folder, "run 40: 3 steps\n")
    run = run_observed([EXAMPLES / "repaired", "2"], CARD, new_folder(place, "two"))
    report = run.stderr.decode()
    for what in ("device memory, 96.00 MiB", "managed memory, 1.00 MiB", "pinned host memory, 1.00 MiB", "event", "stream"):
        expect(len(re.findall(rf"still held: 1 x {what}, \S*repaired\.c:\d+", report)) == 1, f"{what}: {report}")
    expect(report.count(": nothing is missing") == 2, report)
    shown = re.findall(r"^ +(still held: .*\brepaired\.c:\d+)$", document, re.M)
    lines = re.sub(r"\S*/repaired\.c", "repaired.c", report)
    expect(len(shown) == 2 and all(line in lines for line in shown), f"docs/scope.md shows {shown}, the report: {lines}")


def document_shows_the_repair(place):
    del place
    folder = SOURCE / "examples"
    texts = [(folder / name).read_text().split("*/\n", 1)[1].splitlines() for name in ("leaky.c", "repaired.c")]
    diff = [line for line in difflib.unified_diff(*texts, n=1, lineterm="") if not line.startswith(("---", "+++", "@@"))]
    added = [line for line in diff if line.startswith("+") and line.strip("+ ")]
    expect(not [line for line in diff if line.startswith("-")] and len(added) <= 10, f"{diff}")
    document = (SOURCE / "docs" / "scope.md").read_text()
    missing = [line for line in added if f"    {line}\n" not in document]
    expect(not missing, f"docs/scope.md has not: {missing}")


CASES = [one_line_builds_each_example, find_package_by_cmake, find_package_checks_the_version, manual_pages, layer_for_cpp,
         headers_for_cuda_in_cpp, leaking_program_and_its_repair, document_shows_the_repair]


def install(place):
    try:
        return Tree(place)
    except (CaseSkipped, Failure) as reason: # the cases that need the tree repeat it
        return reason


def run_cases():
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


def test():
    with Workplace() as place:
        trees.append(install(place))
        run_cases()


main(test)
