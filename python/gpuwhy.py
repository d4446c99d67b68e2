"""Mark the phases of a program for gpuwhy.

    import gpuwhy

    gpuwhy.phase("train")
    with gpuwhy.phase("validation"):
        ...

Without gpuwhy it does nothing. Like gpuwhy.h for C: each call starts a phase of the process, which lasts until the next
call, and None ends the phase. A `with` block returns to the previous phase at its end. Phases before the program's first
driver call are recorded together with the first phase after it. One file, no dependency: copy it, or add its folder to
PYTHONPATH.

`%load_ext gpuwhy` in a notebook whose kernel runs under gpuwhy shows the verdict below each cell that the GPU made fail.
`python -m gpuwhy ...` is `gpuwhy ...`.
"""

import ctypes
import importlib.util
import os
import shutil
import sys
import time

__all__ = ["phase"]

PENDING_MAX = 64

_hook = None
_name = None
_pending = []  # (name, when) of phases before the hook was loaded


def _find():
    global _hook
    if _hook is None and os.environ.get("GPUWHY_RUN_DIR"):
        try:
            hook = ctypes.CDLL("libgpuwhy-hook.so", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
            hook.gpuwhy_phase_mark.argtypes = [ctypes.c_char_p]
            hook.gpuwhy_phase_mark_since.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
            _hook = hook
        except (OSError, AttributeError):  # not loaded yet, or an older version
            pass
    return _hook


def _mark(name):
    text = None if name is None else str(name).encode("utf-8", "replace")
    hook = _find()
    if hook is None:
        if os.environ.get("GPUWHY_RUN_DIR") and len(_pending) < PENDING_MAX:
            _pending.append((text, time.monotonic_ns()))
        return False
    while _pending:
        earlier, when = _pending.pop(0)
        hook.gpuwhy_phase_mark_since(earlier, time.monotonic_ns() - when)
    return hook.gpuwhy_phase_mark(text) == 1


class phase:
    """Begin a phase. `recorded` is true if gpuwhy has already recorded it."""

    def __init__(self, name):
        global _name
        self.before, _name = _name, name
        self.recorded = _mark(name)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        phase(self.before)


def _prefix():
    """Return the folder with the bin/gpuwhy that this file belongs to, or None."""
    here = os.path.dirname(os.path.abspath(__file__))
    for prefix in (os.path.join(here, "_install"), os.path.dirname(os.path.dirname(os.path.dirname(here)))):
        if os.access(os.path.join(prefix, "bin", "gpuwhy"), os.X_OK):
            return prefix
    return None


def _why_missing():
    """Why there is no program, for a message."""
    archive = getattr(globals().get("__loader__"), "archive", None)
    if archive is None:
        return f"there is no gpuwhy program beside {__file__}"
    return (f"this package is inside the archive {archive}, from which no program can be started. Phases work; for "
            "everything else, unpack the archive, or install gpuwhy with pip and add its folder bin to PATH")


def load_ipython_extension(shell):
    """Show verdicts below cells, and define %gpuwhy: %load_ext gpuwhy."""
    module = sys.modules.get("gpuwhy_ipython")  # the kernel of `gpuwhy jupyter install` has loaded it already
    if module is None:
        prefix = _prefix()
        if prefix is None:
            print(f"gpuwhy: no verdicts for cells: {_why_missing()}", file=sys.stderr)
            return
        path = os.path.join(prefix, "lib", "gpuwhy", "python", "gpuwhy_ipython.py")
        spec = importlib.util.spec_from_file_location("gpuwhy_ipython", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules["gpuwhy_ipython"] = module
        module.load(shell, os.path.join(prefix, "bin", "gpuwhy"), in_cell=True)
    print(module.state(), file=sys.stdout if os.environ.get("GPUWHY_RUN_DIR") else sys.stderr)


def _main():
    prefix = _prefix()
    program = shutil.which("gpuwhy") if prefix is None else os.path.join(prefix, "bin", "gpuwhy")
    if program is None:
        sys.exit(f"gpuwhy: there is no gpuwhy program in PATH, and {_why_missing()}")
    try:
        os.execv(program, [program, *sys.argv[1:]])
    except OSError as reason:
        sys.exit(f"gpuwhy: {program}: {reason.strerror}")


if __name__ == "__main__":
    _main()
