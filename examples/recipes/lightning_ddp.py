# SPDX-License-Identifier: MIT
"""Lightning: ModelCheckpoint with save_last, which is what the next round begins with.

  spot-run exec --workers 4 --checkpoint out/ lightning_ddp.py STEPS
"""
import os, sys
import torch, lightning
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
import spot


class Leave(Callback):
    def on_train_batch_end(self, trainer, *_):
        if spot.leaving():
            trainer.save_checkpoint("out/last.ckpt")
            os._exit(0)


class Say(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.is_global_zero:
            print("step", trainer.global_step, flush=True)


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return (self.layer(batch)[:, 0] - batch.sin().sum(1)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-4)


class Numbers(torch.utils.data.IterableDataset):
    def __iter__(self):  # from the step on that has been restored; 24 of them a step on any world
        rank, world = (int(os.environ.get(name, i)) for i, name in enumerate(("RANK", "WORLD_SIZE")))
        for step in range(trainer.global_step, steps):
            x = torch.randn(24, 8, generator=torch.Generator().manual_seed(step))
            yield x.chunk(world)[rank]


spot.hold()
steps = int(sys.argv[1])
lightning.seed_everything(1)
saves = ModelCheckpoint("out", every_n_train_steps=20, save_top_k=1, save_last=True,
                        enable_version_counter=False)  # last.ckpt, not last-v1.ckpt of another node
trainer = lightning.Trainer(accelerator="cpu", strategy="ddp",
                            devices=int(os.environ.get("LOCAL_WORLD_SIZE", 1)),
                            num_nodes=int(os.environ.get("GROUP_WORLD_SIZE", 1)),
                            max_steps=steps, callbacks=[Say(), saves, Leave()],
                            logger=False, enable_progress_bar=False, enable_model_summary=False)
last = "out/last.ckpt"
model = Model()
trainer.fit(model, torch.utils.data.DataLoader(Numbers(), batch_size=None),
            ckpt_path=last if os.path.exists(last) else None)
if trainer.is_global_zero:
    print("end", trainer.global_step, *model.layer.weight[0].tolist(), flush=True)
