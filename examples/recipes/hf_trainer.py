# SPDX-License-Identifier: MIT
"""HF Trainer: the script as its manual has it.

  spot-run exec --workers 4 --checkpoint 'out/checkpoint-*' hf_trainer.py STEPS
"""
import os, sys
import torch
from transformers import Trainer, TrainerCallback, TrainingArguments
from transformers.trainer_utils import get_last_checkpoint


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(8, 1)

    def forward(self, x, labels):
        y = self.layer(x)[:, 0]
        return {"loss": (y - labels).pow(2).mean(), "logits": y}


class Say(TrainerCallback):
    def on_step_end(self, args, state, control, **_):
        if state.is_world_process_zero:
            print("step", state.global_step, flush=True)


torch.manual_seed(1)
data = [{"x": torch.randn(8), "labels": torch.tensor(float(i % 3))} for i in range(1000)]
arguments = TrainingArguments("out", max_steps=int(sys.argv[1]), save_steps=10, save_total_limit=2,
                              per_device_train_batch_size=4, use_cpu=True, report_to=[],
                              disable_tqdm=True, dataloader_num_workers=0)
trainer = Trainer(Model(), arguments, train_dataset=data, callbacks=[Say()])
last = get_last_checkpoint("out") if os.path.isdir("out") else None
trainer.train(resume_from_checkpoint=last)
if trainer.is_world_process_zero():
    print("end", trainer.state.global_step, flush=True)
