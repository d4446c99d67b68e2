#!/usr/bin/env python3
"""Print for each folder how many of its files use each other in a circle.

    tools/circles.py [--names] [folder..]

A file is a .c with its header: x.c, x.h, gw_x.h and gwi_x.h count as one. A circle is a strongly connected component
of two files or more. Two graphs are examined. In the first, a file uses another one of its folder if it calls one of
its functions; includes alone would miss this when many files share a header. In the second graph, a file also uses
another one if it includes its header. Tests do not count. Without arguments, every folder with sources below src,
virtual-gpu and libgpuscope is examined, then src/hook and src/verdict with their subfolders, as "FOLDER/...". A folder
given as an argument is examined with its subfolders.
"""
import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
TOPS = ("src", "virtual-gpu", "libgpuscope")
NOT_COUNTED = re.compile(r"(_test|_testlib|_testplugin|_bench)\.[ch]$|^fuzz_")
COMMENT = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"', re.S)
INCLUDE = re.compile(r'^#\s*include\s+"([^"]+)"', re.M)
# A definition begins in the first column, and so does its body on a later line.
DEFINITION = re.compile(r"^(?!static\b|typedef\b|#)[A-Za-z_][^\n;{}=]*?\b(gwi?_\w+)\((?:[^;{}]*)\)\s*\n\{", re.M)
WORD = re.compile(r"\b[A-Za-z_]\w*\b")


def unit(name):
    """Return the unit that a source file belongs to."""
    return re.sub(r"^gwi?_", "", name.rsplit(".", 1)[0])


class File:
    def __init__(self):
        self.includes, self.headers, self.defines, self.words, self.has_code = set(), set(), set(), set(), False

    def read(self, path):
        text = path.read_text(encoding="utf-8")
        self.includes |= set(INCLUDE.findall(text))
        if path.suffix == ".h":
            self.headers.add(path.name)
        code = COMMENT.sub(" ", text)
        if path.suffix == ".c":
            self.has_code = True
            self.defines |= set(DEFINITION.findall(code))
            self.words |= set(WORD.findall(code))


def files_of(folder, with_subfolders=False):
    """Group the files by unit(). A folder and its subfolders have no two units with the same name."""
    files = {}
    for path in sorted(folder.rglob("*") if with_subfolders else folder.iterdir()):
        if path.suffix in (".c", ".h") and path.parent.name != "testing" and not NOT_COUNTED.search(path.name):
            files.setdefault(unit(path.name), File()).read(path)
    return files


def uses(files, with_includes):
    """Return for each file the files of the folder that it uses."""
    definer, header_of = {}, {}
    for name, file in files.items():
        header_of.update({header: name for header in file.headers})
        for function in file.defines:
            definer.setdefault(function, name)
    graph = {}
    for name, file in files.items():
        called = {definer[word] for word in file.words & definer.keys()}
        included = {header_of[header] for header in file.includes & header_of.keys()} if with_includes else set()
        graph[name] = (included | called) - {name}
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
    for folder in (ROOT / "src" / "hook", ROOT / "src" / "verdict"):
        yield folder, True


def print_folder(folder, with_subfolders, with_names):
    files = files_of(folder, with_subfolders)
    by_calls, by_both = circles(files, False), circles(files, True)
    name = str(folder.relative_to(ROOT)) if folder.is_relative_to(ROOT) else str(folder)
    name += "/..." if with_subfolders else ""
    count = sum(file.has_code for file in files.values())
    print(f"{name:<24} {count:>5}  {figures(by_calls):<20} {figures(by_both)}")
    for kind, parts in (("calls", by_calls), ("both", by_both)) if with_names else ():
        for part in parts:
            print(f"    {kind}: {' '.join(part)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--names", action="store_true", help="print the files of each circle")
    parser.add_argument("folder", nargs="*", type=pathlib.Path)
    options = parser.parse_args()
    print(f"{'folder':<24} {'files':>5}  {'by calls':<20} by calls and includes")
    named = [(path.resolve(), bool(subfolders(path.resolve()))) for path in options.folder]
    for folder, with_subfolders in named or folders():
        print_folder(folder, with_subfolders, options.names)
    return 0


if __name__ == "__main__":
    sys.exit(main())
