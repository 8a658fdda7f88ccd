"""Computes with torch and PEFT what a training job must compute. Called by make-fixture.ts: reference_step.py FOLDER.

Reads base.safetensors, base.json, inputs.json and the PEFT adapters fresh/ and perturbed/; writes reference.json and gradients.safetensors.
Every history is a sequence of its own here: no packing, no shared prefixes.
"""

import json
import sys
from pathlib import Path

import numpy
import peft
import torch
import transformers
from peft import PeftModel
from safetensors.numpy import save_file

import gguf_llama
from policy_loss import credit, row_loss

NUM_PROJECTIONS = 8
FULL_LAYERS = (0, 15, 29)
NOISE = 0.25

torch.set_num_threads(1)
torch.manual_seed(0)
folder = Path(sys.argv[1])
inputs = json.loads((folder / "inputs.json").read_text())
histories = inputs["histories"]
cases = inputs["cases"]


def policy(adapter, dtype):
    base = gguf_llama.load(folder / "base.safetensors", json.loads((folder / "base.json").read_text()), dtype)
    model = PeftModel.from_pretrained(base, folder / adapter, is_trainable=True, autocast_adapter_dtype=False).to(dtype)
    return model.eval()


def sequence_logprobs(model, token_ids, places):
    """Log-probabilities of the tokens at `places`, each given those before it."""
    hidden = model.base_model.model.model(torch.tensor([token_ids[:-1]]), use_cache=False).last_hidden_state[0]
    logits = model.base_model.model.lm_head(hidden[torch.tensor(places) - 1])
    targets = torch.tensor([token_ids[place] for place in places])
    return logits.log_softmax(-1).gather(1, targets[:, None])[:, 0]


def logprobs(model):
    return [sequence_logprobs(model, h["token_ids"], h["trained"]) for h in histories]


def probe(model):
    with torch.no_grad():
        return sequence_logprobs(model, inputs["probe"], range(1, len(inputs["probe"]))).tolist()


def reference_logprobs(model):
    with torch.no_grad(), model.disable_adapter():
        return logprobs(model)


def loss_of(case, new, reference, sampled):
    config = cases[case]
    counts = [[0] * len(rewards) for rewards in inputs["rewards"]]
    for h in histories:
        counts[h["group"]][h["trajectory"]] += len(h["trained"])
    credits = credit(inputs["rewards"], counts, config)
    rows = {name: [] for name in ("new", "old", "reference", "advantages", "weights", "histories")}
    for index, h in enumerate(histories):
        key = (h["group"], h["trajectory"])
        if key not in credits:
            continue
        advantage, weight = credits[key]
        ones = torch.ones(len(h["trained"]), dtype=torch.float64)
        rows["new"].append(new[index])
        rows["old"].append(torch.tensor(sampled[index], dtype=new[index].dtype))
        rows["reference"].append(reference[index])
        rows["advantages"].append(advantage * ones)
        rows["weights"].append(weight * ones)
        rows["histories"].append(torch.full((len(h["trained"]),), index))
    return row_loss(**{name: torch.cat(parts) for name, parts in rows.items()}, config=config)


def adapter_parameters(model):
    """Named as in the adapter's file."""
    return {name.replace(".default", ""): p for name, p in model.named_parameters() if p.requires_grad}


def gradients_of_cases(dtype, sampled):
    """Losses and raw gradients of every case, at the perturbed adapter."""
    model = policy("perturbed", dtype)
    parameters = adapter_parameters(model)
    reference = reference_logprobs(model)
    new = logprobs(model)
    results = {}
    for case in cases:
        for p in parameters.values():
            p.grad = None
        loss = loss_of(case, new, reference, sampled)
        loss.backward(retain_graph=True)
        grads = {name: p.grad.double().numpy().copy() for name, p in parameters.items()}
        results[case] = (loss.item(), grads)
    return [values.tolist() for values in new], probe(model), results


def chain(dtype, sampled):
    """One gradient step for each case of the chain; weights and optimizer carry over."""
    model = policy("fresh", dtype)
    parameters = list(adapter_parameters(model).values())
    optimizer = torch.optim.AdamW(parameters, lr=1, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1)
    results = [{"probe": probe(model)}]
    for case in inputs["chain"]:
        optimizer.zero_grad()
        loss = loss_of(case, logprobs(model), reference_logprobs(model), sampled)
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(parameters, 0.1)
        optimizer.param_groups[0]["lr"] = cases[case]["learning_rate"]
        optimizer.step()
        results.append({"case": case, "loss": loss.item(), "grad_norm": norm.item(), "probe": probe(model)})
    return results


def signs(size, projection):
    """Rows of +1 and -1 that any language can make: a bit of a 32-bit mix of the index."""
    x = numpy.arange(size, dtype=numpy.uint32) * numpy.uint32(0x9E3779B9) + numpy.uint32(projection + 1)
    for multiplier in (0x21F0AAAD, 0x735A2D97):
        x = (x ^ (x >> numpy.uint32(16))) * numpy.uint32(multiplier)
    return ((x >> numpy.uint32(15)) & numpy.uint32(1)).astype(numpy.float64) * 2 - 1


def relative(a, b):
    return float(numpy.linalg.norm(a - b) / numpy.linalg.norm(b))


with torch.no_grad():
    generator = torch.Generator().manual_seed(7)
    sampled = []
    for values in logprobs(policy("fresh", torch.float32)):
        noisy = values + NOISE * torch.randn(len(values), generator=generator)
        sampled.append([round(min(value, -1e-4), 5) for value in noisy.tolist()])

single = gradients_of_cases(torch.float32, sampled)
double = gradients_of_cases(torch.float64, sampled)
names = list(next(iter(double[2].values()))[1])
projections = {size: numpy.stack([signs(size, p) for p in range(NUM_PROJECTIONS)])
               for size in {grad.size for grad in double[2]["cispo"][1].values()}}
tensors = {}
case_results = {}
for number, (case, (loss, grads)) in enumerate(double[2].items()):
    tensors[f"{case}: norms"] = numpy.array([numpy.linalg.norm(grads[name]) for name in names])
    tensors[f"{case}: projections"] = numpy.stack([projections[grads[name].size] @ grads[name].ravel() for name in names])
    layer = FULL_LAYERS[number] if number < len(FULL_LAYERS) else None
    for name in names:
        if f"layers.{layer}." in name:
            tensors[f"{case}: {name}"] = grads[name]
    single_loss, single_grads = single[2][case]
    case_results[case] = {
        "loss": loss,
        "grad_norm": float(numpy.sqrt(sum((g ** 2).sum() for g in grads.values()))),
        "float32": {
            "loss": abs(single_loss - loss),
            "worst_gradient": max(relative(single_grads[name], grads[name]) for name in names),
        },
    }
save_file({name: tensor.astype(numpy.float32) for name, tensor in tensors.items()}, folder / "gradients.safetensors")
chain_single, chain_double = chain(torch.float32, sampled), chain(torch.float64, sampled)
for step32, step64 in zip(chain_single, chain_double):
    step64["float32"] = {"probe": float(numpy.mean(numpy.abs(numpy.subtract(step32["probe"], step64["probe"]))))}
reference = {
    "versions": {"torch": torch.__version__, "transformers": transformers.__version__, "peft": peft.__version__},
    "sampled": sampled,
    "perturbed": {"logprobs": double[0], "probe": double[1]},
    "tensors": names,
    "cases": case_results,
    "chain": chain_double,
}
(folder / "reference.json").write_text(json.dumps(reference))
