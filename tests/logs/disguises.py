#!/usr/bin/env python3
"""What copying does to a log must not change the verdict: `GPUWHY_BUILD=build python3 -B tests/logs/disguises.py`.

Reads the logs of tests/logs/produced and tests/logs/healthy again as one string of JSON or of Python, cut at 80
columns, as `script` records them, in a block of Markdown, with a mark before each line, and with blocks of zeros.

--every N reads each log in only one of N disguises, in turn. `--gpuwhy FILE` measures another build.
"""
import argparse
import collections
import json
import os
import pathlib
import subprocess
import tempfile

from corpus import read_cases

HERE = pathlib.Path(__file__).resolve().parent


def explain(gpuwhy, path):
    done = subprocess.run([gpuwhy, "explain", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
    verdict = json.loads(done.stdout) if done.stdout else {"status": "no answer", "cause": None}
    return verdict["cause"] or verdict["status"]


def cut(text, columns=80):
    return "\n".join(line[i:i + columns] for line in text.split("\n") for i in range(0, max(1, len(line)), columns))


DISGUISES = {
    "JSON": lambda t: json.dumps({"log": t}),
    "repr": lambda t: repr(t),
    "80 columns": cut,
    "script": lambda t: 'Script started on 2026-03-02 10:11:12+00:00 [TERM="xterm-256color" TTY="/dev/pts/3" COLUMNS="120" LINES="40"]\n'
                        + t.replace("\n", "\r\n") + "\nScript done on 2026-03-02 10:40:51+00:00\n",
    "Markdown": lambda t: "I get this when I start it:\n\n```\n" + t.rstrip("\n") + "\n```\n",
    "mark": lambda t: "\n".join("2026-03-02 10:11:12 ERROR " + line if line else line for line in t.split("\n")),
    "zeros": lambda t: "\0" * 5000 + t[:len(t) // 2].rpartition("\n")[0] + "\n" * ("\n" in t[:len(t) // 2]) + "\0" * 4096 + t[:len(t) // 2].rpartition("\n")[2] + t[len(t) // 2:],
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpuwhy", default=pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy")
    parser.add_argument("--every", type=int, default=1, metavar="N")
    parser.add_argument("--at-most", type=float, default=0.02, help="the share of texts that may get another verdict")
    options = parser.parse_args()
    wrong, count = collections.Counter(), 0
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "copy.log"
        for kind in ("produced", "healthy"):
            for number, row in enumerate(read_cases(HERE / kind)):
                original = HERE / kind / f"{row['id']}.log"
                text = original.read_bytes()
                if b"\0" in text or b"\x1b" in text: # UTF-16; colours, which fill columns of a terminal without being seen
                    continue
                text = text.decode(errors="replace")
                wanted = explain(options.gpuwhy, original)
                for index, (disguise, change) in enumerate(DISGUISES.items()):
                    if (number + index) % options.every:
                        continue
                    path.write_text(change(text), newline="")
                    got = explain(options.gpuwhy, path)
                    count += 1
                    if got != wanted:
                        wrong[disguise] += 1
                        print(f"wrong: {kind}/{row['id']}, {disguise}: {wanted}, taken for {got}")
    print(f"{count} texts, {sum(wrong.values())} with another verdict: {dict(wrong)}")
    return 1 if sum(wrong.values()) > options.at_most * count else 0


if __name__ == "__main__":
    raise SystemExit(main())
