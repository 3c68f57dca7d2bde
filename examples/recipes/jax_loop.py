# SPDX-License-Identifier: MIT
"""JAX: jax.distributed from the variables of torchrun, one process a rank.

  spot-run exec --workers 4 --checkpoint ckpt.npz jax_loop.py STEPS
"""
import os, sys
import numpy, jax, jax.numpy as jnp
from jax.experimental.multihost_utils import reached_preemption_sync_point
from jax.sharding import Mesh, NamedSharding, PartitionSpec
import spot

steps, step = int(sys.argv[1]), 0
spot.hold()
jax.config.update("jax_cpu_collectives_implementation", "gloo")
rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
jax.distributed.initialize(os.environ["MASTER_ADDR"] + ":" + os.environ["MASTER_PORT"], world, rank)
mesh = Mesh(numpy.array(jax.devices()), "data")
whole, parts = (NamedSharding(mesh, PartitionSpec(*name)) for name in ([], ["data"]))
kept = numpy.load("ckpt.npz") if os.path.exists("ckpt.npz") else {"w": numpy.zeros(8), "step": 0}
step, w = int(kept["step"]), jax.device_put(jnp.float32(kept["w"]), whole)


@jax.jit
def update(w, x):
    loss = lambda w: jnp.mean((x @ w - jnp.sin(x).sum(1)) ** 2)
    return w - 1e-4 * jax.grad(loss)(w)


while step < steps:
    x = numpy.random.default_rng(step).standard_normal((24, 8), numpy.float32)
    w = update(w, jax.make_array_from_callback((24, 8), parts, lambda part: x[part]))
    step += 1
    here = numpy.array(w.addressable_data(0))
    if rank == 0:
        print("step", step, flush=True)
    leaves = reached_preemption_sync_point(step)
    if rank == 0 and (step % 20 == 0 or leaves):
        with open("ckpt.new", "wb") as file:
            numpy.savez(file, w=here, step=step)
        os.replace("ckpt.new", "ckpt.npz")
    if leaves:
        os._exit(0)
if rank == 0:
    print("end", step, *here.tolist(), flush=True)
os._exit(0)
