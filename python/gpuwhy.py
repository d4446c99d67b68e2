"""Tell gpuwhy what the program is doing.

    import gpuwhy

    gpuwhy.phase("train")
    with gpuwhy.phase("validation"):
        ...

Without gpuwhy, or before the program has called the driver, it does nothing. The same as gpuwhy.h does for C: from each
call on the process is in that phase; None: in none. As a context it goes back to the phase before. One file, no
dependency: copy it, or put its folder into PYTHONPATH.
"""

import ctypes
import os

__all__ = ["phase"]

_mark = None
_name = None


def _find():
    global _mark
    if _mark is None and os.environ.get("GPUWHY_RUN_DIR"):
        try:
            hook = ctypes.CDLL("libgpuwhy-hook.so", mode=os.RTLD_LAZY | os.RTLD_NOLOAD)
            _mark = hook.gpuwhy_phase_mark
            _mark.argtypes, _mark.restype = [ctypes.c_char_p], ctypes.c_int
        except (OSError, AttributeError):  # not loaded yet, or an older one
            _mark = None
    return _mark


class phase:
    """Begin a phase. `recorded`: whether gpuwhy took note."""

    def __init__(self, name):
        global _name
        self.before, _name = _name, name
        mark = _find()
        self.recorded = bool(mark and mark(None if name is None else str(name).encode("utf-8", "replace")))

    def __enter__(self):
        return self

    def __exit__(self, *_):
        phase(self.before)
