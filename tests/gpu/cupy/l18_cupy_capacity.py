"""L18: CuPy's first step needs four arrays of 1 GiB at once, on 4 GiB. repaired: arrays of 256 MiB."""

import sys

import cupy

count = (64 if sys.argv[1:] == ["repaired"] else 256) << 20


def step(number):
    x = cupy.full(count, number, dtype=cupy.float32)
    squares = x * x
    roots = cupy.sqrt(squares + 1)
    both = squares + roots
    return float((both - x)[0])


print("first", step(0))
for number in range(1, 10):
    step(number)
print("done")
