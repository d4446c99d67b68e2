#!/usr/bin/env python3
"""Measure how often the verdict on a log is right: `make corpus CORPUS=folder`.

The folder has ID.log files and index.tsv with the columns id, cause, also_acceptable (comma-separated) and
determinable (yes, partly, no: whether an expert can tell from the log alone). A case is right

  yes, partly  if the verdict's cause is `cause` or acceptable;
  no           if nothing is established, and the cause is the verdict or an alternative, or nothing was determined;
  healthy      (cause "clean") if no fault was found.

Prints a confusion table, accuracy and macro-F1 over causes, the same for two baselines (keywords without order, and
the exit status alone), and each case that is wrong.
"""
import argparse
import collections
import csv
import json
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import json_schemas

# The baseline of keywords: the first row whose word is anywhere in the log.
KEYWORDS = [("out of memory", "gpu-oom-capacity"), ("RESOURCE_EXHAUSTED", "gpu-oom-capacity"), ("OOM", "gpu-oom-capacity"),
            ("illegal memory access", "illegal-address"), ("device-side assert", "device-assert-index"),
            ("Assertion", "device-assert-index"), ("CUDNN_STATUS", "library-version-mismatch"),
            ("CUBLAS_STATUS", "gpu-oom-library-handle"), ("NCCL", "peer-died"), ("Xid", "gpu-off-bus"),
            ("ECC", "ecc-uncorrectable"), ("no kernel image", "arch-not-in-binary"), ("driver", "driver-too-old"),
            ("cannot open shared object", "library-not-found"), ("misaligned", "misaligned-access"),
            ("Killed", "host-oom-kill"), ("SIGKILL", "host-oom-kill"), ("Bus error", "shm-exhausted"),
            ("No space left", "disk-or-quota-full"), ("nan", "numeric-divergence"), ("Traceback", "script-exception"),
            ("error", "script-exception")]


def by_keywords(text):
    for word, cause in KEYWORDS:
        if word in text:
            return cause
    return "clean"


# The baseline of exit statuses, if the log shows the status or the way the process ended.
STATUSES = [(r"exit(?:ed)?.{0,12}137|SIGKILL|Killed|exitcode: -9", "host-oom-kill"),
            (r"exit(?:ed)?.{0,12}139|Segmentation fault|exitcode: -11", "host-crash-of-process"),
            (r"exit(?:ed)?.{0,12}135|Bus error", "shm-exhausted"),
            (r"exit(?:ed)?.{0,12}143|SIGTERM|CANCELLED", "killed-by-scheduler-or-user"),
            (r"exit(?:ed)?.{0,12}134|Aborted|terminate called", "host-crash-of-process"),
            (r"Traceback|Error", "script-exception")]


def by_status(text):
    for pattern, cause in STATUSES:
        if re.search(pattern, text):
            return cause
    return "clean"


class Answer:
    def __init__(self, cause, certainty="supported", alternatives=(), status=None):
        self.cause, self.certainty, self.alternatives = cause, certainty, alternatives
        self.status = status or ("clean" if cause == "clean" else "fault")


def read_cases(folder, every=1):
    """Return the rows of a folder's index, or only every Nth of them."""
    with open(folder / "index.tsv", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))[::every]


def judge(gpuwhy, path):
    done = subprocess.run([gpuwhy, "explain", "--json", str(path)], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    if not done.stdout:
        sys.exit(f"{path}: {done.stderr.strip()}")
    verdict = json_schemas.check(json.loads(done.stdout))
    cause = "clean" if verdict["status"] == "clean" else verdict["cause"]
    return Answer(cause, verdict["certainty"], [a["cause"] for a in verdict["alternatives"]], verdict["status"])


def is_right(case, answer):
    if case["cause"] == "clean":
        return answer.status != "fault"
    wanted = [case["cause"]] + [c for c in case["also_acceptable"].split(",") if c]
    if case["determinable"] != "no":
        return answer.cause in wanted
    return answer.certainty != "established" and (answer.status == "undetermined" or case["cause"] == answer.cause
                                                  or case["cause"] in answer.alternatives)


def taken_as(case, answer):
    """For the table: an acceptable cause counts as the cause itself."""
    return case["cause"] if is_right(case, answer) else answer.cause or "undetermined"


def macro_f1(cases, answers):
    pairs = [(case["cause"], taken_as(case, answer)) for case, answer in zip(cases, answers)]
    scores = []
    for cause in sorted({wanted for wanted, _ in pairs}):
        hits = sum(w == cause and g == cause for w, g in pairs)
        precision = hits / max(1, sum(g == cause for _, g in pairs))
        recall = hits / max(1, sum(w == cause for w, _ in pairs))
        scores.append(2 * precision * recall / (precision + recall) if hits else 0.0)
    return sum(scores) / len(scores)


def line(name, cases, answers):
    right = [is_right(c, a) for c, a in zip(cases, answers)]
    parts = []
    for kind in ("yes", "partly", "no"):
        of_kind = [r for c, r in zip(cases, right) if c["determinable"] == kind]
        parts.append(f"{kind} {sum(of_kind)}/{len(of_kind)}")
    bold = sum(a.certainty == "established" for c, a in zip(cases, answers) if c["determinable"] == "no")
    print(f"{name:22} accuracy {sum(right) / len(right):.3f}  macro-F1 {macro_f1(cases, answers):.3f}  ({', '.join(parts)};"
          f" established where nobody can tell: {bold})")
    return right


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    parser.add_argument("--at-least", type=float, help="this share of the determinable cases right, and none of the others established, else fail")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="read only every Nth log")
    options = parser.parse_args()
    cases = read_cases(options.folder, options.every)
    texts = [(options.folder / f"{c['id']}.log").read_text(errors="replace") for c in cases]
    ours = [judge(options.gpuwhy, options.folder / f"{c['id']}.log") for c in cases]
    table = collections.Counter((c["cause"], taken_as(c, a)) for c, a in zip(cases, ours))
    print(f"{'cause':32} {'taken for':32} cases")
    for (wanted, got), count in sorted(table.items()):
        print(f"{wanted:32} {'=' if wanted == got else got:32} {count}")
    print()
    right = line("gpuwhy", cases, ours)
    line("keywords without order", cases, [Answer(by_keywords(t)) for t in texts])
    line("exit status alone", cases, [Answer(by_status(t)) for t in texts])
    for case, answer, good in zip(cases, ours, right):
        if not good:
            print(f"wrong: {case['id']} ({case['determinable']}): {case['cause']}, taken for {answer.cause} ({answer.certainty})")
    sure = [g for c, g in zip(cases, right) if c["determinable"] != "no"]
    share = sum(sure) / max(1, len(sure))
    print(f"{share * 100:.1f} % of {len(sure)} determinable cases are right")
    bold = sum(a.certainty == "established" for c, a in zip(cases, ours) if c["determinable"] == "no")
    return 1 if options.at_least is not None and (share < options.at_least or bold > 0) else 0


if __name__ == "__main__":
    sys.exit(main())
