"""L20: each state of a jitted step is kept: 16 MiB x 600 = 9.4 GiB on 4 GiB. repaired: the step may reuse its state."""

import sys

import jax
import jax.numpy as jnp

repaired = len(sys.argv) > 1 and sys.argv[1] == "repaired"
advance = jax.jit(lambda state, k: state * 0.5 + k, donate_argnums=(0,) if repaired else ())
states = [jnp.ones((2048, 2048), dtype=jnp.float32)]
for step in range(600):
    states.append(advance(states[-1], float(step)))
    float(states[-1][0, 0])
print("done", float(states[-1][0, 0]))
