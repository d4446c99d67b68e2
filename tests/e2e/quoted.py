"""README.md, the pages under docs and the pages that are arguments quote what gpuwhy prints. Every quoted command of this build (`$ build/...`) is
run again, and the quoted text is compared with what it prints now.

README quotes a whole screen, the other pages only parts of one. Times, addresses and file names of recordings differ
from run to run, so they are normalised. A compiler cache may shorten the paths in the debug information. The verdict
then has no source lines and other line breaks, so README is compared paragraph by paragraph."""
import os
import pathlib
import re
import shlex
import subprocess
import sys

from harness import BUILD, GPUWHY, PRODUCT, Workplace, base_environment, expect, main, new_folder

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
PAGES = [pathlib.Path(page) for page in sys.argv[1:]] or [README, *sorted((ROOT / "docs" / "answers").glob("*.md"))]
HERE = os.path.relpath(BUILD, ROOT) if BUILD.is_relative_to(ROOT) else str(BUILD)
SOURCE_PATH = r"\b(?:[\w.-]+/)+([\w-]+\.[ch]:\d)"
SOURCE_LINE = re.compile(r" {9}[ >]+ (\d+) \| (.*)")


# ---- the pages -----------------------------------------------------------------------------------------------------

def quotes(page):
    """Return (command, the lines quoted below it) for each `$ build/...` of a page."""
    found = []
    for line in page.read_text().splitlines():
        if line.startswith("    $ "):
            found.append((line[6:], []))
        elif line.startswith("    ") and found:
            found[-1][1].append(line[4:])
        elif line and found:
            found.append(("", []))  # the quotation is over
    return [(command, lines) for command, lines in found if command.startswith("build/")]


# ---- normalised text -----------------------------------------------------------------------------------------------

def normal(text):
    text = " ".join(text.replace(HERE + "/", "build/").split())
    text = re.sub(r"\S*gpuwhy/\d{8}-\d{6}-\d+\.gpuwhy", "RECORDING", text)
    text = re.sub(r"\b\d+\.\d+ (m?s)\b", r"TIME \1", text)
    text = re.sub(r"\b\d+ more lines?:", "N more lines:", text)  # a busy machine adds lines of its own
    return re.sub(r"\b0x[0-9a-f]+", "ADDRESS", text)


def without_folders(text):
    return re.sub(SOURCE_PATH, r"\1", text)


def begin_of_verdict(lines):
    """Return the index of the line with the verdict, or the number of lines if there is none."""
    return next((at for at, line in enumerate(lines) if line.startswith("Verdict  ")), len(lines))


def paragraphs(lines):
    """Return the paragraphs of a verdict as (label, text). Source lines are left out."""
    found, label = [], ""
    for line in lines[begin_of_verdict(lines):]:
        if SOURCE_LINE.match(line) or not line:
            continue
        begins = re.match(r"([A-Z][a-z]+) +(?=\S)", line)
        if begins and len(begins[0]) == 9:
            label = begins[1]
            found.append([label, line[9:]])
        elif line.startswith(" " * 9) and line[9] != " " and label != "Verdict":
            found.append([label, line])
        elif line.startswith(" ") and found:
            found[-1][1] += " " + line
        else:  # the heading "Possible causes" has a line of its own
            label = line
    return [(label, normal(text)) for label, text in found]


def head(lines):
    """Return the program's own lines, sorted, and gpuwhy's first line."""
    before = lines[:begin_of_verdict(lines)]
    at = next((i for i, line in enumerate(before) if line.startswith("gpuwhy: ")), len(before))
    return sorted(normal(line) for line in before[:at]), normal(" ".join(before[at:]))


# ---- running and comparing -----------------------------------------------------------------------------------------

def program(word):
    """Return the program that build/... stands for."""
    if word == "build/gpuwhy":
        return GPUWHY
    return PRODUCT / word[14:] if word.startswith("build/trainer/") else BUILD / word[6:]


def run(words, folder):
    words = [os.path.relpath(program(word), ROOT) if word.startswith("build/") else word for word in words]
    # A longer path of the recording would leave less room on the screen.
    environment = dict(base_environment(folder), XDG_STATE_HOME=str(folder))
    done = subprocess.run(words, cwd=ROOT, env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=240)
    return (done.stdout + done.stderr).decode(errors="replace").splitlines()


def is_same(quoted, real):
    """A quoted paragraph that ends with "..." was cut."""
    return real.startswith(quoted[:-4]) if quoted.endswith(" ...") else quoted == real


def check_source_lines(quoted, where):
    """The quoted source lines are those of the file at the verdict's place."""
    path = re.search(r"((?:[\w.-]+/)+[\w.-]+):\d", where)
    for number, text in filter(None, (m and m.groups() for m in map(SOURCE_LINE.match, quoted))):
        lines = (ROOT / path[1]).read_text().splitlines()
        line = lines[int(number) - 1].strip()
        expect(is_same(text.replace("...", " ..."), line), f"{path[1]}:{number} is {line}, not {text}")


def check(page, command, quoted, folder):
    words = shlex.split(command)
    screen = run(words, folder)
    if any("cannot read text logs" in line for line in screen):
        print(f"skipped: this build cannot read text logs: {command}")
        return
    whole = run([words[0], "explain", "--all", *words[2:]] if words[1] == "explain" else [words[0], "explain", "--all"],
                folder)
    what = f"{page.name}: {command}\n" + "\n".join(screen)
    if not begin_of_verdict(quoted) < len(quoted):  # only the program's own output
        missing = [line for line in quoted if normal(line) not in map(normal, screen)]
        expect(not missing, f"not printed: {missing}\n{what}")
        return
    said, shown = paragraphs(quoted), paragraphs(screen)
    has_folders = any(re.search(SOURCE_PATH, text) for _, text in shown)
    fits = len(f"{folder}/gpuwhy/20260101-120000-1234567.gpuwhy") <= 69  # otherwise Details takes three lines
    if page == README:
        expect(head(quoted) == head(screen), f"the first lines differ: {head(quoted)}, {head(screen)}\n{what}")
    if page == README and has_folders and fits:
        expect(said == shown, f"the screen differs: {said}\n{what}")
    real = [(label, without_folders(text)) for label, text in shown + paragraphs(whole)]
    for label, text in said:
        if label != "Details":
            expect(any(label == one and is_same(without_folders(text), other) for one, other in real),
                   f"not printed: {label}: {text}\n{what}\n" + "\n".join(whole))
    where = [text for label, text in said if label == "Where"]
    if where:
        check_source_lines(quoted, where[0])


def all_of_it():
    checked = 0
    with Workplace() as place:
        for page in PAGES:
            for command, quoted in quotes(page):
                programs = [word for word in shlex.split(command) if word.startswith("build/")]
                if not all(program(word).exists() for word in programs):
                    print(f"skipped: {page.name}: not part of this build: {command}")
                    continue
                check(page, command, quoted, new_folder(place, str(checked)))
                checked += 1
    expect(checked >= (1 if sys.argv[1:] else 3), f"only {checked} quoted commands were found")


main(all_of_it)
