#!/usr/bin/env python3
"""Write C libraries to link with, whose newest symbol version is VERSION.

    stubs.py VERSION FOLDER

The C library of this machine still has the symbols of all earlier releases, but the linker takes the newest version of each.
FOLDER gets libraries of the same names without code. They have, for each name, only the newest version up to VERSION, so a
program that is linked with them starts with glibc VERSION and later. A function that is newer than VERSION is missing.
compat.c has those that we need; a program that calls another one does not link.
"""
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CC = os.environ.get("CC", "cc")
LIBRARIES = {"c": "libc.so.6", "m": "libm.so.6"}
# Before glibc 2.34 these were separate. Today their functions are in libc.so.6, under the old versions, too.
EMPTY = ("libpthread.so.0", "libdl.so.2")
SYMBOL = re.compile(r"\s*\d+: (?P<at>[0-9a-f]+) +(?P<size>\w+) (?P<kind>FUNC|IFUNC|OBJECT) +(?P<bind>GLOBAL|WEAK) +\w+ +\w+ "
                    r"(?P<name>[^@\s]+)@@?GLIBC_(?P<version>[0-9.]+)$")


def numbers(version):
    return tuple(int(part) for part in version.split("."))


def path_of(file):
    """Return the path of a file of the compiler."""
    path = subprocess.run([CC, f"-print-file-name={file}"], check=True, capture_output=True,
                          text=True).stdout.strip()
    if not os.path.isabs(path):
        sys.exit(f"stubs.py: the compiler has no {file}")
    return path


class Symbol:
    def __init__(self, match):
        self.name, self.version = match["name"], match["version"]
        self.is_function = match["kind"] != "OBJECT"
        self.is_weak = match["bind"] == "WEAK"
        self.size, self.at = int(match["size"], 0), int(match["at"], 16)


def symbols(path, limit):
    """Return the symbols of a library, for each name the newest version up to `limit`."""
    listed = subprocess.run(["readelf", "-W", "--dyn-syms", path], check=True, capture_output=True, text=True).stdout
    found = {}
    for line in listed.splitlines():
        match = SYMBOL.match(line)
        if match is None or numbers(match["version"]) > limit:
            continue
        symbol = Symbol(match)
        before = found.get(symbol.name)
        if before is None or numbers(before.version) < numbers(symbol.version):
            found[symbol.name] = symbol
    if not found:
        sys.exit(f"stubs.py: {path} has no symbol of glibc {'.'.join(map(str, limit))} or older")
    # Names of one variable (environ, __environ) stay at one address: the linker copies the variable into the program, and
    # all names must then lead to the copy.
    return sorted(found.values(), key=lambda symbol: (symbol.is_function, symbol.at, symbol.name))


def write(soname, found, folder):
    assembly, last = [], None
    for index, symbol in enumerate(found):
        if symbol.is_function:
            assembly += [".text"]
        elif last is None or last.at != symbol.at:
            assembly += [".data", f".skip {last.size if last else 1}", ".balign 64"]
        assembly += [f"{'.weak' if symbol.is_weak else '.globl'} s{index}", f"s{index}:",
                     f".type s{index}, @{'function' if symbol.is_function else 'object'}", f".size s{index}, {symbol.size}",
                     f".symver s{index}, {symbol.name}@@GLIBC_{symbol.version}, remove"]
        if symbol.is_function:
            assembly += [".skip 1"]
        else:
            last = symbol
    assembly += [".data", f".skip {last.size if last else 1}"]
    versions = sorted({symbol.version for symbol in found}, key=numbers)
    place = os.path.join(folder, soname)
    with open(place + ".s", "w", encoding="ascii") as out:
        out.write("\n".join(assembly) + '\n.section .note.GNU-stack,"",@progbits\n')
    with open(place + ".map", "w", encoding="ascii") as out:
        out.write("".join(f"GLIBC_{version} {{}};\n" for version in versions))
    subprocess.run(["as", "-o", place + ".o", place + ".s"], check=True)
    subprocess.run(["ld", "-shared", "-soname", soname, "--version-script", place + ".map", "-o", place, place + ".o"],
                   check=True)


def write_empty(soname, folder):
    subprocess.run([CC, "-shared", "-nostdlib", f"-Wl,-soname,{soname}", "-o", os.path.join(folder, soname), "-x", "c",
                    os.devnull], check=True)


def write_compat(folder):
    """Write the archive of what a program brings itself: compat.c and start.c."""
    objects = []
    for name in ("compat", "start"):
        objects.append(os.path.join(folder, f"{name}.o"))
        subprocess.run([CC, "-std=gnu17", "-O2", "-fPIC", "-fvisibility=hidden", "-ffunction-sections", "-Wall", "-Wextra",
                        "-Werror", "-c", os.path.join(HERE, f"{name}.c"), "-o", objects[-1]], check=True)
    archive = os.path.join(folder, "libgw_compat.a")
    if os.path.exists(archive):
        os.remove(archive)
    subprocess.run(["ar", "rcsD", archive, *objects], check=True)
    return archive


def main():
    if len(sys.argv) != 3 or not re.fullmatch(r"2\.\d+", sys.argv[1]):
        sys.exit("usage: stubs.py VERSION FOLDER, with a VERSION like 2.17")
    limit, folder = numbers(sys.argv[1]), os.path.abspath(sys.argv[2])
    os.makedirs(folder, exist_ok=True)
    for soname in EMPTY:
        write_empty(soname, folder)
    group = {"m": "", "c": f"{write_compat(folder)} {path_of('libc_nonshared.a')} "
                           f"AS_NEEDED ( {path_of('ld-linux-x86-64.so.2')} ) "}
    for name, soname in LIBRARIES.items():
        write(soname, symbols(path_of(soname), limit), folder)
        with open(os.path.join(folder, f"lib{name}.so"), "w", encoding="ascii") as out:
            out.write(f"GROUP ( {folder}/{soname} {group[name]})\n")


if __name__ == "__main__":
    main()
