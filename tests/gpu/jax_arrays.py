"""Check what gpuwhy records of JAX's live arrays when a program ends because JAX is out of memory. Run by hand on a
GPU:

    python3 tests/gpu/jax_arrays.py [--build build]

Three programs run under `gpuwhy run` in a pool of about 4 GiB: a loop that keeps 8 MiB per step, one request that is
too large, and the loop with its exception caught. For each, prints what was recorded, the number of equal arrays
beside the number that the program counted itself, the exit status with and without gpuwhy, and the verdict's first
lines. Exits 1 if the counts differ. Needs JAX and a build; --child is for internal use.
"""

import argparse
import csv
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]


def child(what):
    import jax
    import jax.numpy as jnp
    kept = []
    limit = jax.local_devices()[0].memory_stats()["bytes_limit"]
    try:
        if what == "large":
            kept.append(jnp.zeros((1024, 1024), jnp.float32))
            jnp.zeros((limit // 4 + 1024,), jnp.float32).block_until_ready()
        for step in range(100000):
            kept.append(jnp.full((2048, 1024), step, jnp.float32))
            kept[-1].block_until_ready()
    except Exception:
        print(f"kept {len(kept)}", flush=True)
        if what != "caught":
            raise


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default=str(ROOT / "build"))
    parser.add_argument("--child")
    options = parser.parse_args()
    if options.child:
        return child(options.child)
    gpuwhy, good = str(pathlib.Path(options.build).resolve() / "gpuwhy"), True
    for what in ("leak", "large", "caught"):
        with tempfile.TemporaryDirectory() as folder:
            environment = dict(os.environ, XDG_STATE_HOME=folder, XLA_PYTHON_CLIENT_MEM_FRACTION=".03")
            words = [sys.executable, "-B", __file__, "--child", what]
            plain = subprocess.run(words, env=environment, capture_output=True, text=True)
            recording = f"{folder}/run.gpuwhy"
            seen = subprocess.run([gpuwhy, "run", "--quiet", "-o", recording, "--"] + words, env=environment,
                                  capture_output=True, text=True)
            table = subprocess.run([gpuwhy, "export", recording, "--to", "csv"], capture_output=True, text=True).stdout
            said = subprocess.run([gpuwhy, "explain", recording], capture_output=True, text=True).stdout
        csv.field_size_limit(1 << 20)
        rows = [row for row in csv.DictReader(table.splitlines()) if row["kind"].startswith("ARRAYS")]
        kept = re.search(r"kept (\d+)", seen.stdout)
        print(f"\n{what}: exit status {plain.returncode} without, {seen.returncode} with gpuwhy; the program kept "
              f"{kept.group(1) if kept else '?'} arrays")
        for row in rows[:4]:
            print(f"  {row['kind']:10} {row['arg0']:>14} {row['arg1']:>14} {row['arg2']:>14} {row['arg3']:>14}  {row['value']}")
        equal = [int(row["arg1"]) for row in rows if row["value"] == "float32[2048,1024]"]
        if what == "leak":
            good &= bool(kept and equal and abs(equal[0] - int(kept.group(1))) <= 2)
        else:
            good &= (rows == []) == (what == "caught")
        good &= plain.returncode == seen.returncode
        print("\n".join(said.splitlines()[:8]))
    print("\nas it should be" if good else "\nNOT as it should be")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
