#!/usr/bin/env python3
"""Compare trainer/src/cuda_api.h with NVIDIA's own headers: the enumerators' numbers, the number, width and
kind of each function's arguments, and the layout of cudnnConvolution*AlgoPerf_t. Run by hand, if the headers are
installed:

    abi_check.py FOLDER...       folders with cudnn.h, cublas_v2.h, nvrtc.h, nccl.h, cuda.h; missing ones are skipped

Exit status: 0 everything agrees, 1 something differs, 2 nothing could be compared."""
import os
import re
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
API = os.path.join(HERE, "..", "src", "cuda_api.h")
# by header: list of calls, prefix of its enumerators here, and their names there
HEADERS = {
    "cudnn.h": ("CUDNN_CALLS", r"CUDNN_", {}),
    "cublas_v2.h": ("CUBLAS_CALLS", r"(CUBLAS|CUDA_R)_", {}),
    "nvrtc.h": ("NVRTC_CALLS", None, {}),
    "nccl.h": ("NCCL_CALLS", r"NCCL_", {"NCCL_FLOAT": "ncclFloat", "NCCL_SUM": "ncclSum"}),
    "cuda.h": ("DRIVER_CALLS", r"CU_", {
        "CU_ATTRIBUTE_MULTIPROCESSORS": "CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT",
        "CU_ATTRIBUTE_MAJOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR",
        "CU_ATTRIBUTE_MINOR": "CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR"}),
}
PERF = """
#include <stddef.h>
struct ours { int algorithm, status; float time_ms; size_t workspace_bytes; int determinism, math_type; int reserved[3]; };
#define SAME(theirs, a, b) _Static_assert(offsetof(theirs, a) == offsetof(struct ours, b), #theirs "." #a);
#define ALL(theirs) SAME(theirs, algo, algorithm) SAME(theirs, status, status) SAME(theirs, time, time_ms) \\
    SAME(theirs, memory, workspace_bytes) SAME(theirs, determinism, determinism) SAME(theirs, mathType, math_type) \\
    _Static_assert(sizeof(theirs) == sizeof(struct ours), #theirs);
ALL(cudnnConvolutionFwdAlgoPerf_t) ALL(cudnnConvolutionBwdDataAlgoPerf_t) ALL(cudnnConvolutionBwdFilterAlgoPerf_t)
"""


def calls(text, name):
    """Return (function, parameters) for each entry of an X-macro."""
    body = re.search(r"#define %s\(X\)((?:.*\\\n)*.*)" % name, text).group(1).replace("\\\n", " ")
    return [(m.group(1), re.sub(r"\s+", " ", m.group(2)))
            for m in re.finditer(r"X\(\s*(\w+),\s*\(([^()]*)\)\)", body)]


def call_test(function, parameters):
    arguments = []
    for parameter in parameters.split(","):
        name = re.search(r"(\w+)\s*$", parameter).group(1)
        arguments.append("(void *)" + name if "*" in parameter else name)
    return "void test_%s(%s)\n{\n    (void)%s(%s);\n}\n" % (function, parameters, function, ", ".join(arguments))


def program(text, header, folders):
    list_name, begin, names = HEADERS[header]
    lines = ["#include <stdint.h>", "#include <%s>" % header, "struct cudnn_algorithm;",
             "typedef struct CUstream_st *CUstream;"]
    count = 0
    if begin:
        for name, value in re.findall(r"\b(%s\w+) = (-?\d+)" % begin.replace("(", "(?:"), text, re.M):
            if header == "cuda.h" and name not in names:
                continue
            count += 1
            lines.append('_Static_assert((int)%s == %s, "%s");' % (names.get(name, name), value, name))
    if header == "cudnn.h":
        lines.append(PERF)
    functions = calls(text, list_name)
    lines += [call_test(*call) for call in functions]
    return "\n".join(lines) + "\n", count, len(functions)


def main(folders):
    text = open(API).read()
    compared = failed = 0
    for header in HEADERS:
        if not any(os.path.exists(os.path.join(folder, header)) for folder in folders):
            print("%s: skipped, not there" % header)
            continue
        source, numbers, functions = program(text, header, folders)
        with tempfile.NamedTemporaryFile("w", suffix=".c") as file:
            file.write(source)
            file.flush()
            result = subprocess.run(["cc", "-std=gnu17", "-fsyntax-only", "-Werror", "-Wall", "-Wconversion",
                                     "-Wno-deprecated-declarations", "-Wno-enum-conversion",
                                     "-Wno-sign-conversion"] +
                                    ["-I" + folder for folder in folders] + [file.name], capture_output=True, text=True)
        compared += 1
        failed += result.returncode != 0
        print("%s: %d numbers, %d functions: %s" % (header, numbers, functions, "differs" if result.returncode else "agree"))
        sys.stdout.write(result.stderr[:4000])
    return 2 if compared == 0 else failed != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
