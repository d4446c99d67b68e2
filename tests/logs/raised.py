#!/usr/bin/env python3
"""Messages of messages.tsv as exceptions of Python programs: a run must have the cause that the log of its output has.

    raised.py [--every N]

Records 200 programs that raise a message each, with a virtual card and without samples of the machine (verdict_messages_test
compares all messages, but its runs are made call by call). Each recording is explained, and its output as a log. A run may
be more certain than its log only if it names a fact.
"""
import argparse
import concurrent.futures
import csv
import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

COUNT = 200
BUILD = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build"))
CERTAINTIES = ["none", "hypothesis", "supported", "established"]
TYPE = re.compile(r"((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception)): (.+)", re.S)
PROGRAM = """import sys
module, name, text = sys.argv[1:]
raise type(name, (Exception,), {"__module__": module})(text)
"""


def messages(every):
    with open(pathlib.Path(__file__).with_name("messages.tsv"), newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    step = len(rows) // COUNT
    return [row["message"].replace("\\n", "\n").replace("\\t", "\t") for row in rows[::step]][:COUNT:every]


def explain(path):
    done = subprocess.run([BUILD / "gpuwhy", "explain", "--no-history", "--json", path], capture_output=True, text=True,
                          stdin=subprocess.DEVNULL)
    verdict = json.loads(done.stdout)
    sources = {line["source"] for line in verdict["evidence"]}
    return verdict["cause"], CERTAINTIES.index(verdict["certainty"] or "none"), sources & {"exit", "host"}


def difference(folder, number, message):
    """Record the program and judge it. Returns the log's cause, and how the run differs from it, or None."""
    match = TYPE.fullmatch(message)
    whole, text = match.groups() if match else ("RuntimeError", message)
    module, _, name = whole.rpartition(".")
    recording, log = folder / f"{number}.gpuwhy", folder / f"{number}.log"
    with open(log, "wb") as output:
        subprocess.run([BUILD / "gpuwhy", "run", "--no-verdict", "--no-history", "--no-sense", "--gpu", "virtual:h200", "-o", recording, "--",
                        sys.executable, "-I", "-S", folder / "program.py", module or "builtins", name, text],
                       stderr=output, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    (cause, certainty, facts), (wanted, told, _) = explain(recording), explain(log)
    if cause == wanted and (certainty <= told or facts):
        return wanted, None
    return wanted, f"{message}: as a log {wanted} ({CERTAINTIES[told]}), as a run {cause} ({CERTAINTIES[certainty]})"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth of the messages")
    cases = messages(parser.parse_args().every)
    with tempfile.TemporaryDirectory(prefix="gpuwhy-raised-") as name, concurrent.futures.ThreadPoolExecutor(2) as pool:
        folder = pathlib.Path(name)
        os.environ["GPUWHY_FOLDER"] = name
        (folder / "program.py").write_text(PROGRAM)
        found = list(pool.map(lambda case: difference(folder, *case), enumerate(cases)))
    wrong = [line for _, line in found if line]
    print(*wrong, f"{len(cases)} messages raised, {len(cases) - len(wrong)} with the cause of their log, "
                  f"{sum(cause is not None for cause, _ in found)} with a cause", sep="\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
