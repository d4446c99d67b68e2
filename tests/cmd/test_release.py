"""The workflow that builds and signs a release: its steps, run on the names of the packages that `make packages` builds."""
import hashlib
import pathlib
import re
import subprocess
import unittest

from support import Case

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORKFLOW = ROOT / ".github" / "workflows" / "release.yml"
try:
    import yaml
except ImportError:
    yaml = None


def packages():
    """The files of `make packages`, as their recipes name them."""
    version = re.search(r"^project\(gpuwhy VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(), re.M)[1]
    debian = re.findall(r"^Package: (\S+)", (ROOT / "packaging" / "debian" / "control").read_text(), re.M)
    rpm = ["gpuwhy", *re.findall(r"^%package -n (\S+)", (ROOT / "packaging" / "rpm" / "gpuwhy.spec").read_text(), re.M)]
    return [f"gpuwhy-{version}-py3-none-manylinux_2_17_x86_64.manylinux2014_x86_64.whl", f"gpuwhy-{version}-linux-x86_64.tar.zst",
            *(f"{name}_{version}_amd64.deb" for name in debian), *(f"{name}-{version}-1.x86_64.rpm" for name in rpm)]


@unittest.skipIf(yaml is None, "PyYAML is not installed")
class Release(Case):
    def setUp(self):
        super().setUp()
        self.workflow = yaml.safe_load(WORKFLOW.read_text())
        self.jobs = self.workflow["jobs"]
        self.steps = {step.get("name"): step for step in self.jobs["packages"]["steps"]}

    def test_every_package_is_summed_signed_and_kept(self):
        built = self.folder / "build-packages"
        built.mkdir()
        names = packages()
        self.assertGreaterEqual(len(names), 8)
        for name in (*names, "build-build.log", "installed", "glibc.log"):
            (built / name).write_text(name)
        for name in ("check", "build", "stage"):
            (built / name).mkdir()
        done = self.execute(["bash", "-e", "-c", self.steps["Collect"]["run"]])
        self.assertEqual(done.returncode, 0, done.stderr)
        release = self.folder / "release"
        self.assertEqual({path.name for path in release.iterdir()}, {*names, "SHA256SUMS"})
        sums = dict(reversed(line.split("  ")) for line in (release / "SHA256SUMS").read_text().splitlines())
        self.assertEqual(sums, {name: hashlib.sha256(name.encode()).hexdigest() for name in names})
        signed = self.folder.glob(self.steps["Sign"]["with"]["subject-path"])
        self.assertLessEqual(set(names), {path.name for path in signed})
        self.assertEqual(self.steps["Keep the packages"]["with"]["path"], "release")

    def test_the_kinds_are_those_of_the_script(self):
        kinds = re.search(r"^\[ \$# -gt 0 \] \|\| set -- (.*)$", (ROOT / "tools" / "packages.sh").read_text(), re.M)[1].split()
        endings = {"tar": ".tar.zst", "wheel": ".whl"}
        self.assertEqual({endings.get(kind, f".{kind}") for kind in kinds},
                         {re.search(r"(\.tar)?\.[a-z]+$", name)[0] for name in packages()})
        self.assertIn("make packages", self.steps["Build"]["run"])

    def test_it_starts_by_hand_without_secrets(self):
        self.assertEqual(list(self.workflow[True]), ["workflow_dispatch"])  # YAML 1.1 reads "on" as true
        self.assertEqual(self.workflow["permissions"], {"contents": "read"})
        self.assertNotIn("secrets.", WORKFLOW.read_text())
        self.assertEqual(self.jobs["packages"]["permissions"], {"contents": "read", "id-token": "write", "attestations": "write"})
        for job in self.jobs.values():
            self.assertIn("timeout-minutes", job)
            for step in job["steps"]:
                if "run" in step:
                    checked = subprocess.run(["sh", "-n"], input=step["run"].encode(), capture_output=True)
                    self.assertEqual(checked.stderr, b"", step)
