# SPDX-License-Identifier: MIT
"""A trainer whose ranks hold a share of the weights each, and whose machines share no storage.

  spot-run exec --workers 4 -- python3 examples/pytorch/fsdp.py STEPS OUT

As ddp.py, with FSDP: weights, gradients and the optimizer's state are sharded over the ranks. What
is committed is the whole of it, gathered: then any number of ranks can go on from it. The weights
end up in the directory OUT. Runs on CPUs with gloo; with devices, say "nccl" and move the model.
"""
import os, signal, sys, time
import torch, torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions, get_state_dict, set_state_dict)
from torch.distributed.fsdp import fully_shard
from torch.nn import GELU, Linear
import spot  # pip install ./packaging/python

steps, out = int(sys.argv[1]), sys.argv[2]
pause, every = float(os.environ.get("PAUSE", 0)), int(os.environ.get("EVERY", 10))
hidden, size, batch = int(os.environ.get("HIDDEN", 128)), 1000, 24
whole = StateDictOptions(full_state_dict=True)
wanted = []  # by SIGUSR1
signal.signal(signal.SIGUSR1, lambda *_: wanted.append(True))

torch.manual_seed(1)
model = torch.nn.Sequential(
    Linear(64, hidden), GELU(), Linear(hidden, hidden), GELU(), Linear(hidden, 1))
spot.hold()  # up to here without a rank: another process may do it beside one that works

dist.init_process_group("gloo")
rank, world, step = dist.get_rank(), dist.get_world_size(), 0
fully_shard(model[2])  # the large one by itself, the others with the model
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
path = os.path.join(os.environ["SPOT_STATE_DIR"], "newest.pt")
if os.path.exists(path):
    kept = torch.load(path)
    step = kept["step"]
    set_state_dict(model, optimizer, model_state_dict=kept["model"],
                   optim_state_dict=kept["optimizer"], options=whole)
used = open(os.environ.get("USED", os.devnull).format(**os.environ), "a", buffering=1)


def commit():
    weights, moments = get_state_dict(model, optimizer, options=whole)  # of all ranks, on each
    if rank == 0:
        torch.save({"step": step, "model": weights, "optimizer": moments}, path + ".new")
        os.replace(path + ".new", path)  # whoever reads it reads all of it
        spot.commit(step)
    if rank == 0 and step == steps:
        torch.save(weights, os.path.join(out, "final.pt"))


ends = step >= steps
while not ends:
    mine = spot.ledger(step, size, batch, seed=1)
    x = torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(i)) for i in mine])
    error = model(x)[:, 0] - x[:, :8].sum(1).sin()
    loss = (error ** 2).sum() * world / batch  # FSDP takes the mean over ranks of their shares
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(time.time(), step, *mine, file=used)
    step += 1
    if rank == 0 and step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} world {world}", flush=True)
    asked = torch.tensor([len(wanted)])  # all agree: a signal reaches them at different steps
    dist.all_reduce(asked, dist.ReduceOp.MAX)
    ends = asked.item() > 0 or step == steps
    if ends or step % every == 0:
        commit()
    time.sleep(pause)
os._exit(0)  # at once: PyTorch takes seconds to take itself apart
