# SPDX-License-Identifier: MIT
"""A script of somebody who knows torchrun and nothing of spot: rank 0 saves every ten steps, all load at the start.

  torchrun ... plain_ddp.py STEPS        # HIDDEN, USED as for examples/pytorch/ddp.py
"""
import os, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

steps, hidden, size, batch = int(sys.argv[1]), int(os.environ.get("HIDDEN", 128)), 1000, 24
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.manual_seed(1)
model = DistributedDataParallel(torch.nn.Sequential(
    torch.nn.Linear(64, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, hidden), torch.nn.GELU(),
    torch.nn.Linear(hidden, 1)))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
step = 0
if os.path.exists("ckpt.pt"):
    kept = torch.load("ckpt.pt")
    step = kept["step"]
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
used = open(os.environ.get("USED", os.devnull).format(**os.environ), "a", buffering=1)
while step < steps:
    mine = [i % size for i in range(step * batch + batch * rank // world, step * batch + batch * (rank + 1) // world)]
    x = torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(i)) for i in mine])
    loss = ((model(x)[:, 0] - x[:, :8].sum(1).sin()) ** 2).sum() * world / batch
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(time.time(), step, *mine, file=used)
    step += 1
    if rank == 0 and step % 10 == 0:
        torch.save({"step": step, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, "ckpt.pt")
dist.destroy_process_group()
