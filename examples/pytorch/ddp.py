# SPDX-License-Identifier: MIT
"""A data-parallel trainer that outlives its machines: run it by torchrun, or by spot-run exec.

  spot-run exec --workers 4 -- python3 examples/pytorch/ddp.py STATE STEPS

STATE is a directory that all nodes see. The rank 0 of the moment keeps the newest step there: every
so many steps, and when SIGUSR1 says that this round will end. Which samples a step reads depends on
the step alone, so none is left out and none is used twice by the weights that go on.
"""
import json, os, signal, sys, time
import torch, torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

state, steps = sys.argv[1], int(sys.argv[2])
pause, every, batch, width = float(os.environ.get("PAUSE", 0)), 50, 24, 64
wanted = []  # by SIGUSR1
signal.signal(signal.SIGUSR1, lambda *_: wanted.append(True))
signal.signal(signal.SIGTERM, lambda *_: os._exit(143))

torch.manual_seed(1)
plain = torch.nn.Sequential(
    torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, 1))
optimizer = torch.optim.AdamW(plain.parameters(), lr=1e-3)
import spot_hold  # up to here without a rank: another process may do it beside one that works

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = DistributedDataParallel(plain)
path = os.path.join(state, "newest.pt")
step = 0
if os.path.exists(path):
    kept = torch.load(path)
    step = kept["step"]
    model.module.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])


def save():
    if rank == 0:  # written beside and renamed: whoever reads it reads all of it
        torch.save({"step": step, "model": model.module.state_dict(),
                    "optimizer": optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)
        with open(os.path.join(state, "log"), "a") as log:
            log.write(json.dumps({"kept": step, "world": world, "time_s": time.time()}) + "\n")


def sample(index):  # of a set without end, by its number
    x = torch.randn(width, generator=torch.Generator().manual_seed(index))
    return x, x[:8].sum().sin()


while step < steps:
    mine = range(step * batch + rank, (step + 1) * batch, world)
    x, y = (torch.stack(t) for t in zip(*map(sample, mine)))
    optimizer.zero_grad()
    # each rank's share of the mean over the batch; DDP takes the mean over ranks
    loss = ((model(x)[:, 0] - y) ** 2).sum() * world / batch
    loss.backward()
    optimizer.step()
    step += 1
    if rank == 0 and step % 10 == 0:
        print(f"step {step} loss {loss.item():.4f} world {world}", flush=True)
    # all ranks agree on whether to save: a signal reaches them at different steps
    asked = torch.tensor([len(wanted)])
    dist.all_reduce(asked, dist.ReduceOp.MAX)
    if asked.item() or step % every == 0:
        save()
    if asked.item():
        dist.barrier()
        dist.destroy_process_group()
        sys.exit(0)  # this round ends; the next one goes on from here
    time.sleep(pause)
save()
dist.destroy_process_group()
