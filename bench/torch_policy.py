"""A trainer of bench/loop with PyTorch and peft, on commands from standard input, one JSON line each.

    {"steps": [[{"prompt": [ids], "completions": [[ids]], "logprobs": [[of the sampler]], "advantages": [one each]}]]}
        gradient steps of groups: a clipped policy gradient, backward for each group, clipping, AdamW
    {"publish": "merged" | "adapter", "folder": PATH}
        writes all weights with the adapter merged, or the adapter alone
"""

import json
import os
import sys
import time

import torch
from packed_row import pack, selected
from peft import LoraConfig, get_peft_model
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM

folder, dtype, rate = sys.argv[1], getattr(torch, sys.argv[2]), float(sys.argv[3])
torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
torch.manual_seed(0)

model = AutoModelForCausalLM.from_pretrained(folder, dtype=dtype, attn_implementation="sdpa")
model.config.use_cache = False
targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]
lora = LoraConfig(r=8, lora_alpha=16, target_modules=targets, lora_dropout=0.0, bias="none", task_type="CAUSAL_LM")
# The adapter itself stays in single precision: steps of this rate would be lost in bf16.
model = get_peft_model(model, lora)
model.train()
parameters = [p for p in model.parameters() if p.requires_grad]
optimizer = torch.optim.AdamW(parameters, lr=rate, weight_decay=0.0)
CLIP = 0.2


def train(steps):
    tokens, gaps = 0, []
    for index, groups in enumerate(steps):
        for group in groups:
            row = pack(group["prompt"], group["completions"], dtype)
            new = selected(model(**row.inputs).logits, row.wanted)[0]
            old = torch.tensor([score for scores in group["logprobs"] for score in scores])
            credit = torch.cat([
                torch.full((len(ids),), value) for ids, value in zip(group["completions"], group["advantages"])
            ])
            ratio = torch.exp(new - old)
            objective = torch.minimum(ratio * credit, ratio.clamp(1 - CLIP, 1 + CLIP) * credit)
            (-objective.mean() / len(groups)).backward()
            tokens += len(new)
            if index == 0:
                gaps.append((new.detach() - old).abs().mean().item())
        torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    return {"trainedTokens": tokens, "gradientSteps": len(steps), "meanGap": sum(gaps) / len(gaps)}


@torch.no_grad()
def merged():
    """Tensors of the base model with the adapter added, under the names of its files."""
    tensors = {}
    for name, module in model.get_base_model().named_modules():
        if "lora_" in name or name.endswith(".base_layer"):
            continue
        for own, parameter in module.named_parameters(recurse=False):
            tensors[f"{name}.{own}"] = parameter
        if hasattr(module, "lora_A"):
            delta = module.lora_B["default"].weight @ module.lora_A["default"].weight * module.scaling["default"]
            for own, parameter in module.base_layer.named_parameters():
                tensors[f"{name}.{own}"] = (parameter + delta).to(dtype) if own == "weight" else parameter
    # Tied to the embeddings.
    tensors.pop("lm_head.weight", None)
    return {name: tensor.detach().contiguous() for name, tensor in tensors.items()}


def publish(form, target):
    if form == "adapter":
        model.save_pretrained(target)
        return {}
    os.makedirs(target, exist_ok=True)
    save_file(merged(), os.path.join(target, "new"), metadata={"format": "pt"})
    os.replace(os.path.join(target, "new"), os.path.join(target, "model.safetensors"))
    return {}


def answer(value):
    print(json.dumps(value), flush=True)


answer({"ready": torch.__version__})
for line in sys.stdin:
    command = json.loads(line)
    started = time.perf_counter()
    result = train(command["steps"]) if "steps" in command else publish(command["publish"], command["folder"])
    answer({"seconds": time.perf_counter() - started, **result})
