"""An IPython kernel that shows gpuwhy's verdict after a failed cell.

    gpuwhy run -- python gpuwhy_kernel.py GPUWHY -f CONNECTION_FILE

It works like `python -m ipykernel_launcher` and loads gpuwhy_ipython.py after the user's own extensions. GPUWHY is the
gpuwhy program, which is called for verdicts. `gpuwhy jupyter install` writes such a command into a kernelspec. The only
dependency is ipykernel.
"""
import importlib.util
import os
import sys


def load_verdicts(shell, program):
    """Load the extension. If that fails, cells still run, but without verdicts."""
    try:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpuwhy_ipython.py")
        spec = importlib.util.spec_from_file_location("gpuwhy_ipython", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpuwhy_ipython"] = module
        spec.loader.exec_module(module)
        module.load(shell, program)
    except Exception as reason:
        sys.modules.pop("gpuwhy_ipython", None)
        print(f"gpuwhy: no verdicts for cells: {type(reason).__name__}: {reason}", file=sys.__stderr__)


def main():
    program = sys.argv.pop(1)
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]  # our own folder; the kernel adds the current folder itself
    if os.environ.get("JPY_PARENT_PID"):
        # A kernel ends when its parent process ends. The parent is gpuwhy, which ends the kernel when the server ends.
        os.environ["JPY_PARENT_PID"] = str(os.getppid())
    from ipykernel import kernelapp

    class IPKernelApp(kernelapp.IPKernelApp):  # the class name selects the section of the user's configuration
        def init_extensions(self):
            super().init_extensions()
            load_verdicts(self.shell, program)

    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()
