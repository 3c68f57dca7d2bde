# SPDX-License-Identifier: MIT
"""The same bits on one to four ranks, six or twelve, and after each change: spot.exact.

  spot-run exec --workers 4 --checkpoint 'ckpt.pt' exact.py STEPS
"""
import hashlib, os, sys
import torch, torch.distributed as dist
import spot.exact  # pip install ./packaging/python

steps, virtual = int(sys.argv[1]), 12
torch.manual_seed(1)
dist.init_process_group("gloo")
rank, step = dist.get_rank(), 0
model = torch.nn.Sequential(torch.nn.Linear(8, 64), torch.nn.GELU(), torch.nn.Linear(64, 1))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
if os.path.exists("ckpt.pt"):
    kept = torch.load("ckpt.pt")
    step = kept["step"]
    model.load_state_dict(kept["model"])
    optimizer.load_state_dict(kept["optimizer"])
reducer = spot.exact.Reducer(model, virtual)
while step < steps:
    x = torch.randn(24, 8, generator=torch.Generator().manual_seed(step)).chunk(virtual)
    for v in reducer.mine():
        (model(x[v])[:, 0] - x[v].sum(1)).pow(2).mean().backward()
        reducer.add()
    reducer.step()
    optimizer.step()
    step += 1
    if rank == 0:
        print("step", step, flush=True)
    if rank == 0 and step % 10 == 0:
        torch.save({"step": step, "model": model.state_dict(),
                    "optimizer": optimizer.state_dict()}, "ckpt.pt")
if rank == 0:
    bits = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
    print("end", step, hashlib.sha256(bits).hexdigest()[:16], flush=True)
os._exit(0)
