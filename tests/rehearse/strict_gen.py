"""Write the strict driver's entry points: strict_gen.py gw_api_proto.h strict_calls.c

Each one looks at its parameters (strict_driver.c), and calls the virtual card's function of the same name.
"""
import re
import sys

# Structures that may contain device addresses. They are read only if they are input: const, or named here with a count.
STRUCTURES = ("CUDA_MEMCPY2D", "CUDA_MEMCPY3D", "CUDA_MEMCPY3D_PEER", "CUDA_MEMSET_NODE_PARAMS")
LISTS = {"CUDA_MEMCPY3D_BATCH_OP *opList": "numOps", "CUdeviceptr *dsts": "count", "CUdeviceptr *srcs": "count",
         "CUdeviceptr *dptrs": "count",
         "CUgraphNodeParams *nodeParams": "1", "CUDA_MEM_ALLOC_NODE_PARAMS *nodeParams": "1",
         "CUDA_BATCH_MEM_OP_NODE_PARAMS *nodeParams": "1"}
BY_HAND = ("cuGetProcAddress", "cuGetProcAddress_v2", "cuMemAddressReserve", "cuMemAddressFree")


def looks(symbol, parameter):
    """Return the statements that look at one parameter."""
    name = re.search(r"(\w+)(\[\d*\])?$", parameter).group(1)
    kind = parameter[:parameter.rindex(name)].strip()
    yield f'    LOOK("{symbol}", {name});'
    structure = re.fullmatch(r"const (\w+) \*", kind)
    if structure and structure.group(1) in STRUCTURES:
        yield f'    strict_look_in("{symbol}", {name}, 1, sizeof *{name});'
    elif parameter in LISTS and "GetParams" not in symbol:
        yield f'    strict_look_in("{symbol}", {name}, {LISTS[parameter]}, sizeof *{name});'


def main():
    lines = ['#include "strict_driver.h"\n']
    for symbol, text in re.findall(r"^typedef int gw_fn_t_(\w+)\((.*)\);$", open(sys.argv[1]).read(), re.M):
        if symbol in BY_HAND:
            continue
        parameters = [] if text == "void" else text.split(", ")
        names = [re.search(r"(\w+)(\[\d*\])?$", p).group(1) for p in parameters]
        lines += [f"int {symbol}({text});", f"int {symbol}({text})", "{"]
        lines += [line for p in parameters for line in looks(symbol, p)]
        lines += [f'    gw_fn_t_{symbol} *next = (gw_fn_t_{symbol} *)strict_next("{symbol}");',
                  f"    return next == NULL ? 801 : next({', '.join(names)});", "}\n"]
    open(sys.argv[2], "w").write("\n".join(lines))


main()
