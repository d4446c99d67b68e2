"""Shows verdicts below failed cells: gpuwhy's part inside an IPython kernel that runs under `gpuwhy run`.

Each cell is a phase of the recording, named as IPython shows it: "In [3]". After a cell that raised an exception or lost
the GPU, this module runs `gpuwhy explain --cell` on the run so far and shows the verdict below the cell, once. A healthy
cell costs two calls into the hook and shows nothing.

The module must not disturb the user's session. It reads the user's names, sys.last_* and exceptions and never changes
them. When a callback returns, it holds no object of the user, only numbers and texts. It hides its own errors. The
recording shows which memory was kept, by which cell and for how long. Python only adds the names that refer to it. The
only dependency is IPython.
"""
import collections
import ctypes
import gc
import html
import itertools
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import traceback
import types

EXPLAIN_SECONDS_MAX = 60
WALK_SECONDS_MAX = 1.0
ITEMS_MAX = 20000
TRACEBACK_BYTES_MAX = 64 << 10
SAME_FAILURE_S = 0.05  # the clock of a running program is calibrated as it runs, so a failure's time may still move
NAMES_SHOWN_MAX = 8
# The cell's own error message already shows these.
NOT_TOLD = ("script-exception",)


# ---- memory behind an object ---------------------------------------------------------------------------------------

def _of_torch(value):
    torch = sys.modules.get("torch")
    tensor = getattr(torch, "Tensor", None)
    if tensor is None or not issubclass(type(value), tensor):
        return None
    if not value.is_cuda:
        return ()
    storage = value.untyped_storage() if hasattr(value, "untyped_storage") else value.storage()
    note = "its autograd graph holds more memory" if value.grad_fn is not None else ""
    gradient = value.grad if value.is_leaf else None
    return ((storage.data_ptr(), storage.nbytes(), note),) + (() if gradient is None else _of_torch(gradient) or ())


def _of_jax(value):
    jax = sys.modules.get("jax")
    array = getattr(jax, "Array", None)
    if array is None or type(value).__module__.partition(".")[0] not in ("jax", "jaxlib") or \
            not isinstance(value, array):
        return None
    if value.is_deleted() or not any(d.platform in ("gpu", "cuda", "rocm") for d in value.devices()):
        return ()
    return tuple((shard.data.unsafe_buffer_pointer(), shard.data.nbytes, "") for shard in value.addressable_shards)


def _of_interface(value):
    if not any("__cuda_array_interface__" in vars(kind) for kind in type(value).__mro__):
        return None
    about = value.__cuda_array_interface__
    count = 1
    for extent in about["shape"]:
        count *= extent
    return ((int(about["data"][0]), count * int(about["typestr"][2:]), ""),)


def device_memory(value):
    """Return ((address, bytes, note), ...) for an array in device memory, () for one elsewhere, None if it is no array."""
    for kind in (_of_torch, _of_jax, _of_interface):
        try:
            found = kind(value)
        except Exception:  # deleted, meta, fake, ... arrays
            return ()
        if found is not None:
            return found
    return None


# ---- from names to memory ------------------------------------------------------------------------------------------

_PLAIN = (str, bytes, bytearray, int, float, complex, bool, type(None), type, types.ModuleType, types.FunctionType,
          types.BuiltinFunctionType, types.CodeType, range, slice)


class _Walk:
    """Collects the device memory that one name refers to. Holds objects only while it runs."""

    def __init__(self):
        self.deadline = time.monotonic() + WALK_SECONDS_MAX
        self.cut = False

    def of(self, value, levels=2):
        """Return {address: (bytes, how the name refers to it, note)}."""
        self.found, self.seen, self.items = {}, set(), 0
        self._look(value, levels, "")
        found, self.found = self.found, {}
        return found

    def _look(self, value, levels, way):
        if issubclass(type(value), _PLAIN) or id(value) in self.seen:
            return
        self.items += 1
        if self.items > ITEMS_MAX or time.monotonic() > self.deadline:
            self.cut = True
            return
        memory = device_memory(value)
        if memory is not None:
            for address, size, note in memory:
                if address and size:
                    self.found.setdefault(address, (size, way, note))
            return
        if levels <= 0:
            return
        self.seen.add(id(value))
        try:
            children = self._children(value, way)
        except Exception:  # an object that fails when it is inspected
            return
        for child, through in children:
            self._look(child, levels - 1, through)

    def _children(self, value, way):
        """Return the objects that `value` holds directly, and how: for common containers, models, exceptions and plain
        objects."""
        kind = type(value)  # value.__class__ may run the user's code
        if issubclass(kind, dict):
            return [(child, way) for child in itertools.islice(dict.values(value), ITEMS_MAX)]
        for base in (list, tuple, set, frozenset, collections.deque):
            if issubclass(kind, base):
                return [(child, way) for child in itertools.islice(base.__iter__(value), ITEMS_MAX)]
        if issubclass(kind, BaseException):
            return self._of_exception(value)
        if issubclass(kind, types.TracebackType):
            return self._of_traceback(value)
        if issubclass(kind, types.FrameType):
            return self._of_frame(value)
        if issubclass(kind, types.GeneratorType):
            return self._of_frame(value.gi_frame) if value.gi_frame is not None and not value.gi_running else []
        torch = sys.modules.get("torch")
        if torch is not None and hasattr(torch, "nn") and issubclass(kind, torch.nn.Module):
            return [(child, way) for child in list(value.parameters()) + list(value.buffers())]
        if hasattr(value, "param_groups") and hasattr(value, "state"):  # an optimizer of PyTorch
            return [(list(state.values()) if isinstance(state, dict) else state, way)
                    for state in list(value.state.values())[:ITEMS_MAX]]
        attributes = getattr(value, "__dict__", None)
        return [(child, way) for child in list(attributes.values())] if type(attributes) is dict else []

    def _of_exception(self, error):
        children = self._of_traceback(error.__traceback__)
        for other in (error.__cause__, error.__context__):
            if other is not None:
                children.append((other, "its chain of exceptions"))
        return children + [(child, "its arguments") for child in error.args]

    def _of_traceback(self, trace):
        children = []
        while trace is not None and len(children) < ITEMS_MAX:
            children += self._of_frame(trace.tb_frame)
            trace = trace.tb_next
        return children

    def _of_frame(self, frame):
        """Return a function's local variables. Their names are in f_locals, but before Python 3.13 reading it leaves a
        copy in the frame that keeps the variables alive. There, only the values are read."""
        code = frame.f_code
        if not code.co_flags & 0x1:  # a cell or a module: its variables are the user's names
            return []
        way = f"a local variable of {code.co_name}()"
        if sys.version_info >= (3, 13):
            return [(child, f"the local variable {name} of {code.co_name}()")
                    for name, child in frame.f_locals.items()]
        others = {id(frame.f_globals), id(frame.f_builtins), id(frame.f_back), id(code)}
        return [(child, way) for child in gc.get_referents(frame)
                if id(child) not in others and not isinstance(child, types.FrameType)]


def _is_ours(name):
    """True for names that IPython defines. Its results are shown as Out[n]."""
    return name in ("In", "Out", "_ih", "_oh", "_dh", "exit", "quit", "get_ipython", "open") or \
        (name[:1] == "_" and name[1:].isdigit()) or (name[:2] == "_i" and name.strip("_i0123456789") == "")


def names_of(shell, error):
    """Return [(label, {address: (bytes, way, note)})] for the names that refer to device memory, and whether some were
    left out. An object with several names is listed once. `error` is the exception that ended the cell."""
    labels, walk, rows = {}, _Walk(), []
    roots = {}
    out = shell.user_ns.get("Out")
    for name, value in list(shell.user_ns.items()):
        if isinstance(name, str) and not _is_ours(name) and not issubclass(type(value), _PLAIN):
            labels.setdefault(id(value), []).append(name)
            roots[id(value)] = value
    for number, value in list(out.items()) if isinstance(out, dict) else []:
        if not issubclass(type(value), _PLAIN):
            labels.setdefault(id(value), []).insert(0, f"Out[{number}]")
            roots[id(value)] = value
    for key, value in roots.items():
        found = walk.of(value)
        if found:
            rows.append((", ".join(labels[key]), found))
    if error is not None and id(error) not in labels:
        found = walk.of(error)
        if found:
            rows.append(("the last traceback", found))
    return rows, walk.cut


# ---- the verdict as text -------------------------------------------------------------------------------------------

def bytes_text(count):
    for power, unit in ((40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")):
        if count >= 1 << power:
            return f"{count / (1 << power):.2f} {unit}"
    return f"{count} B"


# What controls a terminal, or the direction of its text, as in gw_add_printable().
_CONTROLS = re.compile("[\0-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f]")


def _paragraph(label, body, hang=2, width=90):
    body = _CONTROLS.sub("?", body.replace("\n", " ").replace("\t", " "))
    lines = textwrap.wrap(body, width - 9, subsequent_indent=" " * hang, break_long_words=False,
                          break_on_hyphens=False) or [""]
    return [f"{label if i == 0 else '':<9}{line}" for i, line in enumerate(lines)]


def _where(where):
    """Return the line in the user's code, and the user's lines that called it."""
    if not where:
        return []
    callers = [f"{os.path.basename(frame['file'])}:{frame['line']} in {frame['function']}"
               for frame in where["frames"][where["user"] + 1:]
               if frame["whose"] in ("own", "user") and frame["file"] and frame["line"]]
    lines = _paragraph("Where", f"{where['text']}: {where['what']}")
    return lines + (_paragraph("", "called at " + ", ".join(callers[:4])) if callers else [])


def _blocks_by_address(verdict):
    return {block["address"]: (block["bytes"], kept["phase"], block["t_s"])
            for kept in verdict.get("kept") or [] for block in kept["blocks"]}


def _origin(blocks, address, size):
    """Return (phase, t_s) of the block at this address, or None if the object is not a whole block."""
    block = blocks.get(address)
    if block is None or block[2] is None or not size <= block[0] <= size * 5 // 4 + (2 << 20):
        return None
    return block[1], block[2]


def _name_line(label, found, blocks, failed_at_s):
    """Return (bytes, text) for one name."""
    total, phases, oldest, ways, notes = 0, [], None, [], []
    for address, (size, way, note) in found.items():
        total += size
        for text, texts in ((way, ways), (note, notes)):
            if text and text not in texts:
                texts.append(text)
        origin = _origin(blocks, address, size)
        if origin is not None:
            oldest = origin[1] if oldest is None else min(oldest, origin[1])
            if origin[0] and origin[0] not in phases:
                phases.append(origin[0])
    text = f"{label}: {bytes_text(total)}"
    if len(found) > 1:
        text += f" in {len(found)} blocks"
    if phases:
        text += f", allocated in {', '.join(phases[:4])}{', ...' if len(phases) > 4 else ''}"
    if oldest is not None:
        text += f", {failed_at_s - oldest:.1f} s old"
    if ways:
        text += f" ({', '.join(ways[:3])}{', ...' if len(ways) > 3 else ''})"
    return total, text + "".join(f"; {note}" for note in notes)


def render(cell, verdict, names, gone, cut):
    """Return the verdict as text. `names` is the result of names_of(). `gone` is {address: (text, t_s)}: memory that
    tracebacks of earlier cells held, and when."""
    lines = _paragraph("gpuwhy", f"{cell}: {verdict['cause']} ({verdict['certainty']}): {verdict['headline']}.", 0)
    label = "Why"
    for evidence in verdict["evidence"]:
        at = "" if evidence["t_s"] is None else f"{evidence['t_s']:.2f} s  "
        lines += _paragraph(label, at + evidence["text"])
        label = ""
    if verdict["ruled_out"]:
        lines += _paragraph(label, "ruled out: " + ", ".join(verdict["ruled_out"]))
    lines += _where(verdict.get("where"))
    blocks, failed_at_s = _blocks_by_address(verdict), verdict["failure"]["t_s"]
    rows = [_name_line(name, found, blocks, failed_at_s) for name, found in names]
    named = {address for _, found in names for address in found}
    let_go = {}
    for address, (text, seen_at_s) in gone.items():
        size, _, made_at_s = blocks.get(address, (0, None, None))
        if made_at_s is not None and made_at_s <= seen_at_s and address not in named:
            let_go[text] = let_go.get(text, 0) + size
    rows += [(size, f"{text}, until this cell failed: {bytes_text(size)}") for text, size in let_go.items()]
    rows.sort(reverse=True)
    label = "Held by"
    for _, text in rows[:NAMES_SHOWN_MAX]:
        lines += _paragraph(label, text)
        label = ""
    if len(rows) > NAMES_SHOWN_MAX or cut:
        lines += _paragraph(label, f"and {max(len(rows) - NAMES_SHOWN_MAX, 0)} more names"
                            + (" (the search was incomplete)" if cut else ""))
    label = "Next"
    for number, text in enumerate(verdict["next"], 1):
        lines += _paragraph(label, f"{number}. {text}", 3)
        label = ""
    if verdict.get("recording"):
        lines += _paragraph("Details", f"gpuwhy explain {shlex.quote(verdict['recording'])}")
    return "\n".join(lines)


def _as_html(text):
    """The headline is bold in all of its lines. The inline style is for nbconvert and JupyterLab; <code> has a fixed font
    where the style is removed."""
    first, *rest = re.split(r"(?<=\n)(?=\S)", html.escape(text), maxsplit=1)
    return ('<pre style="font-family: monospace; white-space: pre; overflow-x: auto; border-left: 3px solid #c60; '
            'padding-left: 1ex"><code style="font-family: monospace; white-space: pre">'
            f'<b>{first}</b>{"".join(rest)}</code></pre>')


# ---- %gpuwhy -------------------------------------------------------------------------------------------------------

def _under_gpuwhy():
    """True if `gpuwhy run` started this process, or one of those that started it."""
    pid = os.getpid()
    try:
        while pid > 1:
            with open(f"/proc/{pid}/stat", errors="replace") as file:
                name, _, rest = file.read().partition("(")[2].rpartition(")")
            if name == "gpuwhy":
                return True
            pid = int(rest.split()[1])
    except (OSError, ValueError, IndexError):  # it ended, or is hidden
        pass
    return False


def state():
    """Say in one line whether this kernel is recorded, and otherwise why not, and what works here."""
    folder = os.environ.get("GPUWHY_RUN_DIR")
    if folder:
        return ("gpuwhy: this kernel is recorded. Below a cell that the GPU makes fail there will be a verdict; "
                f"`%gpuwhy explain {shlex.quote(folder)}` explains the run so far.")
    if _under_gpuwhy():
        return ("gpuwhy: this kernel runs under gpuwhy, but calls to the GPU are not recorded, so cells get no verdicts. "
                "The usual reason is that this machine has no GPU driver: see `%gpuwhy doctor`.")
    return ("gpuwhy: this kernel does not run under gpuwhy, so cells get no verdicts. `gpuwhy jupyter install` adds a "
            "kernel that does. In this one, `%gpuwhy run -- python train.py` explains a program, and `%%gpuwhy` explains "
            "a pasted error.")


def _clean_environment():
    return {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("GPUWHY_")}


def make_magic(program):
    """%gpuwhy: the state of this kernel. %gpuwhy WORDS: the command. %%gpuwhy OPTIONS: explain the text of the cell."""
    def gpuwhy(line, cell=None):
        try:
            words = shlex.split(line)
        except ValueError as reason:
            print(f"gpuwhy: %gpuwhy {line}: {reason}", file=sys.stderr)
            return
        if cell is not None:
            words = ["explain", *words, "-"]
        elif not words:
            print(state())
            return
        with tempfile.TemporaryFile() as given:
            given.write((cell or "").encode(errors="replace"))
            given.seek(0)
            try:
                with subprocess.Popen([program, *words], stdin=given, stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, env=_clean_environment(), text=True,
                                      errors="replace") as child:
                    try:
                        for text in child.stdout:
                            print(text, end="")
                    except KeyboardInterrupt:
                        child.send_signal(signal.SIGINT)
                        raise
            except (OSError, ValueError) as reason:
                print(f"gpuwhy: {program}: {reason}", file=sys.stderr)
    return gpuwhy


# ---- cells ---------------------------------------------------------------------------------------------------------

def _looks_like_memory(error):
    try:
        words = f"{type(error).__name__} {error}".lower()
    except Exception:
        return False
    return any(word in words for word in ("outofmemory", "out of memory", "resource_exhausted", "resourceexhausted"))


def _traceback_text(error):
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    return "\n" + text[-TRACEBACK_BYTES_MAX:]


def name_cells(shell, text):
    """Replace the files that Python uses for cells by the names of the cells."""
    files = getattr(getattr(shell, "compile", None), "_filename_map", None)
    for file, count in list(files.items()) if isinstance(files, dict) else []:
        name = re.escape(file.rpartition("/")[2])
        text = re.sub(rf"(?<![\w./-])(?:[\w./-]*/)?{name}(?!\w)", f"In [{count}]", text)
    return text


class NoVerdict(Exception):
    """Why `gpuwhy explain` gave no verdict."""


class Cells:
    def __init__(self, shell, program, run_folder, hook_path):
        self.shell, self.program, self.run_folder, self.hook_path = shell, program, run_folder, hook_path
        self.hook = None
        self.cell = None  # the running cell, "In [3]"
        self.seen = 0  # the shell's count when the cell began
        self.ahead = None  # difference between that count and the cell's number: 0 up to IPython 8, then 1
        self.began_ns = self.failures = 0
        self.marked = False
        self.told = set()  # times of the failures that were shown
        self.gone = {}  # {address: (text, t_s)}: memory that the traceback of an earlier cell held, and when

    def find_hook(self):
        """Find the hook, which is loaded with the process's first driver call. Never load it."""
        if self.hook is None:
            try:
                hook = ctypes.CDLL(self.hook_path, mode=os.RTLD_NOLOAD | os.RTLD_LAZY)
            except OSError:
                return None
            hook.gpuwhy_phase_mark_since.argtypes = [ctypes.c_char_p, ctypes.c_uint64]
            hook.gpuwhy_failure_count.restype = ctypes.c_int64
            self.hook = hook
        return self.hook

    def begin(self, info):
        self.cell = None
        if not getattr(info, "store_history", True):
            return  # a request of the front end, not a cell
        self.seen = self.shell.execution_count
        if self.ahead is None:
            self.ahead = self.seen - 1  # the first cell is In [1]
        self.cell = f"In [{self.seen - self.ahead}]"
        self.began_ns = time.monotonic_ns()
        hook = self.find_hook()
        self.marked = hook is not None
        self.failures = 0
        if hook is not None:
            hook.gpuwhy_phase_mark_since(self.cell.encode(), 0)
            self.failures = hook.gpuwhy_failure_count()

    def end(self, result):
        cell, self.cell = self.cell, None
        if cell is not None and getattr(result, "execution_count", None) is not None:
            self.ahead = self.seen - result.execution_count
        hook = self.find_hook() if cell is not None else None
        if hook is None:
            return  # the driver was not called so far
        if not self.marked:
            hook.gpuwhy_phase_mark_since(cell.encode(), time.monotonic_ns() - self.began_ns)
        failures = hook.gpuwhy_failure_count()
        error = getattr(result, "error_in_exec", None)
        if isinstance(error, (KeyboardInterrupt, SystemExit)):
            error = None
        worth = failures > self.failures or (error is not None and (failures > 0 or _looks_like_memory(error)))
        if failures >= 0 and worth:
            self.judge(cell, error)

    def ask(self, cell, error):
        words = "" if error is None else _traceback_text(error)
        try:
            done = subprocess.run([self.program, "explain", "--json", "--cell", cell, self.run_folder],
                                  input=words.encode(errors="replace"), capture_output=True, env=_clean_environment(),
                                  timeout=EXPLAIN_SECONDS_MAX)
            if done.stdout:
                return json.loads(name_cells(self.shell, done.stdout.decode()))
        except (OSError, subprocess.TimeoutExpired, ValueError) as reason:
            raise NoVerdict(f"{type(reason).__name__}: {reason}") from reason
        lines = done.stderr.decode(errors="replace").strip().splitlines()
        raise NoVerdict(lines[-1] if lines else f"gpuwhy explain ended with status {done.returncode}")

    def judge(self, cell, error):
        try:
            verdict = self.ask(cell, error)
        except NoVerdict as reason:
            self.show(f"gpuwhy   {cell}: no verdict: {reason}")
            return
        failure = verdict.get("failure")
        if not failure or verdict["status"] != "fault" or verdict["cause"] in NOT_TOLD:
            return
        if error is None and not failure["context_lost"]:
            return  # the cell handled the failure
        if any(abs(failure["t_s"] - told) < SAME_FAILURE_S for told in self.told):
            if failure["context_lost"]:
                self.show(f"gpuwhy   {cell}: this process lost the GPU in {failure['phase'] or 'an earlier cell'} "
                          f"({verdict['cause']}): restart the kernel")
            return
        self.told.add(failure["t_s"])
        names, cut = names_of(self.shell, error) if verdict.get("kept") else ([], False)
        text = render(cell, verdict, names, self.gone, cut)
        self.gone = {address: (f"the traceback of {cell}" + (f" ({way})" if way else ""), failure["t_s"])
                     for label, found in names if label == "the last traceback"
                     for address, (_, way, _) in found.items()}
        self.show(text)

    def show(self, text):
        self.shell.display_pub.publish({"text/plain": text, "text/html": _as_html(text)})


def _guarded(function):
    """Hide errors of a callback. IPython would show them as the user's own error and overwrite sys.last_*."""
    def callback(about):
        try:
            function(about)
        except (Exception, KeyboardInterrupt):
            if os.environ.get("GPUWHY_DEBUG"):
                traceback.print_exc(file=sys.__stderr__)
    return callback


def load(shell, program, in_cell=False):
    """Define %gpuwhy, and watch the cells of `shell`, in_cell: from the next one on. In a process that is not recorded,
    no cell is watched."""
    shell.register_magic_function(make_magic(program), magic_kind="line_cell", magic_name="gpuwhy")
    run_folder = os.environ.get("GPUWHY_RUN_DIR")
    if not run_folder:
        return
    here = os.path.dirname(os.path.abspath(__file__))
    cells = Cells(shell, program, run_folder, os.path.join(os.path.dirname(here), "libgpuwhy-hook.so"))
    if in_cell:
        cells.ahead = shell.execution_count - (len(shell.user_ns["In"]) - 1)
    shell.events.register("pre_run_cell", _guarded(cells.begin))
    shell.events.register("post_run_cell", _guarded(cells.end))
