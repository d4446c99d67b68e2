"""Requirements for every verdict on a terminal of 80 x 24: verdict, place and next step come first, and nothing
scrolls away."""
import re

COLUMNS, LINES = 80, 24
LABELS = ["Verdict", "Where", "Known", "Next", "Why", "Possible causes", "Run", "Later", "Beware", "Also", "Details"]
ALIASES = {"Seen": "Why", "Meaning": "Why"}  # labels for a clean run and for an answer
WHY_MAX, NEXT_MAX, NEXT_LINES_MAX = 8, 4, 2


def screens(text):
    """Return each verdict in a command's output, from its first to its last line."""
    found, lines = [], text.splitlines()
    for at, line in enumerate(lines):
        if not line.startswith("Verdict  "):
            continue
        begin, end = at - 1, at + 1
        while begin > 0 and not lines[begin].startswith("gpuwhy: "):
            begin -= 1
        while end < len(lines) and (lines[end].startswith(" " * 9) or label_of(lines[end])):
            end += 1
        found.append(lines[begin:end])
    return found


def label_of(line):
    if line == "Possible causes":  # wider than the column of labels, so it has a line of its own
        return line
    match = re.match(r"([A-Z][a-z]+) {2,}\S", line)
    label = match and ALIASES.get(match[1], match[1])
    return label if label in LABELS and len(match[0]) == 10 else None


def sections(lines):
    """Return (label, its lines) in order."""
    found = []
    for line in lines:
        if label_of(line):
            found.append((label_of(line), []))
        if found:
            found[-1][1].append(line[9:])
    return found


def sum_wrong(text):
    """Whether a line "needed: 4.51 GiB live + 1.53 GiB requested = 6.04 GiB > 5.00 GiB" adds up, with the printed
    numbers."""
    parts, total = text.removeprefix("needed: ").split(" = ")
    amount = r"(\d+(?:\.\d\d)?) (B|KiB|MiB|GiB|TiB)\b"
    terms = [re.match(amount, part) for part in parts.split(" + ")]
    total, limit = re.findall(amount, total)[:2]
    if None in terms or any(term[2] != total[1] and term[1] != "0" for term in terms) or limit[1] != total[1]:
        return f"not in one unit: {text}"
    added = sum(round(float(term[1]) * 100) for term in terms)
    if added != round(float(total[0]) * 100):
        return f"the parts are {added / 100}: {text}"
    return None if (" > " in text) == (float(total[0]) > float(limit[0]) or " by " in text) else f"not more: {text}"


def wrong(lines, verdict=None):
    """Return the problems of a screen, as sentences. `verdict`: its JSON."""
    found = sections(lines)
    labels = [label for label, _ in found]
    parts = dict(found)
    problems = []

    def must(condition, text):
        if not condition:
            problems.append(text)

    must(len(lines) <= LINES, f"{len(lines)} lines")
    wide = [line for label, part in found if label != "Details" for line in part if len(line) + 9 > COLUMNS]
    must(not wide, f"wider than {COLUMNS} columns: {wide}")
    must(labels == sorted(set(labels), key=LABELS.index), f"not in the order of {LABELS}: {labels}")
    must(len(parts.get("Why", [])) <= WHY_MAX, f"{len(parts.get('Why', []))} lines of evidence")
    steps = parts.get("Next", [])
    starts = [at for at, line in enumerate(steps) if re.match(r"\d+\. ", line)] or [0] * bool(steps)
    must(len(starts) <= NEXT_MAX, f"{len(starts)} next steps")
    must(all(b - a <= NEXT_LINES_MAX for a, b in zip(starts, starts[1:] + [len(steps)])), "a next step of three lines")
    if verdict is not None:
        shown = [e for e in verdict["evidence"] if e["text"] not in (verdict["headline"] or "")]  # not said twice
        must(not shown or "Why" in labels, "Why is not there")  # what is ruled out may stand there alone
        for label, is_there in (("Where", verdict["where"]), ("Next", verdict["next"])):
            must((label in labels) == bool(is_there), f"{label} is {'' if label in labels else 'not '}there")
        for evidence in verdict["evidence"]:
            problem = sum_wrong(evidence["text"]) if re.match(r"needed: .* (>|, of) ", evidence["text"]) else None
            must(problem is None, problem)
    return problems
