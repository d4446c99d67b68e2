"""A training in PyTorch, in double on the CPU, compared with a back end: arguments as for reference.py.

The layers, the optimizers, the schedules of the rate, the loss, the clipping and the average are PyTorch's own. From
reference.py come the reader of models, the tolerances, and what dropout multiplies each number by.
"""
import sys
import warnings

import numpy as np
import torch
from torch import nn
from torch.nn import functional
from torch.optim import lr_scheduler, swa_utils

import reference

LAYERS = {"conv", "linear", "batchnorm"}
ACTIVATIONS = {"relu6": functional.relu6, "sigmoid": torch.sigmoid, "silu": functional.silu,
               "hardswish": functional.hardswish}


class Net(nn.Module):
    """The model, with the values of a parameter vector. PyTorch's images are channels, rows, columns."""

    def __init__(self, layers, parameters, statistics):
        super().__init__()
        self.layers, self.weights, self.biases = layers, nn.ParameterDict(), nn.ParameterDict()
        for i, layer in enumerate(layers):
            if layer["kind"] not in LAYERS:
                continue
            weight = reference.part(parameters, layer, "weight").reshape(layer["weights"])
            self.weights[str(i)] = nn.Parameter(torch.tensor(weight))
            if layer["bias_count"]:
                self.biases[str(i)] = nn.Parameter(torch.tensor(reference.part(parameters, layer, "bias")))
            if layer["kind"] == "batchnorm":
                at, channels = layer["statistics"], layer["weights"][0]
                self.register_buffer(f"mean{i}", torch.tensor(statistics[at:at + channels]))
                self.register_buffer(f"variance{i}", torch.tensor(statistics[at + channels:at + 2 * channels]))

    def layer(self, i, inputs, first):
        layer, kind, x = self.layers[i], self.layers[i]["kind"], inputs[0]
        weight = self.weights[str(i)] if str(i) in self.weights else None
        bias = self.biases[str(i)] if str(i) in self.biases else None
        if kind == "conv":
            return functional.conv2d(x, weight.permute(0, 3, 1, 2), bias, layer["stride"], layer["pad"], 1,
                                     layer["groups"])
        if kind == "linear": # the numbers of an image are in the order row, column, channel
            return functional.linear(x.permute(0, 2, 3, 1).flatten(1), weight, bias)[:, :, None, None]
        if kind == "batchnorm":
            return functional.batch_norm(x, getattr(self, f"mean{i}"), getattr(self, f"variance{i}"), weight, bias,
                                         self.training)
        if kind == "maxpool":
            return functional.max_pool2d(x, layer["kernel"], layer["stride"], layer["pad"])
        if kind == "averagepool":
            return functional.adaptive_avg_pool2d(x, 1)
        if kind == "activation":
            return ACTIVATIONS[layer["function"]](x)
        if kind == "dropout":
            return x * self.dropped(layer, len(x), first) if self.training else x
        return x + inputs[1] if kind == "add" else x * inputs[1]

    @staticmethod
    def dropped(layer, count, first):
        """Return what each number of a layer's input is multiplied by."""
        factors = reference.dropout(layer, np.ones((count,) + layer["shape"]), first)[1]
        return torch.tensor(factors).permute(0, 3, 1, 2)

    def forward(self, images, first=0):
        """`first`: place of the first image in epoch 0, for dropout."""
        results = []
        for i, layer in enumerate(self.layers):
            if layer["kind"] == "input":
                y = images.permute(0, 3, 1, 2)
            else:
                y = self.layer(i, [results[source] for source in layer["from"]], first)
            results.append(torch.relu(y) if layer["relu"] else y)
        return results[-1].flatten(1)

    def vectors(self, parameters, statistics):
        """Return the parameters and the statistics as vectors; the arguments have the padding."""
        parameters, statistics = parameters.copy(), statistics.copy()
        for i, layer in enumerate(self.layers):
            if str(i) in self.weights:
                reference.part(parameters, layer, "weight")[:] = self.weights[str(i)].detach().numpy().ravel()
            if str(i) in self.biases:
                reference.part(parameters, layer, "bias")[:] = self.biases[str(i)].detach().numpy()
            if layer["kind"] == "batchnorm":
                at, both = layer["statistics"], (getattr(self, f"mean{i}"), getattr(self, f"variance{i}"))
                statistics[at:at + 2 * len(both[0])] = torch.cat(both).numpy()
        return parameters, statistics


def groups_of(net, recipe, decay, has_recipe):
    if not has_recipe:
        return [{"params": list(net.parameters()), "weight_decay": decay}]
    weights = [net.weights[i] for i in net.weights.keys() if net.layers[int(i)]["kind"] != "batchnorm"]
    others = [p for p in net.parameters() if all(p is not weight for weight in weights)]
    return [{"params": weights, "weight_decay": recipe.decay}, {"params": others, "weight_decay": 0.0}]


def optimizer_of(name, groups, settings, has_recipe):
    rate, momentum, _, *betas, epsilon = settings
    if name == "sgd":
        return torch.optim.SGD(groups, rate, momentum, nesterov=has_recipe)
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(groups, rate, tuple(betas), epsilon)


def scheduler_of(optimizer, recipe):
    kind, _, marks = recipe.schedule.partition(":")
    warmup = int(recipe.warmup)
    rest = {"constant": lambda: lr_scheduler.LambdaLR(optimizer, lambda step: 1.0),
            "cosine": lambda: lr_scheduler.CosineAnnealingLR(optimizer, recipe.steps - warmup, recipe.end),
            "step": lambda: lr_scheduler.StepLR(optimizer, int(marks), recipe.factor),
            "steps": lambda: lr_scheduler.MultiStepLR(optimizer, [int(m) for m in marks.split(",")], recipe.factor)}[kind]
    if warmup == 0:
        return rest()
    first = lr_scheduler.LinearLR(optimizer, recipe.warmup_from, total_iters=warmup)
    return lr_scheduler.SequentialLR(optimizer, [first, rest()], [warmup])


def train(layers, optimizer, parts, steps, told, schedule):
    settings = [float(x) for x in told["settings"]]
    parameters, statistics = told["parameters"].astype(float), told["statistics"].astype(float)
    images = torch.tensor(told["images"].reshape((steps, parts, -1) + layers[0]["shape"]).astype(float))
    labels = torch.tensor(told["labels"].reshape(steps, parts, -1).astype(np.int64))
    net, in_step, has_recipe = Net(layers, parameters, statistics), labels[0].numel(), schedule is not None
    recipe = reference.Recipe(told, schedule, settings[0], steps)
    optimizer = optimizer_of(optimizer, groups_of(net, recipe, settings[2], has_recipe), settings, has_recipe)
    scheduler, scale = scheduler_of(optimizer, recipe), recipe.loss_scale
    average = swa_utils.AveragedModel(net, avg_fn=lambda old, new, count: recipe.average * old + (1 - recipe.average) * new)
    criterion = nn.CrossEntropyLoss(label_smoothing=recipe.smoothing, reduction="sum")
    losses, norms = np.zeros(steps), np.zeros(steps)
    correct, top = np.zeros(steps, int), np.zeros(steps, int)
    for step in range(steps):
        optimizer.zero_grad()
        for k in range(parts):
            logits = net(images[step, k], (step * parts + k) * labels.shape[2])
            loss = criterion(logits, labels[step, k]) / in_step
            (loss * scale).backward()
            losses[step] += loss.item()
            best = logits.topk(min(5, logits.shape[1]), 1).indices == labels[step, k][:, None]
            correct[step] += int(best[:, 0].sum())
            top[step] += int(best.any(1).sum())
        for parameter in net.parameters():
            parameter.grad /= scale
        if has_recipe:
            norms[step] = nn.utils.clip_grad_norm_(net.parameters(), recipe.clip).item()
        optimizer.step()
        scheduler.step()
        average.update_parameters(net)
    tested = average.module if has_recipe else net
    for i, layer in enumerate(layers):
        if layer["kind"] == "batchnorm": # an average uses the statistics of the model, as AveragedModel does from 2.0 on
            for name in (f"mean{i}", f"variance{i}"):
                getattr(tested, name).copy_(getattr(net, name))
    tested.eval()
    with torch.no_grad():
        logits = tested(images[0, 0])
        tested_loss = functional.cross_entropy(logits, labels[0, 0]).item()
    after, statistics_after = net.vectors(parameters, statistics)
    return {"losses": losses, "correct": correct, "top": top, "norm": norms, "parameters_after": after,
            "statistics_after": statistics_after, "average_after": average.module.vectors(parameters, statistics)[0],
            "evaluation_loss": tested_loss, "evaluation_correct": int((logits.argmax(1) == labels[0, 0]).sum())}


if __name__ == "__main__":
    warnings.simplefilter("ignore") # a scheduler in a SequentialLR warns about its own step
    torch.set_num_threads(1)
    torch.set_default_dtype(torch.float64)
    sys.exit(reference.compare(train, *sys.argv[1:]))
