# SPDX-License-Identifier: MIT
"""A data-parallel trainer that outlives its machines, which share no storage.

  spot-run exec --workers 4 -- python3 examples/pytorch/ddp.py STEPS OUT

Rank 0 keeps the state in SPOT_STATE_DIR, commits it every so many steps and when SIGUSR1 says that
this round will end, and each finds there what was committed last. The ledger says which samples a step
reads: each once an epoch, whoever comes and goes. The weights end up in the directory OUT. By
torchrun it runs as well; then OUT, which all nodes see, has the checkpoint of rank 0.
"""
import os, signal, sys, time
import torch, torch.distributed as dist
from torch.nn import GELU, Linear
from torch.nn.parallel import DistributedDataParallel
import spot  # pip install ./packaging/python

steps, out = int(sys.argv[1]), sys.argv[2]
pause, every = float(os.environ.get("PAUSE", 0)), int(os.environ.get("EVERY", 10))
hidden, size, batch = int(os.environ.get("HIDDEN", 128)), 1000, 24
wanted = []  # by SIGUSR1
signal.signal(signal.SIGUSR1, lambda *_: wanted.append(True))

torch.manual_seed(1)
plain = torch.nn.Sequential(
    Linear(64, hidden), GELU(), Linear(hidden, hidden), GELU(), Linear(hidden, 1))
optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
spot.hold()  # up to here without a rank: another process may do it beside one that works

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
# else it forms other buckets after the first step, and sums depend on when the round began
model = DistributedDataParallel(plain, find_unused_parameters=True)
has_agent, step = "SPOT_SOCKET" in os.environ, 0
path = os.path.join(os.environ["SPOT_STATE_DIR"] if has_agent else out, "newest.pt")
if os.path.exists(path):
    kept = torch.load(path)
    step = kept["step"]
    plain.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
used = open(os.environ.get("USED", os.devnull).format(**os.environ), "a", buffering=1)


def commit():
    if rank == 0:  # all have the same
        torch.save({"step": step, "model": plain.state_dict(),
                    "optimizer": optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)  # whoever reads it reads all of it
    if rank == 0 and has_agent:
        spot.commit(step)


def samples():  # the numbers of those that this rank reads now
    if not has_agent:
        first, last = (step * batch + batch * r // world for r in (rank, rank + 1))
        return [i % size for i in range(first, last)]
    return spot.ledger(step, size, batch, seed=1)


ends = step >= steps
while not ends:
    mine = samples()
    x = torch.stack([torch.randn(64, generator=torch.Generator().manual_seed(i)) for i in mine])
    error = model(x)[:, 0] - x[:, :8].sum(1).sin()
    loss = (error ** 2).sum() * world / batch  # DDP takes the mean over ranks of their shares
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
if rank == 0 and step == steps:
    torch.save(plain.state_dict(), os.path.join(out, "final.pt"))
os._exit(0)  # at once: PyTorch takes seconds to take itself apart
