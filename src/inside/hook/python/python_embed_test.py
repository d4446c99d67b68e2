"""Run the embedding program PROGRAM with the shared library of the interpreter that runs this script.

    python_embed_test.py PROGRAM"""
import os
import subprocess
import sys
import sysconfig

SKIPPED = 77


def library():
    name = sysconfig.get_config_var("INSTSONAME") or ""
    folders = [sysconfig.get_config_var(key) or "" for key in ("LIBDIR", "LIBPL")]
    folders += [os.path.join(sys.base_prefix, "lib"), "/usr/lib/" + (sysconfig.get_config_var("MULTIARCH") or "")]
    version = "%d.%d" % sys.version_info[:2]
    for folder in folders:
        for file in (name, "libpython%s.so.1.0" % version, "libpython%s.so" % version):
            path = os.path.join(folder, file)
            if ".so" in file and os.path.exists(path):
                return path
    return None


path = library()
if path is None or sys.executable != os.environ.get("GPUWHY_TEST_PYTHON", sys.executable):
    print("skipped: this CPython %s has no library of its own, or one for another C library" % sys.version.split()[0])
    sys.exit(SKIPPED)
environment = dict(os.environ, PYTHONHOME=sys.base_prefix)
sys.exit(subprocess.run([sys.argv[1], path, "%d.%d" % sys.version_info[:2]], env=environment, check=False).returncode)
