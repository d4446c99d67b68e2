"""Made-up machines: each is a small tree of files, and the findings that `gpuwhy doctor` must report there.

    machines.py [NAME...]

A machine is a healthy one with changes. An unexpected finding that is worse than "pass" also fails the test.
"""
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from xml.etree import ElementTree

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import json_schemas
import junit

GPUWHY = pathlib.Path(os.environ.get("GPUWHY_BUILD", "build")) / "gpuwhy"
LIB = "usr/lib/x86_64-linux-gnu"
SITE = "v/lib/python3.11/site-packages"
DRIVER = "580.65.06"


def driver_files(version):
    return {f"{LIB}/libcuda.so.{version}": "", f"{LIB}/libcuda.so.1": ("link", f"libcuda.so.{version}"),
            f"{LIB}/libnvidia-ml.so.{version}": "", f"{LIB}/libnvidia-ptxjitcompiler.so.{version}": ""}


def card_files(index, pci, name, width=16):
    bus = f"sys/bus/pci/devices/{pci}"
    return {f"proc/driver/nvidia/gpus/{pci}/information": f"Model: \t\t {name}\nGPU UUID: \t GPU-{index}\nDevice Minor: \t {index}\n",
            f"{bus}/vendor": "0x10de\n", f"{bus}/class": "0x030200\n", f"{bus}/current_link_width": f"{width}\n",
            f"{bus}/max_link_width": "16\n", f"{bus}/numa_node": "0\n", f"dev/nvidia{index}": ""}


def nvml(*cards, **more):
    """Each GPU is (name, capability) and other values."""
    lines = [f"nvml.cards={len(cards)}"]
    for index, card in enumerate(cards):
        said = {"name": card[0], "capability": card[1], "compute_mode": "default", "remap_pending": "0", "mig": "off"}
        said.update(card[2] if len(card) > 2 else {})
        lines += [f"card.{index}.{key}={value}" for key, value in said.items()]
    return "\n".join(lines + [f"{key}={value}" for key, value in more.items()]) + "\n"


def torch(release, cuda, cudnn="9.1.0.70", arch=None):
    lines = ["python.version=3.11.7", "python.executable=/v/bin/python", f"python.package.torch={release}",
             f"python.torch.cuda={cuda}", f"python.cudnn={cudnn}", f"python.folder.0=/{SITE}/nvidia/cudnn/lib"]
    return "\n".join(lines + ([f"python.torch.arch={arch}"] if arch else [])) + "\n"


def environ(**values):
    return "\0".join(f"{key}={value}" for key, value in values.items()) + "\0"


H200 = ("NVIDIA H200", "9.0")
HEALTHY = {
    "sys/module/nvidia/version": DRIVER + "\n",
    "proc/driver/nvidia/version": f"NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  {DRIVER}  Release Build\n",
    **driver_files(DRIVER), **card_files(0, "0000:1b:00.0", "NVIDIA H200"),
    "dev/null": "", "dev/nvidiactl": "", "dev/nvidia-uvm": "", "dev/nvidia-uvm-tools": "",
    "proc/self/mounts": "tmpfs /dev/shm tmpfs rw,size=67108864k 0 0\n",
    "proc/self/environ": environ(HOME="/root"),
    "proc/self/limits": "Limit                     Soft Limit           Hard Limit           Units\n"
                        "Max locked memory         8388608              8388608              bytes\n"
                        "Max address space         unlimited            unlimited            bytes\n"
                        "Max processes             127000               127000               processes\n"
                        "Max open files            1024                 524288               files\n",
    "proc/self/cgroup": "0::/\n", "proc/meminfo": "MemTotal:       263845720 kB\n", "proc/1/comm": "systemd\n",
    "sys/devices/system/clocksource/clocksource0/current_clocksource": "tsc\n",
    "sys/devices/system/node/node0/x": "",
    "usr/local/cuda-12.4/lib64/libcudart.so.12.4.127": "",
    f"{SITE}/nvidia/cudnn/lib/libcudnn.so.9": "", f"{SITE}/nvidia/cudnn/lib/libcudnn_ops.so.9": "",
    f"{SITE}/nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA": "",
    "nvml.answers": nvml(H200),
    "python.answers": torch("2.5.1+cu124", "12.4"),
}


def machine(changes=None, drop=(), base=HEALTHY):
    files = {path: content for path, content in base.items() if not any(path.startswith(d) for d in drop)}
    files.update(changes or {})
    return files


def on_driver(version, cuda, more=None, drop=()):
    """Another driver version, with the runtime of a toolkit, and without a framework."""
    return machine({"sys/module/nvidia/version": version + "\n", **driver_files(version),
                    f"usr/local/cuda-{cuda}/lib64/libcudart.so.{cuda}.99": "", **(more or {})},
                   ("sys/module", "proc/driver/nvidia/version", LIB, "usr/local", "python.answers", SITE, *drop))


def cards(*list_of, env=None, python=None, drop=()):
    files = {}
    for index, card in enumerate(list_of):
        files.update(card_files(index, f"0000:{16 + index:02x}:00.0", card[0]))
    files["nvml.answers"] = nvml(*list_of)
    if env:
        files["proc/self/environ"] = environ(**env)
    if python:
        files["python.answers"] = python
    return machine(files, ("proc/driver/nvidia/gpus", "sys/bus/pci", "dev/nvidia0", *drop))


def config(*capabilities):
    """A bridge's configuration space: extended capabilities (id, control), one after the other."""
    space = bytearray(4096)
    for index, (identity, control) in enumerate(capabilities):
        at = 0x100 + 0x20 * index
        following = at + 0x20 if index + 1 < len(capabilities) else 0
        space[at:at + 4] = (identity | 1 << 16 | following << 20).to_bytes(4, "little")
        space[at + 6:at + 8] = control.to_bytes(2, "little")
    return space.decode("latin-1")


def behind_a_bridge(bridge_config):
    """Two GPUs behind one bridge."""
    files = {"sys/bus/pci/devices/0000:00:01.0/config": bridge_config, "sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n"}
    for path, content in cards(H200, H200).items():
        real = path.replace("sys/bus/pci/devices/", "sys/devices/pci0000:00/0000:00:01.0/")
        files[real] = content
    for index in range(2):
        name = f"0000:{16 + index:02x}:00.0"
        files[f"sys/bus/pci/devices/{name}"] = ("link", f"../../../devices/pci0000:00/0000:00:01.0/{name}")
    return files


AER, ACS = 1, 13
RTX = ("NVIDIA GeForce RTX 4090", "8.9")
V100 = ("Tesla V100-SXM2-16GB", "7.0")
B200 = ("NVIDIA B200", "10.0")
ARCH = "sm_50 sm_60 sm_70 sm_75 sm_80 sm_86 sm_90"
CONTAINER = {".dockerenv": "", "proc/self/mounts": "shm /dev/shm tmpfs rw,size=65536k 0 0\n"}
CUDNN_OLD = "opt/old/libcudnn.so.9.3.0"

# name: (files, {(id, state)} of the expected findings other than pass; expected texts)
MACHINES = {
    "healthy": (machine(), set(), ["library /usr/lib/x86_64-linux-gnu/libcuda.so.580.65.06 matches",
                                   "the CUDA 12.4.127 runtime", "torch 2.5.1+cu124, built for CUDA 12.4",
                                   "torch has code for the card", "9.1.0.70 in a Python package"]),
    "healthy-without-python": (machine(drop=("python.answers", SITE)), set(), []),
    "healthy-two-cards": (cards(H200, H200), set(), ["2: NVIDIA H200, NVIDIA H200"]),
    "healthy-small-container": (machine({**CONTAINER, "proc/self/mounts": "shm /dev/shm tmpfs rw,size=16g 0 0\n"}), set(), []),
    "no-card": ({"sys/bus/pci/devices/0000:00:01.0/vendor": "0x8086\n", "sys/bus/pci/devices/0000:00:01.0/class": "0x060000\n",
                 "proc/self/mounts": "tmpfs /dev/shm tmpfs rw,size=8g 0 0\n"},
                {("no-device-visible", "fail")}, ["no NVIDIA card on the bus"]),
    "nothing-is-readable": ({"etc/x": ""}, {("driver-module", "unknown"), ("shm-exhausted", "unknown")}, []),
    "module-not-loaded": (machine(drop=("sys/module", "proc/driver", "dev/nvidia", "nvml.answers", "python.answers")),
                          {("driver-module", "fail"), ("driver-library-mismatch", "unknown"), ("no-device-visible", "fail"),
                           ("nvml", "unknown")}, ["the kernel driver is not loaded"]),
    "driver-updated-without-reboot": (
        machine({**driver_files("580.95.05")}, (LIB,)),
        {("driver-library-mismatch", "fail"), ("driver-library-mismatch", "warn")}, ["580.65.06", "libcuda.so.580.95.05", "803"]),
    "image-brings-its-own-libcuda": (
        machine({**CONTAINER, **driver_files("550.54.15"), "proc/self/mounts": "shm /dev/shm tmpfs rw,size=8g 0 0\n"}, (LIB,)),
        {("driver-library-mismatch", "fail"), ("driver-library-mismatch", "warn")}, ["Remove libcuda.so from the image"]),
    "stub-first": (machine({"usr/local/cuda-12.4/lib64/stubs/libcuda.so.1": "",
                            "proc/self/environ": environ(LD_LIBRARY_PATH="/usr/local/cuda-12.4/lib64/stubs")}),
                   {("stub-or-wrong-libcuda", "fail")}, ["cuInit returns 34"]),
    "forward-compat-on-geforce": (
        machine({"usr/local/cuda-13.0/compat/libcuda.so.1": ("link", "libcuda.so.580.95.05"),
                 "usr/local/cuda-13.0/compat/libcuda.so.580.95.05": "",
                 "proc/self/environ": environ(LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat"), "nvml.answers": nvml(RTX)}),
        {("forward-compat-misuse", "fail")}, ["RTX 4090", "804"]),
    "forward-compat-on-data-centre": (
        machine({"usr/local/cuda-13.0/compat/libcuda.so.1": ("link", "libcuda.so.580.95.05"),
                 "usr/local/cuda-13.0/compat/libcuda.so.580.95.05": "", "usr/local/cuda-13.0/lib64/libcudart.so.13.0.96": "",
                 "sys/module/nvidia/version": "550.54.15\n",
                 "proc/self/environ": environ(LD_LIBRARY_PATH="/usr/local/cuda-13.0/compat")},
                (LIB + "/libnvidia-ml",)), set(), ["forward compatibility is in use"]),
    # "CUDA 12.2 on a 525 driver crashes": from 525.60.13 on it runs with limits, which are reported; below it does not
    # run.
    "cuda-12.2-on-525": (on_driver("525.60.13", "12.2"), set(),
                         ["the CUDA 12.2.99 runtime", "runs on driver 525.60.13", "525.60.13 is the oldest for CUDA 12.x",
                          "PTX compiled by 12.2", "calls added after 12.0"]),
    "cuda-12.2-on-an-older-525": (on_driver("525.60.11", "12.2"), {("driver-too-old", "fail")},
                                  ["needs driver 525.60.13 or newer; this one is 525.60.11"]),
    "cuda-12.2-on-535": (on_driver("535.54.03", "12.2"), set(), ["the CUDA 12.2.99 runtime"]),
    "cuda-13-on-535": (on_driver("535.54.03", "13.0"), {("driver-too-old", "fail")}, ["needs driver 580 or newer"]),
    "cuda-11-on-580": (on_driver("580.65.06", "11.8"), set(), ["runs on driver 580.65.06"]),
    "cuda-of-the-future": (on_driver("580.65.06", "19.1"), {("driver-runtime", "unknown")}, ["are not in the tables"]),
    "torch-cu130-on-535": (machine({"sys/module/nvidia/version": "535.54.03\n", **driver_files("535.54.03"),
                                    "python.answers": torch("2.11.0+cu130", "13.0", "9.19.0.56", "sm_75 sm_90")}, (LIB,)),
                           {("driver-too-old", "fail")}, ["torch 2.11.0+cu130 is built for CUDA 13.0", "580"]),
    "torch-without-cuda": (machine({"python.answers": torch("2.5.1+cpu", "none")}), {("no-device-visible", "fail")},
                           ["a CPU-only build"]),
    "volta-and-a-wheel-that-dropped-it": (
        machine({"nvml.answers": nvml(V100),
                 "python.answers": torch("2.11.0+cu128", "12.8", "9.10.2.21", "sm_75 sm_80 sm_86 sm_90 sm_100 sm_120")}),
        {("arch-not-in-binary", "fail")}, ["compute capability 7.0", "Use a build with code for it"]),
    "blackwell-by-the-table-alone": (machine({"nvml.answers": nvml(B200), "python.answers": torch("2.5.1+cu124", "12.4")}),
                                     {("arch-not-in-binary", "fail")}, ["compute capability 10.0"]),
    "ptx-alone": (machine({"nvml.answers": nvml(("NVIDIA RTX PRO 6000", "12.0")),
                           "python.answers": torch("2.6.0", "12.4", arch="sm_80 sm_90 compute_90")}),
                  {("arch-not-in-binary", "warn")}, ["only PTX"]),
    "cudnn-that-dropped-the-card": (
        machine({"nvml.answers": nvml(V100), "python.answers": torch("2.9.1", "12.8", "9.13.0.50", ARCH)}),
        {("library-too-old-or-dropped-gpu", "warn")},
        ["no longer works", "2 known problems of these versions: only for some programs (PyTorch): gpuwhy causes --regressions PyTorch"]),
    "mixed-cards": (cards(H200, V100, env={"HOME": "/"}, python=torch("2.5.1+cu124", "12.4")), {("device-order", "warn")},
                    ["CUDA_DEVICE_ORDER=PCI_BUS_ID", "torch has code for every card"]),
    "mixed-cards-in-order": (cards(H200, V100, env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"}), set(), []),
    "code-missing-for-one-of-two": (
        cards(H200, V100, env={"CUDA_DEVICE_ORDER": "PCI_BUS_ID"},
              python=torch("2.11.0", "12.8", "9.10.2.21", "sm_75 sm_80 sm_90 sm_120")),
        {("arch-not-in-binary", "fail")}, ["card 1 Tesla V100"]),
    "container-without-devices": (machine({**CONTAINER, "proc/self/mounts": "shm /dev/shm tmpfs rw,size=8g 0 0\n"},
                                          ("dev/nvidia",)), {("no-device-visible", "fail")}, ["--gpus all"]),
    "container-with-little": (
        machine({**CONTAINER, "proc/self/environ": environ(NVIDIA_DRIVER_CAPABILITIES="utility"),
                 "proc/self/cgroup": "0::/docker/x\n", "sys/fs/cgroup/docker/x/memory.max": "2147483648\n"},
                (LIB + "/libnvidia-ptx",)),
        {("shm-exhausted", "warn"), ("host-oom-kill", "warn"), ("library-not-found", "fail"), ("jit-library-missing", "warn")},
        ["64.00 MiB", "--shm-size", "2.00 GiB of host memory"]),
    "cgroup-version-1": (machine({"proc/self/cgroup": "12:cpu:/a\n5:memory:/job/1\n",
                                  "sys/fs/cgroup/memory/job/1/memory.limit_in_bytes": "9223372036854771712\n",
                                  "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "1073741824\n"}),
                         {("host-oom-kill", "warn")}, ["1.00 GiB of host memory"]),
    "no-uvm": (machine(drop=("dev/nvidia-uvm",)), {("driver-state-lost", "warn")}, ["999"]),
    "card-off-the-bus": (cards(H200, H200, drop=()) | {"nvml.answers": nvml(H200)}, {("gpu-off-bus", "fail")},
                         ["NVML lists only 1"]),
    "card-lost": (machine({"nvml.answers": nvml((*H200, {"lost": "1"}))}), {("gpu-off-bus", "fail")}, ["fallen off the bus"]),
    "rows-to-remap": (machine({"nvml.answers": nvml((*H200, {"remap_pending": "1"}))}), {("remap-pending", "warn")},
                      ["Nothing is broken until then"]),
    "remap-failed": (machine({"nvml.answers": nvml((*H200, {"remap_failed": "1"}))}), {("ecc-uncorrectable", "fail")}, []),
    "hot": (machine({"nvml.answers": nvml((*H200, {"throttle.thermal": "1"}))}), {("thermal-throttle", "warn")}, ["heat"]),
    "power-cap": (machine({"nvml.answers": nvml((*H200, {"power_limit_w": "400", "power_default_w": "700"}))}),
                  {("power-limit-or-brake", "warn")}, ["400 W"]),
    "narrow-link": (machine(card_files(0, "0000:1b:00.0", "NVIDIA H200", width=4)), {("pcie-degraded", "warn")},
                    ["4 of its 16 PCIe lanes"]),
    "exclusive": (machine({"nvml.answers": nvml((*H200, {"compute_mode": "exclusive"}))}),
                  {("device-busy-or-partition", "warn")}, []),
    "prohibited": (machine({"nvml.answers": nvml((*H200, {"compute_mode": "prohibited"}))}),
                   {("device-busy-or-partition", "fail")}, ["nvidia-smi -c 0"]),
    "mig-without-instance": (machine({"nvml.answers": nvml((*H200, {"mig": "empty"}))}),
                             {("device-busy-or-partition", "fail")}, ["MIG"]),
    "nvswitch-without-manager": (machine({"dev/nvidia-nvswitchctl": ""}), {("fabric-not-ready", "fail")}, ["802"]),
    "nvswitch-with-manager": (machine({"dev/nvidia-nvswitchctl": "", "proc/77/comm": "nv-fabricmanage\n"}), set(), []),
    "nvml-does-not-answer": (machine({"nvml.answers": "nvml.why=libnvidia-ml.so.1 is not there\n"}, ("python.answers", SITE)),
                             {("nvml", "unknown")}, ["libnvidia-ml.so.1 is not there"]),
    "old-cudnn-on-the-path": (machine({CUDNN_OLD: "", "proc/self/environ": environ(LD_LIBRARY_PATH="/x:/opt/old/")}),
                              {("cudnn-mixed-libraries", "warn")}, ["/opt/old/libcudnn.so.9.3.0", "9.1.0.70"]),
    "old-cudnn-elsewhere": (machine({"usr/local/lib/libcudnn.so.8.9.7": ""}), set(), ["8.9.7 in a system folder"]),
    "half-updated-cudnn": (machine({f"{LIB}/libcudnn.so.9.1.0": "", f"{LIB}/libcudnn_ops.so.9.3.0": ""}),
                           {("cudnn-mixed-libraries", "fail")}, ["parts of two versions"]),
    "conda-and-pip": (machine({"python.answers": torch("2.5.1", "12.4") + "python.conda_cuda=cudnn-9.1.0\n"}),
                      {("cudnn-mixed-libraries", "warn")}, ["not both"]),
    "all-hidden": (machine({"proc/self/environ": environ(CUDA_VISIBLE_DEVICES="")}), {("no-device-visible", "fail")},
                   ["hides all cards"]),
    "knobs": (machine({"proc/self/environ": environ(CUDA_LAUNCH_BLOCKING="1", PYTORCH_NO_CUDA_MEMORY_CACHING="1",
                                                    NCCL_DEBUG="INFO", CUDA_DEVICE_MAX_CONNECTIONS="1")}),
              {("debug-knob-left-on", "warn")}, ["CUDA_LAUNCH_BLOCKING=1", "PYTORCH_NO_CUDA_MEMORY_CACHING=1"]),
    "address-space-limit": (machine({"proc/self/limits": "Max address space         8589934592           unlimited            bytes\n"}),
                            {("limits", "fail")}, ["8.00 GiB"]),
    "few-files": (machine({"proc/self/limits": "Max open files            256                  256                  files\n"}),
                  {("fd-or-process-limit", "warn")}, []),
    "slow-clock": (machine({"sys/devices/system/clocksource/clocksource0/current_clocksource": "hpet\n"}), {("clock", "warn")}, []),
    "iommu-between-cards": (cards(H200, H200) | {"sys/kernel/iommu_groups/0/type": "DMA\n"}, {("p2p-iommu-acs", "warn")},
                            ["iommu=pt"]),
    "acs-redirects": (behind_a_bridge(config((AER, 0), (ACS, 0x1d))), {("p2p-iommu-acs", "warn")}, ["0000:00:01.0", "ACS"]),
    "acs-checks-alone": (behind_a_bridge(config((AER, 0), (ACS, 0x01))), set(), ["allows direct copies"]),
    "acs-is-not-there": (behind_a_bridge(config((AER, 0x0c))), set(), ["allows direct copies"]),
    "acs-for-root-alone": (behind_a_bridge(config()[:64]), {("p2p-iommu-acs", "unknown")}, ["1 of 1 bridges"]),
    "acs-in-a-circle": (behind_a_bridge(("\x01\x00\x01\x10" * 1024)), set(), []),
    "iommu-passes-the-cards": (cards(H200, H200) | {"sys/kernel/iommu_groups/0/type": "DMA\n"} |
                               {f"sys/bus/pci/devices/0000:{16 + i:02x}:00.0/iommu_group/type": "identity\n" for i in range(2)},
                               set(), []),
    "link-slow-while-idle": (machine({"sys/bus/pci/devices/0000:1b:00.0/current_link_speed": "2.5 GT/s PCIe\n",
                                      "sys/bus/pci/devices/0000:1b:00.0/max_link_speed": "32.0 GT/s PCIe\n"}),
                             {("pcie-degraded", "unknown")}, ["2.5 GT/s PCIe of 32.0 GT/s", "gpuwhy run"]),
    "link-at-full-speed": (machine({"sys/bus/pci/devices/0000:1b:00.0/current_link_speed": "32.0 GT/s PCIe\n",
                                    "sys/bus/pci/devices/0000:1b:00.0/max_link_speed": "32.0 GT/s PCIe\n"}), set(), []),
    "numa-not-told": (machine({"sys/devices/system/node/node1/x": "", "sys/bus/pci/devices/0000:1b:00.0/numa_node": "-1\n"}),
                      {("numa", "unknown")}, ["2 NUMA nodes"]),
    "shared-and-asleep": (machine({"nvml.answers": nvml((*H200, {"persistence": "off"})), "proc/9/comm": "nvidia-cuda-mps\n"}),
                          set(), ["persistence is off", "through MPS"]),
    "one-card-of-eight-in-a-container": (
        machine({**{k: v for i in range(1, 8) for k, v in card_files(i, f"0000:{0x20 + i:02x}:00.0", "NVIDIA H200", width=1).items()
                    if k.startswith("sys/")},
                 "nvml.answers": nvml((*H200, {"pci": "00000000:1B:00.0"})),
                 "proc/self/mounts": "overlay / overlay rw,lowerdir=x 0 0\nshm /dev/shm tmpfs rw,size=8g 0 0\n"}),
        set(), ["1: NVIDIA H200"]),
    "card-of-a-virtual-machine": (machine({k: v for k, v in card_files(1, "0000:2b:00.0", "x").items() if k.startswith("sys/")}),
                                  {("gpu-off-bus", "unknown")}, ["virtual machine"]),
    "windows-host": ({"dev/dxg": "", "usr/lib/wsl/lib/libcuda.so.1": "", "proc/self/mounts": "tmpfs /dev/shm tmpfs rw,size=8g 0 0\n"},
                     {("driver-library-mismatch", "unknown")}, ["Windows host"]),
    "values-that-are-no-text": (machine({"proc/self/environ": environ(CUDA_LAUNCH_BLOCKING="1\x1b[31m\xff\xfe", LD_LIBRARY_PATH="/\xff:/" + "y" * 6000)}),
                                {("debug-knob-left-on", "warn")}, ["CUDA_LAUNCH_BLOCKING=1"]),
    "interpreter-does-not-answer": (machine({"python.answers": "python.why=python9 does not exist\n"}, (SITE,)),
                                    {("python", "unknown")}, ["python9"]),
    "files-full-of-nonsense": (
        machine({"sys/module/nvidia/version": "\x01\x02" * 3000, "proc/self/limits": "Max open files", "proc/self/cgroup": ":::\n::\n5",
                 "proc/driver/nvidia/version": "9" * 40000, "proc/self/mounts": " /dev/shm size=99999999999999999999k",
                 "nvml.answers": "nvml.cards=99999999999999\n=\ncard.0.name\n" + "x" * 5000 + "=1\n",
                 "python.answers": "python.version=3\npython.package.torch=..\npython.torch.cuda=x.y\npython.folder.0=\n"}),
        None, []),
}


def build(root, files):
    for path, content in files.items():
        target = root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, tuple):
            target.symlink_to(content[1])
        else:
            target.write_text(content, encoding="latin-1")


def doctor(root, *options):
    done = subprocess.run([GPUWHY, "doctor", "--root", root, "--json", *options], capture_output=True, text=True, timeout=240)
    if done.returncode not in (0, 1):
        raise AssertionError(f"exit status {done.returncode}: {done.stderr}")
    return done.returncode, json_schemas.check(json.loads(done.stdout))


def check(name, root):
    files, expected, texts = MACHINES[name]
    build(root, files)
    status, page = doctor(root)
    found = {(c["id"], c["state"]) for c in page["checks"] if c["state"] != "pass"}
    shown = "\n".join(f"    {c['state']:8}{c['id']}: {c['text']} {c['todo'] or ''}" for c in page["checks"])
    if expected is not None and found != expected:
        raise AssertionError(f"missing {sorted(expected - found)}, not expected {sorted(found - expected)}\n{shown}")
    said = shown + json.dumps([c["todo"] for c in page["checks"]])
    for text in texts:
        if text not in said:
            raise AssertionError(f"nothing says '{text}'\n{shown}")
    if status != int(any(state == "fail" for _, state in found)):
        raise AssertionError(f"exit status {status} with {sorted(found)}")
    plain = subprocess.run([GPUWHY, "doctor", "--root", root], capture_output=True, text=True, timeout=240)
    if plain.returncode != status or f"{page['counts']['fail']} failed" not in plain.stdout:
        raise AssertionError(f"the page and the JSON differ:\n{plain.stdout}")


# ---- known problems: a machine with one, and its twin with another version, card or package, which has none --------------

H20, B300, M40 = ("NVIDIA H20", "9.0"), ("NVIDIA GB300", "10.3"), ("Tesla M40", "5.2")
H100, A100, P100 = ("NVIDIA H100 80GB HBM3", "9.0"), ("NVIDIA A100-SXM4-80GB", "8.0"), ("Tesla P100-PCIE-16GB", "6.0")
RTX5090, GTX1660, RTX2060 = ("NVIDIA GeForce RTX 5090", "12.0"), ("NVIDIA GeForce GTX 1660 Ti", "7.5"), ("NVIDIA GeForce RTX 2060", "7.5")
A10G = ("NVIDIA A10G", "8.6")

# what is reported: (cards, packages, driver) with the problem, and of the twin
PAIRS = {
    "Triton 3.5.0 generates code that crashes": (([B300], "triton=3.5.0"), ([B300], "triton=3.5.1")),
    "Triton 3.2.0 does not know cards": (([RTX5090], "triton=3.2.0"), ([RTX], "triton=3.2.0")),
    "Triton 2.2.0 computes float16": (([V100], "triton=2.2.0"), ([A100], "triton=2.2.0")),
    "cuBLAS 12.1.3.1 divides by zero": (([H20], "nvidia-cublas-cu12=12.1.3.1"), ([H200], "nvidia-cublas-cu12=12.1.3.1")),
    "PyTorch 2.1.0 divides by zero": (([H20], "torch=2.1.0+cu121"), ([H20], "torch=2.5.1+cu124")),
    "cuBLAS 12.9.1.4 may compute wrong": (([B200], "nvidia-cublas=12.9.1.4"), ([B200], "nvidia-cublas=13.2.0.9")),
    "cuDNN 9.8.0.87 may compute wrong": (([H100, H100], "nvidia-cudnn-cu12=9.8.0.87 nvidia-cublas-cu12=12.9.1.4"),
                                         ([H100], "nvidia-cudnn-cu12=9.8.0.87 nvidia-cublas-cu12=12.9.1.4")),
    "cuDNN 9.10.0.56 has other numbers": (([H100], "nvidia-cudnn-cu12=9.10.0.56 jaxlib=0.6.1"),
                                          ([H100], "nvidia-cudnn-cu12=9.10.0.56 torch=2.8.0")),
    "cuDNN 8.9.1.23 may compute fused": (([P100], "nvidia-cudnn-cu12=8.9.1.23"), ([V100], "nvidia-cudnn-cu12=8.9.1.23")),
    "cuDNN 8.9.2.26 may compute incorrect": (([M40], "nvidia-cudnn-cu12=8.9.2.26"), ([M40], "nvidia-cudnn-cu12=8.9.3.28")),
    "PyTorch 1.13.1 computes NaN": (([GTX1660], "torch=1.13.1"), ([RTX2060], "torch=1.13.1")),
    "xformers 0.0.30 calls kernels": (([RTX5090], "xformers=0.0.30"), ([RTX], "xformers=0.0.30")),
    "flash-attn 2.8.0 has wheels": (([A100], "flash-attn=2.8.0 torch=2.6.0"), ([A100], "flash-attn=2.8.0 torch=2.7.1")),
    "flash-attn 2.7.4 has wheels": (([A100], "flash-attn=2.7.4 torch=2.7.1"), ([A100], "flash-attn=2.7.4 torch=2.5.1")),
    "torchvision 0.21.0 needs PyTorch 2.6": (([A100], "torchvision=0.21.0 torch=2.5.1"), ([A100], "torchvision=0.20.1 torch=2.5.1")),
    "PyTorch 2.2.2 was built for NumPy 1": (([A100], "torch=2.2.2 numpy=2.0.1"), ([A100], "torch=2.3.1 numpy=2.0.1")),
    "PyTorch 2.9.0 computes conv3d": (([A100], "torch=2.9.0+cu128 monai=1.5.1"), ([A100], "torch=2.9.0+cu128 vllm=0.11.0")),
    "PyTorch 2.9.1 computes conv3d": (([A100], "torch=2.9.1+cu128 nnunetv2=2.6.2 nvidia-cudnn-cu12=9.10.2.21"),
                                      ([A100], "torch=2.9.1+cu128 nnunetv2=2.6.2 nvidia-cudnn-cu12=9.16.0.29")),
    "TensorRT 10.7.0 does not support": (([RTX5090], "tensorrt=10.7.0"), ([RTX5090], "tensorrt=10.9.0.34")),
    "TensorFlow 2.20.0 has no code": (([RTX5090], "tensorflow=2.20.0"), ([RTX], "tensorflow=2.20.0")),
    "jaxlib 0.7.0 needs cuDNN 9.8": (([A100], "jaxlib=0.7.0 nvidia-cudnn-cu12=9.5.1.17"), ([A100], "jaxlib=0.7.0 nvidia-cudnn-cu12=9.8.0.87")),
    "CUDA 11.7 has a cuFFT": (([RTX], "torch=1.13.1+cu117"), ([A100], "torch=1.13.1+cu117")),
    "onnxruntime 1.20.1 needs cuDNN 9": (([A100], "onnxruntime-gpu=1.20.1 nvidia-cudnn-cu12=8.9.7.29"),
                                         ([A100], "onnxruntime-gpu=1.20.1 nvidia-cudnn-cu12=9.8.0.87")),
    "NCCL 2.29.2 has a regression": (([H100, H100], "nvidia-nccl-cu12=2.29.2"), ([H100], "nvidia-nccl-cu12=2.29.2")),
    "bitsandbytes 0.45.2 has no binary": (([A100], "bitsandbytes=0.45.2 torch=2.7.1+cu128"), ([A100], "bitsandbytes=0.45.2 torch=2.7.1+cu126")),
    "NCCL 2.19.3 allocates with cuMem": (([A100], "nvidia-nccl-cu12=2.19.3", "535.161.08"), ([A100], "nvidia-nccl-cu12=2.19.3")),
    "driver 535.161.08 needs 3 times": (([A10G], "torch=2.5.1", "535.161.08"), ([A10G], "torch=2.5.1", "550.90.07")),
}


def software(list_of, packages, driver=DRIVER):
    """A machine with these cards, packages and driver."""
    lines = ["python.version=3.11.7", *(f"python.package.{package}" for package in packages.split())]
    files = cards(*list_of, python="\n".join(lines) + "\n", drop=("sys/module", "proc/driver/nvidia/version", LIB, SITE))
    return {**files, "sys/module/nvidia/version": driver + "\n", **driver_files(driver)}


def check_pairs(folder):
    """Each problem is a warning with a cure. The twin has none: problems of some programs only are one line that passes."""
    for words, pair in PAIRS.items():
        for is_bad, what in zip((True, False), pair):
            root = folder / f"{list(PAIRS).index(words)}-{is_bad}"
            build(root, software(*what))
            _, page = doctor(root)
            found = [c for c in page["checks"] if c["id"] == "known-problem"]
            if [c["text"] for c in found if words in c["text"] and c["state"] == "warn" and c["todo"]] != \
                    [c["text"] for c in found] or len(found) != is_bad:
                raise AssertionError(f"{words}, {what}: {[c['text'] for c in found]}")
            others = [c for c in page["checks"] if c["id"] == "known-problem-of-some"]
            if len(others) > 1 or any(c["state"] != "pass" or "gpuwhy causes --regressions" not in c["text"] for c in others):
                raise AssertionError(f"{words}, {what}: {others}")
    print(f"{len(PAIRS)} pairs of machines")


def check_against(folder):
    """A machine, compared with a saved state of itself."""
    good, later = folder / "good", folder / "later"
    build(good, cards(H200, H200))
    doctor(good, "--save", folder / "facts")
    status, page = doctor(good, "--against", folder / "facts")
    same = [c for c in page["checks"] if c["section"] == "since"]
    if status != 0 or [c["state"] for c in same] != ["pass"]:
        raise AssertionError(f"differs from itself: {same}")
    build(later, machine({"sys/module/nvidia/version": "580.95.05\n", **driver_files("580.95.05"),
                          f"{SITE}/nvidia_cudnn_cu12-9.3.0.75.dist-info/METADATA": ""},
                         (LIB, f"{SITE}/nvidia_cudnn_cu12-9.1.0.70.dist-info")))
    status, page = doctor(later, "--against", folder / "facts")
    since = {c["text"]: c["state"] for c in page["checks"] if c["section"] == "since"}
    if since.get("driver.module: 580.95.05 now, 580.65.06 before") != "warn" or \
            since.get("driver.cards: 1 now, 2 before") != "fail" or status != 1 or \
            since.get(f"/{SITE}/nvidia/cudnn/lib/libcudnn.so.9: 9.3.0.75 now, 9.1.0.70 before") != "warn" or \
            since.get(f"/{LIB}/libcuda.so.580.95.05: missing before") != "warn":
        raise AssertionError(f"what has changed is not said: {since}")
    for content in ("", "nonsense\n", None):
        path = folder / "bad"
        if content is not None:
            path.write_text(content)
        done = subprocess.run([GPUWHY, "doctor", "--root", good, "--against", path if content is not None else folder / "none"],
                              capture_output=True, text=True, timeout=240)
        if done.returncode != 2 or done.stderr.count("\n") != 1:
            raise AssertionError(f"--against a bad file: {done.returncode} {done.stderr}")


def check_interpreter(folder):
    """A real interpreter with made-up packages, which are read but never run."""
    site = folder / "site-packages"
    build(site, {"torch/__init__.py": "open(__file__ + '.was_run', 'w')\nraise SystemExit(9)\n",
                 "torch/version.py": "from typing import Optional\n__version__ = '2.5.1'\ncuda: Optional[str] = '12.4'\nhip = None\n",
                 "torch/lib/libtorch_python.so": "\0junk\0sm_50 sm_80 sm_90\0more",
                 "torch-2.5.1.dist-info/METADATA": "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\n",
                 "nvidia_cudnn_cu12-9.1.0.70.dist-info/METADATA": "Metadata-Version: 2.1\nName: nvidia-cudnn-cu12\nVersion: 9.1.0.70\n",
                 "nvidia/cudnn/lib/libcudnn.so.9": "", "broken-1.dist-info/METADATA": "\x00"})
    done = subprocess.run([GPUWHY, "doctor", "--json", "--", sys.executable], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "PYTHONPATH": str(site)})
    facts = json.loads(done.stdout)["facts"]
    wanted = {"python.package.torch": "2.5.1", "python.torch.cuda": "12.4", "python.torch.arch": "sm_50 sm_80 sm_90",
              "python.cudnn": "9.1.0.70", "python.version": ".".join(map(str, sys.version_info[:3]))}
    got = {key: facts.get(key) for key in wanted}
    if got != wanted:
        raise AssertionError(f"{got}")
    if (site / "torch" / "__init__.py.was_run").exists():
        raise AssertionError("torch was imported")
    if not any("libcudnn.so.9" in value and "version=9.1.0.70" in value for value in facts.values()):
        raise AssertionError("the package's cuDNN is not among the libraries")
    for words in (["/bin/true"], ["/bin/false"], ["no-such-program"]):
        done = subprocess.run([GPUWHY, "doctor", "--json", "--", *words], capture_output=True, text=True, timeout=240)
        checks = json.loads(done.stdout)["checks"]
        if not any(c["section"] == "python" and c["state"] == "unknown" for c in checks):
            raise AssertionError(f"{words}: {checks}")


def check_nvml(folder):
    """NVML itself, of virtual GPUs: the values that the survey reads, and its result for a GPU that fails."""
    library = GPUWHY.parent.resolve() / "lib" / "gpuwhy" / "virtual" / "nvml"

    def ask(specification):
        environment = {**os.environ, "GPUWHY_VIRTUAL": specification, "LD_LIBRARY_PATH": str(library)}
        environment.pop("GPUWHY_VIRTUAL_DIR", None)
        done = subprocess.run([GPUWHY, "doctor", "--json"], capture_output=True, text=True, timeout=240, env=environment)
        page = json.loads(done.stdout)
        return page["facts"], {(c["id"], c["state"]) for c in page["checks"] if c["section"] == "cards" and c["state"] != "pass"}

    facts, found = ask("2xh200")
    wanted = {"nvml.cards": "2", "card.1.name": "NVIDIA H200", "card.0.capability": "9.0", "card.0.compute_mode": "default",
              "card.0.remap_pending": "0", "card.0.throttle.thermal": "0", "card.0.mig": "off"}
    got = {key: facts.get(key) for key in wanted}
    if got != wanted or found:
        raise AssertionError(f"{got} {found}")
    for fault, expected in (("thermal", ("thermal-throttle", "warn")), ("power-brake", ("power-limit-or-brake", "warn")),
                            ("ecc", ("remap-pending", "warn")), ("lost", ("gpu-off-bus", "fail"))):
        facts, found = ask(f"h200,fault={fault}")
        if expected not in found:
            raise AssertionError(f"{fault}: {sorted(found)} {[f for f in facts.items() if f[0].startswith('card.0')]}")
    done = subprocess.run([GPUWHY, "doctor", "--json"], capture_output=True, text=True, timeout=240,
                          env={**os.environ, "GPUWHY_VIRTUAL": "no-such-card", "LD_LIBRARY_PATH": str(library)})
    if "nvml.why" not in json.loads(done.stdout)["facts"]:
        raise AssertionError("an NVML that refuses is not said")





def check_junit(folder):
    """JUnit XML beside the JSON, with hostile texts."""
    hostile = "<&>\"'\x01\x1b[31m \xff ]]> \t&#0;"
    evil = machine({"proc/self/environ": environ(HOME="/root", CUDA_VISIBLE_DEVICES=hostile, LD_PRELOAD=hostile,
                                                 CUDA_LAUNCH_BLOCKING=hostile),
                    "python.answers": torch(hostile, hostile)})
    for name, (tree, *_) in [("evil", (evil,)), *list(MACHINES.items())]:
        build(folder / name, tree)
        path = folder / f"{name}.xml"
        done = subprocess.run([GPUWHY, "doctor", "--root", folder / name, "--junit", path, "--json"], capture_output=True,
                              text=True, timeout=240)
        page, suite = json.loads(done.stdout), junit.read(path)
        if name == "evil" and not any("<&>" in one["text"] for one in page["checks"]):
            raise AssertionError("no text is hostile")
        found = [suite.get(key) for key in ("name", "tests", "failures", "skipped")]
        wanted = ["gpuwhy doctor", *(str(page["counts"][key]) for key in ("fail", "unknown"))]
        wanted.insert(1, str(len(page["checks"])))
        if found != wanted:
            raise AssertionError(f"{name}: {found} is not {wanted}")
        for case, one in zip(suite, page["checks"]):
            child = {"fail": "failure", "unknown": "skipped"}.get(one["state"], "system-out")
            if [c.tag for c in case] != [child] or not case.get("name").startswith(one["id"]) or \
                    case.get("classname") != "gpuwhy.doctor." + one["section"]:
                raise AssertionError(f"{name}: {ElementTree.tostring(case)} is {one}")
            wanted = one["text"] if child == "skipped" else \
                one["text"] + (f"\nTo do: {one['todo']}" if one["todo"] else "")
            wanted = re.sub("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]", "?", wanted)
            got = case[0].get("message") if child == "skipped" else case[0].text
            if got not in (wanted, "warning: " + wanted):
                raise AssertionError(f"{name}: {got!r} is not {wanted!r}")
    done = subprocess.run([GPUWHY, "doctor", "--junit", folder / "no" / "file"], capture_output=True, text=True, timeout=240)
    if done.returncode != 2 or "no/file" not in done.stderr or done.stdout:
        raise AssertionError(f"a file that cannot be written: {done}")
    done = subprocess.run([GPUWHY, "doctor", "--junit", "/dev/full"], capture_output=True, text=True, timeout=240)
    if done.returncode != 2 or "/dev/full" not in done.stderr:
        raise AssertionError(f"a full disk: {done}")


def check_arguments(folder):
    for words in (["--root", str(folder / "none")], ["python3"], ["--what"], ["--save", str(folder / "no" / "where")]):
        done = subprocess.run([GPUWHY, "doctor", *words], capture_output=True, text=True, timeout=240)
        if done.returncode != 2 or done.stderr.count("\n") != 1 or not done.stderr.startswith("gpuwhy: doctor: "):
            raise AssertionError(f"{words}: {done.returncode} {done.stderr!r}")


def main(names):
    special = {"against": check_against, "interpreter": check_interpreter, "nvml": check_nvml, "arguments": check_arguments,
               "junit": check_junit, "pairs": check_pairs}
    failed = 0
    for name in names or [*MACHINES, *special]:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuwhy-doctor-"))
        try:
            special[name](folder) if name in special else check(name, folder)
        except AssertionError as error:
            failed += 1
            print(f"FAILED {name}: {error}")
        finally:
            shutil.rmtree(folder)
    print(f"{len(MACHINES)} machines, {failed} failed")
    sys.exit(failed != 0)


main(sys.argv[1:])
