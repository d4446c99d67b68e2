#!/bin/sh
# What --inject, --fence and --memory do on a real card, with PyTorch. Prints one block per question; nothing is judged.
#
#     tests/gpu/inject_and_limit.sh BUILD [PYTHON]
#
# Questions: does the verdict name the injection, and how PyTorch took it? Is the answer of a call after a sticky error
# immediate with --fence? Does the free memory that PyTorch sees under --memory follow what NVML counts for the process?
# What does an allocation cost under the guard?
set -u
build=${1:?usage: inject_and_limit.sh BUILD [PYTHON]}
python=${2:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

cat > "$work/train.py" <<'P'
import torch
net = torch.nn.Sequential(torch.nn.Conv2d(3, 64, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.LazyLinear(10)).cuda()
opt = torch.optim.Adam(net.parameters())
for i in range(20):
    x = torch.randn(64 + 16 * i, 3, 64, 64, device="cuda")
    loss = net(x).square().mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
print(loss.item())
P

cat > "$work/limit.py" <<'P'
import ctypes, os, torch
nvml = ctypes.CDLL("libnvidia-ml.so.1")
nvml.nvmlInit_v2()
device = ctypes.c_void_p()
nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device))

class Process(ctypes.Structure):
    _fields_ = [("pid", ctypes.c_uint), ("used", ctypes.c_ulonglong), ("a", ctypes.c_uint), ("b", ctypes.c_uint)]

def own():
    count, rows = ctypes.c_uint(64), (Process * 64)()
    nvml.nvmlDeviceGetComputeRunningProcesses_v3(device, ctypes.byref(count), rows)
    mine = [rows[i].used for i in range(count.value) if rows[i].pid == os.getpid()]
    return mine[0] if mine else (rows[0].used if count.value == 1 else None)

def show(what):
    torch.cuda.synchronize()
    free, total = torch.cuda.mem_get_info()
    print(f"{what:28s} the guard {total - free:14,d}  NVML {own():14,d}  difference {own() - (total - free):12,d}")

torch.cuda.init()
torch.zeros(1, device="cuda"); show("one element")
blocks = [torch.empty(n << 20, dtype=torch.uint8, device="cuda") for n in (1, 3, 30, 300)]; show("segments")
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    y = blocks[2] * 2
graph.replay(); show("a graph")
streams = [torch.cuda.Stream() for _ in range(32)]; show("32 streams")
a = torch.randn(1024, 1024, device="cuda") @ torch.randn(1024, 1024, device="cuda"); show("a matrix product")
P

for plan in oom@alloc:1 oom@alloc:3 "oom@alloc,p=0.3,seed=1" 700@sync:5 719@launch:100 slow=5ms@copy lost@launch:300; do
    echo "== --inject $plan"
    "$build/gpuwhy" run --no-history --inject "$plan" -- "$python" "$work/train.py" 2>&1 | grep -A6 -E "^(Verdict|Also)"
done
for option in "" --fence --fence=exit; do
    echo "== a fault of the GPU, ${option:-without a fence}"
    # the driver's own error: an index that is out of bounds
    # shellcheck disable=SC2086
    time "$build/gpuwhy" run --no-history --quiet $option -- "$python" -c '
import torch
x = torch.zeros(4, device="cuda")
x[torch.tensor([9999999], device="cuda")] += 1
torch.cuda.synchronize()'
    echo "status $?"
done
for settings in "" expandable_segments:True backend:cudaMallocAsync; do
    echo "== --memory 8GiB, PYTORCH_CUDA_ALLOC_CONF=$settings"
    PYTORCH_CUDA_ALLOC_CONF=$settings "$build/gpuwhy" run --no-history --quiet --memory 8GiB -- "$python" "$work/limit.py"
done
echo "== the cost of an allocation"
for i in 1 2 3 4 5; do
    "$build/gpuwhy" run --no-history --quiet -- "$build/bench/bench-guard-cost"
    "$build/gpuwhy" run --no-history --quiet --memory 8GiB -- "$build/bench/bench-guard-cost"
done
