"""Facts about PyTorch's allocator hooks on which the recorder's observer relies.

Prints for the installed PyTorch: signatures, the arguments and thread of the out-of-memory observer, whether the
allocator can be queried inside it, the form of the statistics and of the snapshot, and times. Needs one CUDA device.
Each finding is one line `name: value`.
"""

import gc
import os
import subprocess
import sys
import threading
import time

import torch


def say(name, value):
    print(f"{name}: {value}", flush=True)


def time_ms(function):
    begin = time.perf_counter()
    result = function()
    return result, round((time.perf_counter() - begin) * 1e3, 3)


def shape(value, depth=0):
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {shape(v, depth + 1)}" for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        inner = shape(value[0], depth + 1) if value else ""
        return f"{type(value).__name__}[{len(value)}]({inner})"
    text = repr(value)
    return f"{type(value).__name__}={text[:40]}"


def probe_signatures():
    for name in ("_cuda_attach_out_of_memory_observer", "_cuda_memoryStats", "_cuda_memorySnapshot",
                 "_cuda_record_memory_history", "_cuda_isHistoryEnabled", "_cuda_getAllocatorBackend"):
        function = getattr(torch._C, name, None)
        say(name, None if function is None else f"{type(function).__name__}; {(function.__doc__ or '').strip()}")
    say("torch.cuda._initialized before use", torch.cuda._initialized)
    say("atexit in sys.modules", "atexit" in sys.modules)
    spec = torch.__spec__
    say("torch.__spec__._initializing", getattr(spec, "_initializing", "absent"))


def probe_state():
    say("backend", torch._C._cuda_getAllocatorBackend())
    for name, call in (
            ("isHistoryEnabled before", lambda: torch._C._cuda_isHistoryEnabled()),
            ("record history 8 arguments", lambda: torch._C._cuda_record_memory_history(
                "all", None, "python", 1000, False, False, False, [])),
            ("isHistoryEnabled after", lambda: torch._C._cuda_isHistoryEnabled())):
        try:
            say(name, call())
        except Exception as error:  # a function that this build lacks is a finding
            say(name, f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")


def probe_oom():
    seen = []

    def observer(device, wanted, total, free):
        stats, stats_ms = time_ms(lambda: torch._C._cuda_memoryStats(device))
        snapshot, snapshot_ms = time_ms(lambda: torch._C._cuda_memorySnapshot(None))
        seen.append({"args": (device, wanted, total, free), "thread": threading.current_thread().name,
                     "stats_ms": stats_ms, "snapshot_ms": snapshot_ms,
                     "segments": len(snapshot["segments"]),
                     "trace": [len(t) for t in snapshot["device_traces"]],
                     "ooms_in_stats": stats.get("num_ooms"), "retries": stats.get("num_alloc_retries"),
                     "allocated": stats.get("allocated_bytes", {}).get("all", {}).get("current")})

    try:
        say("attach returned", torch._C._cuda_attach_out_of_memory_observer(observer))
    except Exception as error:
        say("attach refused", f"{type(error).__name__}: {str(error).splitlines()[0][:150]}")
        return
    keep = [torch.empty(50 << 20, device="cuda") for _ in range(10)]
    total = torch.cuda.get_device_properties(0).total_memory
    try:
        torch.empty(2 * total, dtype=torch.uint8, device="cuda")
    except torch.cuda.OutOfMemoryError as error:
        say("message", str(error).replace("\n", " ")[:400])
    say("observer calls (main thread)", seen)
    say("total_memory", total)
    seen.clear()

    def worker():
        try:
            torch.empty(2 * total, dtype=torch.uint8, device="cuda")
        except torch.cuda.OutOfMemoryError:
            pass

    thread = threading.Thread(target=worker, name="worker")
    thread.start()
    thread.join()
    say("observer calls (worker thread)", seen)
    seen.clear()
    # The autograd engine's own thread: run a backward pass that needs too much memory.
    torch.cuda.set_per_process_memory_fraction(0.05)
    try:
        x = torch.ones(1 << 20, device="cuda", requires_grad=True)
        class Grow(torch.autograd.Function):
            @staticmethod
            def forward(ctx, value):
                return value * 1

            @staticmethod
            def backward(ctx, gradient):
                torch.empty(total // 2, dtype=torch.uint8, device="cuda")
                return gradient
        Grow.apply(x).sum().backward()
    except torch.cuda.OutOfMemoryError:
        pass
    torch.cuda.set_per_process_memory_fraction(1.0)
    say("observer calls (backward, under a fraction)", seen)
    del keep


def probe_shapes():
    stats = torch._C._cuda_memoryStats(0)
    say("stats shape", shape(stats))
    snapshot = torch._C._cuda_memorySnapshot(None)
    say("snapshot keys", {k: type(v).__name__ for k, v in snapshot.items()})
    big = next((s for s in snapshot["segments"] if s["blocks"]), None)
    say("segment shape", shape(big))
    say("trace entry shapes", [shape(t[-1]) for t in snapshot["device_traces"] if t])
    say("actions", sorted({e["action"] for t in snapshot["device_traces"] for e in t}))
    say("settings", snapshot.get("allocator_settings"))
    entry = next((t[-1] for t in snapshot["device_traces"] if t), None)
    if entry is not None:
        say("time_us minus CLOCK_REALTIME us", entry["time_us"] - time.clock_gettime_ns(time.CLOCK_REALTIME) // 1000)
        say("time_us minus CLOCK_MONOTONIC us", entry["time_us"] - time.clock_gettime_ns(time.CLOCK_MONOTONIC) // 1000)


def probe_exit():
    """Whether torch still works in a function that was registered with atexit before torch was imported, so that it
    runs last."""
    code = ("import atexit\n"
            "def last():\n"
            "    import sys\n"
            "    t = sys.modules['torch']\n"
            "    print('at exit:', t.cuda._initialized, len(t._C._cuda_memorySnapshot(None)['segments']))\n"
            "atexit.register(last)\n"
            "import torch\n"
            "x = torch.ones(1 << 20, device='cuda')\n")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    say("read at exit", f"status {done.returncode}; {done.stdout.strip()} {done.stderr.strip()[-200:]}")
    code = "import torch\nx = torch.ones(1 << 20, device='cuda')\nimport sys\nsys.exit(3)\n"
    for setting in ("", "expandable_segments:True", "backend:cudaMallocAsync"):
        environment = dict(os.environ, PYTORCH_CUDA_ALLOC_CONF=setting, PYTORCH_ALLOC_CONF=setting)
        probe = ("import torch\nx = torch.ones(1 << 20, device='cuda')\n"
                 "for f in (lambda: torch._C._cuda_attach_out_of_memory_observer(print),\n"
                 "          lambda: torch._C._cuda_record_memory_history('all', None, 'python', 1000, False, False, False, []),\n"
                 "          lambda: torch._C._cuda_isHistoryEnabled(),\n"
                 "          lambda: len(torch._C._cuda_memoryStats(0)),\n"
                 "          lambda: list(torch._C._cuda_memorySnapshot(None))):\n"
                 "    try: print('ok', f())\n"
                 "    except Exception as e: print(type(e).__name__, str(e).splitlines()[0][:120])\n")
        done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, timeout=120,
                              env=environment)
        say(f"doors under '{setting}'", done.stdout.strip().replace("\n", " | ") + " " + done.stderr.strip()[-200:])


def main():
    if not torch.cuda.is_available():
        sys.exit("probe_observer: no CUDA device here")
    say("torch", torch.__version__)
    probe_signatures()
    x = torch.ones(1, device="cuda")
    say("torch.cuda._initialized after first tensor", torch.cuda._initialized)
    probe_state()
    probe_oom()
    probe_shapes()
    probe_exit()
    del x
    gc.collect()


if __name__ == "__main__":
    main()
