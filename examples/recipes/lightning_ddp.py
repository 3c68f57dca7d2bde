# SPDX-License-Identifier: MIT
"""Lightning: ModelCheckpoint with save_last, which is what the next round begins with.

  spot-run exec --workers 4 --checkpoint out/ lightning_ddp.py STEPS
"""
import os, sys
import torch, lightning
from lightning.pytorch.callbacks import Callback, ModelCheckpoint


class Model(lightning.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def training_step(self, batch, _):
        return (self.layer(batch)[:, 0] - batch.sum(1)).pow(2).mean()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


class Say(Callback):
    def on_train_batch_end(self, trainer, *_):
        if trainer.is_global_zero:
            print("step", trainer.global_step, flush=True)


torch.manual_seed(1)
data = torch.utils.data.DataLoader(torch.randn(1000, 8), batch_size=4)
saves = ModelCheckpoint("out", every_n_train_steps=10, save_top_k=1, save_last=True)
trainer = lightning.Trainer(accelerator="cpu", strategy="ddp", devices=int(os.environ["LOCAL_WORLD_SIZE"]),
                            num_nodes=int(os.environ["GROUP_WORLD_SIZE"]),
                            max_steps=int(sys.argv[1]), callbacks=[saves, Say()], logger=False,
                            enable_progress_bar=False, enable_model_summary=False)
last = "out/last.ckpt"
trainer.fit(Model(), data, ckpt_path=last if os.path.exists(last) else None)
if trainer.is_global_zero:
    print("end", trainer.global_step, flush=True)
