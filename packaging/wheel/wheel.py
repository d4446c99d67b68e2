#!/usr/bin/env python3
"""Pack an installed tree as a Python wheel.

    wheel.py TREE LICENSES VERSION FOLDER

TREE is what `cmake --install` wrote, with its bin, lib and share. LICENSES has the licenses of the libraries that are linked
statically. The wheel is written to FOLDER, and its path is printed. All files have the time SOURCE_DATE_EPOCH, and the order
is that of their names, so equal trees make equal wheels.
"""
import base64
import hashlib
import os
import stat
import sys
import time
import zipfile

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCE = os.path.dirname(os.path.dirname(HERE))
TAGS = ["py3-none-manylinux_2_17_x86_64", "py3-none-manylinux2014_x86_64"]
LICENSE = ("Apache-2.0 AND BSD-2-Clause AND BSD-3-Clause AND MIT AND Zlib AND bzip2-1.0.6 AND blessing AND "
           "X11-distribute-modifications-variant AND (GPL-2.0-or-later OR LGPL-3.0-or-later) AND "
           "GPL-3.0-or-later WITH GCC-exception-3.1")
METADATA = """\
Metadata-Version: 2.4
Name: gpuwhy
Version: {version}
Summary: Runs a CUDA program and explains why it failed, with the evidence
License-Expression: {license}
{license_files}Keywords: cuda,gpu,debugging,out-of-memory,pytorch,jax
Classifier: Development Status :: 4 - Beta
Classifier: Environment :: Console
Classifier: Environment :: GPU :: NVIDIA CUDA
Classifier: Intended Audience :: Developers
Classifier: Intended Audience :: Science/Research
Classifier: Operating System :: POSIX :: Linux
Classifier: Programming Language :: C
Classifier: Programming Language :: Python :: 3
Classifier: Topic :: Scientific/Engineering :: Artificial Intelligence
Classifier: Topic :: Software Development :: Debuggers
Requires-Python: >=3.8
Description-Content-Type: text/markdown

{description}"""


class Wheel:
    def __init__(self, folder, version):
        self.info = f"gpuwhy-{version}.dist-info"
        self.data = f"gpuwhy-{version}.data"
        tag = "py3-none-" + ".".join(tag.rpartition("-")[2] for tag in TAGS)
        self.path = os.path.join(folder, f"gpuwhy-{version}-{tag}.whl")
        self.files = {}  # name: (bytes, mode)

    def add(self, name, content, mode=0o644):
        self.files[name] = (content, mode)

    def add_file(self, name, path):
        executable = os.stat(path).st_mode & 0o100
        with open(path, "rb") as file:
            self.add(name, file.read(), 0o755 if executable else 0o644)

    def add_tree(self, name, folder):
        """Add a folder. A wheel has no links, so they are left out; gpuwhy works without them."""
        if not os.path.isdir(folder):
            return
        for parent, _, files in os.walk(folder):
            for file in files:
                path = os.path.join(parent, file)
                if not os.path.islink(path):
                    self.add_file(os.path.join(name, os.path.relpath(path, folder)), path)

    def write(self, when):
        record = ""
        for name, (content, _) in sorted(self.files.items()):
            digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
            record += f"{name},sha256={digest},{len(content)}\n"
        record += f"{self.info}/RECORD,,\n"
        order = sorted(self.files, key=lambda name: (name.startswith(self.info), name))
        self.add(f"{self.info}/RECORD", record.encode())
        with zipfile.ZipFile(self.path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as out:
            for name in [*order, f"{self.info}/RECORD"]:
                content, mode = self.files[name]
                entry = zipfile.ZipInfo(name, time.gmtime(max(when, 315532800))[:6])  # a zip cannot be older than 1980
                entry.external_attr = (stat.S_IFREG | mode) << 16
                entry.create_system = 3
                entry.compress_type = zipfile.ZIP_DEFLATED
                out.writestr(entry, content)


def read(*path):
    with open(os.path.join(*path), "rb") as file:
        return file.read()


def main():
    if len(sys.argv) != 5:
        sys.exit("usage: wheel.py TREE LICENSES VERSION FOLDER")
    tree, licenses, version, folder = sys.argv[1:]
    if not os.access(os.path.join(tree, "bin", "gpuwhy"), os.X_OK):
        sys.exit(f"wheel.py: {tree} has no bin/gpuwhy")
    wheel = Wheel(folder, version)
    wheel.add("gpuwhy/__init__.py", read(SOURCE, "python", "gpuwhy.py"))
    wheel.add("gpuwhy/__main__.py", b"from gpuwhy import _main\n\n_main()\n")
    for part in ("bin", "lib", "include", "share/gpuwhy"):
        wheel.add_tree(f"gpuwhy/_install/{part}", os.path.join(tree, part))
    for part in ("man", "bash-completion", "zsh", "fish"):
        wheel.add_tree(f"{wheel.data}/data/share/{part}", os.path.join(tree, "share", part))
    wheel.add(f"{wheel.data}/scripts/gpuwhy", read(HERE, "gpuwhy.sh"), 0o755)
    wheel.add(f"{wheel.info}/licenses/LICENSE", read(SOURCE, "LICENSE"))
    wheel.add_tree(f"{wheel.info}/licenses/libraries", licenses)
    start = f"{wheel.info}/licenses/"
    named = "".join(f"License-File: {name[len(start):]}\n" for name in sorted(wheel.files) if name.startswith(start))
    metadata = METADATA.format(version=version, license=LICENSE, license_files=named,
                               description=read(HERE, "README.md").decode())
    wheel.add(f"{wheel.info}/METADATA", metadata.encode())
    wheel.add(f"{wheel.info}/WHEEL", ("Wheel-Version: 1.0\nGenerator: gpuwhy\nRoot-Is-Purelib: false\n" +
                                      "".join(f"Tag: {tag}\n" for tag in TAGS)).encode())
    wheel.write(int(os.environ.get("SOURCE_DATE_EPOCH", "0")))
    print(wheel.path)


if __name__ == "__main__":
    main()
