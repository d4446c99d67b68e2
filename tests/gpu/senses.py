"""Print the values that this machine's GPUs report through NVML to gpuwhy, and what the calls cost. Run by hand:

    python3 tests/gpu/senses.py [--seconds N] [-- COMMAND ...]

Runs the command (by default a sleep of N seconds, 30) under gpuwhy and prints the lowest and highest value of each
GPU, or why it is not known; then the CPU time of all calls as a share of the run.
"""
import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

GPUWHY = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy"


def read(path):
    """Return the rows of the export that the supervisor recorded, (source, card, name, value), and the facts by
    name."""
    done = subprocess.run([GPUWHY, "export", path, "--to", "csv"], capture_output=True, text=True, check=True)
    values, facts = [], {}
    for row in csv.DictReader(done.stdout.splitlines()):
        if row["item"] == "sample":
            values.append((row["kind"], row["arg0"], row["key"], row["value"]))
        elif row["item"] == "supervisor" and re.match(r"nvml\.|sense\.", row["key"]):
            facts.setdefault(row["key"], []).append(row["value"])
        elif row["item"] == "machine":
            facts.setdefault("event", []).append(f"{row['key']}: {row['value']}")
    return values, facts


def table(values):
    cards = {}
    for source, card, name, value in values:
        if source == "nvml":
            cards.setdefault(card, {}).setdefault(name, []).append(value)
    for card, names in sorted(cards.items()):
        print(f"\ncard {card}\n{'value':34} {'first':>14} {'lowest':>14} {'highest':>14}")
        for name, seen in names.items():
            numbers = [int(v) for v in seen if v.isdigit()]
            if numbers:
                print(f"{name:34} {numbers[0]:14} {min(numbers):14} {max(numbers):14}")
            else:
                print(f"{name:34} {seen[-1]:>14}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=30)
    parser.add_argument("command", nargs="*")
    arguments = parser.parse_args()
    command = arguments.command or ["sleep", str(arguments.seconds)]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "senses.gpuwhy")
        status = subprocess.run([GPUWHY, "run", "--quiet", "-o", path, "--", *command], check=False).returncode
        values, facts = read(path)
        print(f"exit status {status}, recording {os.path.getsize(path)} bytes")
    for name, lines in facts.items():
        for line in lines:
            print(f"{name}: {line}")
    table(values)
    cost = re.match(r"calls=(\d+) cpu_us=(\d+) of_ms=(\d+)", (facts.get("nvml.cost") or [""])[0])
    if cost is None:
        print("\nno NVML here: nothing was measured")
        return 77
    calls, cpu_us, of_ms = map(int, cost.groups())
    print(f"\n{calls} calls, {cpu_us / 1000:.1f} ms of processor time in {of_ms / 1000:.1f} s: {cpu_us / of_ms / 10:.3f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main())
