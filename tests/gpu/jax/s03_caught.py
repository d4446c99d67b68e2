"""S03 in JAX: an out-of-memory exception is printed; a value that the failed step did not write is used later.

smaller: handled with a smaller array, exit 0.
"""

import sys

import jax
import jax.numpy as jnp

GIB = 1 << 30
result = None


def square_sum(bytes_wanted):
    x = jnp.ones(bytes_wanted // 4, dtype=jnp.float32)
    return float((x * 2).sum().block_until_ready())


print("small", square_sum(64 << 20) > 0, flush=True)
try:
    result = square_sum(6 * GIB)
except Exception as error:  # JAX raises its own kinds
    print("out of memory:", type(error).__name__, flush=True)
    print(str(error).split("\n")[0], file=sys.stderr)
if sys.argv[1] == "smaller":
    print("smaller", square_sum(256 << 20) > 0)
else:
    print("result", result * 2)
