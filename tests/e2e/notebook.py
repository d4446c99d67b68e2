"""Notebooks under gpuwhy without a browser: a verdict follows a failed cell, nothing follows a healthy one, and
everything else is the same as with ipykernel alone.

Needs ipykernel, jupyter_client and nbconvert. They are installed once, with pip, into build-notebook/ in the source tree. If
that is not possible, the test is skipped and prints the reason. GPUWHY_NOTEBOOK_PYTHON names a Python that has them.
"""
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

from harness import GPUWHY, Workplace, expect, is_alive, main, remove_run_folders, skip, wait_until
from pypi import SOURCE, python_with

PACKAGES = ("ipykernel", "jupyter_client", "nbconvert")
WAIT_S = 200


# ---- a notebook ----------------------------------------------------------------------------------------------------

# Device memory as an object with __cuda_array_interface__. Only the driver API is used.
SETUP = '''
import ctypes, sys
cuda = ctypes.CDLL("libcuda.so.1")
def call(name, *arguments):
    result = getattr(cuda, name)(*arguments)
    if result:
        raise RuntimeError(f"{name} failed with {result}")
call("cuInit", 0)
device, context = ctypes.c_int(), ctypes.c_void_p()
call("cuDeviceGet", ctypes.byref(device), 0)
call("cuDevicePrimaryCtxRetain", ctypes.byref(context), device)
call("cuCtxSetCurrent", context)
class Array:
    alive = 0
    def __init__(self, size):
        self.address = None
        address = ctypes.c_uint64()
        call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(size))
        self.address, self.size = address.value, size
        Array.alive += 1
    def __del__(self):
        if self.address is not None:
            cuda.cuMemFree_v2(ctypes.c_uint64(self.address))
            Array.alive -= 1
    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.size,), "typestr": "|u1", "data": (self.address, False), "version": 3}
MIB = 1 << 20
def train(scale):
    """A small network: its weights live as long as the result, the workspaces of 20 steps come and go."""
    weights = [Array(size * scale * MIB) for size in (3, 40, 5, 60, 7, 80, 9, 50, 11, 30)]
    for step in range(20):
        workspaces = [Array(MIB), Array(2 * MIB)]
        del workspaces
    return weights
'''
TRAIN_MIB = 295
CARD = "virtual:h200,memory=1GiB"  # the context takes about half of it


class Cell:
    def __init__(self):
        self.shown, self.html, self.error, self.result, self.printed, self.count = [], [], None, None, "", None


class Notebook:
    def __init__(self, place, name="kernel", card=CARD, options=(), edit=lambda text: text):
        """`edit` may change the kernelspec before the kernel starts."""
        from jupyter_client.manager import KernelManager
        os.environ.update(JUPYTER_DATA_DIR=str(place / "jupyter"), XDG_STATE_HOME=str(place / "state"),
                          IPYTHONDIR=str(place / "ipython"), JUPYTER_CONFIG_DIR=str(place / "config"))
        arguments = ["--python", sys.executable, "--name", name, "--", *(["--gpu", card] if card else []), *options]
        done = subprocess.run([GPUWHY, "jupyter", "install", *arguments], capture_output=True, text=True)
        expect(done.returncode == 0, f"gpuwhy jupyter install: {done.stderr}")
        specification = place / "jupyter" / "kernels" / name / "kernel.json"
        specification.write_text(edit(specification.read_text()))
        self.errors = open(place / f"{name}.stderr", "w+")
        self.pids = []
        self.manager = KernelManager(kernel_name=name)
        self.manager.start_kernel(stderr=self.errors)
        self.connect()

    def connect(self):
        self.pids.append(self.pid())
        self.client = self.manager.client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=WAIT_S)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)
        self.errors.close()
        for pid in self.pids:  # a killed process could not end them itself
            wait_until(lambda: not is_alive(pid), "gpuwhy lives on", WAIT_S)
            remove_run_folders(pid)

    def pid(self):
        """The pid of gpuwhy, which is the only one known to the server."""
        return self.manager.provisioner.pid

    def send(self, code, **more):
        return self.client.execute(code, **more)

    def collect(self, message):
        cell = Cell()
        while True:
            got = self.client.get_iopub_msg(timeout=WAIT_S)
            if got["parent_header"].get("msg_id") != message:
                continue
            kind, content = got["msg_type"], got["content"]
            if kind == "execute_input":
                cell.count = content["execution_count"]
            elif kind == "display_data":
                cell.shown.append(content["data"]["text/plain"])
                cell.html.append(content["data"].get("text/html"))
            elif kind == "error":
                cell.error = content["ename"]
            elif kind == "execute_result":
                cell.result = content["data"]["text/plain"]
            elif kind == "stream":
                cell.printed += content["text"]
            elif kind == "status" and content["execution_state"] == "idle":
                return cell

    def run(self, code, **more):
        return self.collect(self.send(code, **more))

    def good(self, code, **more):
        cell = self.run(code, **more)
        expect(cell.error is None, f"{cell.error} in: {code}")
        expect(not cell.shown, f"a healthy cell is followed by:\n{''.join(cell.shown)}\ncell: {code}")
        return cell

    def failed(self, code, error="RuntimeError"):
        cell = self.run(code)
        expect(cell.error == error, f"{cell.error}, not {error}, in: {code}")
        return cell

    def verdict(self, code, error="RuntimeError"):
        cell = self.failed(code, error)
        expect(len(cell.shown) == 1, f"{len(cell.shown)} verdicts, not one, under: {code}\n{''.join(cell.shown)}")
        expect(cell.html[0] and cell.html[0].startswith("<pre"), "the verdict has no HTML")
        return one_line(cell.shown[0])


def one_line(text):
    return re.sub(r"\s+", " ", text)


def expect_in(wanted, text):
    expect(wanted in text, f"nothing says '{wanted}' in:\n{text}")


def expect_where(book, text):
    """Return the user's lines by cell, if this Python's frames can be read and its cells have names."""
    known = book.run("print(hasattr(get_ipython().compile, '_filename_map'))").printed == "True\n"
    line = next(i for i, text in enumerate(SETUP.strip().splitlines(), 1) if "cuMemAlloc_v2" in text)
    if known:
        expect_in(f"Where In [1]:{line} in Array.__init__: the largest part of this memory was allocated here", text)
        expect(re.search(r"called at In \[1\]:\d+ in train.*In \[2\]:1 in <module>", text),
               f"the callers are not named in:\n{text}")


# ---- S01: the second run does not fit because the first one kept its memory ------------------------------------------

def test_kept_by_an_earlier_cell(place):
    with Notebook(place) as book:
        book.good(SETUP)
        book.good("first = train(1)")
        text = book.verdict("second = train(1)")
        expect_in("In [3]: gpu-oom-leak", text)
        expect_where(book, text)
        expect_in(f"{TRAIN_MIB}.00 MiB in 10 blocks allocated in In [2]", text)
        expect(re.search(rf"Held by first: {TRAIN_MIB}\.00 MiB in 10 blocks, allocated in In \[2\], \d+\.\d s old", text),
               f"who holds it is not said in:\n{text}")
        same = book.run("1 / 0")
        expect(same.error == "ZeroDivisionError" and not same.shown, "another cell's failure was told once more")
    with Notebook(place, "twin") as book:  # repaired: the first run is dropped
        book.good(SETUP)
        book.good("first = train(1)\ndel first")
        book.good("second = train(1)")
        cell = book.failed("int('x')", "ValueError")
        expect(not cell.shown, "a failure that is not the GPU's got a verdict")


def test_kept_by_out(place):
    with Notebook(place) as book:
        book.good(SETUP)
        book.good("train(1)")
        book.good("keep = 1")
        text = book.verdict("second = train(1)")
        expect(re.search(rf"Held by Out\[2\], _: {TRAIN_MIB}\.00 MiB in 10 blocks, allocated in In \[2\]", text),
               f"Out is not named in:\n{text}")


# ---- S31: a stored exception keeps the failed run alive -------------------------------------------------------------

BIG = '''
def big():
    held = train(1)
    more = Array(600 * MIB)
'''


def test_kept_by_an_exception(place):
    caught = "{setup}try:\n    big()\nexcept RuntimeError as reason:\n    print('no room:', reason)\n{keep}"
    with Notebook(place) as book:
        book.good(SETUP + BIG)
        book.good(caught.format(setup="", keep="    error = reason\n"))
        book.good("import time; time.sleep(0.2)")
        text = book.verdict("again = train(1)")
        expect_in("In [4]: gpu-oom-leak (supported): In [2] failed for lack of memory, and 295.00 MiB of what it had "
                  "allocated is still referenced", text)
        expect(re.search(r"Held by error: 295\.00 MiB in 10 blocks, allocated in In \[2\], \d+\.\d s old \([^)]*local "
                         r"variable [^)]*big\(\)", text), f"the exception is not named in:\n{text}")
    with Notebook(place, "twin") as book:  # repaired: the exception object is dropped
        book.good(SETUP + BIG)
        book.good(caught.format(setup="", keep=""))
        book.good("again = train(1)")


def test_kept_by_the_last_traceback(place):
    with Notebook(place) as book:
        book.good(SETUP + BIG)
        text = book.verdict("big()")
        expect_in("In [2]: gpu-oom-capacity", text)
        expect_in("Held by the last traceback: 295.00 MiB", text)
        text = book.verdict("again = train(1)")
        expect_in("In [2] failed for lack of memory, and 295.00 MiB", text)
        expect(re.search(r"the traceback of In \[2\] \([^)]*big\(\)\), until this cell failed: 295\.00 MiB", text),
               f"the earlier traceback is not named in:\n{text}")
        book.failed("1 / 0", "ZeroDivisionError")  # another traceback replaces that one
        book.good("import gc; gc.collect()\nagain = train(1)")


# ---- a lost GPU -----------------------------------------------------------------------------------------------------

def test_a_lost_context(place):
    with Notebook(place, card="virtual:h200,fault=700@cuCtxSynchronize:2") as book:
        book.good(SETUP)
        book.good("array = Array(MIB); call('cuCtxSynchronize')")
        text = book.verdict("call('cuCtxSynchronize')")
        expect_in("In [3]: illegal-address", text)
        cell = book.run("cuda.cuCtxSynchronize()\nraise RuntimeError('echo')")
        expect(len(cell.shown) == 1 and "In [3] (illegal-address): restart the kernel" in one_line(cell.shown[0]),
               f"a later cell says {cell.shown}")
    # a cell that ignores the error gets a verdict, too
    with Notebook(place, "ignored", card="virtual:h200,fault=700@cuCtxSynchronize:1") as book:
        book.good(SETUP)
        cell = book.run("cuda.cuCtxSynchronize()")
        expect(cell.error is None and len(cell.shown) == 1 and "illegal-address" in cell.shown[0],
               f"an ignored lost context says {cell.shown}")


# ---- no side effects ------------------------------------------------------------------------------------------------

def test_no_verdict(place):
    """A failure that cannot be judged is not passed over in silence."""
    with Notebook(place) as book:
        book.good(SETUP)
        book.good("import os\nfolder = os.environ['GPUWHY_RUN_DIR']\nos.rename(folder, folder + '.away')")
        cell = book.failed("first, second = train(1), train(1)")
        book.run("os.rename(folder + '.away', folder)")
        expect(len(cell.shown) == 1, f"{len(cell.shown)} texts, not one, under a failure without a verdict")
        expect(re.search(r"In \[3\]: no verdict: .*No such file", one_line(cell.shown[0])),
               f"why there is no verdict is not said in:\n{cell.shown[0]}")


def test_a_guest(place):
    with Notebook(place) as book:
        book.good(SETUP + BIG)
        names = "print(sorted(n for n in globals() if not n.startswith('_')))"
        before = book.good(names).printed
        book.verdict("big()")
        expect(book.good(names).printed == before, "names came or went with a verdict")
        cell = book.good("import traceback\nprint(type(sys.last_value).__name__, sys.last_value, "
                         "[f.name for f in traceback.extract_tb(sys.last_traceback)][-3:], Array.alive)")
        expect(cell.printed == "RuntimeError cuMemAlloc_v2 failed with 2 ['big', '__init__', 'call'] 10\n",
               f"after a verdict the last exception reads {cell.printed}")
        # Once the traceback is replaced, its objects are freed: the verdict holds no references.
        book.failed("1 / 0", "ZeroDivisionError")
        expect(book.good("import gc; _ = gc.collect(); print(Array.alive)").printed == "0\n",
               "something holds the objects of a failed cell")
        cell = book.good("1 + 1", store_history=False)
        expect(cell.error is None, "a front end's own question fails")
        book.good("%reset -f")
        cell = book.good("'big' in globals(), 'Array' in globals()")
        expect(cell.result == "(False, False)", "%reset does not reset")
        book.good(SETUP)
        expect_in("gpu-oom", book.verdict("first, second = train(1), train(1)"))


def test_input(place):
    with Notebook(place) as book:
        message = book.send("print('got', input('name? '))", allow_stdin=True)
        asked = book.client.get_stdin_msg(timeout=WAIT_S)
        expect(asked["content"]["prompt"] == "name? ", f"asked: {asked['content']}")
        book.client.input("nobody")
        expect(book.collect(message).printed.endswith("got nobody\n"), "input() does not work")


# ---- interrupts, restarts, ends --------------------------------------------------------------------------------------

WAITS = "import time\nprint('waits', flush=True)\nwhile True:\n    time.sleep(0.05)"
SAYS_PID = "import os; print(os.getpid())"


def interrupt(book, how):
    message = book.send(WAITS)
    while True:  # wait until it has begun
        got = book.client.get_iopub_msg(timeout=WAIT_S)
        if got["msg_type"] == "stream" and got["parent_header"].get("msg_id") == message:
            break
    how()
    cell = book.collect(message)
    expect(cell.error == "KeyboardInterrupt" and not cell.shown, f"an interrupt gives {cell.error}, {cell.shown}")
    expect(book.good("6 * 7").result == "42", "a kernel is of no use after an interrupt")


def test_interrupts(place):
    with Notebook(place) as book:
        pid = book.pid()
        interrupt(book, book.manager.interrupt_kernel)  # sent to the process group
        interrupt(book, lambda: os.kill(pid, signal.SIGINT))  # sent only to gpuwhy
        expect(book.pid() == pid and is_alive(pid), "gpuwhy ended at an interrupt")


def test_restarts(place):
    with Notebook(place) as book:
        for now in (False, True):
            book.good(SETUP + "array = Array(MIB)")
            old = (book.pid(), int(book.good(SAYS_PID).printed))
            book.client.stop_channels()
            book.manager.restart_kernel(now=now)
            book.connect()
            wait_until(lambda: not any(map(is_alive, old)), f"after a restart {old} still live", WAIT_S)
            expect(int(book.good(SAYS_PID).printed) != old[1], "the kernel is the same after a restart")
            expect_in("gpu-oom", book.run(SETUP + "first, second = train(1), train(1)").shown[0])
        recordings = list((place / "state" / "gpuwhy").glob("2*.gpuwhy"))
        expect(len(recordings) == 3, f"three kernels left {len(recordings)} recordings")


def test_killed_gpuwhy(place):
    """When the started process is killed, the kernel dies, too: no process keeps the GPU's memory."""
    with Notebook(place) as book:
        kernel = int(book.good(SAYS_PID).printed)
        os.kill(book.pid(), signal.SIGKILL)
        wait_until(lambda: not is_alive(kernel), "the kernel outlives gpuwhy", WAIT_S)


SERVER = """
import sys
sys.path.insert(0, sys.argv[1])
import notebook, pathlib
book = notebook.Notebook(pathlib.Path(sys.argv[2]))
print(book.pid(), book.good(notebook.SAYS_PID).printed, flush=True)
sys.stdin.read()
"""


def test_killed_server(place):
    """A kernel ends when its server is killed, as without gpuwhy."""
    server = subprocess.Popen([sys.executable, "-c", SERVER, str(pathlib.Path(__file__).parent), str(place)],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        gpuwhy, kernel = map(int, server.stdout.readline().split())
    finally:
        server.kill()
        server.wait()
    wait_until(lambda: not is_alive(kernel) and not is_alive(gpuwhy), "gpuwhy or the kernel outlives the server", WAIT_S)


def test_no_observation(place):
    """The kernel alone, without `gpuwhy run`, still runs cells."""
    with Notebook(place, edit=alone) as book:
        expect(book.good("6 * 7").result == "42", "a kernel without gpuwhy run does not work")
        cell = book.run("1 / 0")
        expect(cell.error == "ZeroDivisionError" and not cell.shown, f"without a recording {cell.shown} is shown")


# ---- %load_ext gpuwhy and %gpuwhy ---------------------------------------------------------------------------------------

def alone(text):
    """The command of the kernel without `gpuwhy run`: that of a kernel that gpuwhy has not installed."""
    return text[:text.index(f'"{GPUWHY}"')] + text[text.index('"--",') + len('"--",'):]


def plain(text):
    """The same under `gpuwhy run`, if it was there: no part of gpuwhy is in the kernel before %load_ext."""
    specification = json.loads(text)
    at = next(i for i, word in enumerate(specification["argv"]) if word.endswith("gpuwhy_kernel.py"))
    specification["argv"][at:at + 2] = ["-m", "ipykernel_launcher"]
    return json.dumps(specification)


def installed(place):
    """An installation of this build, for sys.path."""
    folder = place / "prefix" / "lib" / "gpuwhy" / "python"
    folder.mkdir(parents=True)
    (place / "prefix" / "bin").mkdir()
    (place / "prefix" / "bin" / "gpuwhy").symlink_to(GPUWHY)
    (folder.parent / "libgpuwhy-hook.so").symlink_to(pathlib.Path(GPUWHY).parent / "lib" / "gpuwhy" / "libgpuwhy-hook.so")
    for name in ("gpuwhy.py", "gpuwhy_ipython.py"):
        shutil.copy(SOURCE / "python" / name, folder)
    return folder


LOG = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 7.75 GiB"
DRIVER = any(pathlib.Path(name).exists() for name in ("/dev/nvidia0", "/dev/dxg"))
STATES = {
    "recorded": (CARD, plain, "this kernel is recorded", "`%gpuwhy explain /"),
    "no-driver": (None, plain, "runs under gpuwhy, but calls to the GPU are not recorded", "`%gpuwhy doctor`"),
    "not-under": (CARD, lambda text: plain(alone(text)), "does not run under gpuwhy", "`gpuwhy jupyter install`"),
}
# what is typed: what is said
WRONG = {"%gpuwhy explain 'x": "No closing quotation", "%gpuwhy expalin": "did you mean explain", "%gpuwhy explain /no/such.gpuwhy": "No such file",
         "%gpuwhy run": "program", "%gpuwhy explain empty.txt": "empty.txt", "%%gpuwhy --frob\ntext": "--frob",
         "%%gpuwhy\n\n": "no fault that gpuwhy", "%%gpuwhy --all\nall is well": "no fault that gpuwhy", "%gpuwhy run -- /no/such/program": "/no/such/program",
         "%gpuwhy report notes.txt": "notes.txt", "%gpuwhy jupyter frob": "install, uninstall or list"}


def test_states(place):
    """%load_ext and %gpuwhy say which of the three states the kernel is in; the command and a pasted text work in all."""
    folder = installed(place)
    for name, (card, edit, says, then) in STATES.items():
        if card is None and DRIVER:
            print("states: no-driver: skipped: this machine has a driver", flush=True)
            continue
        with Notebook(place, name, card=card, edit=edit) as book:
            said = one_line(book.good(f"import sys; sys.path.insert(0, {str(folder)!r})\n%load_ext gpuwhy").printed)
            expect(says in said and then in said and said.count("gpuwhy:") == 1, f"{name}: {said}")
            expect(one_line(book.good("%gpuwhy").printed) == said, f"{name}: %gpuwhy says something else than {said}")
            expect_in("gpuwhy 0", book.good("%gpuwhy version").printed)
            expect_in("gpu-oom", book.good(f"%%gpuwhy\n{LOG}").printed)
            if name == "recorded":
                book.good(SETUP)
                expect_in("nothing has failed so far", book.good(re.search("`(%gpuwhy .*?)`", said).group(1)).printed)
                expect_in("gpu-oom", book.verdict("first, second = train(1), train(1)"))
        # a kernel of `gpuwhy jupyter install` has %gpuwhy from its start
    with Notebook(place, "from-its-start") as book:
        expect_in("is recorded", book.good("%gpuwhy").printed)
        book.good("import os; open('empty.txt', 'w').close(); open('notes.txt', 'w').write('a note of some length, no log')")
        for code, said in WRONG.items():
            cell = book.good(code)
            expect(said in one_line(cell.printed) and "Traceback" not in cell.printed, f"{code!r} gets:\n{cell.printed}")
        book.good("os.remove('empty.txt'); os.remove('notes.txt')")


def test_pages(place):
    """A verdict has a fixed font, aligned columns and a headline that is bold in all of its lines, also on nbconvert's
    page."""
    import nbformat
    from nbconvert import HTMLExporter
    sys.path.insert(0, str(SOURCE / "tests" / "report"))
    import webdriver
    if webdriver.missing():
        skip(f"not installed: {', '.join(webdriver.missing())}")
    with Notebook(place) as book:
        book.good(SETUP)
        cell = book.run("first, second = train(1), train(1)")
    output = nbformat.v4.new_output("display_data", {"text/plain": cell.shown[0], "text/html": cell.html[0]})
    page = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell("train(1)", outputs=[output])])
    for sanitize in (False, True):
        (place / "page.html").write_text(HTMLExporter(sanitize_html=sanitize).from_notebook_node(page)[0])
        with webdriver.Browser() as browser:
            browser.resize(1280, 900)
            browser.open(place / "page.html")
            found = browser.run("""
                const pre = [...document.querySelectorAll('pre')].find(e => e.textContent.startsWith('gpuwhy   '));
                const width = text => {
                    const one = document.createElement('span');
                    one.textContent = text;
                    pre.querySelector('b').after(one);
                    const width = one.getBoundingClientRect().width;
                    one.remove();
                    return width;
                };
                const bold = pre.querySelector('b');
                return {narrow: width('iiii'), wide: width('WWWW'), text: pre.textContent, bold: bold.textContent,
                        weight: getComputedStyle(bold).fontWeight, font: getComputedStyle(bold).fontFamily,
                        style: pre.getAttribute('style')};""")
            browser.screenshot(place / "page.png")
        expect(found["narrow"] == found["wide"] > 0, f"sanitized: {sanitize}: the font is not fixed: {found['font']}, style: {found['style']}")
        expect(found["text"] == cell.shown[0], f"the page shows other lines: {found['text']}")
        headline = re.split(r"(?<=\n)(?=\S)", cell.shown[0])[0]
        expect(found["bold"] == headline and int(found["weight"]) >= 600, f"bold is only: {found['bold']}")


TESTS = {name[5:]: test for name, test in list(globals().items()) if name.startswith("test_")}


def run_tests():
    for name in sys.argv[1:] or TESTS:
        started = time.monotonic()
        with Workplace() as place:
            TESTS[name](place)
        print(f"{name}: passed in {time.monotonic() - started:.1f} s", flush=True)


def start():
    """Run this program again with a Python that has the packages."""
    python = python_with(PACKAGES, "notebook")
    if os.path.abspath(python) != os.path.abspath(sys.executable):
        os.execv(python, [python, __file__, *sys.argv[1:]])
    run_tests()


if __name__ == "__main__":
    main(start)
