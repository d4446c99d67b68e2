#!/usr/bin/env python3
"""Print the lines of each room and of each feature, or compare the rooms with their budgets: docs/size.md.

    tools/size.py [--base COMMIT]     print the tables, beside COMMIT (default: the last release, if there is one)
    tools/size.py --check             fail if a room has outgrown its budget (the test size_budgets)
    tools/size.py --files FEATURE     print the files that count as this feature; "no feature" is one, too
    tools/size.py --picture           draw the rooms of docs/ARCHITECTURE.md into docs/rooms.svg

Only files in git count, as they are in the working tree. The lines of a binary file are not counted.
"""
import argparse
import collections
import fnmatch
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = pathlib.Path("docs/size.md")
TEST = re.compile(r"(^|/)(tests|bench|testing)/|_(test|testlib|testplugin|bench)\.[^/]*$|(^|/)fuzz_[^/]*\.c$")
PAPER = re.compile(r"^(docs|data|schema)/|\.md$")
PRODUCTS = ("trainer", "libgpuscope")  # products of their own beside gpuwhy
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
LONG_LINES = 60
SKIPPED = 77

File = collections.namedtuple("File", "path lines code comments")


def is_c(path):
    return path.endswith((".c", ".h", ".cu", ".def"))


def kind(path):
    return "tests" if TEST.search(path) else "paper" if PAPER.search(path) else "product"


def room(path):
    """Return the room of a file: a folder of src, a folder at the top, or "(top)"."""
    folders = path.split("/")[:-1]
    if not folders or folders[0].startswith("."):
        return "(top)"
    return "/".join(folders[:2]) if folders[0] == "src" else folders[0]


def count_c(text):
    """Return the lines with code, and those that have only a comment."""

    def keep_lines(match):
        return re.sub(r"[^\n]+", "\x01", match[0]) if match[0].startswith("/") else '""'
    rows = [row.strip() for row in TOKEN.sub(keep_lines, text).split("\n")]
    comments = sum(bool(row) and not row.strip("\x01 \t") for row in rows)
    return sum(bool(row) for row in rows) - comments, comments


def measure(root, paths):
    files = []
    for path in paths:
        if not (root / path).is_file():
            continue  # deleted, but not yet in git
        data = (root / path).read_bytes()
        binary = b"\0" in data[:8000]
        code, comments = count_c(data.decode(errors="replace")) if is_c(path) and not binary else (0, 0)
        files.append(File(path, 0 if binary else data.count(b"\n"), code, comments))
    return files


def git(*arguments):
    """Return what git prints, or None. The message of git goes to stderr."""
    done = subprocess.run(["git", "-C", str(ROOT), *arguments], stdout=subprocess.PIPE)
    return done.stdout if done.returncode == 0 else None


def tables(page):
    """Return budgets as {room: (product, tests)}, and features as [(name, patterns)], from the two tables of the page."""
    budgets, features = {}, []
    for number, line in enumerate(page.read_text().splitlines(), 1):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if not line.startswith("|") or cells[0] in ("room", "feature") or not cells[0].strip("-"):
            continue
        if len(cells) == 4:
            if not all(re.fullmatch(r"[0-9,]+", cell) for cell in cells[1:3]):
                sys.exit(f"{PAGE}:{number}: a room has two numbers: lines of product, lines of tests")
            budgets[cells[0].strip("`")] = tuple(int(cell.replace(",", "")) for cell in cells[1:3])
        elif len(cells) == 2:
            features.append((cells[0], re.findall(r"`([^`]+)`", cells[1])))
        else:
            sys.exit(f"{PAGE}:{number}: a row has four cells (a room) or two (a feature), not {len(cells)}")
    return budgets, features


def feature_of(path, features):
    """The first row with a pattern that matches."""
    return next((name for name, patterns in features for p in patterns if fnmatch.fnmatchcase(path, p)), "no feature")


def sums(files, group, columns):
    """Return {group: Counter of lines by column}, with the number of files as column "files"."""
    found = collections.defaultdict(collections.Counter)
    for file in files:
        found[group(file.path)].update({columns(file.path): file.lines, "files": 1})
    return found


def room_kind(path):
    return "tests" if kind(path) == "tests" else "product"


# ---- the check -----------------------------------------------------------------------------------------------------

def check(files, budgets, features):
    """Print what is wrong; return the number of complaints."""
    rooms = sums(files, room, room_kind)
    wrong = [f"{PAGE}: {name} has a budget, but no file: remove its row" for name in budgets if name not in rooms]
    wrong += [f"{PAGE}: no budget for {name}: add a row in the commit that makes the room" for name in rooms if name not in budgets]
    for name, lines in sorted(rooms.items()):
        for column, budget in zip(("product", "tests"), budgets.get(name, ())):
            if lines[column] > budget:
                wrong.append(f"{name}: {lines[column]:,} lines of {column}, budget {budget:,}: remove some, "
                             f"or raise the budget in {PAGE} in the same commit and give the reason in its message")
    drawing = ROOT / "docs" / "rooms.svg"
    for name, count in re.findall(r">([\w-]+) (\d+)k<", drawing.read_text() if drawing.exists() else ""):
        lines = rooms.get(f"src/{name}", rooms.get(name, {})).get("product", 0)
        if abs(lines - 1000 * int(count)) > 1000 + lines / 5:
            wrong.append(f"docs/rooms.svg: {name} has {lines:,} lines: draw it again with tools/size.py --picture")
    paths = [file.path for file in files]
    wrong += [f"{PAGE}: {pattern} ({name}) matches no file" for name, patterns in features for pattern in patterns
              if not fnmatch.filter(paths, pattern)]
    print("\n".join(wrong) if wrong else f"{len(rooms)} rooms keep their budgets")
    return len(wrong)


# ---- figures -------------------------------------------------------------------------------------------------------

def tags(root, paths, letter):
    """Return (path, name, first line, last line) of all functions (f) or prototypes (p); None without Universal Ctags."""
    if shutil.which("ctags") is None or b"Universal" not in subprocess.run(["ctags", "--version"], capture_output=True).stdout:
        return None
    done = subprocess.run(["ctags", "--languages=C", "--langmap=C:.c.h", f"--c-kinds={letter}", "--fields=ne", "-f", "-", "-L", "-"],
                          cwd=root, input="\n".join(paths), capture_output=True, text=True, errors="replace", check=True)
    rows = (line.split("\t") for line in done.stdout.splitlines())
    return [(row[1], row[0], *(int((re.search(rf"\t{key}:(\d+)", "\t".join(row)) or [0, 0])[1]) for key in ("line", "end")))
            for row in rows]


def documented(root, prototypes):
    """Count the prototypes with a comment on their line or before it. What the comment also describes may stand between:
    other prototypes, and the enum or typedef of an argument."""
    texts = {path: ["", *(root / path).read_text(errors="replace").split("\n")] for path in {p[0] for p in prototypes}}

    def is_documented(text, line):
        if "/*" in text[line]:
            return True
        while text[line - 1].rstrip().endswith(";"):
            line -= 1
        return text[line - 1].rstrip().endswith("*/")
    return sum(is_documented(texts[path], first) for path, _, first, _ in prototypes)


def figures(root, files):
    """Yield (what, figure)."""
    c_files = [f for f in files if is_c(f.path) and kind(f.path) == "product" and not f.path.startswith("examples/")]
    code, comments = sum(f.code for f in c_files), sum(f.comments for f in c_files)
    yield "files in git", f"{len(files):,}"
    yield "lines of text in git", f"{sum(f.lines for f in files):,}"
    yield "lines without the trainer and libgpuscope", f"{sum(f.lines for f in files if room(f.path) not in PRODUCTS):,}"
    yield "C of the product: lines of code", f"{code:,}"
    yield "C of the product: lines of comment only", f"{comments:,} ({100 * comments / max(1, code + comments):.1f} %)"
    c_tests = [f for f in files if is_c(f.path) and kind(f.path) == "tests"]
    yield "C of tests: lines of code, of comment only", f"{sum(f.code for f in c_tests):,}, {sum(f.comments for f in c_tests):,}"
    folders = collections.Counter(str(pathlib.Path(f.path).parent) for f in files if kind(f.path) == "product")
    yield "fullest folders of the product", ", ".join(f"{folder} {count} files" for folder, count in folders.most_common(3))
    yield "private headers (gwi_*.h)", str(sum(f.path.rpartition("/")[2].startswith("gwi_") and f.path.endswith(".h") for f in c_files))
    paths = [f.path for f in c_files if f.path.endswith((".c", ".h"))]
    functions, prototypes = tags(root, paths, "f"), tags(root, [p for p in paths if p.endswith(".h")], "p")
    if functions is None:
        yield "functions, prototypes", "not counted: Universal Ctags is not installed"
        return
    long = sorted((last - first + 1, name) for _, name, first, last in functions if last - first >= LONG_LINES)
    yield "functions", f"{len(functions):,}"
    yield f"functions over {LONG_LINES} lines", f"{len(long)}" + "".join(f", {name} {count}" for count, name in reversed(long))
    share = documented(root, prototypes)
    yield "prototypes with a comment (roughly)", f"{share:,} of {len(prototypes):,} ({100 * share / max(1, len(prototypes)):.0f} %)"


# ---- the tables ----------------------------------------------------------------------------------------------------

def print_table(title, columns, now, then, budgets=None):
    """Print a row a group, the largest first; `then` is None without a commit to compare with."""
    print(f"{title:38} files " + "".join(f"{c:>10}" for c in columns) + "     total" + ("    change" if then is not None else "")
          + ("   budgets" if budgets else ""))

    def lines(groups, name):
        return sum(groups[name][c] for c in columns)
    names = sorted(set(now) | set(then or ()), key=lambda name: -lines(now, name))
    for groups in (now, then or {}):
        groups["all"] = sum(groups.values(), collections.Counter())

    for name in [*names, "all"]:
        print(f"{name:38}{now[name]['files']:6,} " + "".join(f"{now[name][c]:10,}" for c in columns) + f"{lines(now, name):10,}"
              + (f"{lines(now, name) - lines(then, name):+10,}" if then is not None else "")
              + ("   " + " + ".join(f"{b:,}" for b in budgets[name]) if budgets and name in budgets else ""))
    print()


def show(files, budgets, features, base, base_root):
    paths = [str(p.relative_to(base_root)) for p in sorted(base_root.rglob("*")) if p.is_file()] if base else []
    old = measure(base_root, paths) if base else []
    old_features = tables(base_root / PAGE)[1] if (base_root / PAGE).exists() else features  # its files may have had other names
    print(f"beside {base}\n" if base else "there is no release to compare with; name a commit: make size BASE=COMMIT\n")
    print_table("room", ("product", "tests"), sums(files, room, room_kind), sums(old, room, room_kind) if base else None, budgets)
    print_table("feature", ("product", "tests", "paper"), sums(files, lambda path: feature_of(path, features), kind),
                sums(old, lambda path: feature_of(path, old_features), kind) if base else None)
    before = dict(figures(base_root, old)) if base else {}
    for what, figure in figures(ROOT, files):
        print(f"{what:44}{figure}" + (f"   (was {before.get(what)})" if base and before.get(what) != figure else ""))


# ---- the picture ---------------------------------------------------------------------------------------------------

PICTURE = (("inside the program", "core", ("src/inside",), "the driver's facade and the hook"),
           ("beside the program", "core", ("src/record", "src/format"), "writes the recording"),
           ("after its end", "core", ("src/read", "src/judge"), "state over time, then the cause"),
           ("what users see", "application", ("src/show", "src/apps"), "commands, pages, exports, the store of runs"),
           ("all of these use", "core", ("src/base", "src/api", "src/image"), "the driver's calls as data; names of addresses"),
           ("stands in for a driver", "product", ("virtual-gpu",), "the virtual card"),
           ("products of their own", "product", ("trainer", "libgpuscope"), "use the installed package"))
COLOURS = {"core": "#bcd7f5", "application": "#fbd9a5", "product": "#dddddd"}


def picture(files):
    """Return a drawing whose boxes are as wide as the rooms have lines of product, in thousands."""
    rooms, body = sums(files, room, room_kind), []
    for index, (title, group, names, about) in enumerate(PICTURE):
        y, x = 10 + 44 * index, 170
        body.append(f'<text x="10" y="{y + 22}">{title}</text>')
        for name in names:
            count = round(rooms[name]["product"] / 1000)
            width = max(16 * count, 80)
            body += [f'<rect x="{x}" y="{y}" width="{width}" height="34" fill="{COLOURS[group]}" stroke="#666"/>',
                     f'<text x="{x + 6}" y="{y + 22}">{name.removeprefix("src/")} {count}k</text>']
            x += width + 8
        body.append(f'<text x="{x + 4}" y="{y + 22}" fill="#666">{about}</text>')
    legend = "blue: the core, orange: the applications, grey: beside them; thousands of lines without tests"
    body.append(f'<text x="10" y="{y + 64}" fill="#666">{legend}</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="1120" height="{y + 76}" font-family="sans-serif" font-size="13">\n'
            '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(body) + "\n</svg>\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--base", metavar="COMMIT", help="compare with this commit [the last release]")
    parser.add_argument("--check", action="store_true", help="fail if a room has outgrown its budget")
    parser.add_argument("--files", metavar="FEATURE", help="print the files of this feature")
    parser.add_argument("--picture", action="store_true", help="draw docs/rooms.svg")
    options = parser.parse_args()
    listed = git("ls-files", "-z") if (ROOT / ".git").exists() and shutil.which("git") else None
    if not listed:
        print("skipped: sizes are counted from the list of files in git, and this folder is no checkout of git")
        return SKIPPED if options.check else 0
    files = measure(ROOT, listed.decode().split("\0")[:-1])
    budgets, features = tables(ROOT / PAGE)
    if options.picture:
        (ROOT / "docs" / "rooms.svg").write_text(picture(files))
        return 0
    if options.check:
        return 1 if check(files, budgets, features) else 0
    if options.files:
        print("\n".join(f"{f.lines:6} {f.path}" for f in files if feature_of(f.path, features) == options.files))
        return 0
    base = options.base or (git("tag", "--sort=-creatordate", "--merged") or b"").decode().partition("\n")[0]
    with tempfile.TemporaryDirectory(prefix="gpuwhy-size-") as folder:
        if base:
            archive = git("archive", base)
            if archive is None:
                sys.exit(f"size: there is no commit {base}")
            subprocess.run(["tar", "-x", "-C", folder], input=archive, check=True)
        show(files, budgets, features, base, pathlib.Path(folder))
    return 0


if __name__ == "__main__":
    sys.exit(main())
