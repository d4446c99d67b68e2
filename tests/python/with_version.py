"""Run a script with a CPython of one version:  with_version.py 3.13 SCRIPT [ARGUMENTS]

Interpreters are searched in the folders and files of GPUWHY_PYTHONS (separated by colons), in the folder where
tools/pythons.sh installs them, in PATH, and among pyenv's versions. The one that runs this script comes before those in PATH,
which may be pyenv's shims. Exits 77 (skipped) if there is none."""
import glob
import os
import subprocess
import sys

SKIPPED = 77
HERE = os.path.dirname(os.path.abspath(__file__))
BROUGHT = os.path.join(HERE, "..", "..", "build-pythons")
ASK = "import sys; print(sys.implementation.name, '%d.%d' % sys.version_info[:2], bool(getattr(sys, 'abiflags', '')))"


def candidates(version):
    name = "python" + version
    for place in os.environ.get("GPUWHY_PYTHONS", "").split(":"):
        if place:
            yield os.path.join(place, name) if os.path.isdir(place) else place
    yield os.path.join(BROUGHT, name)
    if version == "%d.%d" % sys.version_info[:2]:
        yield sys.executable
    for folder in os.get_exec_path():
        yield os.path.join(folder, name)
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    yield from sorted(glob.glob(os.path.join(pyenv, "versions", version + ".*", "bin", name)))


def find(version, accept=lambda path: True):
    """Return the path of an interpreter of exactly this version, or None. "3.14t" is the free-threaded build."""
    wanted = ["cpython", version.rstrip("t"), str(version.endswith("t"))]
    for path in candidates(version):
        if not os.access(path, os.X_OK) or not accept(path):
            continue
        try:
            said = subprocess.run([path, "-I", "-c", ASK], capture_output=True, text=True, timeout=240, check=False)
        except OSError:
            continue
        if said.stdout.split() == wanted:
            return path
    return None


def main():
    version, command = sys.argv[1], sys.argv[2:]
    path = find(version)
    if path is None:
        print("skipped: no CPython %s here; tools/pythons.sh brings one" % version)
        return SKIPPED
    sys.stdout.flush()
    # sys.executable is another file if the interpreter runs under a loader of its own.
    return subprocess.run([path, "-B"] + command, env=dict(os.environ, GPUWHY_TEST_PYTHON=path), check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
