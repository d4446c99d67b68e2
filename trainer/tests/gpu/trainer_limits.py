#!/usr/bin/env python3
"""Compare the time of each layer of the trainer with the least time that the card needs for it:

    trainer_limits.py LOG [--gbytes 3350] [--tflops 989] [--sum]

LOG is the trainer's output with --verbose, TRAINER_TELL_TIMES=N and TRAINER_TELL_LAYERS=1. The least time is the larger
of two: the bytes of all tensors that the step reads or writes, each counted once, at the card's bandwidth (--gbytes,
GB/s); and the operations at its peak (--tflops, TFLOP/s). The defaults are NVIDIA's numbers for an H100 SXM with dense
bf16. For a batch normalisation, the limit is not reachable if its input does not fit in the L2 cache: the statistics
must be complete before the first value is normalised, so the input is read twice.

Prints a table in Markdown: one row for all equal layers, or with --sum for each kind of step."""
import argparse
import re
import sys

LINE = re.compile(r"layer: line (\d+), (\w+) (\S+) to (\S+), (\d+x\d+/\d+), (.*): ([\d.]+) ms, (\d+) bytes, "
                  r"(\d+) operations")


def read(name, gbytes, tflops):
    """Return a row (step, kind, shapes, ms, least ms) for each line of the log."""
    rows = []
    with open(name, errors="replace") as file:
        for line in file:
            match = LINE.search(line)
            if not match:
                continue
            _, kind, before, after, filter_, step, ms, count, operations = match.groups()
            least = max(float(count) / (gbytes * 1e6), float(operations) / (tflops * 1e9))
            shape = before if before == after else "%s to %s" % (before, after)
            if kind == "conv":
                shape += ", " + filter_
            rows.append((step, kind, shape, float(ms), least))
    return rows


def group(rows, key):
    """Add up the rows with equal keys, in the order of the first of each."""
    groups = {}
    for row in rows:
        entry = groups.setdefault(key(row), [0, 0.0, 0.0])
        entry[0] += 1
        entry[1] += row[3]
        entry[2] += row[4]
    return groups


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("log")
    parser.add_argument("--gbytes", type=float, default=3350)
    parser.add_argument("--tflops", type=float, default=989)
    parser.add_argument("--sum", action="store_true")
    args = parser.parse_args()
    rows = read(args.log, args.gbytes, args.tflops)
    if not rows:
        print("%s: no line of a layer; set TRAINER_TELL_TIMES and TRAINER_TELL_LAYERS, and --verbose" % args.log,
              file=sys.stderr)
        return 1
    groups = group(rows, lambda row: row[:2] if args.sum else row[:3])
    titles = ["step", "layer"] + ([] if args.sum else ["shape"])
    print("| " + " | ".join(titles) + " | number | measured ms | limit ms | limit / measured |")
    print("|" + "---|" * (len(titles) + 4))
    for key, (count, ms, least) in groups.items():
        print("| %s | %d | %.3f | %.3f | %.2f |" % (" | ".join(key), count, ms, least, least / ms if ms else 0))
    ms, least = sum(row[3] for row in rows), sum(row[4] for row in rows)
    print("| all%s | %d | %.3f | %.3f | %.2f |" % (" | " * (len(titles) - 1), len(rows), ms, least, least / ms))
    return 0


if __name__ == "__main__":
    sys.exit(main())
