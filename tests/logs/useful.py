#!/usr/bin/env python3
"""Is the first line under `Next` what cured the program? useful.txt holds failed logs whose cure is known.

A case begins with `@@ NUMBER CAUSE: CURE`. The fields below it are patterns for the first line:

  same   it is the cure
  helps  it would have helped: it leads to the cure, or is a weaker one
  harm   it makes things worse, costs days, or belongs to another world (checked first)
  from   the thread that says what cured it
  open   why no advice can be right yet; the line need not help

Up to 100, the advice was written with the odd cases, and the even ones were only measured. From 101 on, each group was
measured before a row was written for it, which is what an unknown log can expect: same or helpful were 12 of 20 (101
to 120), 11 of 20 (to 140), 4 of 13 (to 153), 5 of 7 (to 160), 5 of 8 (to 168) and 3 of 7 (to 175), harmful 1. Then
rows were written with them. Of the 111 logs from 300 on, 0.58 were same or helpful and 5 harmful before rows were
written: 28 of 51 to 350 (PyTorch, Hugging Face, TensorFlow, JAX, ONNX Runtime, TensorRT, RAPIDS), 22 of 30 from 400
(servers of language models, image and speech programs), 14 of 30 from 501 (builds, containers, drivers, clusters,
imaging). 430 to 449 and 502 to 524 were written with their rows. A reader who knew neither the rows nor these cases then graded
86 logs that nobody had used: 50 same, 15 helpful, 20 no help, 1 harmful (0.76); before these rows, 0.57 of 60.
Of the 37 from 600 to 636 (PyTorch's training, drivers, containers, builds), 23 were same or helpful before, 0 harmful.
Of 73 that such a reader graded later, 0.70 were same or helpful, 1 harmful; those that failed are 800 to 821.
Of 87 others, graded after those rows were written, 50 were same, 17 helpful, 19 no help and 1 harmful (0.77).
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

FIELDS = ("same", "helps", "harm", "from", "open")
GRADES = ("same", "helpful", "no help", "harmful")


def read_cases(path):
    cases = []
    for line in path.read_text().splitlines():
        head = re.match(r"@@ (\d+) (\S+): (.*)", line)
        field = re.match(r"(\w+): (.*)", line)
        if head:
            cases.append(dict(id=int(head[1]), cause=head[2], cure=head[3], log=[]))
        elif field and field[1] in FIELDS and not cases[-1]["log"]:
            cases[-1][field[1]] = field[2]
        else:
            cases[-1]["log"].append(line)
    return cases


def explain(gpuwhy, case):
    done = subprocess.run([gpuwhy, "explain", "--json", "-"], input="\n".join(case["log"]) + "\n", capture_output=True,
                          text=True)
    if not done.stdout:
        sys.exit(f"{case['id']}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def grade(case, line):
    line = re.sub(r"^At .+? in \S+: ", "", line)  # a path is no advice
    for field, name in (("harm", "harmful"), ("same", "same"), ("helps", "helpful")):
        if field in case and line and re.search(case[field], line):
            return name
    return "no help"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    parser.add_argument("--half", choices=("odd", "even"))
    parser.add_argument("--show", action="store_true", help="print each case with its first line")
    options = parser.parse_args()
    cases = read_cases(pathlib.Path(__file__).with_suffix(".txt"))
    failed = []
    counts = {"odd": dict.fromkeys(GRADES, 0), "even": dict.fromkeys(GRADES, 0)}
    for case in cases:
        half = "odd" if case["id"] % 2 else "even"
        if options.half not in (None, half):
            continue
        verdict = explain(options.gpuwhy, case)
        line = verdict["next"][0] if verdict["next"] else ""
        got = grade(case, line)
        counts[half][got] += 1
        if options.show:
            print(f"{case['id']:3} {got:8} {verdict['cause']} ({case['cause']})\n      cure: {case['cure']}\n      next: {line}")
        good = got in ("same", "helpful")
        if got == "harmful" or good == ("open" in case):
            failed.append(f"{case['id']}: {got}: {line!r}; the cure was: {case['cure']}")
    for half, count in counts.items():
        total = sum(count.values())
        if total > 0:
            share = (count["same"] + count["helpful"]) / total
            print(f"{half}: " + ", ".join(f"{n} {g}" for g, n in count.items()) + f" of {total}; same or helpful {share:.2f}")
            if share < 0.75:
                failed.append(f"{half}: the share is below 0.75")
    print("\n".join(failed))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
