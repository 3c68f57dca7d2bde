# SPDX-License-Identifier: MIT
"""The same for torchft: each node a replica group of one rank, which heals from another; TORCHFT_LIGHTHOUSE is set.

  torchft_ddp.py STEPS NODES        # HIDDEN, USED as for examples/pytorch/ddp.py
"""
import datetime, os, sys, time
import torch, torch.distributed as dist
from torchft import DistributedDataParallel, Manager, Optimizer, ProcessGroupGloo

steps, hidden, size, batch = int(sys.argv[1]), int(os.environ.get("HIDDEN", 128)), 1000, 24
torch.manual_seed(1)
plain = torch.nn.Sequential(
    torch.nn.Linear(64, hidden), torch.nn.GELU(), torch.nn.Linear(hidden, hidden), torch.nn.GELU(),
    torch.nn.Linear(hidden, 1))
inner = torch.optim.AdamW(plain.parameters(), lr=1e-3)


def load(state):
    plain.load_state_dict(state["model"])
    inner.load_state_dict(state["optimizer"])


store = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
manager = Manager(
    pg=ProcessGroupGloo(timeout=datetime.timedelta(seconds=5)), load_state_dict=load,
    state_dict=lambda: {"model": plain.state_dict(), "optimizer": inner.state_dict()}, min_replica_size=1,
    rank=0, world_size=1, store_addr="127.0.0.1", store_port=store.port, hostname="127.0.0.1",
    replica_id=os.environ["NODE"], timeout=datetime.timedelta(seconds=10))
model, optimizer = DistributedDataParallel(manager, plain), Optimizer(manager, inner)
used = open(os.environ.get("USED", os.devnull).format(**os.environ), "a", buffering=1)
while manager.current_step() < steps:
    optimizer.zero_grad()  # begins the quorum
    world, rank = manager.num_participants(), manager.participating_rank()
    step = manager.current_step()
    mine = [i % size for i in range(step * batch + batch * (rank or 0) // world, step * batch + batch * ((rank or 0) + 1) // world)]
    x = torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(i)) for i in mine])
    loss = ((model(x)[:, 0] - x[:, :8].sum(1).sin()) ** 2).sum() * world / batch
    loss.backward()
    optimizer.step()
    if manager.current_step() > step and rank is not None:
        print(time.time(), step, *mine, file=used)
