"""Check JSON output of gpuwhy against the schemas that the build makes from docs/json-schema.md.

check(document) raises SchemaError if the document is not valid. It does nothing without the package jsonschema, so that the
tests that use it can run; the test json-schemas is then skipped, and reported as skipped. It also does nothing in a build
with a sanitizer (GPUWHY_SANITIZE), which prints the same documents: loading the package takes a third of a short test.
"""
import functools
import json
import os
import pathlib

ROOT = pathlib.Path(__file__).resolve().parents[1]


def build():
    """Return the build folder under test: tests name the program (GPUWHY) or its folder (GPUWHY_BUILD)."""
    if "GPUWHY" in os.environ:
        return pathlib.Path(os.environ["GPUWHY"]).parent
    return pathlib.Path(os.environ.get("GPUWHY_BUILD", ROOT / "build"))


class SchemaError(AssertionError):
    """Which part of a document does not match which rule."""


@functools.lru_cache(maxsize=None)
def validator(kind):
    """Return the validator for a kind of document, or None without jsonschema. The schema itself is valid: test_json_schemas.py."""
    if os.environ.get("GPUWHY_SANITIZE"):
        return None
    try:
        import jsonschema
    except ImportError:
        return None
    return jsonschema.Draft202012Validator(schema(kind))


def files():
    """Return the file of the schema for each kind of document."""
    return {path.name.split(".")[0]: path for path in sorted((build() / "share" / "gpuwhy" / "schema").glob("*.schema.json"))}


def schema(kind):
    return json.loads(files()[kind].read_text())


def check(document):
    """Check a document against the schema that its `kind` names; without `kind`, it is a verdict."""
    kind = document.get("kind", "verdict") if isinstance(document, dict) else "verdict"
    if kind not in files():
        raise SchemaError(f"no schema for {kind!r}")
    found = validator(kind)
    error = min(found.iter_errors(document), key=lambda e: list(map(str, e.path)), default=None) if found else None
    if error is not None:
        place = "/".join(map(str, error.absolute_path))
        raise SchemaError(f"{kind}.schema.json: {place or 'the document'}: {error.message[:400]}")
    return document
