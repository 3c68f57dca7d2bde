# SPDX-License-Identifier: MIT
"""Accelerate: save_state into a new directory each time, the newest one is loaded.

  spot-run exec --workers 4 --checkpoint 'out/step-*' accelerate_loop.py STEPS
"""
import glob, os, shutil, sys
import torch
from accelerate import Accelerator

steps = int(sys.argv[1])
torch.manual_seed(1)
accelerator = Accelerator(cpu=True)
plain = torch.nn.Linear(8, 1)
model, optimizer = accelerator.prepare(plain, torch.optim.AdamW(plain.parameters(), lr=1e-3))
found = sorted(glob.glob("out/step-*"), key=lambda path: int(path.split("-")[-1]))
step = int(found[-1].split("-")[-1]) if found else 0
if found:
    accelerator.load_state(found[-1])
while step < steps:
    x = torch.randn(16, 8, generator=torch.Generator().manual_seed(step))
    loss = (model(x)[:, 0] - x.sum(1)).pow(2).mean()
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    step += 1
    if accelerator.is_main_process:
        print("step", step, flush=True)
    if step % 10 == 0:
        accelerator.save_state(f"out/step-{step}")
        if accelerator.is_local_main_process:
            shutil.rmtree(f"out/step-{step - 100}", ignore_errors=True)
if accelerator.is_main_process:
    print("end", step, flush=True)
os._exit(0)
