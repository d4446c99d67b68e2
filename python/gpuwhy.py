"""Mark the phases of a program for gpuwhy.

    import gpuwhy

    gpuwhy.phase("train")
    with gpuwhy.phase("validation"):
        ...

Without gpuwhy it does nothing. Like gpuwhy.h for C: each call starts a phase of the process, which lasts until the next
call, and None ends the phase. A `with` block returns to the previous phase at its end. Phases before the program's first
driver call are recorded together with the first phase after it. One file, no dependency: copy it, or add its folder to
PYTHONPATH.
"""

import ctypes
import os
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
