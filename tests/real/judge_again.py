"""Judge the recordings of real runs again: tests/fixtures/real, with one row per file in expected.tsv.

A verdict may become more certain, but never less certain, and never change. A row without its file is printed as
skipped; if there are no files, the whole test is skipped (77). It is an error if a recording has no row, is of
another GPU than its row says, or contains personal folders.
"""

import json
import os
import re
import subprocess
import sys

FIXTURES = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "fixtures", "real")
COLUMNS = ("file", "status", "cause", "certainty", "card", "driver")
RISING = (None, "hypothesis", "supported", "established")
# Recordings are made outside home folders and outside this checkout. A neutral folder may be called home: /tmp/home.
PRIVATE = ("/root/", "/home/", os.path.realpath(os.path.join(FIXTURES, "..", "..", "..")))
SIZE_MAX = 200 * 1024
SKIPPED = 77


def read_rows():
    rows = []
    with open(os.path.join(FIXTURES, "expected.tsv"), encoding="utf-8") as table:
        for number, line in enumerate(table, 1):
            if line.startswith("#") or not line.strip():
                continue
            fields = line.rstrip("\n").split("\t")
            if len(fields) != len(COLUMNS) or fields[3] not in (*RISING[1:], "-"):
                sys.exit(f"expected.tsv:{number}: {len(COLUMNS)} columns with tabs between are due: {' '.join(COLUMNS)}")
            rows.append({name: None if field == "-" else field for name, field in zip(COLUMNS, fields)})
    return rows


def ask(program, *arguments):
    done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode not in (0, 1) or not done.stdout:
        raise ValueError(f"gpuwhy {arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")
    return done.stdout


def faults_of(program, row, path):
    """Return the problems of the verdict or the file, as text."""
    verdict = json.loads(ask(program, "explain", "--json", path))
    for name in ("status", "cause"):
        if verdict[name] != row[name]:
            yield f"{name} {verdict[name]}, not {row[name]}"
    if RISING.index(verdict["certainty"]) < RISING.index(row["certainty"]):
        yield f"only {verdict['certainty']}, not {row['certainty']}"
    if row["status"] == "fault" and not (verdict["evidence"] and verdict["next"] and verdict["headline"]):
        yield "no evidence, no headline or nothing to do"
    if row["status"] == "clean" and verdict["alternatives"]:
        yield f"alternatives on a clean run: {verdict['alternatives']}"
    cards = [gpu["name"] for gpu in verdict["gpus"]]
    if row["card"] is not None and row["card"] not in cards:
        yield f"the card is {cards}, not {row['card']}"
    if os.path.getsize(path) > SIZE_MAX:
        yield f"larger than {SIZE_MAX} bytes"
    whole = ask(program, "export", path, "--to", "json")
    for private in PRIVATE:
        if re.search(r"(?<![\w.-])" + re.escape(private), whole):
            yield f"holds a path under {private}"


def main():
    program = os.path.join(os.environ["GPUWHY_BUILD"], "gpuwhy")
    rows = read_rows()
    bad = judged = 0
    for row in rows:
        path = os.path.join(FIXTURES, row["file"])
        if not os.path.exists(path):
            print(f"skipped: {row['file']}: the recording is not there")
            continue
        judged += 1
        found = list(faults_of(program, row, path))
        bad += len(found)
        print(f"{'wrong' if found else 'right'}: {row['file']}" + "".join(f"\n    {fault}" for fault in found))
    named = {row["file"] for row in rows}
    for name in sorted(os.listdir(FIXTURES)):
        if name.endswith(".gpuwhy") and name not in named:
            print(f"wrong: {name}: no row in expected.tsv")
            bad += 1
    if bad:
        return 1
    return 0 if judged else SKIPPED


if __name__ == "__main__":
    sys.exit(main())
