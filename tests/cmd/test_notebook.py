"""The notebook code alone, without a notebook: which names lead to device memory, objects with side effects when
they are inspected, and how a verdict is shown. tests/e2e/notebook.py runs a real notebook."""
import gc
import importlib.util
import pathlib
import sys
import traceback
import types
import unittest
import weakref

from support import Case

PATH = pathlib.Path(__file__).resolve().parents[2] / "python" / "gpuwhy_ipython.py"
spec = importlib.util.spec_from_file_location("gpuwhy_ipython", PATH)
notebook = importlib.util.module_from_spec(spec)
spec.loader.exec_module(notebook)
notebook.WALK_SECONDS_MAX = 300  # the tests check limits by count, so a busy machine must not reach the time limit


class Array:
    """Device memory as numba and cupy expose it."""
    next_address = 0x7000_0000_0000

    def __init__(self, size):
        self.size, self.address = size, Array.next_address
        Array.next_address += 1 << 32

    @property
    def __cuda_array_interface__(self):
        return {"shape": (self.size // 4,), "typestr": "<f4", "data": (self.address, False), "version": 3}


def failure(seen=None):
    """Return an exception that holds two arrays of a frame. `seen` gets a weak reference to the first one."""
    def fails():
        kept = Array(1 << 20)
        inner = [Array(1 << 21)]
        if seen is not None:
            seen.append(weakref.ref(kept))
        raise ValueError(len(inner), kept.size)
    try:
        fails()
    except ValueError as reason:
        return reason


class Shell:
    def __init__(self, **names):
        self.user_ns = dict(names)


def rows(shell, error=None):
    found, cut = notebook.names_of(shell, error)
    return {label: {a: size for a, (size, _, _) in what.items()} for label, what in found}, cut


class Failures(unittest.TestCase):
    def shown(self, *times):
        """What is shown for cells that report a lost GPU whose failure has each of these times."""
        cells, shown = notebook.Cells(Shell(), "gpuwhy", "/run", "/hook"), []
        cells.show = shown.append
        for number, t_s in enumerate(times, 1):
            failure = {"t_s": t_s, "context_lost": True, "phase": "In [1]"}
            cells.ask = lambda cell, error: {"status": "fault", "cause": "illegal-address", "failure": failure}
            notebook.render, real = lambda cell, *more: f"verdict of {cell}", notebook.render
            try:
                cells.judge(f"In [{number}]", RuntimeError())
            finally:
                notebook.render = real
        return shown

    def test_a_failure_is_the_same_if_its_time_moved_a_little(self):
        first, second = self.shown(0.613201, 0.613198)
        self.assertEqual(first, "verdict of In [1]")
        self.assertIn("restart the kernel", second)

    def test_a_later_failure_is_another_one(self):
        self.assertEqual(self.shown(0.6, 1.9), ["verdict of In [1]", "verdict of In [2]"])


class Names(unittest.TestCase):
    def names(self, error=None, **names):
        return rows(Shell(**names), error)[0]

    def test_plain_and_contained(self):
        a, b, c, d = (Array(4096 * n) for n in (1, 2, 3, 4))
        holder = types.SimpleNamespace(weights=c, name="x")
        found = self.names(one=a, many=[b, (a,)], table={"k": d}, holder=holder, number=7, text="x", none=None)
        self.assertEqual(found, {"one": {a.address: 4096}, "many": {b.address: 8192, a.address: 4096},
                                 "table": {d.address: 16384}, "holder": {c.address: 12288}})

    def test_results(self):
        """Out[n], _ and a variable are three names of one object; IPython's own tables are not shown."""
        a = Array(64)
        found = self.names(Out={3: a, 4: 5}, _oh={3: a}, _3=a, _=a, x=a, _i3="x", _ih=[a], In=[a])
        self.assertEqual(list(found), ["Out[3], _, x"])

    def test_exceptions_hold_frames(self):
        error = failure()
        found, _ = notebook.names_of(Shell(error=error), None)
        self.assertEqual([label for label, _ in found], ["error"])
        sizes = sorted(size for size, _, _ in found[0][1].values())
        self.assertEqual(sizes, [1 << 20, 1 << 21])
        self.assertTrue(all("fails()" in way for _, way, _ in found[0][1].values()))
        self.assertEqual([label for label, _ in notebook.names_of(Shell(), error)[0]], ["the last traceback"])
        self.assertEqual([label for label, _ in notebook.names_of(Shell(e=error), error)[0]], ["e"])

    def test_nothing_is_kept(self):
        """Inspecting an array or a frame does not extend its life."""
        seen = []
        shell = Shell(error=failure(seen), listed=[Array(64)])
        seen.append(weakref.ref(shell.user_ns["listed"][0]))
        self.assertEqual(len(rows(shell)[0]), 2)
        shell.user_ns.clear()
        gc.collect()
        self.assertEqual([ref() for ref in seen], [None, None])

    def test_frames_that_were_cleared_stay_so(self):
        seen = []
        error = failure(seen)
        rows(Shell(error=error))
        traceback.clear_frames(error.__traceback__)  # as users do to free memory
        gc.collect()
        self.assertIsNone(seen[0]())

    def test_objects_that_do_not_like_it(self):
        class Raises:
            @property
            def __cuda_array_interface__(self):
                raise RuntimeError("requires grad")

        class Odd:
            def __init__(self, about):
                self.about = about

            @property
            def __cuda_array_interface__(self):
                return self.about

        class Proxy:  # looks up its object on any attribute access
            def __getattribute__(self, name):
                raise RuntimeError("no object is bound")

        class Lies(dict):
            def values(self):
                raise RuntimeError

        class Endless(list):
            def __iter__(self):
                while True:
                    yield object()
        good = Array(64)
        odd = {f"odd{i}": Odd(about) for i, about in enumerate(
            (None, {}, {"shape": None}, {"shape": (1,), "typestr": "", "data": (1, 0)},
             {"shape": (2,), "typestr": "<f4", "data": None}, {"shape": (-1,), "typestr": "<f4", "data": ("x",)},
             {"shape": (0,), "typestr": "<f4", "data": (0, False)}))}
        loop = []
        loop.append(loop)
        before = notebook.ITEMS_MAX
        try:
            notebook.ITEMS_MAX = 1000
            found = self.names(raises=Raises(), proxy=Proxy(), lies=Lies(a=good), loop=loop, endless=Endless([good]), good=good, **odd)
        finally:
            notebook.ITEMS_MAX = before
        self.assertEqual(found, {name: {good.address: 64} for name in ("good", "lies", "endless")})

    def test_too_much_is_cut(self):
        shell = Shell(many=[[object()] * 10 for _ in range(notebook.ITEMS_MAX)], good=Array(64))
        shell.user_ns["many"] += [[i] for i in map(str, range(10))]
        self.assertIn("good", rows(shell)[0])


class Torch(unittest.TestCase):
    """A module named torch with the few functions that are used."""

    def setUp(self):
        class Storage:
            def __init__(self, address, size):
                self.address, self.size = address, size
            data_ptr = lambda self: self.address
            nbytes = lambda self: self.size

        class Tensor:
            def __init__(self, address, size, cuda=True, grad_fn=None):
                self.storage_, self.is_cuda, self.grad_fn = Storage(address, size), cuda, grad_fn
                self.grad, self.is_leaf = None, grad_fn is None
            untyped_storage = lambda self: self.storage_

        class Module:
            def __init__(self, parameters):
                self.list = parameters
            parameters = lambda self: iter(self.list)
            buffers = lambda self: iter(())
        self.torch = types.SimpleNamespace(Tensor=Tensor, nn=types.SimpleNamespace(Module=Module))
        sys.modules["torch"] = self.torch
        self.addCleanup(sys.modules.pop, "torch")

    def test_tensors_models_optimizers(self):
        tensor = self.torch.Tensor
        weight = tensor(0x1000, 512)
        weight.grad = tensor(0x2000, 512)
        loss = tensor(0x3000, 4, grad_fn="AddBackward")
        optimizer = types.SimpleNamespace(param_groups=[], state={1: {"exp_avg": tensor(0x4000, 512), "step": 1}})
        found, _ = notebook.names_of(Shell(model=self.torch.nn.Module([weight]), losses=[loss], optimizer=optimizer,
                                           host=tensor(0x5000, 512, cuda=False)), None)
        found = dict(found)
        self.assertEqual(sorted(found["model"]), [0x1000, 0x2000])
        self.assertEqual(sorted(found["optimizer"]), [0x4000])
        self.assertIn("graph", found["losses"][0x3000][2])
        self.assertNotIn("host", found)


VERDICT = {"status": "fault", "cause": "gpu-oom-leak", "certainty": "supported", "headline": "kept <b>", "where": None,
           "evidence": [{"t_s": 1.5, "text": "a request failed"}, {"t_s": None, "text": "more"}],
           "ruled_out": ["other processes"], "next": ["Free it"], "recording": "/r.gpuwhy",
           "failure": {"t_s": 10.0, "phase": "In [3]", "context_lost": False},
           "kept": [{"phase": "In [2]", "blocks": [{"address": 0x1000, "bytes": 4096, "t_s": 4.0}]},
                    {"phase": None, "blocks": [{"address": 0x2000, "bytes": 1 << 30, "t_s": None},
                                               {"address": 0x3000, "bytes": 8192, "t_s": 1.0}]}]}


class Words(unittest.TestCase):
    def render(self, names=(), gone=None, cut=False):
        return notebook.render("In [3]", VERDICT, list(names), gone or {}, cut)

    def test_origin(self):
        text = self.render([("x", {0x1000: (4096, "", "")}), ("part", {0x2000: (64, "", "")})])
        self.assertIn("x: 4.00 KiB, allocated in In [2], 6.0 s old", text)
        self.assertRegex(text, r"part: 64 B\n")  # a part of a segment, or of unknown age: its cell is not shown

    def test_let_go(self):
        gone = {0x3000: ("the traceback of In [1]", 2.0), 0x1000: ("the traceback of In [1]", 2.0)}
        text = self.render(gone=gone)
        self.assertIn("the traceback of In [1], until this cell failed: 8.00 KiB", text)  # younger than it

    def test_many_names(self):
        text = self.render([(f"n{i}", {i: (i, "", "")}) for i in range(1, 20)], cut=True)
        self.assertIn(f"and {19 - notebook.NAMES_SHOWN_MAX} more names (the search was incomplete", text)
        self.assertIn("Held by  n19: 19 B", text)

    def test_where(self):
        frames = [{"file": f, "line": n, "function": f"f{n}", "whose": w} for n, (f, w) in enumerate(
            [("/l.so", "runtime"), ("In [1]", "own"), ("/p/torch.py", "framework"), ("/home/x.py", "user"),
             (None, "user")], 1)]
        where = {"text": "In [1]:2 in f2", "what": "the request", "user": 1, "frames": frames}
        text = notebook.render("In [3]", dict(VERDICT, where=where), [], {}, False)
        self.assertIn("Where    In [1]:2 in f2: the request\n         called at x.py:4 in f4\n", text)

    def test_cells_have_names(self):
        shell = types.SimpleNamespace(compile=types.SimpleNamespace(_filename_map={
            "/tmp/ipykernel_7/123.py": 4, "/tmp/ipykernel_7/23.py": 5}))
        text = 'at 123.py:2 in f; "/tmp/ipykernel_7/23.py", ../ipykernel_7/123.py:1, 4123.py, 123.pyc'
        self.assertEqual(notebook.name_cells(shell, text),
                         'at In [4]:2 in f; "In [5]", In [4]:1, 4123.py, 123.pyc')
        self.assertEqual(notebook.name_cells(types.SimpleNamespace(), text), text)

    def test_what_controls_a_terminal_is_replaced(self):
        verdict = dict(VERDICT, headline="a\x1b[2J\u202eb", recording="/x $(touch y)'.gpuwhy")
        text = notebook.render("In [3]", verdict, [], {}, False)
        self.assertIn("a?[2J?b", text)
        self.assertIn("""Details  gpuwhy explain '/x $(touch y)'"'"'.gpuwhy'""", text)

    def test_html_is_escaped(self):
        page = notebook._as_html(self.render())
        self.assertIn("kept &lt;b&gt;", page)
        self.assertNotIn("kept <b>", page)


class Cell(Case):
    def test_explain_refuses(self):
        done = self.run_gpuwhy("run", "-o", self.folder / "r", "--", "true")
        self.assertEqual(done.returncode, 0)
        for words, said in ((("--cell", "In [1]", "r"), "no phase named In [1]"),
                            (("--cell", "", "r"), "no phase named"),
                            (("--cell", "x", "r", "r"), "takes one recording")):
            done = self.run_gpuwhy("explain", *words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr.decode())
            self.assertEqual(len(done.stderr.decode().splitlines()), 1)
