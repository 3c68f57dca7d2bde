# SPDX-License-Identifier: MIT
"""FSDP2 with torch's distributed checkpoints: each rank writes its shards, any number reads them.

  spot-run exec --workers 4 --checkpoint 'out/step-*' fsdp2_dcp.py STEPS
"""
import glob, os, shutil, sys
import torch, torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard
import spot

steps = int(sys.argv[1])
spot.hold()
torch.manual_seed(1)
dist.init_process_group("gloo")
rank, world, step = dist.get_rank(), dist.get_world_size(), 0
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
found = [path for path in glob.glob("out/step-*") if os.path.exists(path + "/.metadata")]
if found:
    newest = max(found, key=lambda path: int(path.split("-")[-1]))
    weights, moments = get_state_dict(model, optimizer)
    dcp.load({"model": weights, "optimizer": moments}, checkpoint_id=newest)
    set_state_dict(model, optimizer, model_state_dict=weights, optim_state_dict=moments)
    step = int(newest.split("-")[-1])
while step < steps:
    x = torch.randn(24, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
    loss = (model(x)[:, 0] - x.sin().sum(1)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    step += 1
    if rank == 0:
        print("step", step, flush=True)
    leaves = spot.leaving()
    if step % 20 == 0 or leaves:
        weights, moments = get_state_dict(model, optimizer)
        dcp.save({"model": weights, "optimizer": moments}, checkpoint_id=f"out/step-{step}")
        if rank == 0:
            shutil.rmtree(f"out/step-{step - 40}", ignore_errors=True)
    if leaves:
        os._exit(0)
last = model[2].weight.full_tensor()[0, :8].tolist()
if rank == 0:
    print("end", step, *last, flush=True)
os._exit(0)
