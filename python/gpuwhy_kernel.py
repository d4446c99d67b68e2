"""An IPython kernel whose failed cells are followed by gpuwhy's verdict.

    gpuwhy run -- python gpuwhy_kernel.py GPUWHY -f CONNECTION_FILE

As `python -m ipykernel_launcher`, with gpuwhy_ipython.py loaded after the user's own extensions. GPUWHY is the program
that is asked for verdicts. `gpuwhy jupyter install` writes such a command into a kernelspec. Needs ipykernel alone.
"""
import importlib.util
import os
import sys


def load_verdicts(shell, program):
    """Cells run without verdicts rather than not at all."""
    try:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "gpuwhy_ipython.py")
        spec = importlib.util.spec_from_file_location("gpuwhy_ipython", path)
        module = importlib.util.module_from_spec(spec)
        sys.modules["gpuwhy_ipython"] = module
        spec.loader.exec_module(module)
        module.load(shell, program)
    except Exception as reason:
        sys.modules.pop("gpuwhy_ipython", None)
        print(f"gpuwhy: cells get no verdicts: {type(reason).__name__}: {reason}", file=sys.__stderr__)


def main():
    program = sys.argv.pop(1)
    here = os.path.dirname(os.path.abspath(__file__))
    if sys.path and os.path.abspath(sys.path[0]) == here:
        del sys.path[0]  # ours; the kernel puts the current folder there itself
    if os.environ.get("JPY_PARENT_PID"):
        # A kernel ends when its parent has gone: that is gpuwhy, which ends the kernel when the server has gone.
        os.environ["JPY_PARENT_PID"] = str(os.getppid())
    from ipykernel import kernelapp

    class IPKernelApp(kernelapp.IPKernelApp):  # the name is that of the section in the user's configuration
        def init_extensions(self):
            super().init_extensions()
            load_verdicts(self.shell, program)

    IPKernelApp.launch_instance()


if __name__ == "__main__":
    main()
