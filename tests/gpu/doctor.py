"""Run `gpuwhy doctor` on a machine that runs CUDA programs: no check may fail. Run it by hand.

    GPUWHY_BUILD=build python3 tests/gpu/doctor.py [python of an environment with PyTorch]
"""
import json
import os
import subprocess
import sys
import time

GPUWHY = os.path.join(os.environ.get("GPUWHY_BUILD", "build"), "gpuwhy")


def ask(*words):
    begin = time.monotonic()
    done = subprocess.run([GPUWHY, "doctor", "--json", *words], capture_output=True, text=True, timeout=120)
    if done.returncode not in (0, 1):
        sys.exit(f"exit status {done.returncode}: {done.stderr}")
    page = json.loads(done.stdout)
    print(f"doctor {' '.join(words)}: {time.monotonic() - begin:.1f} s, {page['counts']}")
    for check in page["checks"]:
        print(f"  {check['state']:8}{check['section']:12}{check['id']:28}{check['text'][:150]}")
    return page


def main():
    page = ask("--", sys.argv[1] if len(sys.argv) > 1 else sys.executable)
    fails = [check["text"] for check in page["checks"] if check["state"] == "fail"]
    for key, value in sorted(page["facts"].items()):
        if not key.startswith(("env.", "python.package", "library.")):
            print(f"    {key}={value}")
    sys.exit(f"said to fail on a machine that works: {fails}" if fails else 0)


main()
