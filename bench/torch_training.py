"""The other side of bench/train.ts: training steps with PyTorch and peft, on commands from standard input, one JSON line each.

A step is forward, a policy-gradient loss on the completion tokens, backward, clipping and AdamW on the adapter. The head computes
the trained positions only, which is what a careful library does.
"""

import json
import resource
import sys
import time

import torch
from packed_row import pack, selected
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

weights, config, dtype = sys.argv[1], json.loads(sys.argv[2]), getattr(torch, sys.argv[3])
torch.set_num_threads(int(sys.argv[4]))
torch.manual_seed(0)

model = LlamaForCausalLM._from_config(LlamaConfig(**config), attn_implementation="sdpa", dtype=dtype)
state = load_file(weights)
missing, unexpected = model.load_state_dict(state, strict=False)
assert not unexpected and set(missing) <= {"lm_head.weight"}, (missing, unexpected)
del state
model.config.use_cache = False
targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
lora = LoraConfig(r=8, lora_alpha=16, target_modules=targets, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM")
model = get_peft_model(model, lora, autocast_adapter_dtype=False)
model.train()
parameters = [p for p in model.parameters() if p.requires_grad]
# A rate of 0, as on the other side: every step computes the same policy.
optimizer = torch.optim.AdamW(parameters, lr=0.0, weight_decay=0.0)


def finish():
    torch.nn.utils.clip_grad_norm_(parameters, 0.1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)


def separate(sequences, prompt):
    """One row after the other: eight in one batch take 10 GB."""
    results = []
    for sequence in sequences:
        ids = torch.tensor([sequence])
        completion = len(sequence) - prompt
        logprobs = selected(model(input_ids=ids, logits_to_keep=completion + 1).logits[:, :-1], ids[:, prompt:])
        (-logprobs.mean() / len(sequences)).backward()
        results += logprobs.detach().flatten().tolist()
    finish()
    return results


def packed(sequences, prompt):
    row = pack(sequences[0][:prompt], [sequence[prompt:] for sequence in sequences], dtype)
    logprobs = selected(model(**row.inputs).logits, row.wanted)
    (-logprobs.mean()).backward()
    finish()
    return logprobs.detach().flatten().tolist()


STEPS = {"separate": separate, "packed": packed}

print(json.dumps({"ready": torch.__version__}), flush=True)
for line in sys.stdin:
    command = json.loads(line)
    started = time.perf_counter()
    logprobs = STEPS[command["mode"]](command["sequences"], command["prompt"])
    seconds = time.perf_counter() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    print(json.dumps({"seconds": seconds, "logprobs": logprobs, "peakBytes": peak}), flush=True)
