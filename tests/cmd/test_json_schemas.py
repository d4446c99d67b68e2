"""The JSON schemas: they are valid, strict, and every JSON output matches one. The end-to-end tests check the
verdict of each scenario, too (tests/e2e/harness.py)."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from support import BEGIN, Case, GPU, GPUWHY, run_command
import json_schemas
from json_schemas import SchemaError, check

ROOT = pathlib.Path(__file__).resolve().parents[2]
REAL = sorted((ROOT / "tests" / "fixtures" / "real").glob("*.gpuwhy"))
CNN = os.environ.get("EXAMPLE_CNN", str(pathlib.Path(GPUWHY).parent / "examples" / "cnn"))
QUESTIONS = ("700", "1", "Xid 79", "SXid 11001", "CUDNN_STATUS_NOT_INITIALIZED", "exit 137", "SIGKILL", "NCCL 2", "ncclSystemError")
HAVE_JSONSCHEMA = json_schemas.validator("verdict") is not None


@unittest.skipUnless(HAVE_JSONSCHEMA, "the Python package jsonschema is not installed")
class Schemas(Case):
    def output(self, *arguments, statuses=(0, 1)):
        """Return the JSON output of a command, checked against its schema."""
        done = self.run_gpuwhy(*arguments)
        self.assertIn(done.returncode, statuses, done.stderr)
        return check(json.loads(done.stdout))

    def verdict(self, *argv, options=()):
        path = self.folder / "verdict.json"
        self.execute(run_command(*argv, options=["--json", path, *options]))
        return check(json.loads(path.read_text()))

    # ---- one document of each kind ----

    def test_verdicts_of_recordings(self):
        for path in REAL:
            self.output("explain", "--json", path)

    def test_verdicts_of_questions(self):
        for question in QUESTIONS:
            self.assertIsNotNone(self.output("explain", "--json", *question.split())["question"], question)

    def test_verdicts_of_runs(self):
        clean = self.verdict(CNN, "--iterations", "2", "--batch", "8")
        self.assertEqual(clean["status"], "clean")
        fault = self.verdict(CNN, "--runs", "2", "--batch", "16384", "--keep-runs", options=["--memory", "16GiB"])
        self.assertEqual(fault["cause"], "gpu-oom-leak")
        self.assertIsNotNone(fault["where"])
        again = self.verdict("sh", "-c", "exit 1", options=["--restart", "1", "--wait-memory", "1MiB"])
        self.assertEqual(again["status"], "undetermined")
        leaks = self.verdict(CNN, "--iterations", "30", "--batch", "8", "--leak-batch")
        self.assertTrue(leaks["leaks"])

    def test_rehearsal_and_fit(self):
        path = self.folder / "answer.json"
        for words in (["rehearse", "--once", "--until", "2"], ["fit", "--max", "2", "--until", "2", "--values", "x=1,2"]):
            batch = "{batch}" if words[0] == "fit" else "8"
            done = self.run_gpuwhy(*words, "--gpu", GPU, "--json", path, "--no-history", "--", CNN, "--batch", batch,
                                   "--iterations", "10" if words[0] == "rehearse" else "1{x}")
            self.assertEqual(done.returncode, 0, done.stderr)
            document = check(json.loads(path.read_text()))
            self.assertIsNotNone(document["rehearsal"] if words[0] == "rehearse" else document["combinations"][0]["largest"])

    def test_other_commands(self):
        for _ in range(2):
            self.verdict("sh", "-c", "exit 1")
        self.verdict("true")
        listed = self.output("history", "--json", "sh")
        self.assertIsNotNone(listed["attempts"])
        self.output("history", "--json")
        self.output("doctor", "--json", "--", sys.executable)
        self.output("who", "--json")
        self.output("config", "--json")
        self.output("diff", "--json", REAL[0], REAL[0])
        self.assertTrue(self.output("diff", "--json", REAL[0], REAL[1])["differences"])
        self.output("lab", "list", "--json")
        self.output("lab", "check", "--json", "--expect", "clean", "--", CNN, "--iterations", "2", "--batch", "8")
        possible = {self.output("whatif", "--json", path)["possible"] for path in REAL}
        self.assertEqual(possible, {True, False})

    def test_watch(self):
        program = BEGIN + "print('ready', flush=True)\nsys.stdin.read()\n"
        process = self.start(sys.executable, "-c", program, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL)
        self.assertEqual(process.stdout.readline(), b"ready\n")
        document = self.output("watch", "--once", "--json")
        self.assertTrue(document["runs"])
        self.output("who", "--json")
        process.communicate()

    # ---- the schemas ----

    def test_every_schema_is_valid_and_strict(self):
        """Each schema is valid. No object may have properties that the schema does not list, and all that it lists must be
        there."""
        def look(part, place):
            if isinstance(part, list):
                for one in part:
                    look(one, place)
            if not isinstance(part, dict):
                return
            if part.get("type") == "object" or (isinstance(part.get("type"), list) and "object" in part["type"]):
                self.assertIn("additionalProperties", part, place)
                if part["additionalProperties"] is False and "possible" not in part["properties"]:  # whatif
                    self.assertEqual(part["required"], list(part["properties"]), place)
            for key, one in part.items():
                look(one, f"{place}/{key}")
        for kind in json_schemas.files():
            schema = json_schemas.schema(kind)
            json_schemas.validator(kind).check_schema(schema)
            self.assertEqual(schema["$id"], f"urn:gpuwhy:schema:{kind}:1")
            self.assertEqual(schema["$schema"], "https://json-schema.org/draft/2020-12/schema")
            look(schema, kind)

    def test_changes_are_noticed(self):
        """Each document is refused with a property more, one less, another type, or another schema number."""
        documents = [self.output("explain", "--json", REAL[0]), self.output("explain", "--json", "700"),
                     self.output("doctor", "--json"), self.output("history", "--json"), self.output("who", "--json"),
                     self.output("watch", "--json", "--once"), self.output("diff", "--json", REAL[0], REAL[1]),
                     self.output("lab", "list", "--json"), *(self.output("whatif", "--json", path) for path in REAL[:2])]
        count = 0
        for document in documents:
            for changed in self.changes(document):
                count += 1
                with self.assertRaises(SchemaError):
                    check(changed)
        self.assertGreater(count, 100)

    def changes(self, document):
        def places(part, place=()):
            if isinstance(part, dict):
                yield place
            for key, one in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
                if key != "facts":  # free keys
                    yield from places(one, (*place, key))

        def at(root, place):
            for key in place:
                root = root[key]
            return root

        yield {**document, "schema": 2}
        yield {**document, "kind": "nonsense"}
        for place in list(places(document))[:15]:
            changed = copy.deepcopy(document)
            at(changed, place)["new_field"] = 1
            yield changed
            for key in at(document, place):
                if place == () and key == "kind":
                    continue  # then it would be read as a verdict
                changed = copy.deepcopy(document)
                del at(changed, place)[key]
                yield changed
            for key, value in list(at(document, place).items()):
                if isinstance(value, (bool, int, float)) and key != "kind":
                    changed = copy.deepcopy(document)
                    at(changed, place)[key] = str(value)
                    yield changed


class Page(unittest.TestCase):
    def make(self, row):
        """Make the schema of a page with one row. Returns the schema, or what awk says about the row."""
        with tempfile.TemporaryDirectory() as folder:
            page = pathlib.Path(folder) / "page.md"
            page.write_text(f'| `way` | "up" or "down" |\n## `x`: a title\n{row}\n### `thing`\n| `t` | string | |\n')
            done = subprocess.run(["awk", "-v", f"folder={folder}", "-f", ROOT / "tools" / "schemas.awk", page],
                                  capture_output=True, text=True)
            return done.stderr if done.returncode else json.loads((pathlib.Path(folder) / "x.schema.json").read_text())

    def test_types(self):
        null, string, way = {"type": "null"}, {"type": "string"}, {"enum": ["up", "down"]}
        for text, schema in (("string or null", {"anyOf": [string, null]}), ("way", way), ("3", {"const": 3}),
                             ("non-empty list of things", {"type": "array", "items": {"$ref": "#/$defs/thing"}, "minItems": 1}),
                             ("set of ways", {"type": "array", "items": way, "uniqueItems": True}),
                             ("0 to 9", {"type": "integer", "minimum": 0, "maximum": 9}),
                             ("map of strings", {"type": "object", "additionalProperties": string}),
                             ("{a, b: way; c: null}", {"type": "object", "properties": {"a": way, "b": way, "c": null},
                                                       "required": ["a", "b", "c"], "additionalProperties": False})):
            self.assertEqual(self.make(f"| `f` | {text} | |")["properties"]["f"], schema, text)

    def test_conditions(self):
        made = self.make("| `f` | boolean | |\n| `g` | string if `f` is true, otherwise null | |\n| `h` | way, only if `f` is true | |")
        self.assertEqual(made["required"], ["f", "g"])
        self.assertEqual(len(made["allOf"]), 2)

    def test_mistakes_are_named(self):
        for text in ("strin", "list", "{a string}", "{a: string", "string and more", "string if `f`", ""):
            said = self.make(f"| `f` | {text} | |")
            self.assertIsInstance(said, str, text)
            self.assertIn("json-schema.md: f", said, text)
