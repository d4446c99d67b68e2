#!/usr/bin/env python3
"""Write scikit-learn's data set of handwritten digits as .npy files for the trainer.

    digits.py FOLDER              write train-images.npy, train-labels.npy, test-images.npy, test-labels.npy
    digits.py FOLDER --compare [NAME ..]
                                  then also train models of scikit-learn on the same images, and print their accuracy

The set is part of scikit-learn (pip install scikit-learn): 1,797 images of 8 x 8 pixels with values 0 to 16. A fifth, with
equally many of each class, is the test part. The split is always the same. Train with:

    trainer --backend cpu --model digits --data npy:FOLDER --evaluate
"""
import argparse
import pathlib
import sys
import time

try:
    import numpy
    from sklearn.datasets import load_digits
    from sklearn.model_selection import train_test_split
except ImportError as error:
    sys.exit(f"digits.py: {error}; install it with: pip install scikit-learn")


def split():
    digits = load_digits()
    return train_test_split(digits.images.astype(numpy.uint8), digits.target.astype(numpy.int64), test_size=0.2,
                            random_state=0, stratify=digits.target)


def write(folder, parts):
    folder.mkdir(parents=True, exist_ok=True)
    for name, array in zip(("train-images", "test-images", "train-labels", "test-labels"), parts):
        numpy.save(folder / f"{name}.npy", numpy.ascontiguousarray(array))


def compare(parts, names):
    from sklearn.linear_model import LogisticRegression
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler
    from sklearn.svm import SVC
    train, test, train_labels, test_labels = parts
    train, test = train.reshape(len(train), -1).astype(float), test.reshape(len(test), -1).astype(float)
    models = {"LogisticRegression": make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000)),
              "KNeighborsClassifier": KNeighborsClassifier(3),
              "MLPClassifier": make_pipeline(StandardScaler(), MLPClassifier((128,), max_iter=300, random_state=0)),
              "SVC": SVC(gamma=0.001, C=10)}
    for name in names or models:
        if name not in models:
            sys.exit(f"digits.py: unknown model {name}; use {', '.join(models)}")
        begin = time.monotonic()
        accuracy = models[name].fit(train, train_labels).score(test, test_labels)
        print(f"{name}: test accuracy {accuracy:.4f} after {time.monotonic() - begin:.1f} s")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--compare", nargs="*", metavar="NAME")
    options = parser.parse_args()
    parts = split()
    write(options.folder, parts)
    print(f"{options.folder}: {len(parts[0])} training images, {len(parts[1])} test images")
    if options.compare is not None:
        compare(parts, options.compare)


main()
