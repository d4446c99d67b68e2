"""L06: JAX arrays of each step are kept in a list. repaired: only the last one is kept."""

import sys

import jax
import jax.numpy as jnp

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
step_of = jax.jit(lambda x, k: x * 1.5 + k)
x = jnp.ones((2048, 2048), dtype=jnp.float32)
kept = []
for step in range(600):
    y = step_of(x, float(step))
    if repaired:
        kept.clear()
    kept.append(y)
    float(y[0, 0])
print("done")
