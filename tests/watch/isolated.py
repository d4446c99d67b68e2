"""Runs tests in namespaces of their own: `isolated.py TEST..`. `gpuwhy watch` sees all runs of the machine, so the
runs of other tests must not be visible. Without namespaces the tests are skipped (exit status 77)."""
import os
import shutil
import subprocess
import sys

INSIDE = "GPUWHY_TEST_INSIDE"
# Root keeps its user namespace, so that the tests can start programs as another user.
UNSHARE = ["unshare", *([] if os.geteuid() == 0 else ["--user", "--map-root-user"]), "--mount", "--pid", "--fork",
           "--mount-proc"]
# Folders in which programs leave files; the one that holds the sources or the build stays visible.
FOLDERS = ["/dev/shm", "/tmp", "/var/tmp", "/run"]
NEEDED = [os.path.realpath(path) + "/" for path in (".", os.environ["GPUWHY"], os.environ["GPUWHY_SOURCE"], sys.executable)]
HIDDEN = [folder for folder in FOLDERS if not any(path.startswith(folder + "/") for path in NEEDED)]
PRIVATE = f'for f in {" ".join(HIDDEN)}; do mount -t tmpfs -o mode=1777 none $f || exit 77; done; exec "$@"'


def main():
    if shutil.which("unshare") is None or subprocess.run([*UNSHARE, "true"], stderr=subprocess.DEVNULL).returncode != 0:
        print("SKIP: needs unshare, and root or user namespaces")
        sys.exit(77)
    os.environ[INSIDE] = "1"
    os.environ.pop("XDG_RUNTIME_DIR", None)
    os.execvp(UNSHARE[0], [*UNSHARE, "sh", "-c", PRIVATE, "sh", sys.executable, "-B", "-m", "unittest", *sys.argv[1:]])


if __name__ == "__main__":
    main()
