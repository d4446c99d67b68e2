"""Convert src/api/gw_nvml_abi.h to C: every structure, member and number there becomes a line SIZE, OFFSET or
NUMBER.

    layouts.py HEADER OUTPUT
"""
import re
import sys

text = open(sys.argv[1]).read()
text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
lines = []
for name, body in re.findall(r"typedef struct (nvml\w+_t) \{(.*?)\}", text, re.S):
    lines.append(f"SIZE({name});")
    for declaration in body.split(";"):
        members = re.sub(r"\[.*?\]", "", declaration).strip()
        for number, member in enumerate(members.split(",") if members else []):
            lines.append(f"OFFSET({name}, {re.split(r'[ *]+', member.strip())[-1]});")
for body in re.findall(r"enum(?: \w+)? \{(.*?)\}", text, re.S):
    lines += [f"NUMBER({name});" for name in re.findall(r"\b(NVML_\w+)\b(?=\s*(?:=|,|$|\n))", body)]
lines += [f"NUMBER({name});" for name in re.findall(r"#define (nvml\w+) ", text)]
lines += [f"NUMBER({name});" for name in re.findall(r"X\((NVML_\w+), \d+", text)]
with open(sys.argv[2], "w") as out:
    out.write("\n".join(lines) + "\n")
