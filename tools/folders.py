#!/usr/bin/env python3
"""Fail if a file includes a header from a folder that stands later, or an internal header of another folder.

    tools/folders.py

The order of folders is the list GW_FOLDERS in the top-level CMakeLists.txt. A file may include headers of its own
folder and public headers (gw_x.h) of folders that stand before it. A header gwi_x.h is internal to its folder and
that folder's subfolders. Subfolders have an order, too: SUBFOLDERS. Tests, benches and examples come after all folders
and obey the second rule, too, apart from the exceptions below. The test folders_circles (circles.py) compares the
calls with the same orders.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
LAST = ("examples", "tests", "bench")
SUFFIXES = (".c", ".h", ".cpp", ".cu", ".def")
INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"')
# The order inside a folder; "." has the files of the folder itself. Tests may include headers of any subfolder.
SUBFOLDERS = {
    "src/inside/hook": ("core", "python", "stack", "torch", "rehearse", "."),
    "src/judge": ("finding", "topics", "from_log", "engine", "causes", "lookup"),
    "src/apps": ("past", "shell", "run", "config", "doctor", "explain", "fit", "history", "jupyter", "lab", "mcp", "report", "watch", "."),
}
TEST = re.compile(r"_(test|testlib|testplugin|bench)\.[ch]$")
# apigen writes these into the build folder.
GENERATED = "src/api"
GENERATED_HEADER = re.compile(r"^gw_(api|api_proto|hook_special|hook_rehearsal|virt_calls|cuda_calls)\.h$")

# Tests that try an internal part: file, header.
EXCEPTIONS = {
    # Parsers that fuzzers call directly.
    ("tests/fuzz/fuzz_cfi.c", "gwi_cfi.h"),
    ("tests/fuzz/fuzz_change.c", "gwi_change.h"),
    ("tests/fuzz/fuzz_config.c", "gwi_config.h"),
    ("tests/fuzz/fuzz_json_text.c", "gwi_logs.h"),
    ("tests/fuzz/fuzz_mcp.c", "gwi_mcp.h"),
    ("tests/fuzz/fuzz_parts.c", "gwi_parts.h"),
    ("tests/fuzz/fuzz_replay.c", "gwi_allocator.h"),
    ("tests/fuzz/fuzz_sites.c", "gwi_inner.h"),
    ("tests/fuzz/fuzz_stacks_python.c", "gwi_python_image.h"),
    # The tests read the facade's symbols with the reader that writes them.
    ("tests/hook/hook_test.c", "gwi_elf.h"),
    ("tests/hook/real_test.c", "gwi_elf.h"),
}


def order():
    """The folders, as CMake lists them."""
    text = (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")
    body = re.search(r"^set\(GW_FOLDERS\n(.*?)\)$", text, re.M | re.S)
    if body is None:
        sys.exit("CMakeLists.txt: no list GW_FOLDERS")
    return [*re.sub(r"#[^\n]*", "", body[1]).split(), *LAST]


def sources(folders):
    """Each source with its folder: a folder of the list inside another one is a folder of its own."""
    for folder in folders:
        inner = [ROOT / other for other in folders if other.startswith(folder + "/")]
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in SUFFIXES and path.is_file() and not any(other in path.parents for other in inner):
                yield path.relative_to(ROOT), folder


def owners(files):
    """The folders that have a header of this name."""
    found = {}
    for path, folder in files:
        if path.suffix == ".h":
            found.setdefault(path.name, set()).add(folder)
    return found


def complaint(path, folder, header, places, rank):
    """What is wrong with this include, or None."""
    name = header.rsplit("/", 1)[-1]
    homes = places.get(name, {GENERATED} if GENERATED_HEADER.match(name) else set())
    if not homes or folder in homes or (str(path), name) in EXCEPTIONS:
        return None  # not of the tree, or the folder's own
    if name.startswith("gwi_"):
        return f"{name} is internal to {' and '.join(sorted(homes))}"
    if len(homes) > 1:
        return f"{name} is in {' and '.join(sorted(homes))}: a public name stands for one header"
    if max(rank[home] for home in homes) > rank[folder]:
        return f"{name} is of {' and '.join(sorted(homes))}, which stands after {folder}"
    return None


def subfolder_of(path, folder):
    """The subfolder of a file, "." for a file of the folder itself."""
    return path.relative_to(folder).parts[0] if path.parent != pathlib.Path(folder) else "."


def inner_complaint(path, folder, header, inner_places):
    """What is wrong with the subfolder of this include, or None."""
    order_inside = SUBFOLDERS.get(folder)
    name = header.rsplit("/", 1)[-1]
    home = inner_places.get((folder, name))
    mine = subfolder_of(path, folder)
    if order_inside is None or not {home, mine} <= set(order_inside) or TEST.search(path.name):
        return None
    if order_inside.index(home) > order_inside.index(mine):
        return f"{name} is of {folder}/{home}, which stands after {folder}/{mine}"
    return None


def unlisted_inside():
    """Subfolders that their order does not know."""
    return [
        f"tools/folders.py: {path.relative_to(ROOT)} is not in SUBFOLDERS"
        for folder, known in SUBFOLDERS.items()
        for path in sorted((ROOT / folder).iterdir())
        if path.is_dir() and path.name not in known and str(path.relative_to(ROOT)) not in order()
    ]


def unlisted(folders):
    """Folders with sources that the order does not know."""
    found = {path.parent for path in (ROOT / "src").rglob("CMakeLists.txt")}
    return sorted(str(path.relative_to(ROOT)) for path in found if str(path.relative_to(ROOT)) not in folders)


def main():
    folders = order()
    rank = {folder: number for number, folder in enumerate(folders)}
    files = list(sources(folders))
    places = owners(files)
    inner_places = {(folder, path.name): subfolder_of(path, folder) for path, folder in files if folder in SUBFOLDERS}
    wrong = [f"CMakeLists.txt: {folder} is not in GW_FOLDERS" for folder in unlisted(folders)]
    wrong += unlisted_inside()
    used = set()
    for path, folder in files:
        for number, line in enumerate((ROOT / path).read_text(encoding="utf-8").splitlines(), 1):
            match = INCLUDE.match(line)
            if match is None:
                continue
            used.add((str(path), match[1]))
            text = complaint(path, folder, match[1], places, rank)
            text = text or inner_complaint(path, folder, match[1], inner_places)
            if text is not None:
                wrong.append(f"{path}:{number}: {text}")
    wrong += [f"tools/folders.py: exception without an include: {path}, {name}" for path, name in EXCEPTIONS - used]
    print("\n".join(wrong) if wrong else f"{len(files)} files in {len(folders)} folders keep the order")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
