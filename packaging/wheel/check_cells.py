"""`%load_ext gpuwhy` in IPython: check_cells.py, under `gpuwhy run --gpu virtual:h200,memory=1GiB`."""
from IPython.core.interactiveshell import InteractiveShell

shown = []
shell = InteractiveShell.instance()
shell.display_pub.publish = lambda data, **_: shown.append(data["text/plain"])
shell.showtraceback = lambda *_, **__: None
for cell in ["1", "%load_ext gpuwhy", """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context = ctypes.c_void_p()
assert (cuda.cuInit(0), cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0), cuda.cuCtxSetCurrent(context)) == (0, 0, 0)
""", """
kept = [ctypes.c_uint64() for _ in range(100)]
for pointer in kept:
    if cuda.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(80 << 20)) != 0:
        raise RuntimeError("no memory")
""", "2"]:
    shell.run_cell(cell, store_history=True)
assert len(shown) == 1, shown
assert shown[0].startswith("gpuwhy   In [4]: gpu-oom-"), shown[0]
assert "In [4]:3 in <module>: the request that was refused" in shown[0], shown[0]
print("verdict of In [4]")
