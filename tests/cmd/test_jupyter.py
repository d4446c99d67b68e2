"""gpuwhy jupyter: kernelspecs are installed where Jupyter looks for them, and other kernelspecs are not changed. The
Python is a script that answers like one with ipykernel. tests/e2e/notebook.py runs a real notebook."""
import json
import os
import stat

from support import Case, GPUWHY

SPEC = {"argv": ["/a python/bin/python", "-Xone=two", "-m", "ipykernel_launcher", "-f", "{connection_file}", "--last"],
        "display_name": "theirs", "language": "python", "metadata": {"debugger": True}}
ANSWER = {"executable": "/a python/bin/python", "prefix": "?", "version": [3, 12], "spec": SPEC}


class Jupyter(Case):
    def setUp(self):
        super().setUp()
        self.environment["JUPYTER_DATA_DIR"] = str(self.folder / "data")
        for name in ("XDG_DATA_HOME", "JUPYTER_PLATFORM_DIRS", "VIRTUAL_ENV", "CONDA_PREFIX"):
            self.environment.pop(name, None)
        self.python = self.fake("python", json.dumps(dict(ANSWER, prefix=str(self.folder / "prefix"))))

    def fake(self, name, answer, status=0):
        path = self.folder / name
        (self.folder / f"{name}.answer").write_text(answer)
        path.write_text(f"#!/bin/sh\necho noise\ncat '{path}.answer'\nexit {status}\n")
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
        return str(path)

    def jupyter(self, *words, status=0):
        done = self.run_gpuwhy("jupyter", *words)
        self.assertEqual(done.returncode, status, done.stderr.decode())
        self.assertEqual(len(done.stderr.decode().splitlines()), int(status != 0), done.stderr.decode())
        return done.stdout.decode(), done.stderr.decode()

    def install(self, *words, **more):
        return self.jupyter("install", "--python", self.python, *words, **more)

    def kernel(self, data, name="gpuwhy-python3"):
        return self.folder / data / "kernels" / name / "kernel.json"

    def test_what_is_written(self):
        self.install("--display-name", 'a "name"', "--", "--gpu", "virtual:h200", "--no-attach")
        kernel = json.loads(self.kernel("data").read_text())
        script = kernel["argv"][-5]
        self.assertEqual(os.path.basename(script), "gpuwhy_kernel.py")
        self.assertTrue(os.path.exists(script))
        gpuwhy = os.path.realpath(GPUWHY)
        self.assertEqual(kernel["argv"],
                         [gpuwhy, "run", "--quiet", "--end-with-parent", "--gpu", "virtual:h200", "--no-attach", "--",
                          "/a python/bin/python", "-Xone=two", script, gpuwhy, "-f", "{connection_file}", "--last"])
        self.assertEqual(kernel["display_name"], 'a "name"')
        self.assertEqual(kernel["metadata"]["debugger"], True)
        self.install()  # once more: our kernelspec is replaced
        kernel = json.loads(self.kernel("data").read_text())
        self.assertEqual(kernel["display_name"], "Python 3.12 (gpuwhy)")
        self.assertNotIn("--gpu", kernel["argv"])
        self.install("--folder", "/some/where")
        self.assertEqual(json.loads(self.kernel("data").read_text())["argv"][1:7],
                         ["run", "--quiet", "--end-with-parent", "--folder", "/some/where", "--"])
        self.assertEqual([p.name for p in self.kernel("data").parent.iterdir()], ["kernel.json"])

    def test_places(self):
        self.install("--user", "--name", "one")
        self.install("--prefix", self.folder / "else", "--name", "two")
        self.install("--sys-prefix", "--name", "three")
        self.assertTrue(self.kernel("data", "one").exists())
        self.assertTrue(self.kernel("else/share/jupyter", "two").exists())
        self.assertTrue(self.kernel("prefix/share/jupyter", "three").exists())
        del self.environment["JUPYTER_DATA_DIR"]
        self.environment["XDG_DATA_HOME"] = str(self.folder / "xdg")
        self.install("--name", "four")
        self.assertTrue(self.kernel("xdg/jupyter", "four").exists())
        del self.environment["XDG_DATA_HOME"]
        self.environment["HOME"] = str(self.folder / "home")
        self.install("--name", "five")
        self.assertTrue(self.kernel("home/.local/share/jupyter", "five").exists())

    def test_list_and_uninstall(self):
        self.assertEqual(self.jupyter("list")[0], "")
        self.install("--name", "mine")
        self.assertIn("mine", self.jupyter("list")[0])
        self.assertIn("that Python no longer exists", self.jupyter("list")[0])
        self.jupyter("uninstall", "--name", "mine")
        self.assertFalse(self.kernel("data", "mine").parent.exists())
        self.assertEqual(self.jupyter("list")[0], "")
        self.assertIn("kernel.json", self.jupyter("uninstall", "--name", "mine", status=2)[1])
        self.install("--name", "mine")
        logo = self.kernel("data", "mine").parent / "logo-64x64.png"
        logo.write_bytes(b"")
        self.jupyter("uninstall", "--name", "mine")
        self.assertTrue(logo.exists() and not self.kernel("data", "mine").exists())

    def test_nobody_elses(self):
        for name, text in (("theirs", json.dumps(SPEC)), ("broken", "{"), ("list", "[]"), ("empty", "")):
            path = self.kernel("data", name)
            path.parent.mkdir(parents=True)
            path.write_text(text)
            self.assertIn("not installed by gpuwhy", self.install("--name", name, status=2)[1])
            self.jupyter("uninstall", "--name", name, status=2)
            self.assertEqual(path.read_text(), text)
        folder = self.kernel("data", "files").parent
        folder.mkdir()
        (folder / "note").write_text("")
        self.assertIn("not installed by gpuwhy", self.install("--name", "files", status=2)[1])
        self.assertEqual(self.jupyter("list")[0], "")

    def test_refusals(self):
        missing = self.fake("bare", json.dumps({"executable": "/p", "prefix": "/", "missing": "No module"}))
        for words, said in ((("--python", missing), "cannot import ipykernel (No module)"),
                            (("--python", self.fake("odd", "no JSON")), "is not Python 3"),
                            (("--python", self.fake("list", "[1]")), "is not Python 3"),
                            (("--python", self.fake("fails", json.dumps(ANSWER), 3)), "ended with status 3"),
                            (("--python", self.fake("no-argv", json.dumps(dict(ANSWER, spec={"argv": 1})))), "no command"),
                            (("--python", "/nowhere/python"), "No such file"),
                            (("--python", self.python, "--name", "a/b"), "a/b"),
                            (("--python", self.python, "--name", ".."), ".."),
                            (("--python", self.python, "--user", "--sys-prefix"), "use only one of"),
                            (("--python", self.python, "--", "--nonsense"), "--nonsense"),
                            (("--python", self.python, "--", "program"), "program"),
                            (("--python", self.python, "--frob"), "--frob"),
                            (("--python", self.python, "word"), "word")):
            self.assertIn(said, self.jupyter("install", *words, status=2)[1])
        self.assertFalse((self.folder / "data").exists())
        self.assertIn("install, uninstall or list", self.jupyter("frob", status=2)[1])
        self.assertIn("install", self.jupyter("--help")[0])
        (self.folder / "file").write_text("")
        self.assertIn("make folder", self.install("--prefix", self.folder / "file", status=2)[1])
