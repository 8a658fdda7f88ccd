"""Adapters as PEFT writes them, with the log-probabilities that it computes with them on the CPU in float32.

usage: peft_adapters.py BASE CONFIGS TOKEN_IDS OUTPUT

BASE is the folder of a whole model, CONFIGS a file with a JSON list of options of LoraConfig, TOKEN_IDS one with a JSON list.
Each adapter has random weights and is saved in OUTPUT/INDEX, with gradients.safetensors: the gradients of
sum(cos(i) * log-probability i), by the names of the saved tensors. Prints one JSON list of log-probabilities.
"""

import json
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

from exact_states import use_exact_states


use_exact_states()


def load(directory):
    return AutoModelForCausalLM.from_pretrained(directory, dtype=torch.float32, attn_implementation="eager").eval()


def logprobs(model, token_ids):
    with torch.no_grad():
        return logprob_values(model, token_ids).tolist()


def logprob_values(model, token_ids):
    logits = model(token_ids[None]).logits[0, :-1].double()
    return logits.log_softmax(-1).gather(1, token_ids[1:, None])[:, 0]


def gradients(model, token_ids):
    values = logprob_values(model, token_ids)
    (values * torch.cos(torch.arange(len(values), dtype=torch.float64))).sum().backward()
    return {
        name.replace(".default.", "."): value.grad.contiguous()
        for name, value in model.named_parameters()
        if "lora_" in name
    }


def main(base_directory, config_file, token_file, output):
    torch.set_num_threads(1)
    torch.manual_seed(7)
    with open(token_file, encoding="utf-8") as file:
        token_ids = torch.tensor(json.load(file))
    with open(config_file, encoding="utf-8") as file:
        configs = json.load(file)
    report = [logprobs(load(base_directory), token_ids)]
    for index, options in enumerate(configs):
        model = get_peft_model(load(base_directory), LoraConfig(task_type="CAUSAL_LM", **options))
        with torch.no_grad():
            for name, value in model.named_parameters():
                if "lora_" in name:
                    value.normal_(std=0.15)
        directory = f"{output}/{index}"
        model.save_pretrained(directory)
        # From the file: what another program reads is all that counts.
        again = PeftModel.from_pretrained(load(base_directory), directory, is_trainable=True).eval()
        report.append(logprobs(again, token_ids))
        save_file(gradients(again, token_ids), f"{directory}/gradients.safetensors")
    print("REPORT", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
