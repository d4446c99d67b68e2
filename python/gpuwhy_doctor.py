"""Prints the CUDA-related packages of this interpreter as lines "key=value", for `gpuwhy doctor -- python`.

Only the standard library is imported, because a broken framework, or one that would use the GPU, must not run. Versions
come from the packages' metadata, everything else from their files.
"""
import os
import re
import sys

FOLDERS_MAX = 200
LARGEST = 512 << 20  # bytes; larger libraries are not searched


def say(key, value):
    print(f"{key}={' '.join(str(value).split())}")


def distributions():
    from importlib import metadata

    for found in metadata.distributions():
        try:
            yield found.metadata["Name"], found.version
        except Exception:  # skip a broken package
            continue


def is_of_interest(name):
    return name in ("torch", "tensorflow", "jax", "jaxlib", "triton", "torchvision", "torchaudio", "xformers", "flash-attn",
                    "bitsandbytes", "keras", "numpy", "deepspeed", "accelerate", "peft", "transformers", "lightning", "pytorch-lightning",
                    "vllm", "numba", "onnxruntime-gpu", "tensorrt", "monai", "nnunetv2", "ultralytics") or name.startswith(("nvidia-", "jax-cuda", "cupy", "tensorflow-gpu"))


def packages():
    for name, version in distributions():
        name = (name or "").lower().replace("_", "-")
        if not is_of_interest(name):
            continue
        say(f"python.package.{name}", version)
        if re.fullmatch(r"nvidia-cudnn(-cu\d+)?", name):
            say("python.cudnn", version)


def folder_of(package):
    """Return the folder of the package without importing it."""
    from importlib import util

    found = util.find_spec(package)
    return os.path.dirname(found.origin) if found and found.origin else None


def constants(path, names):
    """Return constants that a Python file assigns to these names. The file is parsed and not run."""
    import ast

    found = {}
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    for node in tree.body:
        targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
        for target in targets:
            if isinstance(target, ast.Name) and target.id in names and isinstance(node.value, ast.Constant):
                found[target.id] = node.value.value
    return found


def architectures(folder):
    """Return the architectures of PyTorch's binary, which contains them as one string: "sm_75 sm_80 compute_90"."""
    import mmap

    for name in ("libtorch_python.so", "libtorch_cuda.so"):
        path = os.path.join(folder, "lib", name)
        if not os.path.isfile(path) or not 0 < os.path.getsize(path) < LARGEST:
            continue
        with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            found = re.search(rb"\0((?:sm|compute)_\d+[af]?(?: (?:sm|compute)_\d+[af]?)+)\0", data)
            if found:
                return found.group(1).decode()
    return None


def torch():
    folder = folder_of("torch")
    if folder is None:
        return
    say("python.torch.folder", folder)
    found = constants(os.path.join(folder, "version.py"), ("cuda", "hip"))
    if "cuda" in found:
        say("python.torch.cuda", found["cuda"] or "none")
    if found.get("hip"):
        say("python.torch.hip", found["hip"])
    flags = architectures(folder)
    if flags:
        say("python.torch.arch", flags)


def tensorflow():
    folder = folder_of("tensorflow")
    path = folder and os.path.join(folder, "python", "platform", "build_info.py")
    if not path or not os.path.isfile(path):
        return
    with open(path, encoding="utf-8") as file:
        found = re.search(r"['\"]cuda_version['\"]\s*[:,=]\s*['\"]([\d.]+)", file.read())
    if found:
        say("python.tensorflow.cuda", found.group(1))


def folders():
    """Print the folders of libraries that packages installed."""
    count = 0
    for site in dict.fromkeys(os.path.realpath(p) for p in sys.path if p):
        found = [os.path.join(site, "torch", "lib")]
        vendor = os.path.join(site, "nvidia")
        if os.path.isdir(vendor):
            found += [os.path.join(vendor, name, "lib") for name in sorted(os.listdir(vendor))]
        for folder in found:
            if os.path.isdir(folder) and count < FOLDERS_MAX:
                say(f"python.folder.{count}", folder)
                count += 1


def conda():
    folder = os.path.join(sys.prefix, "conda-meta")
    names = os.listdir(folder) if os.path.isdir(folder) else []
    found = [name[:-5] for name in sorted(names) if re.match(r"(cudnn|cuda-cudart|cudatoolkit|libcublas)-\d", name)]
    if found:
        say("python.conda_cuda", ", ".join(found))


def main():
    del sys.path[0]  # this file's own folder
    say("python.version", ".".join(str(part) for part in sys.version_info[:3]))
    say("python.executable", sys.executable)
    say("python.prefix", sys.prefix)
    for part in (packages, torch, tensorflow, folders, conda):
        try:
            part()
        except Exception as error:
            say(f"python.failed.{part.__name__}", f"{type(error).__name__}: {error}")


main()
