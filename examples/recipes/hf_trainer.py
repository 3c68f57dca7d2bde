# SPDX-License-Identifier: MIT
"""HF Trainer.

  spot-run exec --workers 4 --checkpoint 'out/checkpoint-*' hf_trainer.py STEPS
"""
import os, sys
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint
import spot


class Leave(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        self.leaves = spot.leaving()
        control.should_save |= self.leaves

    def on_save(self, *_, **__):
        if self.leaves:
            os._exit(0)


class Say(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.is_world_process_zero:
            print("step", state.global_step, flush=True)


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x, labels):
        y = self.layer(x)[:, 0]
        return {"loss": (y - labels).pow(2).mean(), "logits": y}


spot.hold()
torch.manual_seed(1)
data = [{"x": x, "labels": x.sin().sum()} for x in torch.randn(1200, 8)]
share = 24 // int(os.environ.get("WORLD_SIZE", 1))  # a step has 24 samples, on any number of ranks
arguments = TrainingArguments("out", max_steps=int(sys.argv[1]), save_steps=20, save_total_limit=2,
                              per_device_train_batch_size=share, learning_rate=1e-4, use_cpu=True,
                              report_to=[], disable_tqdm=True)
trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=[Say(), Leave()])
last = get_last_checkpoint("out") if os.path.isdir("out") else None
trainer.train(resume_from_checkpoint=last)
if trainer.is_world_process_zero():
    print("end", trainer.state.global_step, *trainer.model.layer.weight[0].tolist(), flush=True)
