"""Run every program of scenarios.py on this machine's GPU under gpuwhy, and check the verdicts.

usage: check_gpu.py [--build DIR] [--only PATTERN] [--jobs N] [--out DIR] [--results FILE] [--seconds S]

Exits 0 if every verdict was right, 1 if one was wrong, 2 if nothing can be tested here (no GPU, no gpuwhy). A
program whose tools are missing (nvcc, PyTorch, JAX, CuPy, ...) is printed as skipped. Only the .cu programs are
built. Writes docs/gpu-results.md, and one archive into --out with all verdicts, the small recordings and the
failures.
"""

import argparse
import concurrent.futures
import datetime
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tarfile
import threading
import time

import scenarios

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
RECORDING_BYTES_MAX = 200_000
IMPORTS = {"numba": "import numpy; numpy.row_stack = numpy.vstack; import numba.cuda",  # numpy 2.5 lacks it
           "keras": "import os; os.environ['KERAS_BACKEND'] = 'torch'; import keras"}


def has_device():
    """Read the GPU's properties in a separate process, because this one must not hold the GPU."""
    code = ("import ctypes, sys\n"
            "n = ctypes.c_int(0)\n"
            "try: d = ctypes.CDLL('libcuda.so.1')\n"
            "except OSError as e: sys.exit(f'no driver: {e}')\n"
            "r = d.cuInit(0) or d.cuDeviceGetCount(ctypes.byref(n))\n"
            "sys.exit(f'the driver answers {r} and sees {n.value} devices' if r or not n.value else 0)\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    return None if done.returncode == 0 else done.stderr.strip() or f"exit {done.returncode}"


def device_count():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
        return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    except (OSError, subprocess.TimeoutExpired):
        return 0


def card():
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"],
                              capture_output=True, text=True, timeout=60)
        name, driver, memory = (part.strip() for part in done.stdout.splitlines()[0].split(","))
        return {"name": name, "driver": driver, "memory": memory}
    except (OSError, ValueError, IndexError, subprocess.TimeoutExpired):
        return {"name": "unknown card", "driver": "unknown", "memory": "unknown"}


class Finished:
    def __init__(self, status, out, err, seconds, timed_out):
        self.status, self.out, self.err, self.seconds, self.timed_out = status, out, err, seconds, timed_out


def run(argv, env, cwd, limit_s, merged=False):
    """Run a command in its own process group, so that everything can be ended at its time limit. merged: as with
    `2>&1 | tee`."""
    begin = time.monotonic()
    process = subprocess.Popen(argv, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.STDOUT if merged else subprocess.PIPE, text=True, errors="replace",
                               start_new_session=True)
    timed_out = False
    try:
        out, err = process.communicate(timeout=limit_s)
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGTERM)
        try:
            out, err = process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            out, err = process.communicate()
    return Finished(process.returncode, out, err or "", time.monotonic() - begin, timed_out)


class Harness:
    def __init__(self, options):
        self.options = options
        self.gpuwhy = os.path.join(options.build, "gpuwhy")
        self.work = os.path.join(options.build, "check-gpu")
        shutil.rmtree(self.work, ignore_errors=True)
        os.makedirs(self.work)
        self.deadline = time.monotonic() + options.seconds
        self.lock = threading.Lock()
        self.cuda_programs = {}
        self.skipped = {}
        self.devices = device_count()

    # ---- the programs to run ----

    def build_cuda(self, wanted):
        nvcc = shutil.which("nvcc") or next(
            (p for p in ("/usr/local/cuda/bin/nvcc",) if os.access(p, os.X_OK)), None)
        if nvcc is None:
            self.skipped["cuda"] = "nvcc not found"
            return
        library = os.path.join(os.path.dirname(os.path.dirname(os.path.realpath(nvcc))), "lib64")
        jobs = []
        for program, linking in sorted(wanted):
            target = os.path.join(self.work, f"{program}-{linking}")
            jobs.append((program, linking, target,
                         [nvcc, "-arch=native", "-O1", "-lineinfo", f"-cudart={linking}", "-Xlinker", f"-rpath,{library}", "-o", target,
                          os.path.join(HERE, "cuda", program + ".cu")]))
        with concurrent.futures.ThreadPoolExecutor(max(2, (os.cpu_count() or 2) // 2)) as pool:
            done = pool.map(lambda job: subprocess.run(job[3], capture_output=True, text=True), jobs)
            for (program, linking, target, _), result in zip(jobs, done):
                if result.returncode == 0:
                    self.cuda_programs[program, linking] = target
                else:
                    print(f"nvcc failed on {program} ({linking}): {result.stderr.strip()[:300]}")

    def look_for(self, module):
        code = IMPORTS.get(module, "import {0}").format(module) + f"; print({module}.__version__)"
        done = subprocess.run([self.options.python, "-c", code], capture_output=True, text=True, cwd="/")
        if done.returncode != 0:
            self.skipped[module] = f"{self.options.python} has no {module}"
        return done.stdout.strip()

    def argv(self, row):
        if row.kind.startswith("cuda"):
            return [self.cuda_programs[row.program, row.kind.split()[1]], *row.arguments]
        folder = "torch" if row.kind == "snapshot" else row.kind
        return [self.options.python, os.path.join(HERE, folder, row.program + ".py"), *row.arguments]

    def environment(self, row):
        return {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **row.env}

    def why_skipped(self, row):
        if row.kind.startswith("cuda"):
            if "cuda" in self.skipped:
                return self.skipped["cuda"]
            if (row.program, row.kind.split()[1]) not in self.cuda_programs:
                return None  # it did not compile: this is a failure, not a skip
        for module in row.modules():
            if module in self.skipped:
                return self.skipped[module]
        if set(row.needs) & set(scenarios.TWO_GPUS) and self.devices < 2:
            return f"{self.devices} GPU here, and it needs two"
        return None

    # ---- one row ----

    def run_row(self, index, row):
        result = {"row": row, "name": row.name(), "wrong": [], "verdict": None, "seconds": 0.0, "skipped": None}
        result["skipped"] = self.why_skipped(row)
        left = self.deadline - time.monotonic()
        if result["skipped"] is None and left < 20:
            result["skipped"] = "out of time"
        if result["skipped"]:
            return result
        folder = os.path.join(self.work, f"{index:03d}")
        os.makedirs(folder)
        if row.kind.startswith("cuda") and (row.program, row.kind.split()[1]) not in self.cuda_programs:
            result["wrong"].append("did not compile")
            return result
        if row.kind == "snapshot":
            return self.run_snapshot(row, folder, left, result)
        verdict_path, recording = os.path.join(folder, "verdict.json"), os.path.join(folder, "run.gpuwhy")
        command = [self.gpuwhy, "run", "--json", verdict_path, "-o", recording]
        if row.memory:
            command += ["--memory", row.memory]
        command += row.options
        argv, env = self.argv(row), self.environment(row)
        observed = run(command + ["--"] + argv, env, folder, min(self.options.limit, left), row.merged)
        result["seconds"] = observed.seconds
        for name, text in (("stdout.txt", observed.out), ("stderr.txt", observed.err)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        if observed.timed_out:
            result["wrong"].append(f"did not end within {self.options.limit} s")
        self.judge(row, verdict_path, observed, result)
        if row.compare and not observed.timed_out:
            self.compare(argv, env, folder, observed, result)
        return result

    def run_snapshot(self, row, folder, left, result):
        """Run the program alone, then `gpuwhy explain` on its snapshot."""
        snapshot, verdict_path = os.path.join(folder, "snapshot.pickle"), os.path.join(folder, "verdict.json")
        saved = run(self.argv(row) + [snapshot], self.environment(row), folder, min(self.options.limit, left))
        if not os.path.exists(snapshot):
            result["wrong"].append(f"no snapshot was saved: exit {saved.status}, {saved.err.strip()[-200:]}")
            return result
        explained = run([self.gpuwhy, "explain", "--json", snapshot], dict(os.environ), folder, 60)
        with open(verdict_path, "w") as f:
            f.write(explained.out)
        result["seconds"] = explained.seconds
        self.judge(row, verdict_path, explained, result)
        if explained.err:
            result["wrong"].append(explained.err.strip())
        if result["verdict"] and result["verdict"].get("certainty") == "established":
            result["wrong"].append("established: more than a snapshot can know")
        return result

    def judge(self, row, verdict_path, observed, result):
        wrong = result["wrong"]
        try:
            with open(verdict_path) as f:
                verdict = result["verdict"] = json.load(f)
        except (OSError, ValueError) as error:
            wrong.append(f"no verdict: {error}")
            return
        if verdict.get("status") not in row.statuses:
            wrong.append(f"status {verdict.get('status')}, not {' or '.join(row.statuses)}")
        if verdict.get("cause") not in row.causes:
            wrong.append(f"cause {verdict.get('cause')}, not {' or '.join(map(str, row.causes))}")
        elif verdict.get("status") == "fault" and verdict.get("certainty") not in row.certain:
            wrong.append(f"{verdict.get('certainty')}, not {' or '.join(row.certain)}")
        place = (verdict.get("where") or {}).get("text")
        if row.at is not None and not re.search(row.at, place or ""):
            wrong.append(f"its place is {place}, not /{row.at}/")
        for fact in row.facts:
            if not fact.holds(verdict):
                wrong.append(f"not in the evidence: {fact}")
        if "--core" in row.options and row.status == "fault" and "trap" not in row.arguments:
            if observed.status != -signal.SIGABRT:
                wrong.append(f"exit status {observed.status}: the driver did not end the process after a dump")
        if row.status == "clean" and observed.status != 0 and not observed.timed_out:
            wrong.append(f"the program exited {observed.status}: {observed.err.strip()[-200:]}")
        program = verdict.get("program") or {}
        if observed.status >= 0 and program.get("exit") not in (observed.status, None):
            wrong.append(f"the verdict says exit {program.get('exit')}, gpuwhy exited {observed.status}")

    def compare(self, argv, env, folder, observed, result):
        """Compare with runs without gpuwhy. If the first one differs, run a second: the two without gpuwhy must be
        equal."""
        left = max(1.0, self.deadline - time.monotonic())
        # Without gpuwhy's limit, JAX takes three quarters of the whole card, and the rows beside it fail.
        env = {"XLA_PYTHON_CLIENT_MEM_FRACTION": ".05", **env}
        first = run(argv, env, folder, min(self.options.limit, left))
        if (first.status, first.out) == (observed.status, observed.out):
            return
        second = run(argv, env, folder, min(self.options.limit, left))
        for name, text in (("without-1.txt", first.out), ("without-2.txt", second.out)):
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        if first.timed_out or second.timed_out:
            result["wrong"].append("the program alone did not end in time: nothing to compare with")
        elif (first.status, first.out) != (second.status, second.out):
            result["wrong"].append("the program alone does not repeat itself: nothing to compare with")
        elif first.status != observed.status:
            result["wrong"].append(f"exit status {observed.status} with, {first.status} without")
        else:
            result["wrong"].append("stdout differs from that without gpuwhy")

    # ---- the driver's own programs: tests/conformance and the scenarios of tests/e2e on this GPU ----

    def run_driver_part(self, command, env, row, limit_s):
        """Run a program that checks itself: exit 0 right, 77 skipped, otherwise wrong."""
        done = run(command, {**os.environ, **env}, self.work, limit_s)
        lines = [line for line in done.out.splitlines() if line.strip()] or ["printed nothing"]
        result = {"row": row, "name": row.name(), "wrong": [], "verdict": None, "seconds": done.seconds, "skipped": None,
                  "said": lines[-1] if row.program == "conformance" else lines[0]}
        if done.timed_out:
            result["wrong"].append(f"did not end within {limit_s:.0f} s")
        elif done.status == 77:
            result["skipped"] = lines[0]
        elif done.status != 0:
            result["wrong"].append("; ".join(line.strip() for line in lines if not line.startswith("ok "))[:400])
        return result

    @staticmethod
    def skipped_part(row, why):
        return {"row": row, "name": row.name(), "wrong": [], "verdict": None, "seconds": 0, "skipped": why, "said": why}

    def run_conformance(self):
        program = os.path.join(self.options.build, "tests", "conformance", "conformance")
        row = scenarios.Row("-", "driver", "conformance")
        if not os.access(program, os.X_OK):
            return self.skipped_part(row, f"{program} is not built")
        return self.run_driver_part([program, "--card-memory-light"], {}, row, 120)

    def run_driver_scenarios(self):
        script = os.path.join(ROOT, "tests", "e2e", "scenarios.py")
        env = {"GPUWHY_BUILD": self.options.build, "GPUWHY_E2E_GPU": "real", "PYTHONDONTWRITEBYTECODE": "1"}
        names = subprocess.run([sys.executable, script, "--list", "--real"], capture_output=True, text=True,
                               env={**os.environ, **env}).stdout.split()
        if not names:
            raise RuntimeError("tests/e2e/scenarios.py lists nothing")
        rows = [scenarios.Row(name.split("-")[0], "driver", name) for name in names]
        wanted = [r for r in rows if not self.options.only or re.search(self.options.only, r.name())]
        results = []
        for row in wanted:  # one after the other, because some use the whole GPU
            results.append(self.run_driver_part([sys.executable, script, row.program], env, row, 60))
            print(line_of(results[-1]), flush=True)
        return results

    def run_hangs(self):
        """S27: programs that hang and programs that only look like it, all at the same time."""
        script = os.path.join(ROOT, "tests", "e2e", "hangs.py")
        env = {"GPUWHY_BUILD": self.options.build, "GPUWHY_E2E_GPU": "real", "PYTHONDONTWRITEBYTECODE": "1"}
        result = self.run_driver_part([sys.executable, script], env, scenarios.Row("S27", "driver", "hangs"), 180)
        print(line_of(result), flush=True)
        return result

    def run_scope(self):
        """libgpuscope: a hundred runs in one process, with the driver's free memory before and after each."""
        script = os.path.join(ROOT, "libgpuscope", "tests", "scope.py")
        env = {"GPUWHY_BUILD": self.options.build, "GPUWHY_PRODUCT": os.path.join(self.options.build, "libgpuscope"), "GPUWHY_E2E_GPU": "real",
               "PYTHONDONTWRITEBYTECODE": "1"}
        result = self.run_driver_part([sys.executable, script], env, scenarios.Row("-", "driver", "scope"), 180)
        print(line_of(result), flush=True)
        return result

    # ---- all rows ----

    def run_all(self, rows):
        results = [None] * len(rows)

        def one(pair):
            index, row = pair
            try:
                results[index] = self.run_row(index, row)
            except Exception as error:  # one broken row must not hide the others
                results[index] = {"row": row, "name": row.name(), "verdict": None, "seconds": 0.0, "skipped": None,
                                  "wrong": [f"the harness failed: {type(error).__name__}: {error}"]}
            with self.lock:
                print(line_of(results[index]), flush=True)

        # Start the slow ones first, because they decide when everything is done.
        order = sorted(enumerate(rows), key=lambda pair: pair[1].kind.startswith("cuda"))
        with concurrent.futures.ThreadPoolExecutor(self.options.jobs) as pool:
            list(pool.map(one, [pair for pair in order if not pair[1].alone]))
        for pair in order:
            if pair[1].alone:
                one(pair)
        return results


def line_of(result):
    if result["skipped"]:
        return f"skipped  {result['name']}: {result['skipped']}"
    verdict = result["verdict"] or {}
    said = result.get("said") or verdict.get("cause") or verdict.get("status") or "-"
    certainty = verdict.get("certainty") or ""
    text = f"{'WRONG' if result['wrong'] else 'right':8} {result['name']}: {said} {certainty} ({result['seconds']:.1f} s)"
    return text + "".join(f"\n         - {reason}" for reason in result["wrong"])


def said_by_program(line):
    """Parse "fault, illegal-address (established): ..." as cause and certainty; return other lines unchanged."""
    match = re.match(r"(\w+), ([\w-]+) \((\w+)\):", line)
    if match is None:
        return line.replace("|", "/")[:60], "-"
    status, cause, certainty = match.groups()
    return (status if cause == "None" else cause), ("-" if certainty == "None" else certainty)


def said_by(r):
    """Return the cause or status of a result's verdict, and its certainty."""
    if "said" in r:
        return said_by_program(r["said"])
    verdict = r["verdict"] or {}
    return verdict.get("cause") or verdict.get("status") or "-", verdict.get("certainty") or "-"


def write_results(path, results, machine, versions):
    ran = [r for r in results if not r["skipped"]]
    wrong = [r for r in ran if r["wrong"]]
    lines = ["# Verdicts on a real card", "",
             "Written by `make check-gpu`. The programs are those of `tests/gpu`, and for the kind driver of `tests/e2e`; twins are "
             "the same programs repaired, and must be found clean.", "",
             f"{machine['name']} ({machine['memory']}), driver {machine['driver']}, {versions}, "
             f"{datetime.date.today().isoformat()}: {len(ran) - len(wrong)} of {len(ran)} right"
             f"{', %d skipped' % (len(results) - len(ran)) if len(ran) != len(results) else ''}.", "",
             "| kind | verdict | certainty | programs | scenarios |", "|---|---|---|---|---|"]
    right = {}
    for r in ran:
        if not r["wrong"]:
            right.setdefault((r["row"].kind.split()[0], *said_by(r)), []).append(r["row"])
    for key, rows in sorted(right.items()):
        names = dict.fromkeys(row.id if row.id != "-" else row.program for row in rows)
        lines.append(f"| {' | '.join(key)} | {len(rows)} | {', '.join(names)} |")
    lines += ["", "Not right, or skipped:", ""] if len(ran) - len(wrong) < len(results) else []
    for r in results:
        if r["skipped"] or r["wrong"]:
            why = " ".join((r["skipped"] or "; ".join(r["wrong"])).split())
            program = " ".join((r["row"].program,) + r["row"].arguments + r["row"].options) + r["row"].note
            lines.append(f"- {r['row'].id} {r['row'].kind}, {program}: {', '.join(said_by(r))}; {why}")
    old = open(path).read() if os.path.exists(path) else ""
    lines += ["\n## " + section.rstrip("\n") for section in old.split("\n## ")[1:]]  # written by hand
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")


def pack(work, out, results, results_path):
    """Make one archive: every verdict, the failures with their output, and the recordings that are small enough."""
    os.makedirs(out, exist_ok=True)
    copy = os.path.join(out, "gpu-results.md")
    if os.path.abspath(results_path) != os.path.abspath(copy):
        shutil.copy(results_path, copy)
    with tarfile.open(os.path.join(out, "check-gpu.tar.gz"), "w:gz") as archive:
        for index, r in enumerate(results):
            folder = os.path.join(work, f"{index:03d}")
            label = re.sub(r"[^A-Za-z0-9]+", "-", r["name"]).strip("-").lower()
            for name in ("verdict.json", "run.gpuwhy", "stdout.txt", "stderr.txt", "without-1.txt", "without-2.txt"):
                path = os.path.join(folder, name)
                if not os.path.exists(path):
                    continue
                small = os.path.getsize(path) < RECORDING_BYTES_MAX
                if name == "verdict.json" or small and (name == "run.gpuwhy" or r["wrong"]):
                    archive.add(path, f"{label}/{name}")


def parts_of(harness, rows):
    """Return the parts to run, in order: functions that return results."""
    only = harness.options.only

    def said(result):
        print(line_of(result), flush=True)
        return [result]

    yield lambda: harness.run_all(rows)
    if not only:
        yield lambda: said(harness.run_conformance())
    yield harness.run_driver_scenarios
    if not only or re.search(only, "S27"):
        yield lambda: [harness.run_hangs()]
    if not only or re.search(only, "scope"):
        yield lambda: [harness.run_scope()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=os.path.join(ROOT, "build"), help="folder with the built gpuwhy")
    parser.add_argument("--only", help="run rows whose name matches this regular expression")
    parser.add_argument("--jobs", type=int, default=max(1, min(6, (os.cpu_count() or 2) // 2)))
    parser.add_argument("--limit", type=float, default=90, help="seconds for one program")
    parser.add_argument("--seconds", type=float, default=520, help="seconds for the whole run")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch and JAX")
    parser.add_argument("--out", help="folder for the archive and the table")
    parser.add_argument("--results", default=os.path.join(ROOT, "docs", "gpu-results.md"))
    parser.add_argument("--list", action="store_true", help="print the rows and end")
    options = parser.parse_args()
    options.build = os.path.abspath(options.build)
    rows = [r for r in scenarios.rows() if not options.only or re.search(options.only, r.name())]
    if options.list:
        print("\n".join(r.name() for r in rows))
        return 0
    reason = has_device()
    if reason is not None:
        print(f"check-gpu: no CUDA device here ({reason}): nothing was tested")
        return 2
    if not rows or not os.access(os.path.join(options.build, "gpuwhy"), os.X_OK):
        print(f"check-gpu: {'no row matches' if not rows else options.build + '/gpuwhy is not built'}: nothing was tested")
        return 2
    harness = Harness(options)
    machine = card()
    versions = []
    for module in dict.fromkeys(module for r in rows for module in r.modules()):
        versions.append(f"{module} {harness.look_for(module) or 'absent'}")
    harness.build_cuda({(r.program, r.kind.split()[1]) for r in rows if r.kind.startswith("cuda")})
    print(f"{machine['name']}, driver {machine['driver']}; {len(rows)} rows, {options.jobs} at once", flush=True)
    os.makedirs(os.path.dirname(os.path.abspath(options.results)), exist_ok=True)
    results = []
    for part in parts_of(harness, rows):
        results += part()
        # The run takes long and may be interrupted, so save the results so far.
        write_results(options.results, results, machine, ", ".join(versions) or "no framework")
        if options.out:
            pack(harness.work, options.out, results, options.results)
    wrong = [r for r in results if r["wrong"]]
    skipped = [r for r in results if r["skipped"]]
    print(f"\n{len(results) - len(wrong) - len(skipped)} right, {len(wrong)} wrong, {len(skipped)} skipped; "
          f"table in {options.results}")
    return 1 if wrong or len(skipped) == len(results) else 0


if __name__ == "__main__":
    sys.exit(main())
