#!/usr/bin/env python3
"""Run other people's programs on this machine's GPU with and without gpuwhy, and print every difference: the operators of
PyTorch's own database (torch.testing._internal), and NVIDIA's samples, if --samples names a copy of
github.com/NVIDIA/cuda-samples. Needs PyTorch, and nvcc for the samples.

Each program runs twice alone and once under gpuwhy. What differs between the two runs alone (times, random order of sums) is
not compared; numbers in the output of a sample never are. A verdict of a fault is a difference, too, if the program succeeded,
unless it fails on the GPU on purpose.
The last line is `N alike, N different, N not comparable`; the exit status is 1 if anything differed."""

import argparse
import concurrent.futures
import glob
import hashlib
import json
import os
import re
import subprocess
import sys
import types

LIMIT_S = 60
SAMPLES_OF_AN_OPERATOR = 6
LIBRARIES = ("cublas", "cublasLt", "cufft", "curand", "cusolver", "cusparse", "nvrtc", "nvJitLink")
# They measure for minutes, draw on a display, or take as much managed memory as there is.
LEFT_OUT = re.compile(r"UnifiedMemoryPerf|GL$|D3D|Vulkan|EGL|NvSci|NvMedia|multicast|nbody|bandwidthTest", re.I)
ASSERTS_ON_PURPOSE = re.compile(r"simpleAssert")


def add_result(digest, value):
    import torch
    if isinstance(value, torch.Tensor):
        digest.update(str((value.dtype, tuple(value.shape))).encode())
        if value.layout == torch.strided and not value.is_quantized:
            digest.update(value.detach().resolve_conj().resolve_neg().contiguous().view(-1).view(torch.uint8).cpu().numpy().tobytes()
                          if value.numel() else b"")
    elif isinstance(value, (tuple, list)):
        for item in value:
            add_result(digest, item)
    else:
        digest.update(repr(value).encode())


def run_operators():
    """Print a line for each operator: its name, and how it ended or a digest of its results."""
    sys.modules.setdefault("expecttest", types.SimpleNamespace(TestCase=__import__("unittest").TestCase))
    import torch
    torch.backends.cudnn.deterministic = True  # before the import, which forbids changes of such flags
    from torch.testing._internal.common_methods_invocations import op_db
    for op in op_db:
        digest = hashlib.sha256()
        torch.manual_seed(1)
        try:
            dtype = torch.float32 if op.supports_dtype(torch.float32, "cuda") else torch.int64
            for _, sample in zip(range(SAMPLES_OF_AN_OPERATOR), op.sample_inputs("cuda", dtype, requires_grad=False)):
                add_result(digest, op(sample.input, *sample.args, **sample.kwargs))
            torch.cuda.synchronize()
            result = digest.hexdigest()[:16]
        except Exception as error:
            result = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        print(f"{op.name}.{op.variant_test_name}\t{result}", flush=True)


def status_and_output(command, folder, limit_s):
    try:
        done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                              timeout=limit_s, env={**os.environ, "PYTHONHASHSEED": "0"})
        return done.returncode, done.stdout
    except subprocess.TimeoutExpired:
        return "time limit", ""


def three_times(gpuwhy, argv, folder, limit_s, at_once=1):
    """Return (status, stdout) of two runs alone and of one under gpuwhy, and its verdict."""
    verdict = os.path.join(folder, "peers-verdict.json")
    behind = [gpuwhy, "run", "--no-history", "--json", verdict, "-o", os.path.join(folder, "peers.gpuwhy"), "--", *argv]
    with concurrent.futures.ThreadPoolExecutor(at_once) as pool:
        results = list(pool.map(lambda command: status_and_output(command, folder, limit_s), (argv, argv, behind)))
    try:
        with open(verdict) as file:
            return results, json.load(file)
    except (OSError, ValueError):
        return results, {}


def is_false_alarm(name, results, verdict):
    return results[0][0] == 0 and verdict.get("status") == "fault" and not ASSERTS_ON_PURPOSE.match(name)


class Count:
    def __init__(self):
        self.alike = self.different = self.unsteady = 0

    def add(self, name, alone, again, under, false_alarm=False):
        if alone != again and not false_alarm:
            self.unsteady += 1
        elif alone == under and not false_alarm:
            self.alike += 1
        else:
            self.different += 1
            print(f"different  {name}: alone {str(alone)[:300]}; under gpuwhy {str(under)[:300]}"
                  + (", and a fault is reported" if false_alarm else ""), flush=True)


def compare_operators(options, count):
    results, verdict = three_times(options.gpuwhy, [options.python, os.path.realpath(__file__), "--operators"], options.out, 1200, at_once=3)
    tables = [dict(line.split("\t", 1) for line in out.splitlines() if "\t" in line) for _, out in results]
    count.add("all operators", results[0][0], results[1][0], results[2][0], is_false_alarm("", results, verdict))
    for name in tables[0]:
        count.add(name, *(table.get(name) for table in tables))
    print(f"operators of PyTorch: {len(tables[0])}; verdict: {verdict.get('status')} {verdict.get('cause') or ''}", flush=True)


def build_sample(folder, common):
    name = os.path.basename(folder)
    sources = [path for kind in ("*.cu", "*.cpp", "*.c") for path in sorted(glob.glob(os.path.join(folder, kind)))]
    program = os.path.join(folder, "peers-program")
    libraries = [f"-l{name}" for name in LIBRARIES if glob.glob(f"/usr/local/cuda/lib64/lib{name}.so")]
    if not sources or LEFT_OUT.search(name):
        return None
    done = subprocess.run(["nvcc", "-arch=native", "-O1", "-std=c++17", "-w", "-rdc=true", "-Xcompiler", "-fopenmp", "-I", common, "-o",
                           program, *sources, "-lcuda", *libraries], capture_output=True, text=True, cwd=folder)
    return program if done.returncode == 0 else None


def compare_sample(options, folder):
    program = build_sample(folder, os.path.join(options.samples, "Common"))
    return program and (folder, *three_times(options.gpuwhy, [program], folder, LIMIT_S))


def compare_samples(options, count):
    folders = sorted(path for path in glob.glob(os.path.join(options.samples, "Samples", "*", "*")) if os.path.isdir(path))
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = [found for found in pool.map(lambda folder: compare_sample(options, folder), folders) if found]
    for folder, results, verdict in done:
        steady = [(status, re.sub(r"[-+]?[0-9a-f.]*\d[0-9a-f.]*", "#", out)) for status, out in results]
        name = os.path.basename(folder)
        count.add(name, *steady, false_alarm=is_false_alarm(name, results, verdict))
    well = sum(results[0][0] == 0 for _, results, _ in done)
    print(f"samples of NVIDIA: {len(done)} of {len(folders)} could be built here; {well} of them succeed alone", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gpuwhy", default="build/gpuwhy")
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has PyTorch")
    parser.add_argument("--samples", help="a copy of github.com/NVIDIA/cuda-samples; programs are built in it")
    parser.add_argument("--jobs", type=int, default=6, help="samples at once")
    parser.add_argument("--out", default="build/peers", help="folder for recordings")
    parser.add_argument("--operators", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.operators:
        return run_operators()
    options.gpuwhy, options.out = os.path.abspath(options.gpuwhy), os.path.abspath(options.out)
    os.makedirs(options.out, exist_ok=True)
    count = Count()
    compare_operators(options, count)
    if options.samples:
        options.samples = os.path.abspath(options.samples)
        compare_samples(options, count)
    print(f"{count.alike} alike, {count.different} different, {count.unsteady} not comparable")
    return 1 if count.different else 0


if __name__ == "__main__":
    sys.exit(main())
