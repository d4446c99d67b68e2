"""Compare the trainer's predictions with NumPy: predictions.py MODEL.net CHECKPOINT FOLDER FILE.

FILE has the lines that `trainer --predict test` printed for the test images of the data set in FOLDER (IDX files).
"""
import re
import struct
import sys

import numpy as np

import reference

TOLERANCE = 1e-5 # fp32 through several layers; the printed probabilities are rounded to 1e-6


def read_checkpoint(path):
    data = open(path, "rb").read()
    size = struct.unpack_from("<I", data, 8)[0]
    head = dict(line.split(" ", 1) for line in data[16:16 + size].decode().splitlines())
    values, count = np.frombuffer(data, "<f4", offset=16 + size), int(head["parameter_count"])
    at = count * (1 + int(head["moment_count"]))
    statistics, rest = values[at:at + int(head["statistics_count"])], values[at + int(head["statistics_count"]):]
    return (rest if int(head["average_count"]) else values[:count]).astype(float), statistics.astype(float)


def read_images(path):
    data = open(path, "rb").read()
    return np.frombuffer(data, np.uint8, offset=16).reshape(struct.unpack_from(">3I", data, 4)).astype(float)


def main(model, checkpoint, folder, lines):
    layers, (parameters, statistics) = reference.read_model(model), read_checkpoint(checkpoint)
    train, test = (read_images(f"{folder}/{part}-images-idx3-ubyte") for part in ("train", "t10k"))
    images = ((test - train.mean()) / train.std())[..., None]
    logits = reference.forward(layers, parameters, statistics, images, is_evaluation=True)[0][-1].reshape(len(images), -1)
    chances = np.exp(logits - logits.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    told = re.findall(r"^test (\d+): class (\d+), probability ([0-9.]+)", open(lines).read(), re.M)
    assert [int(row[0]) for row in told] == list(range(len(images))), f"{len(told)} lines for {len(images)} images"
    worst = 0
    for index, best, chance in told:
        worst = max(worst, abs(chances[int(index), int(best)] - float(chance)))
        assert chances[int(index)].max() - chances[int(index), int(best)] < TOLERANCE, f"image {index}: class {best}"
    print(f"{len(told)} predictions apart by at most {worst:.1e}")
    assert worst < TOLERANCE


main(*sys.argv[1:])
