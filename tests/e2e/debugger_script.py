"""Read by gdb (`-x`) and run in gdb's Python: write the stack of each call of the virtual driver's cuMemAlloc_v2,
innermost frame first, as a line of JSON to GW_STACKS. Each frame has name, pc, file, line, whether it was inlined,
and module."""
import json
import os

import gdb

STOPS_MAX = 20


def frame_facts(frame):
    sal = frame.find_sal()
    return {"name": frame.name(), "pc": frame.pc(), "file": sal.symtab.filename if sal.symtab else None, "line": sal.line,
            "inlined": frame.type() == gdb.INLINE_FRAME,
            "module": gdb.solib_name(frame.pc()) or gdb.current_progspace().filename}


class Call(gdb.Breakpoint):
    stops = 0

    def stop(self):
        frame = gdb.newest_frame()
        if os.path.realpath(gdb.solib_name(frame.pc()) or "") != os.environ["GW_DRIVER"]:
            return False  # hook and facade have functions of the same name
        stack = []
        while frame is not None:
            if frame.type() != gdb.TAILCALL_FRAME:  # gdb makes up this frame: it is not on the stack any more
                stack.append(frame_facts(frame))
            frame = frame.older()
        with open(os.environ["GW_STACKS"], "a") as out:
            out.write(json.dumps({"pid": gdb.selected_inferior().pid, "stack": stack}) + "\n")
        Call.stops += 1
        if Call.stops == STOPS_MAX:
            self.enabled = False
        return False


for setting in ("startup-with-shell off", "breakpoint pending on", "debuginfod enabled off", "pagination off",
                "backtrace past-main on", "backtrace past-entry on"):
    try:
        gdb.execute("set " + setting, to_string=True)
    except gdb.error:
        pass  # older versions of gdb do not have all of them
Call("cuMemAlloc_v2")
gdb.execute("run")
