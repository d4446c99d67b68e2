"""Compare gw_python_line() with the interpreter that runs this: every instruction of every function in a part of the
standard library and in unusual code of our own.

    python_lines_test.py LIBRARY"""
import ctypes
import dis
import os
import sys
import types

LIBRARY = ctypes.CDLL(sys.argv[1])
LINE = LIBRARY.gw_python_line
LINE.restype = ctypes.c_int32
LINE.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.c_int32]
class Columns(ctypes.Structure):
    _fields_ = [("begin", ctypes.c_uint32), ("end", ctypes.c_uint32)]


COLUMNS = LIBRARY.gw_python_columns_find
COLUMNS.restype = ctypes.c_bool
COLUMNS.argtypes = [ctypes.c_uint, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32, ctypes.POINTER(Columns)]
VERSION = sys.version_info[0] << 8 | sys.version_info[1]
INSTRUCTION_BYTES = 2

MODULES = ("argparse", "dis", "enum", "inspect", "typing", "tarfile", "asyncio.base_events", "dataclasses", "pickle",
           "decimal", "_pydecimal", "difflib")

AWKWARD = '''
def far():
    a = 1
''' + "\n" * 1000 + '''
    return (a +
''' + "\n" * 300 + '''
            a)

def backwards(f):
    return f(
        1,
        *[x
          for x in (2,
                    3)],
        **{"k":
           4})

async def many(): # a long body on one line, then a loop that jumps back
    ''' + "; ".join("x%d = %d" % (i, i) for i in range(400)) + '''
    async for i in backwards:
        try:
            yield (lambda:
                   i)
        finally:
            with far() as f: pass
''' + "\n" * 70000 + '''
class Last:
    x: int = 1
'''


def codes_of(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes_of(constant)


def lines_of(code):
    """The line of each instruction as the interpreter reports it; None if it has none."""
    count = len(code.co_code) // INSTRUCTION_BYTES
    if sys.version_info >= (3, 11):
        return [position[0] for position in code.co_positions()]
    lines = [None] * count
    if sys.version_info >= (3, 10):
        for start, end, line in code.co_lines():
            for i in range(start // INSTRUCTION_BYTES, end // INSTRUCTION_BYTES):
                lines[i] = line
        return lines
    starts = dict(dis.findlinestarts(code))
    line = code.co_firstlineno
    for i in range(count):
        line = lines[i] = starts.get(i * INSTRUCTION_BYTES, line)
    return lines


def check_columns(code):
    """Compare the columns of each instruction with the interpreter's. Returns how many have columns."""
    table, found = code.co_linetable, 0
    for i, (line, end_line, begin, end) in enumerate(code.co_positions()):
        known = line is not None and line == end_line and begin is not None and end is not None and begin < end
        got = Columns()
        has = COLUMNS(VERSION, table, len(table), i * INSTRUCTION_BYTES, ctypes.byref(got))
        if has != known or has and (got.begin, got.end) != (begin, end):
            sys.exit("%s in %s: instruction %d: columns %s, the interpreter says %s"
                     % (code.co_name, code.co_filename, i, (got.begin, got.end) if has else None,
                        (line, end_line, begin, end)))
        found += has
    return found


def check(code):
    table = code.co_lnotab if sys.version_info < (3, 10) else code.co_linetable
    lines = lines_of(code)
    for i, line in enumerate(lines):
        for byte in (0, 1):
            got = LINE(VERSION, table, len(table), code.co_firstlineno, i * INSTRUCTION_BYTES + byte)
            if got != (-1 if line is None else line):
                sys.exit("%s in %s: instruction %d: line %d, the interpreter says %s"
                         % (code.co_name, code.co_filename, i * INSTRUCTION_BYTES + byte, got, line))
    if sys.version_info >= (3, 10):
        beyond = LINE(VERSION, table, len(table), code.co_firstlineno, len(lines) * INSTRUCTION_BYTES)
        if beyond != -1:
            sys.exit("%s in %s: line %d beyond its end" % (code.co_name, code.co_filename, beyond))
    return len(lines)


def main():
    import importlib.util
    instructions = codes = columns = 0
    sources = [("awkward", AWKWARD)]
    for name in MODULES:
        spec = importlib.util.find_spec(name)
        if spec is None or not os.path.exists(spec.origin or ""):
            continue
        with open(spec.origin, encoding="utf-8") as file:
            sources.append((spec.origin, file.read()))
    for name, source in sources:
        for code in codes_of(compile(source, name, "exec")):
            instructions += check(code)
            columns += check_columns(code) if sys.version_info >= (3, 11) else 0
            codes += 1
    if codes < 1000:
        sys.exit("only %d code objects were looked at" % codes)
    if sys.version_info >= (3, 11) and columns < instructions // 2:
        sys.exit("only %d of %d instructions have columns" % (columns, instructions))
    print("CPython %s: %d instructions of %d code objects, %d with columns"
          % (sys.version.split()[0], instructions, codes, columns))


main()
