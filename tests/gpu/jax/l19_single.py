"""L19: one JAX array of 6 GiB on 4 GiB. repaired: an array of 1 GiB."""

import sys

import jax.numpy as jnp

gib = 1 if sys.argv[1:] == ["repaired"] else 6
small = jnp.ones(1 << 20, dtype=jnp.float32)
print("small", float(small.sum()), flush=True)
x = jnp.ones((gib << 8, 1 << 20), dtype=jnp.float32)
print("large", float(x[0, 0]))
