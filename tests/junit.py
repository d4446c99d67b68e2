"""Reads the JUnit XML that gpuwhy writes, and checks it: by tests/junit.xsd, if xmllint is installed, and its counts."""
import pathlib
import shutil
import subprocess
from xml.etree import ElementTree

SCHEMA = pathlib.Path(__file__).with_name("junit.xsd")


def read(path):
    """Return the test suite. Raises AssertionError if the file is not as it should be."""
    if shutil.which("xmllint"):
        done = subprocess.run(["xmllint", "--noout", "--schema", SCHEMA, path], capture_output=True, text=True)
        if done.returncode != 0:
            raise AssertionError(f"{path}: {done.stderr}")
    root = ElementTree.parse(path).getroot()
    suite = root[0]
    if (root.tag, len(root), suite.tag) != ("testsuites", 1, "testsuite"):
        raise AssertionError(f"{path}: {root.tag} {suite.tag}")
    count = {"tests": len(suite), "errors": 0, "failures": len(suite.findall("testcase/failure")),
             "skipped": len(suite.findall("testcase/skipped"))}
    if suite.attrib != {"name": suite.get("name"), **{name: str(number) for name, number in count.items()}}:
        raise AssertionError(f"{path}: {suite.attrib} is not {count}")
    names = [(case.get("classname"), case.get("name")) for case in suite]
    if len(set(names)) != len(names) or any(case.tag != "testcase" or len(case) != 1 for case in suite):
        raise AssertionError(f"{path}: {names}")
    return suite
