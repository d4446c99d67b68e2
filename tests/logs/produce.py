#!/usr/bin/env python3
"""Run programs to get their logs: `GPUWHY_BUILD=build python3 -B tests/logs/produce.py FOLDER [PYTHON...]`.

Each faulty program has one known fault, made on purpose. FOLDER receives the output of the program, its shell and its
loader, stdout and stderr in one file NAME.log, and a row of produced.tsv (columns as in index.tsv) with the label.
Programs of tests/scenarios run on the virtual GPU. The programs of framework_programs.py and healthy_programs.py need a
PYTHON that has their modules; the logs of the healthy ones are written to FOLDER/healthy, with an index.tsv. If ONLY is
set, only programs of these two files whose name matches this regular expression run. Values that change from run to
run (folders, addresses, pids) are replaced. A program that this machine cannot run (root, a compiler) is skipped and named.

tests/logs/produced/ has these logs, and logs of the programs of tests/gpu on a real GPU, which this program does not
make again.
"""
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import textwrap

import framework_programs
import healthy_programs

CASES = []


def case(name, cause, determinable, also=""):
    """Decorator. The function returns the bash script to run, and may write files into the folder where it runs."""
    def add(make):
        CASES.append((name, cause, also, determinable, make))
        return make
    return add


def python(name, cause, determinable, source, also="", before="", options=""):
    """Add a program train.py, run by bash."""
    def make(folder):
        (folder / "train.py").write_text(textwrap.dedent(source))
        return f"{before}\npython3 {options} train.py\n:\n"
    case(name, cause, determinable, also)(make)


STEPS = """
import os, sys
for step in range(1, 6):
    print(f"step {step} loss {2 / step:.4f}", flush=True)
"""

# ---- the program's own exceptions ----
python("key-error", "script-exception", "yes", STEPS + 'config = {}\nrate = config["learning_rate"]\n')
python("chained", "script-exception", "yes", STEPS + """
def load(path):
    try:
        return open(path).read()
    except FileNotFoundError as problem:
        raise RuntimeError("no checkpoint to resume from") from problem
load("missing/last.ckpt")
""")
python("assertion", "script-exception", "yes", STEPS + 'labels = [0, 1, 2]\nassert max(labels) < 2, f"label {max(labels)} of 2"\n')
python("child-exception", "script-exception", "yes", STEPS + """
import multiprocessing
def work(index):
    raise ValueError(f"shard {index} is empty")
if __name__ == "__main__":
    child = multiprocessing.get_context("spawn").Process(target=work, args=(3,))
    child.start(); child.join(); sys.exit(1)
""")
python("thread-exception", "script-exception", "yes", STEPS + """
import threading
def work():
    raise IndexError("list index out of range: batch 17 of 16")
threads = [threading.Thread(target=work)]
[t.start() for t in threads]; [t.join() for t in threads]; sys.exit(1)
""")
python("overflow", "script-exception", "yes", STEPS + "import math\nmath.exp(1e4)\n", also="numeric-divergence")
python("json", "script-exception", "yes", STEPS + "import json\njson.loads('{\"rate\": }')\n")
python("named-like-a-fault", "script-exception", "yes", STEPS + """
class CheckpointError(Exception):
    pass
def cuda_out_of_memory_policy():
    raise CheckpointError("policy file names no action for epoch 3")
cuda_out_of_memory_policy()
""")
python("address-space", "script-exception", "yes", STEPS + "data = bytearray(8 << 30)\n", before="ulimit -v 1000000",
       also="host-oom-kill")

# ---- numbers ----
python("nan-raised", "numeric-divergence", "yes", """
x = 1e150
for step in range(1, 9):
    loss = x * x - x * x
    print(f"step {step} loss: {loss}", flush=True)
    if loss != loss:
        raise FloatingPointError(f"loss is nan at step {step}")
    x *= 1e3
""")
python("nan-stopped", "numeric-divergence", "yes", """
import math, sys
weight = 1.0
for epoch in range(20):
    weight = weight * -1e20 if abs(weight) < 1e300 else math.inf
    loss = weight - weight if math.isinf(weight) else abs(weight)
    print(f"epoch {epoch} loss {loss:.4g}", flush=True)
    if not math.isfinite(loss):
        print(f"Loss is {loss}, stopping training")
        sys.exit(1)
""")

# ---- ends of processes, as shells and parents report them ----
python("killed", "killed-by-scheduler-or-user", "no", STEPS + "os.kill(os.getpid(), 9)\n")
python("segfault", "host-crash-of-process", "partly", STEPS + "import ctypes\nctypes.string_at(0)\n")
python("segfault-traced", "host-crash-of-process", "yes", STEPS + "import ctypes\nctypes.string_at(0)\n", options="-X faulthandler")
python("abort", "host-crash-of-process", "partly", STEPS + "os.abort()\n")
python("illegal-instruction", "host-crash-of-process", "partly", STEPS + "os.kill(os.getpid(), 4)\n")
python("interrupted", "killed-by-scheduler-or-user", "yes", STEPS + "import signal\nos.kill(os.getpid(), signal.SIGINT)\nimport time; time.sleep(5)\n")
python("terminated", "killed-by-scheduler-or-user", "yes", STEPS + "os.kill(os.getpid(), 15)\n")
python("terminated-and-said", "killed-by-scheduler-or-user", "yes", STEPS + """
import signal
def stop(number, frame):
    print("Received SIGTERM, saving and leaving", flush=True)
    sys.exit(143)
signal.signal(signal.SIGTERM, stop)
os.kill(os.getpid(), 15)
""")
python("pool-broken", "killed-by-scheduler-or-user", "no", STEPS + """
import concurrent.futures
def work(index):
    os.kill(os.getpid(), 9)
with concurrent.futures.ProcessPoolExecutor(1) as pool:
    pool.submit(work, 0).result()
""")
python("launcher-killed", "killed-by-scheduler-or-user", "no", """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import os; os.kill(os.getpid(), 9)"], check=True)
""")
python("launcher-segfault", "host-crash-of-process", "partly", """
import subprocess, sys
subprocess.run([sys.executable, "-c", "import ctypes; ctypes.string_at(0)"], check=True)
""")


@case("time-limit", "killed-by-scheduler-or-user", "yes")
def time_limit(folder):
    return "for i in 1 2 3; do echo step $i loss 0.$((9 - i)); done\nsleep 30 &\nsleep 0.2; kill $!; wait $!\necho Terminated: exit code $?\n"


def compiled(folder, source, options="", name="program", language="c++"):
    (folder / f"{name}.cc").write_text(textwrap.dedent(source))
    done = subprocess.run(["c++", "-x", language, *options.split(), "-o", name, f"{name}.cc"], cwd=folder, capture_output=True)
    return None if done.returncode != 0 else f"./{name}\n:\n"


@case("cpp-exception", "host-crash-of-process", "partly", "script-exception")
def cpp_exception(folder):
    return compiled(folder, """
        #include <stdexcept>
        int main() { throw std::runtime_error("config has no layer 7"); }
        """)


@case("heap-damage", "host-crash-of-process", "yes")
def heap_damage(folder):
    return compiled(folder, """
        #include <stdlib.h>
        #include <string.h>
        int main(void) { char *p = (char *)malloc(24); free(p); volatile char *q = p; free((void *)q); return 0; }
        """)


# ---- files, limits ----
python("disk-full", "disk-or-quota-full", "yes", STEPS + 'with open("/dev/full", "wb") as file:\n    file.write(b"0" * 100000)\n')


@case("disk-full-small", "disk-or-quota-full", "yes")
def disk_full_small(folder):
    (folder / "train.py").write_text(STEPS + 'with open("out/last.ckpt", "wb") as file:\n    file.write(b"0" * 1000000)\n')
    return "mkdir out; mount -t tmpfs -o size=64k none out || exit 77\npython3 train.py\n:\n"


@case("disk-full-dd", "disk-or-quota-full", "yes")
def disk_full_dd(folder):
    return "echo saving; dd if=/dev/zero of=/dev/full bs=4096 count=4 2>&1 | grep -v copied\n"


python("files-limit", "fd-or-process-limit", "yes", STEPS + 'files = [open("/dev/null") for _ in range(100)]\n', before="ulimit -n 32")
python("sockets-limit", "fd-or-process-limit", "yes", STEPS + "import socket\nkept = [socket.socketpair() for _ in range(100)]\n",
       before="ulimit -n 32")


@case("process-limit", "fd-or-process-limit", "yes")
def process_limit(folder):
    return "setpriv --reuid 65533 --clear-groups true || exit 77\nsetpriv --reuid 65533 --clear-groups bash -c 'ulimit -u 1; for i in 1; do sleep 0 & sleep 0; done; wait'\n:\n"


@case("shm-bus-error", "shm-exhausted", "partly")
def shm_bus_error(folder):
    (folder / "train.py").write_text(STEPS + """
import mmap
block = open("/dev/shm/torch_1_2", "w+b")
block.truncate(8 << 20)
mmap.mmap(block.fileno(), 8 << 20).write(b"0" * (8 << 20))
""")
    return "unshare -m true || exit 77\nunshare -m bash -c 'mount -t tmpfs -o size=64k none /dev/shm && python3 train.py; :'\n"


@case("shm-full", "shm-exhausted", "yes")
def shm_full(folder):
    (folder / "train.py").write_text(STEPS + 'os.chdir("/dev/shm")\nblock = os.open("/dev/shm/torch_1_2", os.O_CREAT | os.O_RDWR)\ntry:\n    os.posix_fallocate(block, 0, 8 << 20)\nexcept OSError as problem:\n    raise OSError(problem.errno, problem.strerror, "/dev/shm/torch_1_2")\n')
    return "unshare -m true || exit 77\nunshare -m bash -c 'mount -t tmpfs -o size=64k none /dev/shm && python3 train.py; :'\n"


# ---- network ----
python("port-taken", "rendezvous-port-clash", "yes", STEPS + """
import socket
first = socket.socket(); first.bind(("127.0.0.1", 0)); first.listen()
second = socket.socket(); second.bind(first.getsockname())
""")
python("nobody-listens", "network-or-ib-fault", "no", STEPS + """
import socket
free = socket.socket(); free.bind(("127.0.0.1", 0)); address = free.getsockname(); free.close()
socket.create_connection(address, timeout=2)
""")

# ---- libraries ----
python("library-missing", "library-not-found", "yes", STEPS + 'import ctypes\nctypes.CDLL("libcudart.so.99")\n')


@case("loader-missing", "library-not-found", "yes")
def loader_missing(folder):
    (folder / "lib.c").write_text("int cudnnGetVersion(void) { return 9; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcudnn.so.99", "-o", "libcudnn.so.99", "lib.c"], cwd=folder)
    script = compiled(folder, 'extern "C" int cudnnGetVersion(void);\nint main() { return cudnnGetVersion(); }\n', "./libcudnn.so.99")
    (folder / "libcudnn.so.99").unlink(missing_ok=True)
    return script


@case("symbol-missing", "cudnn-mixed-libraries", "yes", "library-version-mismatch,library-not-found")
def symbol_missing(folder):
    (folder / "lib.c").write_text("void cublasLtNew_v99(void);\nvoid f(void) { cublasLtNew_v99(); }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", "libops.so", "lib.c"], cwd=folder)
    (folder / "train.py").write_text('import ctypes, os\nctypes.CDLL("./libops.so", os.RTLD_NOW)\n')
    return "python3 train.py\n:\n"


# ---- several ranks in one log: the first to fail is the root ----
RANKS = """
import socket, subprocess, sys, threading, time
source = '''
import socket, sys, time
rank, port = int(sys.argv[1]), int(sys.argv[2])
peer = socket.create_connection(("127.0.0.1", port))
for step in range(1, 5):
    print(f"step {step} loss {2 / step:.3f}", flush=True)
    if rank == 1 and step == 3:
        FAULT
    time.sleep(0.05)
if peer.recv(1) == b"":
    raise ConnectionResetError(104, "Connection reset by peer")
'''.replace("FAULT", FAULT)
server = socket.socket(); server.bind(("127.0.0.1", 0)); server.listen()
port = str(server.getsockname()[1])
ranks = [subprocess.Popen([sys.executable, "-c", source, str(r), port], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for r in range(3)]
peers = [server.accept()[0] for _ in ranks]
def follow(rank, process):
    for line in process.stdout:
        print(PREFIX.format(rank) + line, end="", flush=True)
readers = [threading.Thread(target=follow, args=pair) for pair in enumerate(ranks)]
[r.start() for r in readers]
ranks[1].wait(); time.sleep(0.3)
[p.close() for p in peers]
[r.join() for r in readers]
"""
for kind, prefix in (("torchrun", "[rank{}]: "), ("srun", "{}: "), ("mpirun", "[1,{}]<stderr>: ")):
    head = f"PREFIX = {prefix!r}\n"
    python(f"ranks-{kind}-exception", "script-exception", "yes",
           head + "FAULT = 'raise KeyError(\"labels\")'\n" + RANKS)
    python(f"ranks-{kind}-files", "fd-or-process-limit", "yes",
           head + "FAULT = 'kept = [open(\"/dev/null\") for _ in range(200)]'\n" + RANKS, before="ulimit -n 64")
    python(f"ranks-{kind}-nan", "numeric-divergence", "yes",
           head + "FAULT = 'raise FloatingPointError(\"Loss is nan, stopping\")'\n" + RANKS)


# ---- driver programs on the virtual card: scenario of tests/e2e, determinable, also acceptable ----
ON_CARD = [("S12", "yes", ""), ("S15-threads", "no", ""), ("S15-shared", "no", ""), ("S17", "no", ""), ("S01", "no", ""), ("S04", "no", ""),
           ("S05", "no", ""), ("S21", "no", ""), ("S26", "yes", "ptx-too-new"), ("S26-ptx", "yes", "driver-too-old"),
           ("S26-arch", "yes", ""), ("S26-jit", "yes", ""), ("S26-module", "yes", ""), ("S26-fabric", "yes", ""),
           ("S26-none", "yes", ""), ("S26-busy", "yes", ""), ("S26-cudnn", "yes", ""), ("S26-ordinal", "yes", ""), ("S28-abort", "no", ""),
           ("S29-twice", "no", ""), ("S32-stream", "yes", ""), ("S32-event", "yes", ""), ("S25-ecc", "yes", ""), ("S25-lost", "no", "")]


def produce_on_card(out):
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "e2e"))
    import harness
    import scenarios
    rows, skipped = [], []
    for name, determinable, also in ON_CARD:
        scenario = scenarios.TABLE[name]
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            run = harness.run_plain(scenario.argv, scenario.card, harness.new_folder(folder, "plain"), scenario.signal_when)
        text = (run.stdout + run.stderr).decode(errors="replace")
        if not text or run.status == 0:
            skipped.append(name)
            continue
        (out / f"card-{name.lower()}.log").write_text(neutral(text, folder))
        rows.append((f"card-{name.lower()}", scenario.cause or "", also, determinable))
    return rows, skipped


def neutral(text, folder):
    text = text.replace(str(folder), "/project")
    text = re.sub(r"\b0x[0-9a-f]{6,}\b", "0x7f0000001000", text)
    text = re.sub(r"(line \d+: +)\d+ ", r"\g<1>4242 ", text)
    text = re.sub(r"/[\w/.-]*/lib/python3[\d.]*/", "/usr/lib/python3/", text)
    text = re.sub(r"'/[\w/.-]*bin/python3[\d.]*'", "'/usr/bin/python3'", text)
    return text


def produce(out):
    rows, skipped = [], []
    for name, cause, also, determinable, make in CASES:
        with tempfile.TemporaryDirectory() as temporary:
            folder = pathlib.Path(temporary)
            script = make(folder)
            if script is None:
                skipped.append(name)
                continue
            (folder / "job.sh").write_text(script)
            command = ["unshare", "-m", "bash", "job.sh"] if "mount" in script and "unshare" not in script else ["bash", "job.sh"]
            done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                  env={"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}, timeout=60)
            if done.returncode == 77 or not done.stdout:
                skipped.append(name)
                continue
            (out / f"{name}.log").write_text(neutral(done.stdout.decode(errors="replace"), folder))
            rows.append((name, cause, also, determinable))
    return rows, skipped


class Interpreters:
    """The PYTHON arguments, and which modules each has."""
    def __init__(self, paths):
        self.paths, self.known = paths, {}

    def find(self, modules):
        """Return the first interpreter that has all modules, or None."""
        for path in self.paths:
            if all(self.has(path, module) for module in modules):
                return path
        return None

    def has(self, path, module):
        if (path, module) not in self.known:
            code = f"import importlib.util, sys; sys.exit(importlib.util.find_spec({module!r}) is None)"
            self.known[path, module] = subprocess.run([path, "-c", code], cwd="/", capture_output=True).returncode == 0
        return self.known[path, module]


def run_program(files, script, interpreter):
    """Return the output of one program of framework_programs or healthy_programs, or None if it could not run."""
    with tempfile.TemporaryDirectory() as temporary:
        folder = pathlib.Path(temporary)
        for name, text in files.items():
            (folder / name).write_text(text.lstrip("\n"))
        (folder / "job.sh").write_text(script)
        command = ["unshare", "-m", "bash", "job.sh"] if "mount " in script else ["bash", "job.sh"]
        environment = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "HOME": str(folder),
                       "PY": interpreter, "GLOO_SOCKET_IFNAME": "lo"}
        done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                              env=environment, timeout=300)
        if done.returncode == 77 or not done.stdout:
            return None
        text = neutral(done.stdout.decode(errors="replace"), folder)
        text = text.replace(str(pathlib.Path(interpreter).parent.parent), "/opt/env").replace(os.uname().nodename, "node1")
        return re.sub(r"\n{3,}", "\n\n", text)


def produce_with_frameworks(out, interpreters, only):
    rows, healthy_rows, skipped = [], [], []
    (out / "healthy").mkdir(exist_ok=True)
    jobs = [(name, needs, files, script, out, rows, (name, cause, also, determinable))
            for name, needs, cause, also, determinable, files, script in framework_programs.PROGRAMS]
    jobs += [(name, needs, files, script, out / "healthy", healthy_rows, (name, "clean", "", "yes", what))
             for name, needs, what, files, script in healthy_programs.PROGRAMS]
    for name, needs, files, script, folder, found, row in jobs:
        if only and not re.search(only, name):
            continue
        interpreter = interpreters.find(needs)
        text = interpreter and run_program(files, script, interpreter)
        if not text:
            skipped.append(name)
            continue
        (folder / f"{name}.log").write_text(text)
        found.append(row)
    with open(out / "healthy" / "index.tsv", "w") as file:
        file.write("id\tcause\talso_acceptable\tdeterminable\twhat\n")
        file.writelines("\t".join(row) + "\n" for row in healthy_rows)
    return rows, len(healthy_rows), skipped


def main():
    out = pathlib.Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    only = os.environ.get("ONLY", "")
    more, healthy, missing = produce_with_frameworks(out, Interpreters(sys.argv[2:] or [sys.executable]), only)
    if only:
        CASES.clear()
        ON_CARD.clear()
    rows, skipped = produce(out)
    more_rows, more_skipped = produce_on_card(out)
    rows, skipped = rows + more_rows + more, skipped + more_skipped + missing
    with open(out / "produced.tsv", "w") as file:
        file.write("id\tcause\talso_acceptable\tdeterminable\n")
        file.writelines("\t".join(row) + "\n" for row in rows)
    print(f"{len(rows)} logs of faults, {healthy} of healthy programs; skipped: {', '.join(skipped) or 'none'}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
