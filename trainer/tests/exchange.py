"""Exchange weights and graphs with other programs.

    exchange.py CASE    one of CASES; exit 77: not possible on this machine

GPUWHY_TRAINER_LOGITS is the program trainer_logits. The case `torchvision` needs torch and torchvision: in the Python
named by GPUWHY_TORCHVISION_PYTHON, in this one, or in /usr/bin/python3.
"""
import json
import os
import pathlib
import struct
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "e2e"))
from harness import PRODUCT, Workplace, base_environment, behind_sanitizer, expect, main, skip, wait_until
from pypi import has, python_with

TRAINER = PRODUCT / "trainer"
MODELS = PRODUCT / "models"
LOGITS = os.environ["GPUWHY_TRAINER_LOGITS"]
PACKAGES = ["numpy", "safetensors", "onnx", "onnxruntime", "protobuf", "ml_dtypes", "typing_extensions"]
MODULES = ["numpy", "safetensors", "onnx", "onnxruntime", "ml_dtypes"]
# fp32 rounds by 6e-8, and each program sums thousands of terms in its own order. Relative to the largest logit.
# Measured: 8e-6 at most, for MobileNetV2.
TOLERANCE = 2e-5
NORMALISED = ("input 1 12 12\nconv 8 3 pad 1 nobias as a\nbatchnorm relu as b\nmaxpool 2\nsegment\n"
              "conv 8 3 pad 1 nobias\nbatchnorm relu\nmaxpool 2\nlinear 10 as fc\n")


class Place:
    def __init__(self, path):
        self.path = path
        self.environment = base_environment(path)
        self.environment["OMP_NUM_THREADS"] = "2"

    def execute(self, argv, status=0):
        done = subprocess.run(behind_sanitizer([str(word) for word in argv]), cwd=self.path, env=self.environment,
                              text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=240)
        expect(done.returncode == status, f"{argv}: exit {done.returncode} instead of {status}: {done.stderr}")
        return done.stderr

    def trainer(self, *options, status=0):
        return self.execute([TRAINER, *options], status)

    def convert(self, *options, status=0):
        return self.trainer("--convert", *options, status=status)

    def write(self, name, text):
        (self.path / name).write_text(text)
        return self.path / name

    def model(self, name, side):
        """Copy a model of the trainer with a smaller input."""
        text = (MODELS / f"{name}.net").read_text().replace("input 3 224 224", f"input 3 {side} {side}")
        return self.write(f"{name}.net", text)


# ---- weights, without a library --------------------------------------------------------------------------------------

def read_file(path):
    """Return the tensors of a safetensors file as (type, shape, bytes)."""
    data = path.read_bytes()
    size, = struct.unpack("<Q", data[:8])
    head = json.loads(data[8:8 + size])
    head.pop("__metadata__", None)
    data = memoryview(data)[8 + size:]
    return {name: (entry["dtype"], entry["shape"], bytes(data[slice(*entry["data_offsets"])]))
            for name, entry in head.items()}


def write_file(path, tensors):
    """Write tensors given as (type, shape, bytes)."""
    head, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (kind, shape, values) in tensors.items():
        head[name] = {"dtype": kind, "shape": list(shape), "data_offsets": [at, at + len(values)]}
        at += len(values)
    text = json.dumps(head).encode()
    path.write_bytes(b"".join([struct.pack("<Q", len(text)), text, *(values for _, _, values in tensors.values())]))


# ---- in a training ---------------------------------------------------------------------------------------------------

def trains(place):
    def train(*options):
        return place.trainer("--backend", "cpu", "--model", "n.net", "--images", "200", "--batch", "8",
                             "--deterministic", "--quiet", *options)

    def same(one, other):
        return read_file(place.path / one) == read_file(place.path / other)

    place.write("n.net", NORMALISED)
    place.convert("--model", "n.net", "--seed", "7", "--save-weights", "start")
    names = set(read_file(place.path / "start"))
    expect(names == {f"{layer}.{part}" for layer, parts in
                     (("a", ["weight"]), ("conv2", ["weight"]), ("fc", ["weight", "bias"]),
                      ("b", ["weight", "bias", "running_mean", "running_var"]),
                      ("batchnorm2", ["weight", "bias", "running_mean", "running_var"])) for part in parts},
           f"the file has {names}")
    train("--weights", "start", "--steps", "4", "--save-weights", "four", "--export", "four.onnx",
          "--checkpoint", "c4")
    expect(not same("start", "four"), "the training changed no weights")
    train("--weights", "start", "--steps", "2", "--checkpoint", "c")
    # a run that continues does not read the file again
    train("--weights", "missing", "--resume", "--steps", "4", "--checkpoint", "c", "--save-weights", "resumed")
    expect(same("four", "resumed"), "a resumed training made other weights")
    place.convert("--model", "n.net", "--checkpoint", "c4", "--save-weights", "of-checkpoint",
                  "--export", "of-checkpoint.onnx")
    expect(same("four", "of-checkpoint"), "the checkpoint has other weights than the file")
    expect((place.path / "four.onnx").read_bytes() == (place.path / "of-checkpoint.onnx").read_bytes(),
           "the graphs of the training and of its checkpoint differ")
    train("--steps", "4", "--save-weights", "unlike")
    expect(not same("four", "unlike"), "the initial weights make no difference")
    refuses(place, train)
    stops(place)


def stops(place):
    """A stopped training writes no weights."""
    log = place.path / "log"
    process = subprocess.Popen(behind_sanitizer(
        [str(TRAINER), "--backend", "cpu", "--model", "n.net", "--images", "200", "--batch", "8", "--epochs", "1000000",
         "--save-weights", "stopped", "--log", "log"]), cwd=place.path, env=place.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    wait_until(lambda: process.poll() is not None or (log.exists() and '"loss"' in log.read_text()), "no step was made")
    process.terminate()
    _, error = process.communicate(timeout=200)
    expect(process.returncode == 4, f"exit {process.returncode} instead of 4: {error}")
    expect("stopped before the last step: no weights are written" in error, error)
    expect(not (place.path / "stopped").exists(), "a stopped training wrote weights")


def refuses(place, train):
    def refused(why, *options):
        error = place.trainer("--backend", "cpu", "--model", "n.net", "--batch", "8", "--steps", "1", "--quiet",
                              "--save-weights", "none", *options, status=1)
        expect(why in error, f"{options}: expected '{why}', but the reason is '{error}'")
        expect(not (place.path / "none").exists(), f"{options}: the file was written")

    tensors = read_file(place.path / "start")
    kind, shape, data = tensors["fc.weight"]
    for what, change, why in (
            ("missing", {"fc.weight": None},
             'missing.st: tensor "fc.weight" (10x72) is missing; line 9 of the model n'),
            ("extra", {"fc.extra": tensors["fc.bias"]}, 'extra.st: tensor "fc.extra" (10) belongs to no layer of the'),
            ("shape", {"fc.weight": (kind, shape[::-1], data)},
             'shape.st: tensor "fc.weight": the shape is 72x10, but line 9 of the model n needs 10x72'),
            ("type", {"fc.weight": ("I32", shape, data)},
             'type.st: tensor "fc.weight": the type is I32, but only F32')):
        changed = {name: value for name, value in {**tensors, **change}.items() if value is not None}
        write_file(place.path / f"{what}.st", changed)
        refused(why, "--weights", f"{what}.st")
        train("--weights", f"{what}.st", "--weights-except", "fc", "--steps", "1")
    refused('the exception "f" is no layer of the model n', "--weights", "start", "--weights-except", "f")
    refused("exceptions are given, but no file with weights", "--weights-except", "fc")
    refused("none.st: No such file or directory", "--weights", "none.st")
    for option in "--save-weights", "--export": # refused before the training
        long = ["--backend", "cpu", "--model", "n.net", "--epochs", "1000000"]
        error = place.trainer(*long, option, "no/file", status=1)
        expect("no/file.new: No such file or directory" in error, error)
        error = place.trainer(*long, option, ".", status=1)
        expect(".: Is a directory" in error, error)
        error = place.trainer(*long, option, "/dev/null", status=1)
        expect("/dev/null: not a regular file" in error, error)
    place.write("twice.net", NORMALISED.replace("maxpool 2", "maxpool 2 as pool"))
    error = place.trainer("--backend", "cpu", "--model", "twice.net", "--epochs", "1000000", "--export", "o", status=1)
    expect("model twice: lines 4 and 8 are both called pool" in error, error)
    place.write("short.st", "1234567")
    refused("short.st: 7 bytes, but the size of the head alone has 8", "--weights", "short.st")
    error = place.convert("--model", "small", "--checkpoint", "c4", "--save-weights", "none", status=1)
    expect("c4: the checkpoint is for a model n with other layers than the model small" in error, error)
    error = place.trainer("--backend", "dry", "--model", "n.net", "--save-weights", "none", status=1)
    expect("the back end dry computes nothing, so there are no weights to write" in error, error)


# ---- torchvision's names and shapes, as data ------------------------------------------------------------------------

def resnet(depth):
    """Return the blocks of torchvision's resnet18 or resnet50: (name, inputs, width, outputs, stride, kernels)."""
    counts, kernels, expansion = {18: ((2, 2, 2, 2), (3, 3), 1), 50: ((3, 4, 6, 3), (1, 3, 1), 4)}[depth]
    blocks, inputs = [], 64
    for stage, count in enumerate(counts):
        width = 64 << stage
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            blocks.append((f"layer{stage + 1}.{block}", inputs, width, width * expansion, stride, kernels))
            inputs = width * expansion
    return blocks


def resnet_shapes(depth):
    shapes = {"conv1.weight": (64, 3, 7, 7)}

    def norm(name, channels):
        shapes.update({f"{name}.{part}": (channels,) for part in ("weight", "bias", "running_mean", "running_var")})
        shapes[f"{name}.num_batches_tracked"] = ()

    norm("bn1", 64)
    for name, inputs, width, outputs, stride, kernels in resnet(depth):
        before = inputs
        for i, kernel in enumerate(kernels):
            after = outputs if i + 1 == len(kernels) else width
            shapes[f"{name}.conv{i + 1}.weight"] = (after, before, kernel, kernel)
            norm(f"{name}.bn{i + 1}", after)
            before = after
        if stride != 1 or inputs != outputs:
            shapes[f"{name}.downsample.0.weight"] = (outputs, inputs, 1, 1)
            norm(f"{name}.downsample.1", outputs)
    shapes["fc.weight"], shapes["fc.bias"] = (1000, outputs), (1000,)
    return shapes


def random_values(shapes, seed=5):
    """Return fp32 arrays with which activations keep their size, and with which no statistic is 0 or 1."""
    import numpy as np
    random = np.random.default_rng(seed)
    values = {}
    for name, shape in shapes.items():
        if name.endswith("num_batches_tracked"):
            values[name] = np.array(12, np.int64)
        elif len(shape) > 1:
            values[name] = random.standard_normal(shape, np.float32) * np.float32((2 / np.prod(shape[1:])) ** 0.5)
        elif name.endswith("running_var"):
            values[name] = random.uniform(0.5, 1.5, shape).astype(np.float32)
        else:
            base = 1 if name.endswith(".weight") else 0
            values[name] = (base + 0.3 * random.standard_normal(shape)).astype(np.float32)
    return values


def raw(values):
    import numpy as np
    return {name: ({"float32": "F32", "int64": "I64"}[value.dtype.name], value.shape,
                   np.ascontiguousarray(value).tobytes()) for name, value in values.items()}


# ---- safetensors -----------------------------------------------------------------------------------------------------

def safetensors(place):
    import ml_dtypes
    import numpy as np
    import safetensors.numpy as st
    values = random_values(resnet_shapes(18))
    types = [np.float32, np.float16, ml_dtypes.bfloat16]
    given = {name: value if value.dtype == np.int64 else value.astype(types[i % 3])
             for i, (name, value) in enumerate(values.items())}
    st.save_file(given, place.path / "given", {"format": "pt"})
    expect({kind for kind, _, _ in read_file(place.path / "given").values()} == {"F32", "F16", "BF16", "I64"}, "types")
    place.convert("--model", "resnet18", "--weights", "given", "--save-weights", "taken")
    taken = st.load_file(place.path / "taken")
    wanted = {name for name, value in given.items() if value.dtype != np.int64}
    expect(set(taken) == wanted, f"tensors: {sorted(taken)}")
    for name, value in taken.items():
        expect(value.dtype == np.float32 and np.array_equal(value, given[name].astype(np.float32)),
               f"{name} has other values")
    # a file of the library is the same to the trainer as its own
    st.save_file(taken, place.path / "again", {"format": "pt"})
    place.convert("--model", "resnet18", "--weights", "again", "--save-weights", "taken2")
    expect((place.path / "taken").read_bytes() == (place.path / "taken2").read_bytes(), "the files differ")
    other_classes(place, given)


def other_classes(place, given):
    import numpy as np
    import safetensors.numpy as st
    place.write("ten.net", (MODELS / "resnet18.net").read_text().replace("linear 1000", "linear 10"))
    error = place.convert("--model", "ten.net", "--weights", "given", "--save-weights", "ten", status=1)
    expect('tensor "fc.weight": the shape is 1000x512, but line 62 of the model ten needs 10x512' in error, error)
    place.convert("--model", "ten.net", "--weights", "given", "--weights-except", "fc", "--save-weights", "ten")
    ten = st.load_file(place.path / "ten")
    expect(ten["fc.weight"].shape == (10, 512) and ten["fc.weight"].std() > 0.01, "fc has no initial values")
    expect(all(np.array_equal(value, given[name].astype(np.float32)) for name, value in ten.items()
               if not name.startswith("fc.")), "other layers than fc differ")


# ---- logits ----------------------------------------------------------------------------------------------------------

def logits_of_trainer(place, model, weights, images):
    """`images`: N x channels x rows x columns."""
    import numpy as np
    np.ascontiguousarray(images.transpose(0, 2, 3, 1)).tofile(place.path / "images")
    place.execute([LOGITS, "cpu", model, weights, len(images), "images", "logits"])
    return np.fromfile(place.path / "logits", np.float32).reshape(len(images), -1)


def expect_close(is_, wants, what):
    import numpy as np
    expect(is_.shape == wants.shape, f"{what}: shape {is_.shape} instead of {wants.shape}")
    error = float(np.abs(is_ - wants).max() / np.abs(wants).max())
    print(f"{what}: logits up to {np.abs(wants).max():.3g}, largest difference {error:.1e} of that")
    expect(error <= TOLERANCE, f"{what}: the logits differ by {error:.1e} of the largest one")


def run_onnx(model, images):
    import onnxruntime
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 2
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    return session.run(None, {session.get_inputs()[0].name: images})[0]


def resnet_graph(depth, values):
    """Return the ONNX model of torchvision's ResNet, made from its definition and not by the trainer."""
    import onnx
    from onnx import helper, numpy_helper
    nodes = []

    def node(kind, inputs, output, **attributes):
        nodes.append(helper.make_node(kind, inputs, [output], **attributes))
        return output

    def conv(x, name, kernel, stride=1):
        return node("Conv", [x, f"{name}.weight"], name, kernel_shape=[kernel] * 2, strides=[stride] * 2,
                    pads=[kernel // 2] * 4)

    def norm(x, name):
        return node("BatchNormalization", [x] + [f"{name}.{part}" for part in
                                                 ("weight", "bias", "running_mean", "running_var")], name, epsilon=1e-5)

    x = node("Relu", [norm(conv("x", "conv1", 7, 2), "bn1")], "stem")
    x = node("MaxPool", [x], "pool", kernel_shape=[3, 3], strides=[2, 2], pads=[1, 1, 1, 1])
    for name, inputs, _, outputs, stride, kernels in resnet(depth):
        short = x
        if stride != 1 or inputs != outputs:
            short = norm(conv(x, f"{name}.downsample.0", 1, stride), f"{name}.downsample.1")
        for i, kernel in enumerate(kernels):
            # the stride is in the first 3x3 convolution
            x = conv(x, f"{name}.conv{i + 1}", kernel, stride if i == kernels.index(3) else 1)
            x = norm(x, f"{name}.bn{i + 1}")
            if i + 1 < len(kernels):
                x = node("Relu", [x], f"{name}.relu{i + 1}")
        x = node("Relu", [node("Add", [x, short], f"{name}.sum")], f"{name}.out")
    x = node("Flatten", [node("GlobalAveragePool", [x], "mean")], "flat")
    node("Gemm", [x, "fc.weight", "fc.bias"], "y", transB=1)
    graph = helper.make_graph(nodes, "resnet", [helper.make_tensor_value_info("x", 1, ["N", 3, None, None])],
                              [helper.make_tensor_value_info("y", 1, ["N", 1000])],
                              [numpy_helper.from_array(value, name) for name, value in values.items()
                               if value.ndim > 0])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8).SerializeToString()


OTHERS = {"linear-of-image": "input 3 10 9\nconv 8 3 stride 2 pad 1 relu as c.0\nmaxpool 3 stride 2 pad 1\n"
                             "linear 12 relu\nlinear 5 nobias\n",
          "no-linear": "input 2 8 8\na = conv 6 3 pad 1 relu\nb = batchnorm\nconv 6 1 from a\nadd b relu\n"
                       "conv 4 3\naveragepool\n",
          "inverted": "input 3 12 12\na = conv 8 3 stride 2 pad 1 nobias\nbatchnorm relu6\n"
                      "conv 16 3 pad 1 groups 8 nobias\ne = batchnorm silu\naveragepool\nconv 4 1 silu\n"
                      "conv 16 1 sigmoid\nmultiply e\nconv 8 1 hardswish\ndropout 0.5 images\nadd a\naveragepool\n"
                      "dropout 0.2\nlinear 7\n"}


def graphs(place):
    import numpy as np
    import onnx
    import safetensors.numpy as st
    random = np.random.default_rng(3)
    for depth in (18, 50):
        values = random_values(resnet_shapes(depth))
        write_file(place.path / "w", raw(values))
        model = place.model(f"resnet{depth}", 64)
        images = random.standard_normal((2, 3, 64, 64), np.float32)
        place.convert("--model", model, "--weights", "w", "--export", "m.onnx")
        ours = logits_of_trainer(place, model, "w", images)
        expect_close(ours, run_onnx(resnet_graph(depth, values), images), f"ResNet-{depth}, torchvision's definition")
        onnx.checker.check_model(onnx.load(place.path / "m.onnx"), full_check=True)
        for batch in images, images[:1]: # N is dynamic
            expect_close(run_onnx(place.path / "m.onnx", batch), ours[:len(batch)], f"ResNet-{depth}, exported")
    models = {name: place.write(f"{name}.net", text) for name, text in OTHERS.items()}
    for name, model in {**models, "small": MODELS / "small.net"}.items():
        place.convert("--model", model, "--save-weights", "initial")
        initial = st.load_file(place.path / "initial")
        st.save_file(random_values({name: value.shape for name, value in initial.items()}), place.path / "w")
        place.convert("--model", model, "--weights", "w", "--export", "m.onnx")
        onnx.checker.check_model(onnx.load(place.path / "m.onnx"), full_check=True)
        shape = [int(word) for word in pathlib.Path(model).read_text().split("input")[1].split()[:3]]
        images = random.standard_normal((3, *shape), np.float32)
        expect_close(run_onnx(place.path / "m.onnx", images), logits_of_trainer(place, model, "w", images), name)


# ---- torchvision -----------------------------------------------------------------------------------------------------

def torchvision(place):
    import numpy as np
    import torch
    import torchvision.models as zoo
    torch.manual_seed(4)
    torch.set_num_threads(2)
    for name, make in (("resnet18", zoo.resnet18), ("resnet34", zoo.resnet34), ("resnet50", zoo.resnet50),
                       ("vgg11", zoo.vgg11), ("vgg16", zoo.vgg16), ("mobilenetv2", zoo.mobilenet_v2),
                       ("efficientnet-b0", zoo.efficientnet_b0)):
        network = make(weights=None).eval()
        shapes = {key: tuple(value.shape) for key, value in network.state_dict().items()}
        values = random_values(shapes)
        network.load_state_dict({key: torch.from_numpy(value) for key, value in values.items()})
        write_file(place.path / "w", raw(values))
        images = np.random.default_rng(6).standard_normal((2, 3, 224, 224), np.float32)
        ours = logits_of_trainer(place, MODELS / f"{name}.net", "w", images)
        with torch.no_grad():
            expect_close(ours, network(torch.from_numpy(images)).numpy(), f"{name} of torchvision")
        # and back
        place.convert("--model", name, "--weights", "w", "--save-weights", "back")
        back = {key: torch.from_numpy(np.frombuffer(data, np.float32).reshape(shape).copy())
                for key, (_, shape, data) in read_file(place.path / "back").items()}
        make(weights=None).load_state_dict(back, strict=True)
        expect(all(torch.equal(value, network.state_dict()[key]) for key, value in back.items()), "other values")


def torchvision_python():
    for python in os.environ.get("GPUWHY_TORCHVISION_PYTHON"), sys.executable, "/usr/bin/python3":
        if python and pathlib.Path(python).exists() and has(python, ["torch", "torchvision", "numpy"]):
            return python
    skip("no Python with torch and torchvision; GPUWHY_TORCHVISION_PYTHON can name one")


# ---- cases -----------------------------------------------------------------------------------------------------------

# each case, and the function that finds a Python for it
CASES = {"trains": (trains, None),
         "safetensors": (safetensors, lambda: python_with(["--no-deps", *PACKAGES], "exchange", MODULES)),
         "graphs": (graphs, lambda: python_with(["--no-deps", *PACKAGES], "exchange", MODULES)),
         "torchvision": (torchvision, torchvision_python)}


def run(name):
    case, find_python = CASES[name]
    python = find_python() if find_python else sys.executable
    if python != sys.executable and "GPUWHY_EXCHANGE_STARTED" not in os.environ:
        os.environ["GPUWHY_EXCHANGE_STARTED"] = "1"
        os.execv(python, [python, "-B", __file__, name])
    begin = time.monotonic()
    with Workplace() as path:
        case(Place(path))
    print(f"{name}: {time.monotonic() - begin:.0f} s")


if __name__ == "__main__":
    main(lambda: run(sys.argv[1]))
