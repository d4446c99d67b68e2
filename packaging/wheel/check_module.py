"""Use the installed Python package: check_module.py, under `gpuwhy run --gpu virtual:h200`, or check_module.py --alone."""
import ctypes
import os
import sys
import types

import gpuwhy

registered = []
shell = types.SimpleNamespace(execution_count=3, user_ns={"In": ["", "a", "b", "c"]}, events=types.SimpleNamespace(
    register=lambda event, function: registered.append(event)),
    register_magic_function=lambda function, **more: None)
gpuwhy.load_ipython_extension(shell)
if "--alone" in sys.argv:
    assert not registered and not gpuwhy.phase("alone").recorded
    sys.exit(0)
assert registered == ["pre_run_cell", "post_run_cell"], registered
assert sys.modules["gpuwhy_ipython"].__file__.startswith(os.path.dirname(gpuwhy.__file__))
driver = ctypes.CDLL("libcuda.so.1")
assert driver.cuInit(0) == 0
# The wheel has no such file, but the folder that `gpuwhy run` makes for the program has.
assert ctypes.cast(ctypes.CDLL("libcuda.so").cuInit, ctypes.c_void_p).value == ctypes.cast(driver.cuInit, ctypes.c_void_p).value
with gpuwhy.phase("epoch 1") as phase:
    assert phase.recorded
print("phase recorded, verdicts loaded")
