"""A small convolutional network in Keras 3. The first argument of each program is the back end: torch or jax."""

import os
import sys

os.environ["KERAS_BACKEND"] = sys.argv[1]
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import keras
import numpy as np

SIDE, CLASSES = 64, 10


def images(count, seed=1):
    rng = np.random.default_rng(seed)
    return rng.random((count, SIDE, SIDE, 3), dtype=np.float32), rng.integers(0, CLASSES, count)


def build(width=32):
    layers = [keras.Input((SIDE, SIDE, 3))]
    for _ in range(4):
        layers.append(keras.layers.Conv2D(width, 3, padding="same", activation="relu"))
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(CLASSES)]
    model = keras.Sequential(layers)
    model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return model
