"""Write the manual pages of libgpuscope from the comments of its headers.

    manual.py --out FOLDER --version 0.1.0 --date 2026-11-27 HEADER...

A page describes the declarations that follow one comment without a blank line: functions, macros and types. Each further
name of the page is a link to it. The function gs_x_at() appears as the macro gs_x() that callers use. The comment at the top
of a header becomes the page gpuscope(3) for scope.h, and a page named after the file for other headers. The header for C++
has only this page, gpuscope_cpp(3). A comment that begins with "/* ---- title ----" starts a section; its text is repeated in the pages of the section, under NOTES.

In comments, an indented block is an example, lines that begin with "- " are a list, and `x` is a parameter.
"""
import argparse
import pathlib
import re
import sys
import textwrap

SECTION = re.compile(r"-{4} (.*?) -+$")
# Parameters that the macros insert.
HIDDEN = re.compile(r",?\s*\b(const gs_cuda_runtime \*runtime|const char \*file|int line)\b")
# Macros whose definition is for readers, too.
TABLES = ("GS_STATUSES(X)", "GS_CUDA_CALLS(X)")
NAME = re.compile(r"\b(gs_[a-z_]+|GS_[A-Z_]+)\b(\(\))?")


class Group:
    """One comment and the declarations after it."""

    def __init__(self, text, section, header):
        self.text, self.section, self.header = text, section, header
        self.names, self.synopsis, self.remarks = [], [], []
        self.callbacks = set() # types of functions that the program writes
        self.has_status = False

    def add(self, name, synopsis):
        if name not in self.names:
            self.names.append(name)
            self.synopsis.append(synopsis)


class Section:
    def __init__(self, title="", text=()):
        self.title, self.text = title, list(text)


# ---- reading -------------------------------------------------------------------------------------------------------

def comment_lines(text):
    """The text of a comment, without its marks. Indentation after " * " stays."""
    lines = text.strip()[2:-2].strip("\n").split("\n")
    lines = [re.sub(r"^\s*\* ?", "", line).rstrip() if i else line.strip() for i, line in enumerate(lines)]
    while lines and not lines[-1]:
        lines.pop()
    return lines


def logical_lines(text):
    """Split a header into comments that begin a line, blank lines, and complete declarations."""
    lines = text.split("\n")
    at = 0
    while at < len(lines):
        begin = at
        if lines[at].startswith("/*"):
            while "*/" not in lines[at]:
                at += 1
        elif lines[at].startswith("#"):
            while lines[at].endswith("\\"):
                at += 1
        elif lines[at].strip():
            depth = 0
            while True:
                code = re.sub(r"/\*.*?(\*/|$)", "", lines[at])
                depth += code.count("{") - code.count("}")
                if depth == 0 and re.search(r"[;}]\s*$", code.rstrip()) or lines[at].startswith(("extern \"C\"", "}")):
                    break
                at += 1
            while lines[at].count("/*") > lines[at].count("*/"): # a remark that goes on in the next line
                at += 1
                if "*/" in lines[at]:
                    break
        at += 1
        yield "\n".join(lines[begin:at])


def add_function(group, line):
    code, _, remark = line.partition("/*")
    match = re.fullmatch(r"GS_API\s+(.*?)(\w+)\((.*)\);", " ".join(code.split()))
    if match is None:
        return False
    result, name, parameters = match.groups()
    name = re.sub(r"_at$", "", name)
    if name + "_at" == match[2]:
        parameters = HIDDEN.sub("", parameters)
    group.add(name, f"{result}{name}({parameters});")
    group.has_status |= result.startswith("gs_status")
    if remark:
        remark = " ".join(line.strip() for line in comment_lines("/*" + remark))
        group.remarks.append(f"{name}(): {remark}")
    return True


def add_declaration(group, line):
    if line.startswith("GS_API"):
        return add_function(group, line)
    match = re.match(r"#define (GS_[A-Z_]+)(\([^)]*\))?", line)
    if match:
        rows = re.sub(r"\s*\\\n", "\n", line) if match[1] + (match[2] or "") in TABLES else match[1] + (match[2] or "")
        group.add(match[1], rows)
        return True
    match = re.match(r"typedef (?:struct|enum) \w+ \{.*\} (\w+);", line, re.S)
    if match:
        group.add(match[1], line)
    match = re.match(r"typedef .*?\b(gs_\w+)\(.*\);$", line, re.S)
    if match:
        group.add(match[1], line)
        group.callbacks.add(match[1])
    match = re.match(r"enum \{\s*(GS_\w+)", line)
    if match:
        group.add(match[1], line)
    return True


def read(path):
    """Returns the lines of the comment at the top, and the groups."""
    if path.suffix == ".hpp":
        return comment_lines(next(logical_lines(path.read_text()))), []
    top, groups, section, group = None, [], Section(), None
    header = f"{path.parent.name}/{path.name}"
    for line in logical_lines(path.read_text()):
        if line.startswith("/*"):
            text = comment_lines(line)
            title = SECTION.match(text[0])
            if top is None:
                top = text
            elif title:
                section = Section(title[1], text[1:])
                group = Group(text[1:], Section(title[1]), header) # if declarations follow without a blank line
                groups.append(group)
            else:
                group = Group(text, section, header)
                groups.append(group)
        elif not line.strip():
            group = None
        elif group is not None:
            if not add_declaration(group, line):
                sys.exit(f"{path}: cannot read the declaration: {line}")
        elif re.match(r"GS_API (?!__)|typedef (struct|enum) \w+ \{", line):
            sys.exit(f"{path}: no comment before: {line}")
    for group in groups:
        if group.names and not group.text:
            sys.exit(f"{path}: no comment before {group.names[0]}")
        # The page has the name of a function or type, if there is one, rather than that of a callback or a constant.
        group.names.sort(key=lambda name: 2 if name.isupper() else name in group.callbacks)
    return top, [group for group in groups if group.names]


# ---- writing -------------------------------------------------------------------------------------------------------

def escape(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text)


def rich(text):
    text = escape(text)
    text = re.sub(r"`([^`]*)`", r"\\fI\1\\fR", text)
    return NAME.sub(lambda match: rf"\fB{match[1]}\fR{match[2] or ''}", text)


def verbatim(lines):
    return [".PP", ".nf", *(escape(line) for line in lines), ".fi"]


def paragraphs(lines):
    """Troff for the text of a comment. Every sentence begins a line."""
    out, words, example, bullets = [], [], [], False

    def end_words():
        if words:
            text = " ".join(words)
            out.extend(rich(sentence) for sentence in re.split(r"(?<=[.:!?]) (?=[A-Z`])", text))
            words.clear()

    def end_example():
        while example and not example[-1]:
            example.pop()
        if example:
            out.extend(verbatim(textwrap.dedent("\n".join(example)).split("\n")))
            example.clear()

    new = True
    for line in lines:
        if line.startswith("    ") or (example and not line):
            end_words()
            example.append(line)
            new = True
            continue
        end_example()
        if not line:
            end_words()
            new, bullets = True, False
        elif line.startswith("- "):
            end_words()
            out.append(".IP \\(bu 2")
            words.append(line[2:])
            new, bullets = False, True
        else:
            if bullets and not line.startswith("  "):
                end_words()
                new, bullets = True, False
            if new:
                end_words()
                out.append(".PP")
            words.append(line.strip())
            new = False
    end_words()
    end_example()
    if out and out[0] == ".PP":
        out.pop(0)
    return out


def prototype(text):
    """A function's declaration in lines of at most 78 characters; other declarations stay as they are."""
    if "\n" in text or len(text) <= 78 or "(" not in text:
        return text.split("\n")
    head, _, parameters = text.partition("(")
    parameters = [parameter.replace(" ", "\0") for parameter in parameters.split(", ")]
    lines = textwrap.wrap(head.replace(" ", "\0") + "(" + ", ".join(parameters), 78, subsequent_indent=" " * 8)
    return [line.replace("\0", " ") for line in lines]


def summary(lines):
    text = " ".join(line.strip() for line in lines)
    text = re.split(r"(?<=[a-z0-9)])[.:;](?: |$)", text.replace("`", ""))[0]
    return textwrap.shorten(text, 100, placeholder=" ...")


def mentioned(text, names, without):
    found = {match[1] for match in NAME.finditer(text)} & names
    return sorted(found - set(without))


def wrap(line):
    """Break a long line of text between words. A line that begins with a dot would be a request."""
    if len(line) <= 78 or line.startswith("."):
        return [line]
    return [re.sub(r"^([.'])", r"\\&\1", part) for part in
            textwrap.wrap(line, 78, break_long_words=False, break_on_hyphens=False)]


def wrap_text(lines):
    """Break the lines of text, but not those of examples and declarations."""
    out, fill = [], True
    for line in lines:
        fill = line == ".fi" or (fill and line != ".nf")
        out += wrap(line) if fill else [line]
    return out


def page(title, about, names, version, date, body):
    body = wrap_text(body)
    return "\n".join([f'.TH {title.upper()} 3 {date} "libgpuscope {version}" "libgpuscope manual"', ".SH NAME",
                      *wrap(f"{', '.join(names)} \\- {escape(about)}"), *body, ""])


def see_also(names):
    return [".SH SEE ALSO", *(f".BR {name} (3)" + ("," if i + 1 < len(names) else "") for i, name in enumerate(names))]


def group_page(group, names, version, date):
    body = [".SH SYNOPSIS", ".nf", f".B #include <{group.header}>"]
    for synopsis in group.synopsis:
        body += [".PP", *(escape(line) for line in prototype(synopsis))]
    body += [".fi", ".SH DESCRIPTION", *paragraphs(group.text)]
    for remark in group.remarks:
        body += [".PP", rich(remark)]
    if group.has_status:
        body += [".SH RETURN VALUE", "A \\fBgs_status\\fR.", "Any other than \\fBGS_OK\\fR is the reason of a failure.",
                 "Outputs are written only on \\fBGS_OK\\fR, unless the description says otherwise."]
    if group.section.text:
        body += [".SH NOTES", *paragraphs(group.section.text)]
    text = " ".join(group.text + group.section.text + group.synopsis)
    body += see_also(["gpuscope", *mentioned(text, names, group.names)])
    return page(group.names[0], summary(group.text), group.names, version, date, body)


def overview(title, others, top, groups, header, version, date):
    body = [".SH SYNOPSIS", ".nf", f".B #include <{header}>", ".PP", "cc \\&... $(pkg\\-config \\-\\-cflags \\-\\-libs gpuscope)",
            ".fi", ".SH DESCRIPTION", *paragraphs(top)]
    last = None
    for group in groups:
        if group.section is not last:
            last = group.section
            body += [f".SS {escape((last.title or 'Basics').capitalize())}", ".PD 0"]
        body += [".TP", f".BR {group.names[0]} (3)", escape(summary(group.text))]
    body += [".PD"] if groups else []
    body += see_also(sorted(others - {title}))
    first = " ".join(top[:top.index("")])
    return page(title, summary([re.sub(r"^libgpuscope: ", "", first)]), [title], version, date, body)


def title_of(path):
    return path.stem.replace("scope", "gpuscope", 1) + ("_cpp" if path.suffix == ".hpp" else "")


def write(folder, pages):
    """`pages`: text for each name, or the name of the page that a link leads to."""
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.3"):
        old.unlink()
    for name, (text, target) in pages.items():
        if target is None:
            (folder / f"{name}.3").write_text(text)
        else:
            (folder / f"{name}.3").symlink_to(f"{target}.3")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--out", type=pathlib.Path, required=True)
    parser.add_argument("--version", required=True)
    parser.add_argument("--date", required=True)
    parser.add_argument("headers", type=pathlib.Path, nargs="+")
    options = parser.parse_args()
    titles = set(map(title_of, options.headers))
    pages, read_headers = {}, [(path, *read(path)) for path in options.headers]
    names = {name for _, _, groups in read_headers for group in groups for name in group.names}
    for path, top, groups in read_headers:
        title = title_of(path)
        header = f"{path.parent.name}/{path.name}"
        pages[title] = (overview(title, titles, top, groups, header, options.version, options.date), None)
        for group in groups:
            text = group_page(group, names, options.version, options.date)
            for name in group.names:
                if name in pages:
                    sys.exit(f"{path}: {name} is declared twice")
                pages[name] = (text, None if name == group.names[0] else group.names[0])
    write(options.out, pages)


main()
