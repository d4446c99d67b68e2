"""Runs under an older glibc, where one is at hand.

GPUWHY_OLD_ROOT: a folder with the root file system of an older distribution (say, made by debootstrap). gpuwhy's libraries and
the example are copied into it, and a job is recorded inside. Without it the test says that it was skipped; that the libraries
ask for no symbol newer than GLIBC_2.17 is checked always, by the hook's own test.
"""
import os
import pathlib
import shutil
import subprocess

from harness import BUILD, CNN, expect, main, skip


def copy_in(root):
    home = root / "gpuwhy-test"
    shutil.rmtree(home, ignore_errors=True)
    (home / "lib").mkdir(parents=True)
    shutil.copy(BUILD / "gpuwhy", home / "gpuwhy")
    shutil.copytree(BUILD / "lib" / "gpuwhy", home / "lib" / "gpuwhy", symlinks=True)
    shutil.copy(CNN, home / "cnn")
    return home


def test():
    root = os.environ.get("GPUWHY_OLD_ROOT")
    if not root:
        skip("GPUWHY_OLD_ROOT names no root file system with an older glibc")
    if os.geteuid() != 0:
        skip("chroot needs root")
    home = copy_in(pathlib.Path(root))
    try:
        done = subprocess.run(["chroot", root, "/gpuwhy-test/gpuwhy", "run", "--gpu", "virtual:h200,memory=4GiB", "--json",
                               "/gpuwhy-test/verdict.json", "--", "/gpuwhy-test/cnn", "--runs", "2"],
                              capture_output=True, timeout=300)
        print(done.stderr.decode(errors="replace"))
        expect(done.returncode == 0, f"exit {done.returncode}")
        expect('"clean"' in (home / "verdict.json").read_text(), "not judged clean")
    finally:
        shutil.rmtree(home, ignore_errors=True)


if __name__ == "__main__":
    main(test)
