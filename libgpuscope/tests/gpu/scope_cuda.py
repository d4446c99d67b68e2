"""libgpuscope with the CUDA runtime on a real card, by hand: python3 libgpuscope/tests/gpu/scope_cuda.py [build folder]

Builds scope_cuda.cu and the examples leaky and repaired with a static and a shared runtime, against the build's
libgpuscope, and runs them. leaky gets a card of 1 GiB by `gpuwhy run --memory`, and must fail there; repaired must not. Exits
0 if all is as expected, 2 without nvcc.
"""
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]


def main():
    build = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else SOURCE.parent / "build").resolve()
    nvcc = shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc"
    if not os.access(nvcc, os.X_OK):
        print("skipped: nvcc not found")
        return 2
    runtime = pathlib.Path(os.path.realpath(nvcc)).parents[1] / "lib64"
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        programs = [HERE / "scope_cuda.cu", *(SOURCE / "examples" / f"{name}.c" for name in ("leaky", "repaired"))]
        for linking in ("static", "shared"):
            for source in programs:
                target = pathlib.Path(folder) / f"{source.stem}-{linking}"
                subprocess.run([nvcc, "-arch=native", "-lineinfo", f"-cudart={linking}", "-I", SOURCE / "include", source, "-o", target,
                                build / "libgpuscope" / "libgpuscope.a", "-ldl", "-lpthread", "-Xlinker", f"-rpath,{runtime}"], check=True)
                command = [target]
                if source.stem == "leaky":
                    command = [build / "gpuwhy", "run", "--memory", "1GiB", "--", target]
                done = subprocess.run(command, capture_output=True, text=True)
                expected = 1 if source.stem == "leaky" else 0
                is_right = done.returncode == expected
                wrong += not is_right
                print(f"{'passed' if is_right else 'FAILED'}: {target.name}: exit {done.returncode}, expected {expected}")
                print("\n".join("    " + line for line in (done.stdout + done.stderr).splitlines()[-12:]))
    return 1 if wrong else 0


sys.exit(main())
