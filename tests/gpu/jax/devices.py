"""JAX on two GPUs: one script for each argument. Those named `one_...` drive both GPUs from one process; the others start two
processes with a GPU each, and most of them end in a hang that process 1 causes. Lines have marks as in ../torch/ranks.py."""

import os
import subprocess
import sys
import time

NAME = sys.argv[1]
if not NAME.startswith("one_") and "PROCESS" not in os.environ:
    port = str(20000 + os.getpid() % 20000)
    ranks = [subprocess.Popen([sys.executable, *sys.argv], env={**os.environ, "PROCESS": str(rank), "PORT": port}) for rank in (0, 1)]
    sys.exit(max(rank.wait() != 0 for rank in ranks))

import jax  # noqa: E402
import jax.numpy as jnp  # noqa: E402
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P  # noqa: E402

try:
    from jax import shard_map
except ImportError:
    from jax.experimental.shard_map import shard_map

RANK = int(os.environ.get("PROCESS", "0"))
if "PROCESS" in os.environ:
    jax.distributed.initialize("127.0.0.1:" + os.environ["PORT"], 2, RANK, local_device_ids=[RANK])
MESH = Mesh(jax.devices(), ("data",))
STEPS, FAULT_AT = 30, 10


def on_both(function, out=P("data")):
    return jax.jit(shard_map(function, mesh=MESH, in_specs=P("data"), out_specs=out))


def batch(size=1 << 20):
    return jax.jit(lambda: jnp.ones(2 * size), out_shardings=NamedSharding(MESH, P("data")))()


step_of = on_both(lambda part: part + jax.lax.psum(part, "data") * 1e-3)
gather = on_both(lambda part: jax.lax.all_gather(part, "data")[0] * 0.5)


def train(at_fault=None, steps=STEPS):
    """at_fault is called in process 1 before step FAULT_AT."""
    data = batch()
    for step in range(steps):
        if at_fault is not None and RANK == 1 and step == FAULT_AT:
            at_fault()
        data = step_of(data)  # STEP
        data.block_until_ready()
    return data


def order():
    data = train(steps=FAULT_AT)
    other = gather.lower(data).compile()
    for _ in range(STEPS):
        (other if RANK == 1 else step_of)(data).block_until_ready()  # OTHER


def ended():
    train(steps=FAULT_AT if RANK == 1 else STEPS)
    time.sleep(0 if RANK == 0 else 1e6)  # ENDED


def sleep():
    train(lambda: time.sleep(1e6))  # SLEEPS


def exception():
    train(lambda: {}["label"])  # KEY


def memory():
    kept = []
    train(lambda: kept.extend(jnp.ones(1 << 28) + step for step in range(1000)))  # FILLS


def healthy():
    train()


def healthy_slow():
    train(lambda: time.sleep(5))


def one_healthy():
    train()


globals()[NAME]()
if RANK == 0:
    print("done", flush=True)
