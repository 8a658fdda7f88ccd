"""Log-probabilities of exported files, as transformers and PEFT compute them on the CPU in float32.

usage: exported_logprobs.py BASE ADAPTER MERGED TOKEN_IDS TEXT

BASE and MERGED are folders of whole models, ADAPTER one of PEFT, TOKEN_IDS a file with a JSON list,
TEXT one whose tokens are wanted. Prints one JSON object; of small models it has the gradients of the adapter by
sum(cos(i) * log-probability of token i).
"""

import json
import sys

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM, AutoTokenizer

from exact_states import use_exact_states


MOST_PARAMETERS_FOR_GRADIENTS = 1_000_000


use_exact_states()


def load(directory):
    model, info = AutoModelForCausalLM.from_pretrained(
        directory, dtype=torch.float32, attn_implementation="eager", output_loading_info=True
    )
    # A weight that is absent would be random, one too many would be lost.
    problems = [name for key in ("missing_keys", "unexpected_keys", "mismatched_keys") for name in info[key]]
    if problems:
        raise SystemExit(f"{directory}: {problems}")
    return model.eval()


def logprobs(model, token_ids):
    with torch.no_grad():
        logits = model(token_ids[None]).logits[0, :-1].double()
    return logits.log_softmax(-1).gather(1, token_ids[1:, None])[:, 0].tolist()


def adapter_gradients(model, token_ids):
    """By the names in the adapter's file."""
    logits = model(token_ids[None]).logits[0, :-1]
    chosen = logits.log_softmax(-1).gather(1, token_ids[1:, None])[:, 0]
    (chosen * torch.arange(len(chosen)).cos()).sum().backward()
    return {
        name.replace(".default.", "."): parameter.grad.flatten().tolist()
        for name, parameter in model.named_parameters()
        if parameter.grad is not None
    }


def main(base_directory, adapter_directory, merged_directory, token_file, text_file):
    torch.set_num_threads(1)
    with open(token_file, encoding="utf-8") as file:
        token_ids = torch.tensor(json.load(file))
    base = load(base_directory)
    report = {"class": type(base).__name__, "base": logprobs(base, token_ids)}
    adapted = PeftModel.from_pretrained(base, adapter_directory, is_trainable=True).eval()
    report["peft"] = logprobs(adapted, token_ids)
    if base.num_parameters() < MOST_PARAMETERS_FOR_GRADIENTS:
        report["gradients"] = adapter_gradients(adapted, token_ids)
    merged = load(merged_directory)
    report["merged"] = logprobs(merged, token_ids)
    tokenizer = AutoTokenizer.from_pretrained(merged_directory)
    with open(text_file, encoding="utf-8") as file:
        text = file.read()
    report["tokens"] = tokenizer(text, add_special_tokens=False).input_ids
    report["text"] = tokenizer.decode(report["tokens"])
    report["chat"] = tokenizer.apply_chat_template([{"role": "user", "content": "Hello"}], return_dict=False)
    print("REPORT", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
