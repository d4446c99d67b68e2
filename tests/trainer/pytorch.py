"""The training of reference.py in PyTorch, in double, compared with a back end: pytorch.py MODEL.net OPTIMIZER PARTS
STEPS FILE.

All layers, the loss and the optimizers are PyTorch's, and it computes the gradients. From reference.py come the reader
of models, the tolerances, and what dropout multiplies each number by. Exit status: 0 the same, 1 not, 77 no PyTorch.
"""

import sys

import numpy as np

import reference

try:
    import torch
    from torch.nn import functional
except ImportError:
    print("skipped: no PyTorch")
    sys.exit(77)

ACTIVATIONS = {"relu6": functional.relu6, "sigmoid": torch.sigmoid, "silu": functional.silu,
               "hardswish": functional.hardswish}


def part(vector, layer, which):
    return torch.from_numpy(reference.part(vector, layer, which).copy())


class Network:
    """The parameters and running statistics in PyTorch's layouts."""

    def __init__(self, layers, parameters, statistics):
        self.layers, self.weights, self.running = layers, {}, {}
        for layer in layers:
            if layer["weight_count"] == 0:
                continue
            weight, bias = part(parameters, layer, "weight").reshape(layer["weights"]), None
            if layer["bias_count"]:
                bias = part(parameters, layer, "bias").requires_grad_()
            if layer["kind"] == "conv":
                weight = weight.permute(0, 3, 1, 2).contiguous()
            self.weights[layer["index"]] = weight.requires_grad_(), bias
            if layer["kind"] == "batchnorm":
                at, count = layer["statistics"], layer["shape"][2]
                self.running[layer["index"]] = (torch.from_numpy(statistics[at:at + count].copy()),
                                                torch.from_numpy(statistics[at + count:at + 2 * count].copy()))

    def parameters(self):
        return [tensor for pair in self.weights.values() for tensor in pair if tensor is not None]

    def layer(self, layer, inputs, first, is_training):
        kind, x = layer["kind"], inputs[0]
        weight, bias = self.weights.get(layer["index"], (None, None))
        if kind == "conv":
            return functional.conv2d(x, weight, bias, layer["stride"], layer["pad"], 1, layer["groups"])
        if kind == "batchnorm":
            return functional.batch_norm(x, *self.running[layer["index"]], weight, bias, is_training)
        if kind == "linear":  # our numbers of an image are in the order row, column, channel
            return functional.linear(x.permute(0, 2, 3, 1).flatten(1), weight, bias)[:, :, None, None]
        if kind == "maxpool":
            return functional.max_pool2d(x, layer["kernel"], layer["stride"], layer["pad"])
        if kind == "averagepool":
            return functional.adaptive_avg_pool2d(x, 1)
        if kind == "dropout":
            if not is_training:
                return x
            ones = np.ones((len(x),) + layer["shape"])
            return x * torch.from_numpy(reference.dropout(layer, ones, first)[1]).permute(0, 3, 1, 2)
        if kind == "activation":
            return ACTIVATIONS[layer["function"]](x)
        return x + inputs[1] if kind == "add" else x * inputs[1]

    def __call__(self, images, first=0, is_training=True):
        results = []
        for layer in self.layers:
            y = images
            if layer["kind"] != "input":
                y = self.layer(layer, [results[source] for source in layer["from"]], first, is_training)
            results.append(torch.relu(y) if layer["relu"] else y)
        return results[-1].flatten(1)

    def vectors(self, like_parameters, like_statistics):
        """Return parameters and statistics in the trainer's layout."""
        parameters, statistics = like_parameters.copy(), like_statistics.copy()
        for layer in self.layers:
            weight, bias = self.weights.get(layer["index"], (None, None))
            if weight is not None:
                weight = weight.permute(0, 2, 3, 1) if layer["kind"] == "conv" else weight
                reference.part(parameters, layer, "weight")[:] = weight.detach().numpy().ravel()
            if bias is not None:
                reference.part(parameters, layer, "bias")[:] = bias.detach().numpy()
            if layer["kind"] == "batchnorm":
                both = np.concatenate([tensor.numpy() for tensor in self.running[layer["index"]]])
                statistics[layer["statistics"]:layer["statistics"] + len(both)] = both
        return parameters, statistics


def train(layers, optimizer, parts, steps, told, schedule):
    assert not schedule, "torch_reference.py has the recipes"
    rate, momentum, decay, beta_1, beta_2, epsilon = told["settings"].astype(float)
    begin = told["parameters"].astype(float), told["statistics"].astype(float)
    network = Network(layers, *begin)
    images = told["images"].reshape((steps, parts, -1) + layers[0]["shape"]).astype(float)
    images = torch.from_numpy(images).permute(0, 1, 2, 5, 3, 4)
    labels = torch.from_numpy(told["labels"].reshape(steps, parts, -1).astype(int))
    optimizer = {"sgd": lambda: torch.optim.SGD(network.parameters(), rate, momentum, weight_decay=decay),
                 "adam": lambda: torch.optim.Adam(network.parameters(), rate, (beta_1, beta_2), epsilon, decay)}[optimizer]()
    losses, correct, top = np.zeros(steps), np.zeros(steps, int), np.zeros(steps, int)
    for step in range(steps):
        optimizer.zero_grad()
        for k in range(parts):
            logits = network(images[step, k], (step * parts + k) * labels.shape[2])
            loss = functional.cross_entropy(logits, labels[step, k], reduction="sum") / labels[step].numel()
            loss.backward()
            losses[step] += loss.item()
            correct[step] += (logits.argmax(1) == labels[step, k]).sum().item()
            best = logits.topk(min(5, logits.shape[1])).indices
            top[step] += (best == labels[step, k][:, None]).any(1).sum().item()
        optimizer.step()
    logits = network(images[0, 0], is_training=False)
    parameters, statistics = network.vectors(*begin)
    return {"losses": losses, "correct": correct, "top": top, "parameters_after": parameters, "statistics_after": statistics,
            "evaluation_loss": functional.cross_entropy(logits, labels[0, 0]).item(),
            "evaluation_correct": (logits.argmax(1) == labels[0, 0]).sum().item()}


if __name__ == "__main__":
    sys.exit(reference.compare(train, *sys.argv[1:]))
