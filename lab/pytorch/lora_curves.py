"""Trains adapters with PEFT and torch's AdamW on the CPU in float32.

usage: lora_curves.py JOBS

JOBS is a file with a JSON list of objects: `base`, the folder of a whole model; `adapter`, one of PEFT; `output`, a safetensors
file for the trained adapter; `batches`, a list of token ids for each step; `optimizer`, the options of AdamW; `max_grad_norm`.
The loss is the mean negative log-probability of all tokens after the first. Prints one JSON list with the losses of each job.
"""

import json
import sys

import torch
from peft import PeftModel
from safetensors.torch import save_file

from peft_adapters import load


def losses(job):
    model = PeftModel.from_pretrained(load(job["base"]), job["adapter"], is_trainable=True).eval()
    trained = {name: value for name, value in model.named_parameters() if value.requires_grad}
    optimizer = torch.optim.AdamW(trained.values(), **job["optimizer"])
    curve = []
    for ids in job["batches"]:
        token_ids = torch.tensor([ids])
        logits = model(token_ids).logits[0, :-1]
        loss = torch.nn.functional.cross_entropy(logits, token_ids[0, 1:])
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained.values(), job["max_grad_norm"])
        optimizer.step()
        curve.append(loss.item())
    save_file({name.replace(".default.", "."): value.detach() for name, value in trained.items()}, job["output"])
    return curve


def main(jobs_file):
    torch.set_num_threads(1)
    with open(jobs_file, encoding="utf-8") as file:
        print("REPORT", json.dumps([losses(job) for job in json.load(file)]))


if __name__ == "__main__":
    main(*sys.argv[1:])
