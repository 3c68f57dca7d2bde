# SPDX-License-Identifier: MIT
"""torchtitan: its CheckpointManager and folders, FSDP2, and a loop as its Trainer has it.

  spot-run exec --workers 4 --checkpoint 'outputs/checkpoint/step-*' torchtitan_loop.py STEPS

The Trainer itself runs as `-m torchtitan.train --module llama3 --config ...` in place of the script.
"""
import os, sys
import torch, torch.distributed as dist
from torch.distributed.checkpoint.state_dict import (
    get_optimizer_state_dict, set_optimizer_state_dict)
from torch.distributed.fsdp import fully_shard
from torchtitan.components.checkpoint import CheckpointManager
import spot

steps = int(sys.argv[1])
spot.hold()
torch.manual_seed(1)
dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
schedule = torch.optim.lr_scheduler.StepLR(optimizer, 100)


class Optimizer:
    def state_dict(self):
        return get_optimizer_state_dict(model, optimizer)

    def load_state_dict(self, state):
        set_optimizer_state_dict(model, optimizer, state)


class Progress:
    step = 0

    def state_dict(self):
        return {"step": torch.tensor(self.step)}

    def load_state_dict(self, state):
        self.step = int(state["step"])


done = Progress()
config = CheckpointManager.Config(enable=True, interval=20, keep_latest_k=2,
                                  last_save_model_only=False)
saves = CheckpointManager(config, dataloader=None, model_parts=[model], optimizers=Optimizer(),
                          lr_schedulers=schedule, states={"train_state": done}, sd_adapter=None,
                          base_folder="outputs")
saves.states.pop("dataloader")
saves.load()
while done.step < steps:
    x = torch.randn(24, 8, generator=torch.Generator().manual_seed(done.step)).chunk(world)[rank]
    optimizer.zero_grad()
    (model(x)[:, 0] - x.sin().sum(1)).pow(2).mean().backward()
    optimizer.step()
    schedule.step()
    done.step += 1
    if rank == 0:
        print("step", done.step, flush=True)
    leaves = spot.leaving()
    saves.save(done.step, last_step=leaves or done.step == steps)
    if leaves:
        os._exit(0)
last = model[2].weight.full_tensor()[0, :8].tolist()
if rank == 0:
    print("end", done.step, *last, flush=True)
os._exit(0)
