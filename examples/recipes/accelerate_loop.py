# SPDX-License-Identifier: MIT
"""Accelerate: save_state into a new directory each time, the newest one is loaded.

  spot-run exec --workers 4 --checkpoint 'out/step-*' accelerate_loop.py STEPS
"""
import glob, os, shutil, sys
import torch
from accelerate import Accelerator
import spot

steps = int(sys.argv[1])
spot.hold()
torch.manual_seed(1)
accelerator = Accelerator(cpu=True)
rank, world = accelerator.process_index, accelerator.num_processes
plain = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=1e-4))
found = sorted(glob.glob("out/step-*"), key=lambda path: int(path.split("-")[-1]))
step = int(found[-1].split("-")[-1]) if found else 0
if found:
    accelerator.load_state(found[-1])
while step < steps:
    x = torch.randn(24, 8, generator=torch.Generator().manual_seed(step)).chunk(world)[rank]
    loss = (model(x)[:, 0] - x.sin().sum(1)).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    step += 1
    if rank == 0:
        print("step", step, flush=True)
    leaves = spot.leaving()
    if step % 20 == 0 or leaves:
        accelerator.save_state(f"out/step-{step}")
        for path in found[:-1]:
            shutil.rmtree(path, ignore_errors=True)
        found = found[-1:] + [f"out/step-{step}"]
    if leaves:
        os._exit(0)
if rank == 0:
    print("end", step, *plain.weight[0].tolist(), flush=True)
os._exit(0)
