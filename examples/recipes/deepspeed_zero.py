# SPDX-License-Identifier: MIT
"""DeepSpeed, ZeRO-1 or 2: save_checkpoint with a tag for each step, `latest` names the newest.

  spot-run exec --workers 2 --nnodes 2 --checkpoint out/ deepspeed_zero.py STEPS STAGE
"""
import os, sys
import torch, deepspeed
import spot

stage, steps = int(os.environ.get("STAGE", 2)), int(sys.argv[1])
spot.hold()
torch.manual_seed(1)
deepspeed.init_distributed("gloo")
rank, world = torch.distributed.get_rank(), torch.distributed.get_world_size()
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
engine, *_ = deepspeed.initialize(
    model=model, optimizer=torch.optim.AdamW(model.parameters(), lr=1e-4),
    config={"train_batch_size": 24, "zero_optimization": {"stage": stage},
            "zero_allow_untested_optimizer": True})
engine.load_checkpoint("out")
while engine.global_steps < steps:
    seed = torch.Generator().manual_seed(engine.global_steps)
    x = torch.randn(24, 8, generator=seed).chunk(world)[rank]
    engine.backward((engine(x)[:, 0] - x.sin().sum(1)).pow(2).mean())
    engine.step()
    if rank == 0:
        print("step", engine.global_steps, flush=True)
    leaves = spot.leaving()
    if engine.global_steps % 20 == 0 or leaves:
        engine.save_checkpoint("out", tag=f"step-{engine.global_steps}")
    if leaves:
        os._exit(0)
if rank == 0:
    print("end", engine.global_steps, *model[2].weight[0, :8].tolist(), flush=True)
os._exit(0)
