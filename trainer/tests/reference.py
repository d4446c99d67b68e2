"""A training in NumPy, in double, compared with a back end: reference.py MODEL.net OPTIMIZER PARTS STEPS FILE [WORDS].

WORDS are those of trainer_steps. torch_reference.py compares with PyTorch instead.

FILE is written by trainer_steps. This program has its own code to read, run and train models. It only shares the
format of a model's file and the order of its parameters (model.h) with the trainer. The formulas are those of
PyTorch's layers, SGD and Adam.
"""

import sys

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

# fp32 rounds by 6e-8. A loss is computed through several layers of sums of up to thousands of terms, from rounded
# parameters in each step. Adam divides by the root of squares that begin near 0, so if a gradient is mostly rounding,
# so is the direction of its first steps. Measured: at most 4e-7, with all instruction sets from SSE4.1 to AVX-512.
LOSS_TOLERANCE = 1e-5
# Relative to the total change of the parameters in the Euclidean norm; each parameter is rounded, too. Measured:
# 3e-5.
MOVE_TOLERANCE = 1e-4
SEED = 11  # of trainer_steps, for dropout


# ---- models ----

def read_model(path):
    """Return the layers in order, as dictionaries: kind, sources, options, and the positions of their parameters."""
    layers, names, places, statistics = [], {}, 0, 0
    for line in open(path):
        words = line.split("#")[0].split()
        if not words or words == ["segment"]:
            continue
        name = None
        if words[1:2] == ["="]:
            name, words = words[0], words[2:]
        layer = {"kind": words[0], "from": [len(layers) - 1], "stride": None, "pad": 0, "relu": False, "bias": True,
                 "groups": 1, "images": False, "index": len(layers)}
        numbers, words, function = [], words[1:], None
        if layer["kind"] == "dropout":
            layer["rate"] = float(np.float32(words.pop(0)))
        while words:
            word = words.pop(0)
            if word in ("stride", "pad", "groups"):
                layer[word] = int(words.pop(0))
            elif word == "images":
                layer["images"] = True
            elif word in ACTIVATIONS:
                function = word
            elif word == "from":
                layer["from"][0] = names[words.pop(0)]
            elif word == "as": # a name for files with weights
                words.pop(0)
            elif word == "relu":
                layer["relu"] = True
            elif word == "nobias":
                layer["bias"] = False
            elif word.isdigit():
                numbers.append(int(word))
            else:
                layer["from"].append(names[word])
        shape = None if layer["kind"] == "input" else layers[layer["from"][0]]["shape"]  # height, width, channels
        counts = (0, 0)
        if layer["kind"] == "input":
            shape = (numbers[1], numbers[2], numbers[0])
        elif layer["kind"] == "conv":
            layer["kernel"], layer["stride"] = numbers[1], layer["stride"] or 1
            layer["weights"] = (numbers[0], numbers[1], numbers[1], shape[2] // layer["groups"])
            counts = (int(np.prod(layer["weights"])), numbers[0] if layer["bias"] else 0)
            shape = window(shape, layer)[:2] + (numbers[0],)
        elif layer["kind"] == "maxpool":
            layer["kernel"], layer["stride"] = numbers[0], layer["stride"] or numbers[0]
            shape = window(shape, layer)
        elif layer["kind"] == "averagepool":
            shape = (1, 1, shape[2])
        elif layer["kind"] == "batchnorm":
            layer["weights"] = (shape[2],)
            counts = (shape[2], shape[2])
            layer["statistics"] = statistics
            statistics += aligned(2 * shape[2])
        elif layer["kind"] == "linear":
            layer["weights"] = (numbers[0], int(np.prod(shape)))
            counts = (int(np.prod(layer["weights"])), numbers[0] if layer["bias"] else 0)
            shape = (1, 1, numbers[0])
        elif layer["kind"] == "multiply":
            shape = layers[layer["from"][1]]["shape"]
        layer["shape"] = shape
        if layer["kind"] == "activation":
            layer["function"], function = function, None
        layer["weight_at"], layer["weight_count"] = places, counts[0]
        places += aligned(counts[0])
        layer["bias_at"], layer["bias_count"] = places, counts[1]
        places += aligned(counts[1])
        layers.append(layer)
        if function:  # a layer of its own
            layers.append({"kind": "activation", "from": [len(layers) - 1], "function": function, "shape": shape,
                           "relu": False, "weight_at": places, "weight_count": 0, "bias_at": places, "bias_count": 0,
                           "index": len(layers)})
        if name:
            names[name] = len(layers) - 1
    return layers


def aligned(count):
    return -(-count // 64) * 64


def window(shape, layer):
    def side(size):
        return (size + 2 * layer["pad"] - layer["kernel"]) // layer["stride"] + 1
    return side(shape[0]), side(shape[1]), shape[2]


# ---- layers: one function for each direction; `kept` is what the backward pass needs ----

def windows(x, layer, fill):
    """Return image, row, column, channel, window row, window column: x is not copied except for its padding."""
    pad, kernel, stride = layer["pad"], layer["kernel"], layer["stride"]
    padded = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)), constant_values=fill)
    return sliding_window_view(padded, (kernel, kernel), (1, 2))[:, ::stride, ::stride]


def unwindow(pieces, layer, shape):
    """Add the contributions of each window to its pixels."""
    pad, kernel, stride = layer["pad"], layer["kernel"], layer["stride"]
    images, rows, columns = pieces.shape[:3]
    padded = np.zeros((images, shape[1] + 2 * pad, shape[2] + 2 * pad, shape[3]))
    for r in range(kernel):
        for c in range(kernel):
            padded[:, r:r + stride * rows:stride, c:c + stride * columns:stride][:, :rows, :columns] += pieces[..., r, c]
    return padded[:, pad:pad + shape[1], pad:pad + shape[2]]


def conv(layer, weights, bias, x):
    """Each group of output channels reads its own group of input channels. `flat` has the groups first."""
    seen, groups = windows(x, layer, 0), layer["groups"]
    flat = seen.transpose(0, 1, 2, 4, 5, 3).reshape(-1, weights.shape[1] ** 2, groups, weights.shape[3])
    flat = flat.transpose(2, 0, 1, 3).reshape(groups, len(flat), weights[0].size)
    y = flat @ weights.reshape(groups, -1, weights[0].size).transpose(0, 2, 1)
    y = y.transpose(1, 0, 2).reshape(seen.shape[:3] + (len(weights),))
    return y if bias is None else y + bias, flat


def conv_back(layer, weights, x, flat, dy):
    groups = layer["groups"]
    rows = dy.reshape(-1, groups, len(weights) // groups).transpose(1, 0, 2)
    pieces = (rows @ weights.reshape(groups, -1, weights[0].size)).reshape((groups,) + dy.shape[:3] + weights.shape[1:])
    pieces = pieces.transpose(1, 2, 3, 0, 6, 4, 5).reshape(dy.shape[:3] + (x.shape[3],) + weights.shape[1:3])
    return unwindow(pieces, layer, x.shape), (rows.transpose(0, 2, 1) @ flat).reshape(weights.shape), dy.sum((0, 1, 2))


def linear(layer, weights, bias, x):
    flat = x.reshape(len(x), -1)
    y = (flat @ weights.T).reshape(len(x), 1, 1, -1)
    return y if bias is None else y + bias, flat


def linear_back(layer, weights, x, flat, dy):
    rows = dy.reshape(len(x), -1)
    return (rows @ weights).reshape(x.shape), rows.T @ flat, rows.sum(0)


def batchnorm(layer, weights, bias, x, running, is_evaluation):
    channels = x.shape[3]
    if is_evaluation:
        mean, variance = running[:channels], running[channels:]
    else:
        mean, variance, count = x.mean((0, 1, 2)), x.var((0, 1, 2)), x.size // channels
        running[:channels] = 0.9 * running[:channels] + 0.1 * mean
        running[channels:] = 0.9 * running[channels:] + 0.1 * variance * count / (count - 1)
    deviation = np.sqrt(variance + 1e-5)
    normal = (x - mean) / deviation
    return normal * weights + bias, (normal, deviation)


def batchnorm_back(layer, weights, x, kept, dy):
    normal, deviation = kept
    by_scale, by_shift, count = (dy * normal).sum((0, 1, 2)), dy.sum((0, 1, 2)), x.size // x.shape[3]
    return weights / deviation * (dy - by_shift / count - normal * by_scale / count), by_scale, by_shift


def maxpool(layer, x):
    seen = windows(x, layer, -np.inf)
    flat = seen.reshape(seen.shape[:4] + (-1,))
    winner = flat.argmax(-1)
    return np.take_along_axis(flat, winner[..., None], -1)[..., 0], winner


def maxpool_back(layer, x, winner, dy):
    kernel = layer["kernel"]
    pieces = (np.arange(kernel * kernel) == winner[..., None]) * dy[..., None]
    return unwindow(pieces.reshape(dy.shape + (kernel, kernel)), layer, x.shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu_back(x):
    return sigmoid(x) * (1 + x * (1 - sigmoid(x)))


# Each function and its derivative, both from the input.
ACTIVATIONS = {
    "relu6": (lambda x: np.clip(x, 0, 6), lambda x: (x > 0) & (x < 6)),
    "sigmoid": (sigmoid, lambda x: sigmoid(x) * (1 - sigmoid(x))),
    "silu": (lambda x: x * sigmoid(x), silu_back),
    "hardswish": (lambda x: x * np.clip(x + 3, 0, 6) / 6,
                  lambda x: np.where(x < -3, 0, np.where(x <= 3, x / 3 + 0.5, 1)))}


def mix(z):
    """splitmix64, for arrays of uint64; numbers wrap around."""
    z = np.asarray(z, np.uint64) + np.uint64(0x9E3779B97F4A7C15)
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def dropout(layer, x, first):
    """Return the result, and what each number is multiplied by. `first`: place of the first image in epoch 0."""
    with np.errstate(over="ignore"):
        images = mix(mix(mix(mix(SEED)) + np.uint64(layer["index"])) + np.uint64(first) + np.arange(len(x), dtype=np.uint64))
        places = np.zeros(x[0].size, np.uint64) if layer["images"] else np.arange(x[0].size, dtype=np.uint64)
        bits = mix(images[:, None] + places) >> np.uint64(32)
    factors = ((bits >= int(layer["rate"] * 2 ** 32)) / (1 - layer["rate"])).reshape(x.shape)
    return x * factors, factors


WITH_WEIGHTS = {"conv": (conv, conv_back), "linear": (linear, linear_back), "batchnorm": (batchnorm, batchnorm_back)}


# ---- a whole network ----

def part(vector, layer, which):
    at, count = layer[which + "_at"], layer[which + "_count"]
    return vector[at:at + count]


def forward(layers, parameters, statistics, images, first=0, is_evaluation=False):
    results, kept = [], []
    for layer in layers:
        kind, note = layer["kind"], None
        x = images if kind == "input" else results[layer["from"][0]]
        if kind in WITH_WEIGHTS:
            weights = part(parameters, layer, "weight").reshape(layer["weights"])
            bias = part(parameters, layer, "bias") if layer["bias_count"] else None
            more = ()
            if kind == "batchnorm":
                at = layer["statistics"]
                more = (statistics[at:at + 2 * x.shape[3]], is_evaluation)
            y, note = WITH_WEIGHTS[kind][0](layer, weights, bias, x, *more)
        elif kind == "maxpool":
            y, note = maxpool(layer, x)
        elif kind == "averagepool":
            y = x.mean((1, 2), keepdims=True)
        elif kind == "add":
            y = x + results[layer["from"][1]]
        elif kind == "multiply":
            y = x * results[layer["from"][1]]
        elif kind == "activation":
            y = ACTIVATIONS[layer["function"]][0](x)
        elif kind == "dropout":
            y, note = (x, None) if is_evaluation else dropout(layer, x, first)
        else:
            y = x
        results.append(np.maximum(y, 0) if layer["relu"] else y)
        kept.append(note)
    return results, kept


def backward(layers, parameters, results, kept, dy, gradients):
    """Adds to `gradients`."""
    by = [None] * len(layers)
    by[-1] = dy
    for i in range(len(layers) - 1, 0, -1):
        layer, dy, x = layers[i], by[i], results[layers[i]["from"][0]]
        if layer["relu"]:
            dy = dy * (results[i] > 0)
        if layer["kind"] in WITH_WEIGHTS:
            weights = part(parameters, layer, "weight").reshape(layer["weights"])
            dx, by_weights, by_bias = WITH_WEIGHTS[layer["kind"]][1](layer, weights, x, kept[i], dy)
            part(gradients, layer, "weight")[:] += by_weights.ravel()
            if layer["bias_count"]:
                part(gradients, layer, "bias")[:] += by_bias
        elif layer["kind"] == "maxpool":
            dx = maxpool_back(layer, x, kept[i], dy)
        elif layer["kind"] == "averagepool":
            dx = np.broadcast_to(dy / (x.shape[1] * x.shape[2]), x.shape)
        elif layer["kind"] == "activation":
            dx = dy * ACTIVATIONS[layer["function"]][1](x)
        elif layer["kind"] == "dropout":
            dx = dy * kept[i]
        else:
            dx = dy
        parts = [dx] * len(layer["from"])
        if layer["kind"] == "multiply":
            parts = [(dy * results[layer["from"][1]]).sum((1, 2), keepdims=True), dy * x]
        for source, dx in zip(layer["from"], parts):
            by[source] = dx if by[source] is None else by[source] + dx


def loss(logits, labels, smoothing=0.0):
    """Return the sum over images, its gradient with respect to the logits, and the numbers of images whose class is
    predicted, and is among the five best."""
    rows = logits.reshape(len(labels), -1)
    shifted = rows - rows.max(1, keepdims=True)
    total = np.exp(shifted).sum(1, keepdims=True)
    chances = np.exp(shifted) / total
    own = np.arange(len(labels)), labels
    wanted = np.full(rows.shape, smoothing / rows.shape[1])
    wanted[own] += 1 - smoothing
    top = (np.argsort(-rows, 1, kind="stable")[:, :5] == labels[:, None]).any(1).sum()
    return ((wanted * (np.log(total) - shifted)).sum(), (chances - wanted).reshape(logits.shape),
            int((rows.argmax(1) == labels).sum()), int(top))


# ---- optimizers ----

# decay: one number, or one for each parameter


class Sgd:
    is_nesterov = False

    def __init__(self, count, settings):
        self.rate, self.momentum, self.decay = settings[:3]
        self.speed = np.zeros(count)

    def step(self, parameters, gradients):
        gradients = gradients + self.decay * parameters
        self.speed = self.momentum * self.speed + gradients
        parameters -= self.rate * (gradients + self.momentum * self.speed if self.is_nesterov else self.speed)


class Adam:
    is_decoupled = False

    def __init__(self, count, settings):
        self.rate, _, self.decay, self.beta_1, self.beta_2, self.epsilon = settings
        self.mean, self.square, self.number = np.zeros(count), np.zeros(count), 0

    def step(self, parameters, gradients):
        if self.is_decoupled:
            parameters *= 1 - self.rate * self.decay
        else:
            gradients = gradients + self.decay * parameters
        self.number += 1
        self.mean = self.beta_1 * self.mean + (1 - self.beta_1) * gradients
        self.square = self.beta_2 * self.square + (1 - self.beta_2) * gradients ** 2
        mean, square = self.mean / (1 - self.beta_1 ** self.number), self.square / (1 - self.beta_2 ** self.number)
        parameters -= self.rate * mean / (np.sqrt(square) + self.epsilon)


class AdamW(Adam):
    is_decoupled = True


OPTIMIZERS = {"sgd": Sgd, "adam": Adam, "adamw": AdamW}


class Recipe:
    """The settings that trainer_steps writes if its word is "recipe". Without them, nothing of it has an effect."""

    def __init__(self, told, schedule, rate, steps):
        names = ("clip", "smoothing", "average", "decay", "warmup", "warmup_from", "end", "factor", "loss_scale")
        for name, value in zip(names, told.get("recipe", (np.inf, 0, 0, 0, 0, 1, 0, 1, 1))):
            setattr(self, name, float(value))
        self.schedule, self.rate, self.steps = schedule or "constant", rate, steps

    def rate_at(self, step):
        if step < self.warmup:
            return self.rate * (self.warmup_from + (1 - self.warmup_from) * step / self.warmup)
        step -= self.warmup
        kind, _, marks = self.schedule.partition(":")
        if kind == "cosine":
            return self.end + (self.rate - self.end) * (1 + np.cos(np.pi * step / (self.steps - self.warmup))) / 2
        if kind == "step":
            return self.rate * self.factor ** (step // int(marks))
        if kind == "steps":
            return self.rate * self.factor ** sum(step >= int(mark) for mark in marks.split(","))
        return self.rate


def decaying(layers, count):
    """Return 1 for each weight, and 0 for biases, batch normalisation and padding."""
    chosen = np.zeros(count)
    for layer in layers:
        if layer["kind"] != "batchnorm":
            part(chosen, layer, "weight")[:] = 1
    return chosen


# ---- the comparison ----

def read_arrays(path):
    arrays = {}
    with open(path, "rb") as file:
        for line in iter(file.readline, b""):
            name, kind, count = line.split()
            arrays[name.decode()] = np.fromfile(file, kind.decode(), int(count))
    return arrays


def train(layers, optimizer, parts, steps, told, schedule):
    settings = told["settings"].astype(float)
    parameters, statistics = told["parameters"].astype(float), told["statistics"].astype(float)
    images = told["images"].reshape((steps, parts, -1) + layers[0]["shape"]).astype(float)
    labels = told["labels"].reshape(steps, parts, -1)
    in_step = labels[0].size
    optimizer = OPTIMIZERS[optimizer](len(parameters), settings)
    losses, correct, top, norms = np.zeros(steps), np.zeros(steps, int), np.zeros(steps, int), np.zeros(steps)
    recipe = Recipe(told, schedule, optimizer.rate, steps)
    if schedule:
        optimizer.is_nesterov, optimizer.decay = True, recipe.decay * decaying(layers, len(parameters))
    average = parameters.copy()
    for step in range(steps):
        gradients = np.zeros(len(parameters))
        for k in range(parts):
            first = (step * parts + k) * labels.shape[2]
            results, kept = forward(layers, parameters, statistics, images[step, k], first)
            summed, dy, right, near = loss(results[-1], labels[step, k], recipe.smoothing)
            losses[step] += summed / in_step
            correct[step] += right
            top[step] += near
            backward(layers, parameters, results, kept, dy / in_step, gradients)
        optimizer.rate = recipe.rate_at(step)
        if schedule:
            norms[step] = np.linalg.norm(gradients)
            gradients *= min(1, recipe.clip / (norms[step] + 1e-6))
        optimizer.step(parameters, gradients)
        average = parameters.copy() if step == 0 else recipe.average * average + (1 - recipe.average) * parameters
    results, _ = forward(layers, average if schedule else parameters, statistics, images[0, 0], is_evaluation=True)
    summed, _, right, _ = loss(results[-1], labels[0, 0])
    return {"losses": losses, "correct": correct, "top": top, "norm": norms, "parameters_after": parameters,
            "statistics_after": statistics, "average_after": average, "evaluation_loss": summed / len(labels[0, 0]),
            "evaluation_correct": right}


def moved_apart(told, ours, name, begin=None):
    """Return the difference of the two results relative to the total change."""
    begin = told[begin or name].astype(float)
    moved = np.linalg.norm(ours[name + "_after"] - begin)
    return 0 if moved == 0 else np.linalg.norm(told[name + "_after"] - ours[name + "_after"]) / moved


def same_recipe(told, ours):
    """Compare what only a recipe changes."""
    average = moved_apart(told, ours, "average", "parameters")
    norms = np.abs(told["norm"] / ours["norm"] - 1).max()
    clipped = (ours["norm"] > told["recipe"][0]).sum()
    print(f"norms from {ours['norm'].min():.2f} to {ours['norm'].max():.2f}; average apart by {average:.1e}, norms by {norms:.1e}; {clipped} of {len(ours['norm'])} steps were clipped")
    return average < MOVE_TOLERANCE and norms < MOVE_TOLERANCE and 0 < clipped < len(ours["norm"])


def compare(train, model, optimizer, parts, steps, path, word="", schedule=None, clip=None):
    told, layers = read_arrays(path), read_model(model)
    ours = train(layers, optimizer, int(parts), int(steps), told, schedule)
    apart = np.abs(told["losses"] / ours["losses"] - 1)
    evaluation = abs(told["evaluation_loss"][0] / ours["evaluation_loss"] - 1)
    parameters, statistics = moved_apart(told, ours, "parameters"), moved_apart(told, ours, "statistics")
    print("step  loss here    loss there   apart")
    for step, there in enumerate(told["losses"]):
        print(f"{step + 1:4}  {ours['losses'][step]:.8f}  {there:.8f}  {apart[step]:.1e}")
    print(f"evaluation apart by {evaluation:.1e}; of what moved, parameters by {parameters:.1e}, "
          f"running statistics by {statistics:.1e}")
    good = (apart < LOSS_TOLERANCE).all() and evaluation < LOSS_TOLERANCE and max(parameters, statistics) < MOVE_TOLERANCE
    good = good and ours["losses"][0] != ours["losses"][-1]
    good = good and (told["correct"] == ours["correct"]).all() and told["evaluation_correct"][0] == ours["evaluation_correct"]
    good = good and (told["top"] == ours["top"]).all() and (not schedule or same_recipe(told, ours))
    print("the same" if good else "NOT the same")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(compare(train, *sys.argv[1:]))
