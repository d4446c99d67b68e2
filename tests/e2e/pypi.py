"""Pythons with packages from PyPI: installed once, with pip, into a folder of the source tree that git ignores."""
import fcntl
import os
import pathlib
import subprocess
import sys

from harness import skip

SOURCE = pathlib.Path(__file__).resolve().parents[2]


def has(python, modules):
    """True if the modules can be imported. Python then keeps their bytecode."""
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"}
    return subprocess.run([python, "-c", "import " + ", ".join(modules)], capture_output=True, env=environment).returncode == 0


def install(python, folder, packages):
    """Return None, or the reason why it failed. To save time, pip is installed once for all folders, and compiles nothing:
    most modules of a package are never imported."""
    pip = SOURCE / "build-pip" / "venv"
    pip.parent.mkdir(exist_ok=True)
    with open(pip.parent / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (pip / "done").exists():
            reason = run([sys.executable, "-m", "venv", "--clear", str(pip)])
            if reason is not None:
                return reason
            (pip / "done").touch()
    return run([sys.executable, "-m", "venv", "--clear", "--without-pip", str(folder / "venv")],
               [str(pip / "bin" / "python"), "-m", "pip", "--python", str(python), "install", "-q", "--no-compile",
                "--disable-pip-version-check", *packages])


def run(*commands):
    """Run commands. Return None, or the reason why one failed."""
    for command in commands:
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=240)
        except subprocess.TimeoutExpired:
            return f"{' '.join(command)}: not over after 240 s"
        if done.returncode != 0:
            lines = done.stdout.decode(errors="replace").strip().splitlines() or ["no reason given"]
            return f"{' '.join(command)}: {lines[-1]}"
    return None


def python_with(packages, name, modules=None):
    """Return a Python that has `packages`, imported as `modules`: the one named by GPUWHY_<NAME>_PYTHON, this
    interpreter, or one in build-<name>/. If there is none, the test ends as skipped, with the reason."""
    modules = modules or packages
    named = os.environ.get(f"GPUWHY_{name.upper()}_PYTHON")
    if named:
        return named
    if has(sys.executable, modules):
        return sys.executable
    folder = SOURCE / f"build-{name}"
    folder.mkdir(exist_ok=True)
    python = folder / "venv" / "bin" / "python"
    with open(folder / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if python.exists() and has(python, modules):
            return str(python)
        reason = install(python, folder, packages)
    if reason is not None:
        skip(reason)
    return str(python)
