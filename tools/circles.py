#!/usr/bin/env python3
"""Print for each folder how many of its files use each other in a circle.

    tools/circles.py [--build FOLDER] [--nm NM] [--names] [--check] [folder..]

A file is a .c with its header: x.c, x.h, gw_x.h and gwi_x.h count as one. A circle is a strongly connected component
of two files or more. Two graphs are examined. In the first, a file uses another one of its folder if its object needs
a function or a variable of the other's object, in whatever way: by a call, an inline function or a table. So the tree
must have been built; --build names the build folder (build-dev). In the second graph, a file also uses another one if
it includes its header. Tests do not count. Without arguments, every folder with sources below src and virtual-gpu
is examined, then those of SUBFOLDERS with their subfolders, as "FOLDER/...". A folder given as an
argument is examined with its subfolders. With --check, print only the circles of the first graph and the uses that go
against SUBFOLDERS of folders.py, and fail if there is one (the test folders_circles).
"""
import argparse
import pathlib
import re
import subprocess
import sys

from folders import SUBFOLDERS

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPS = ("src", "virtual-gpu")
NOT_COUNTED = re.compile(r"(_test|_testlib|_testplugin|_bench)\.[ch]$|^fuzz_")
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)

# Uses that do not count, and why: file, the files that it uses (None: all).
BY_DESIGN = {
    # The table of causes. It names every cause, so that the engine can run them and others can look up a title by its
    # id; who looks something up calls no cause. The causes themselves use the whole library.
    "causes": None,
    # The table of commands names every command, so that main() can run them and the help can list them; who looks something
    # up calls no command.
    "commands": None,
}


def unit(name):
    """Return the unit that a source file belongs to."""
    return re.sub(r"^gwi?_", "", name.rsplit(".", 1)[0])


class Objects:
    """The symbols that the objects of a build define and need, by source file."""

    def __init__(self, build, nm):
        self.symbols = {}
        sources = {path: self.source_of(path.relative_to(build)) for top in TOPS for path in (build / top).rglob("*.c.o")}
        sources = {str(path): source for path, source in sources.items() if source is not None}
        if not sources:
            sys.exit(f"{build}: there are no objects; build the tree, or name its build folder with --build")
        lines = subprocess.run([nm, "-A", "-P", *sources], capture_output=True, text=True, check=True).stdout.splitlines()
        for line in lines:
            path, symbol = line.split(": ", maxsplit=1)
            self.add(sources[path], *symbol.split()[:2])

    @staticmethod
    def source_of(path):
        """Return the source of "src/base/CMakeFiles/gw_base.dir/text.c.o". None: it is not a file of the tree."""
        at = path.parts.index("CMakeFiles")
        source = ROOT.joinpath(*path.parts[:at], *path.parts[at + 2 :]).with_suffix("")
        return source if source.is_file() else None

    def add(self, source, name, kind):
        defined, needed = self.symbols.setdefault(source, (set(), set()))
        if kind in "Uwv":
            needed.add(name)
        elif kind.isupper():
            defined.add(name)

    def of(self, path):
        return self.symbols.get(path, (set(), set()))


class File:
    def __init__(self):
        self.includes, self.headers, self.defines, self.needs, self.has_code = set(), set(), set(), set(), False

    def read(self, path, objects):
        self.includes |= set(INCLUDE.findall(path.read_text(encoding="utf-8")))
        if path.suffix == ".h":
            self.headers.add(path.name)
        if path.suffix == ".c":
            self.has_code = True
            defined, needed = objects.of(path)
            self.defines |= defined
            self.needs |= needed


def files_of(folder, objects, with_subfolders=False):
    """Group the files by unit(). A folder and its subfolders have no two units with the same name."""
    files = {}
    for path in sorted(folder.rglob("*") if with_subfolders else folder.iterdir()):
        if path.suffix in (".c", ".h") and path.parent.name != "testing" and not NOT_COUNTED.search(path.name):
            files.setdefault(unit(path.name), File()).read(path, objects)
    return files


def is_by_design(name, used):
    return name in BY_DESIGN and (BY_DESIGN[name] is None or used in BY_DESIGN[name])


def uses(files, with_includes):
    """Return for each file the files of the folder that it uses."""
    definer, header_of = {}, {}
    for name, file in files.items():
        header_of.update({header: name for header in file.headers})
        for symbol in file.defines:
            definer.setdefault(symbol, name)
    graph = {}
    for name, file in files.items():
        needed = {definer[symbol] for symbol in file.needs & definer.keys()}
        included = {header_of[header] for header in file.includes & header_of.keys()} if with_includes else set()
        graph[name] = {used for used in (included | needed) - {name} if not is_by_design(name, used)}
    return graph


def components(graph):
    """Strongly connected components (Tarjan), without recursion."""
    index, low, on_stack, stack, found = {}, {}, set(), [], []
    for root in graph:
        if root in index:
            continue
        work = [(root, iter(sorted(graph[root])))]
        index[root] = low[root] = len(index)
        stack.append(root)
        on_stack.add(root)
        while work:
            node, rest = work[-1]
            for other in rest:
                if other not in index:
                    index[other] = low[other] = len(index)
                    stack.append(other)
                    on_stack.add(other)
                    work.append((other, iter(sorted(graph[other]))))
                    break
                if other in on_stack:
                    low[node] = min(low[node], index[other])
            else:
                work.pop()
                if work:
                    low[work[-1][0]] = min(low[work[-1][0]], low[node])
                if low[node] == index[node]:
                    at = stack.index(node)
                    found.append(sorted(stack[at:]))
                    on_stack -= set(stack[at:])
                    del stack[at:]
    return found


def circles(files, with_includes):
    """Return the circles of a folder, the largest first."""
    parts = components(uses(files, with_includes))
    return sorted((part for part in parts if len(part) > 1), key=len, reverse=True)


def figures(parts):
    """Describe the number of files in circles and the sizes of the circles: "5 = 3 + 2"."""
    sizes = [len(part) for part in parts]
    return f"{sum(sizes)} = {' + '.join(map(str, sizes))}" if len(sizes) > 1 else str(sum(sizes))


def has_sources(folder):
    return folder.name != "testing" and any(path.suffix == ".c" for path in folder.iterdir())


def subfolders(folder):
    return sorted(path for path in folder.rglob("*") if path.is_dir() and has_sources(path))


def folders():
    """Yield each folder, and whether its subfolders are included."""
    for top in TOPS:
        base = ROOT / top
        for folder in [base, *subfolders(base)] if base.is_dir() else []:
            if has_sources(folder):
                yield folder, False
    for folder in SUBFOLDERS:
        yield ROOT / folder, True


def name_of(folder, with_subfolders):
    name = str(folder.relative_to(ROOT)) if folder.is_relative_to(ROOT) else str(folder)
    return name + ("/..." if with_subfolders else "")


def print_folder(folder, objects, with_subfolders, with_names):
    files = files_of(folder, objects, with_subfolders)
    by_calls, by_both = circles(files, False), circles(files, True)
    count = sum(file.has_code for file in files.values())
    name = name_of(folder, with_subfolders)
    print(f"{name:<24} {count:>5}  {figures(by_calls):<20} {figures(by_both)}")
    for kind, parts in (("calls", by_calls), ("both", by_both)) if with_names else ():
        for part in parts:
            print(f"    {kind}: {' '.join(part)}")


def upward_uses(folder, objects):
    """Yield the uses in which a subfolder uses a later one."""
    order = SUBFOLDERS[str(folder.relative_to(ROOT))]
    home = {}
    for path in folder.rglob("*.c"):
        home[unit(path.name)] = "." if path.parent == folder else path.relative_to(folder).parts[0]
    for name, used_ones in sorted(uses(files_of(folder, objects, True), False).items()):
        for used in sorted(used_ones):
            if order.index(home[used]) > order.index(home[name]):
                yield f"{home[name]}/{name}.c uses {home[used]}/{used}.c"


def check(named, objects):
    """Print the circles of calls, and calls against the order of subfolders. Returns their number."""
    count, file_count = 0, 0
    for folder, with_subfolders in named:
        files = files_of(folder, objects, with_subfolders)
        file_count += 0 if with_subfolders else len(files)
        for part in circles(files, False):
            count += 1
            print(f"{name_of(folder, with_subfolders)}: these files use each other in a circle: {' '.join(part)}")
        for use in upward_uses(folder, objects) if with_subfolders else ():
            count += 1
            print(f"{name_of(folder, with_subfolders)}: {use}, which is in a later subfolder")
    if count > 0:
        print("Move what they share into the lower file or a file below both; or list the use in BY_DESIGN of",
              "tools/circles.py with the reason. --names prints all circles.")
    else:
        print(f"{file_count} files without a circle")
    return count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build-dev", help="a folder of a finished build")
    parser.add_argument("--nm", default="nm", help="the nm for its objects")
    parser.add_argument("--names", action="store_true", help="print the files of each circle")
    parser.add_argument("--check", action="store_true", help="fail if there is a circle by calls")
    parser.add_argument("folder", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    objects = Objects(options.build.resolve(), options.nm)
    named = [(path.resolve(), bool(subfolders(path.resolve()))) for path in options.folder] or list(folders())
    if options.check:
        return 1 if check(named, objects) > 0 else 0
    print(f"{'folder':<24} {'files':>5}  {'by calls':<20} by calls and includes")
    for folder, with_subfolders in named:
        print_folder(folder, objects, with_subfolders, options.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
