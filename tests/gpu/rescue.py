#!/usr/bin/env python3
"""`gpuwhy run --rescue` with trainings of PyTorch and JAX on a real GPU.

    python3 tests/gpu/rescue.py BUILD [--jobs N] [--results FILE] [CASE..]

Needs PyTorch, and JAX for some, in this interpreter. Each program below runs as `python this_file --program NAME ..`. A
case says what is true: which act saves it, or that it is hopeless. A table goes to FILE; the exit status is 1 if fewer
than 0.9 of those that can be saved are saved, or if a hopeless one is started twice.
"""
import argparse
import concurrent.futures
import ctypes
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

GIB = 1 << 30
ME = pathlib.Path(__file__).resolve()


# ---- the programs --------------------------------------------------------------------------------------------------

def option(name, default=None):
    return sys.argv[sys.argv.index(name) + 1] if name in sys.argv else default


def steps_of(torch, model, make_batch, steps=6, accumulate=1, precision="fp32"):
    optimizer = torch.optim.Adam(model.parameters())
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16}[precision]
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(accumulate):
            with torch.autocast("cuda", kind, enabled=precision != "fp32"):
                loss = model(make_batch()).float().square().mean() / accumulate
            loss.backward()
        optimizer.step()
    print("loss", loss.item())


def conv_net(torch):
    layers = []
    for width in (3, 64, 64, 128, 128):
        layers += [torch.nn.LazyConv2d(width + 61, 3, padding=1), torch.nn.ReLU()]
    return torch.nn.Sequential(*layers, torch.nn.AdaptiveAvgPool2d(1), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda()


def cnn():
    import torch
    batch, size = int(option("--batch", "8")), int(option("--size", "64"))
    model = conv_net(torch)
    model(torch.zeros(1, 3, size, size, device="cuda"))
    steps_of(torch, model, lambda: torch.randn(batch, 3, size, size, device="cuda"),
             accumulate=int(option("--accumulate", "1")), precision=option("--precision", "fp32"))


def resnet():
    import torch
    import torchvision
    batch = int(option("--batch"))
    steps_of(torch, torchvision.models.resnet50().cuda(), lambda: torch.randn(batch, 3, 160, 160, device="cuda"), steps=3)


def transformer():
    import torch
    batch, length = int(option("--batch")), int(option("--size", "256"))
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True)
    steps_of(torch, torch.nn.TransformerEncoder(layer, 6).cuda(), lambda: torch.randn(batch, length, 512, device="cuda"),
             precision=option("--precision", "fp32"), steps=4)


def fragments():
    """Large blocks are freed, smaller ones take a part of each, and the rest is in pieces."""
    import torch
    kept = [torch.empty(1 << 30, dtype=torch.uint8, device="cuda") for _ in range(5)]
    kept.clear()
    kept = [torch.empty(600 << 20, dtype=torch.uint8, device="cuda") for _ in range(5)]
    torch.empty(1600 << 20, dtype=torch.uint8, device="cuda").zero_()
    print("done", len(kept))


def late_peak():
    """The third epoch evaluates with a larger batch."""
    import torch
    batch = int(option("--batch"))
    model = torch.nn.Sequential(*[torch.nn.Linear(2048, 2048) for _ in range(4)]).cuda()
    optimizer = torch.optim.SGD(model.parameters(), 0.01)
    for epoch in range(3):
        for _ in range(60):
            optimizer.zero_grad()
            model(torch.randn(batch, 2048, device="cuda")).square().mean().backward()
            optimizer.step()
        model(torch.randn(batch * (24 if epoch == 2 else 1), 2048, device="cuda")).sum().item()


def leak():
    import torch
    start, kept = 0, []
    if "--resume" in sys.argv:
        start = torch.load(option("--resume"))["step"]
    model = torch.nn.Linear(1024, 1024).cuda()
    for step in range(start, 120):
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
        kept.append(torch.empty(64 << 20, dtype=torch.uint8, device="cuda"))
        torch.cuda.synchronize()
        if step % 10 == 9:
            torch.save({"step": step + 1}, f"ck-{step + 1:03}.pt.new")
            os.rename(f"ck-{step + 1:03}.pt.new", f"ck-{step + 1:03}.pt")
    print("done")


def once(fault):
    """A fault that the first start alone has: `fault` is a function of torch."""
    import torch
    first = not os.path.exists("seen")
    pathlib.Path("seen").touch()
    model = torch.nn.Linear(1024, 1024).cuda()
    for _ in range(20):
        model(torch.randn(64, 1024, device="cuda")).sum().backward()
    if first:
        fault(torch)
    print("done")


def write_wrong_address(torch):
    cuda = ctypes.CDLL("libcuda.so.1")
    torch.cuda.synchronize()
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    ptx = (b".version 7.0\n.target sm_70\n.address_size 64\n.visible .entry bad() {\n.reg .u64 %a; .reg .u32 %v;\n"
           b"mov.u64 %a, 4096; mov.u32 %v, 1; st.global.u32 [%a], %v; ret; }\n\0")
    assert cuda.cuModuleLoadData(ctypes.byref(module), ptx) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(function), module, b"bad") == 0
    assert cuda.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, None, None, None) == 0
    torch.cuda.synchronize()


def illegal_once():
    once(write_wrong_address)


def ranks():
    """Two ranks; the first start of rank 1 accesses memory that it does not have. Each has a card."""
    import torch
    import torch.distributed as dist
    rank = int(os.environ["RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4096, 4096).cuda())
    for _ in range(20):
        model(torch.randn(int(option("--batch", "64")), 4096, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    if rank == 1 and not os.path.exists("seen") and "--fault" in sys.argv:
        pathlib.Path("seen").touch()
        write_wrong_address(torch)
    dist.barrier()
    print("done", rank)


def port():
    import torch
    import torch.distributed as dist
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=option("--port"), RANK="0", WORLD_SIZE="1")
    dist.init_process_group("gloo")
    torch.nn.Linear(1024, 1024).cuda()(torch.randn(64, 1024, device="cuda")).sum().item()
    print("done")


def index():
    import torch
    table = torch.nn.Embedding(10, 16).cuda()
    print(table(torch.tensor([11], device="cuda")).sum().item())


def exception():
    import torch
    torch.nn.Linear(8, 8).cuda()(torch.randn(4, 7, device="cuda"))


def jax_net():
    import jax
    import jax.numpy as jnp
    batch = int(option("--batch"))
    keys = jax.random.split(jax.random.PRNGKey(0), 4)
    weights = [jax.random.normal(key, (2048, 2048)) * 0.02 for key in keys]

    def loss(weights, x):
        for weight in weights:
            x = jax.nn.relu(x @ weight)
        return jnp.square(x).mean()

    step = jax.jit(lambda w, x: [a - 0.01 * g for a, g in zip(w, jax.grad(loss)(w, x))])
    for _ in range(3):
        weights = step(weights, jnp.ones((batch, 2048)))
    print("sum", float(weights[0].sum()))


def holder():
    """Hold memory for some seconds, then release it: a neighbour."""
    import torch
    block = torch.empty(int(option("--bytes")), dtype=torch.uint8, device="cuda")
    print("holding", flush=True)
    time.sleep(float(option("--seconds")))
    del block


# ---- the cases -----------------------------------------------------------------------------------------------------

class Case:
    def __init__(self, name, words, truth, options=(), memory="6GiB", around=None, alone=False, cards=1):
        self.name, self.words, self.truth, self.options = name, words, truth, list(options)
        self.memory, self.around, self.alone, self.cards = memory, around, alone, cards


def stub_folder(place):
    """A folder of LD_LIBRARY_PATH with the toolkit's stub of the driver under the name that programs load."""
    for stub in ("/usr/local/cuda/lib64/stubs/libcuda.so", "/usr/local/cuda/targets/x86_64-linux/lib/stubs/libcuda.so"):
        if os.path.exists(stub):
            folder = place / "stubs"
            folder.mkdir(parents=True)
            (folder / "libcuda.so.1").symlink_to(stub)
            return {"LD_LIBRARY_PATH": f"{folder}:" + os.environ.get("LD_LIBRARY_PATH", "")}, None
    return None, None


def neighbour(place):
    process = subprocess.Popen([sys.executable, str(ME), "--program", "holder", "--bytes", str(132 * GIB), "--seconds", "25"],
                               stdout=subprocess.PIPE)
    process.stdout.readline()
    return {}, process


def taken_port(place):
    code = ("import socket, time\ns = socket.socket(); s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)\n"
            "s.bind(('0.0.0.0', 29611)); s.listen(); print('x', flush=True); time.sleep(20)")
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    process.stdout.readline()
    return {}, process


RESUME = ["--resume-with", "--resume {last}", "--checkpoints", "ck-*.pt"]
CASES = [
    Case("cnn, batch", ["cnn", "--batch", "{batch:4096}"], "values"),
    Case("cnn, batch and steps", ["cnn", "--batch", "{batch:4096}", "--accumulate", "{steps:1}"], "values"),
    Case("cnn, size", ["cnn", "--batch", "64", "--size", "{size:512}"], "values"),
    Case("cnn, size 4 GiB", ["cnn", "--batch", "24", "--size", "{size:640}"], "values", memory="4GiB"),
    Case("resnet-50, batch", ["resnet", "--batch", "{batch:512}"], "values", memory="8GiB"),
    Case("resnet-50, batch 10 GiB", ["resnet", "--batch", "{batch:1000}"], "values", memory="10GiB"),
    Case("transformer, batch", ["transformer", "--batch", "{batch:512}"], "values", memory="8GiB"),
    Case("transformer, precision", ["transformer", "--batch", "110", "--precision", "{precision:fp32,bf16}"], "values"),
    Case("transformer, precision and batch", ["transformer", "--batch", "{batch:400}", "--precision", "{precision:fp32,bf16}"],
         "values", memory="4GiB"),
    Case("a peak in the third epoch", ["late_peak", "--batch", "{batch:32768}"], "values"),
    Case("fragments", ["fragments"], "allocator", memory="6.5GiB"),
    Case("a leak, from checkpoints", ["leak"], "resume", ["--rescue=9,leak", *RESUME], memory="4GiB"),
    Case("illegal address, once", ["illegal_once"], "again"),
    Case("a port that is taken", ["port", "--port", "29611"], "port", around=taken_port),
    Case("a stub of the driver", ["cnn"], "library", memory=None, around=stub_folder),
    Case("jax, batch", ["jax_net", "--batch", "{batch:200000}"], "values"),
    Case("jax, a neighbour", ["jax_net", "--batch", "400000"], "memory", memory=None, around=neighbour, alone=True),
    Case("a neighbour", ["transformer", "--batch", "256"], "memory", memory=None, around=neighbour, alone=True),
    Case("two ranks, an illegal address once", ["ranks", "--fault"], "again", memory=None, cards=2),
    Case("two ranks, batch", ["ranks", "--batch", "{batch:100000}"], "values", memory="6GiB", cards=2),
    Case("a leak without leave to go on", ["leak"], "hopeless", memory="4GiB"),
    Case("an index out of bounds", ["index"], "hopeless"),
    Case("wrong shapes", ["exception"], "hopeless"),
    Case("no placeholder", ["cnn", "--batch", "4096"], "hopeless"),
]


def run(case, build, place):
    folder = place / case.name.replace(" ", "_").replace(",", "")
    folder.mkdir(parents=True)
    around, process = case.around(folder) if case.around else ({}, None)
    if around is None:
        return case, None, None, "skipped: there is no stub on this machine"
    options = [] if case.memory is None else ["--memory", case.memory]
    options += case.options if any(word.startswith("--rescue") for word in case.options) else ["--rescue", *case.options]
    launcher = [] if case.cards == 1 else ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={case.cards}"]
    command = [str(build / "gpuwhy"), "run", *options, "--json", str(folder / "verdict.json"), "--", sys.executable, *launcher, str(ME),
               "--program", *case.words]
    environment = {**os.environ, **around, "XDG_STATE_HOME": str(folder)}
    began = time.monotonic()
    with open(folder / "log", "wb") as log:
        status = subprocess.run(command, cwd=folder, env=environment, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                                timeout=500).returncode
    if process is not None:
        process.kill()
    path = folder / "verdict.json"
    attempts = json.loads(path.read_text())["attempts"] if path.exists() else []
    return case, status, attempts, f"{time.monotonic() - began:.0f} s"


def row_of(case, status, attempts, took):
    if status is None:
        return f"| {case.name} | {case.truth} | {took} | |"
    how = "; ".join(f"{one['cause']}: {one['change'] or 'the same command'}" + (f" ({one['proof']})" if one["proof"] else "")
                    if one["again"] else f"{one['cause'] or 'ended well'}" for one in attempts)
    is_good = (status != 0 and len(attempts) == 1) if case.truth == "hopeless" else status == 0
    return f"| {case.name} | {case.truth} | {'yes' if is_good else 'NO'}, {len(attempts)} starts, {took} | {how} |"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=8)
    parser.add_argument("--results", type=pathlib.Path)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(tempfile.mkdtemp()))
    parser.add_argument("case", nargs="*")
    options = parser.parse_args()
    cards = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True).stdout.count("GPU ")
    cases = [case for case in CASES if case.cards <= cards and
             (not options.case or any(word in case.name for word in options.case))]
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        done = list(pool.map(lambda case: run(case, options.build, options.out), [c for c in cases if not c.alone]))
    done += [run(case, options.build, options.out) for case in cases if case.alone]
    rows = ["| training | truth | right | attempts |", "|---|---|---|---|", *(row_of(*one) for one in done)]
    known = [one for one in done if one[1] is not None]
    savable = [one for one in known if one[0].truth != "hopeless"]
    saved = sum(one[1] == 0 for one in savable)
    twice = sum(len(one[2]) > 1 for one in known if one[0].truth == "hopeless")
    rows += ["", f"{saved} of {len(savable)} saved; {twice} of {len(known) - len(savable)} hopeless ones were started twice."]
    print("\n".join(rows))
    if options.results is not None:
        options.results.write_text("\n".join(rows) + "\n")
    return 1 if saved < 0.9 * len(savable) or twice > 0 else 0


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--program":
        globals()[sys.argv[2]]()
    else:
        sys.exit(main())
