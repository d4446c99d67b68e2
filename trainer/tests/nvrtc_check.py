"""Compile the kernels of the cuda back end with NVRTC, which needs no GPU: nvrtc_check.py FILE.cu...

bf16 is compiled for Ampere, fp32 and fp16 for Hopper. No kernel may spill registers to memory. NVRTC is loaded from
TRAINER_NVRTC, from the system, or from PyPI's package nvidia-cuda-nvrtc-cu12. Exit status: 0 good, 1 not, 77 no NVRTC.
"""

import ctypes
import glob
import os
import re
import site
import sys

NAMES = ("libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2")
PRECISIONS = ("fp32", "bf16", "fp16")


def load():
    folders = site.getsitepackages() + [site.getusersitepackages()]
    found = [path for folder in folders for path in sorted(glob.glob(folder + "/nvidia/*/lib/libnvrtc.so.1[0-9]*"))]
    for name in [os.environ.get("TRAINER_NVRTC", "")] + found + list(NAMES):
        try:
            if name:
                return ctypes.CDLL(name)
        except OSError:
            continue
    print("skipped: no NVRTC")
    sys.exit(77)


def text(library, program, name):
    """Return the log or the image of a program."""
    count = ctypes.c_size_t()
    if getattr(library, f"nvrtcGet{name}Size")(program, ctypes.byref(count)) != 0:
        return b""
    data = ctypes.create_string_buffer(count.value + 1)
    getattr(library, f"nvrtcGet{name}")(program, data)
    return data.raw[:count.value]


def compile_for(library, source, architecture, element):
    program = ctypes.c_void_p()
    library.nvrtcCreateProgram(ctypes.byref(program), source, b"cuda_kernels.cu", 0, None, None)
    options = (ctypes.c_char_p * 3)(b"--gpu-architecture=sm_%d" % architecture, b"-DELEMENT=%d" % element,
                                    b"--ptxas-options=-v")
    code = library.nvrtcCompileProgram(program, 3, options)
    log, image = text(library, program, "ProgramLog").decode(errors="replace"), text(library, program, "CUBIN")
    library.nvrtcDestroyProgram(ctypes.byref(program))
    return code, log, len(image)


def main(paths):
    library, good = load(), True
    source = b"".join(open(path, "rb").read() for path in paths)
    for architecture, element in ((80, 1), (90, 0), (90, 2)):
        code, log, size = compile_for(library, source, architecture, element)
        registers = [int(number) for number in re.findall(r"Used (\d+) registers", log)]
        spills = [int(number) for number in re.findall(r"(\d+) bytes spill", log)]
        print(f"sm_{architecture}, {PRECISIONS[element]}: {len(registers)} kernels, at most {max(registers, default=0)} "
              f"registers, {sum(spills)} bytes spilled, {size} bytes")
        if code != 0 or size == 0 or not registers or any(spills):
            print(log)
            good = False
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
