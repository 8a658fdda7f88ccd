"""A group of completions of one prompt as one row of a transformers model, packed by hand."""

from dataclasses import dataclass

import torch


@dataclass
class PackedRow:
    inputs: dict
    """Arguments of the model. Its logits are those of the trained positions only, which is what a careful library computes."""
    wanted: torch.Tensor
    """Token at each of these positions, [1, N], in the order of the completions."""


def pack(prompt, completions, dtype):
    """The prompt once, then the completions, each seeing the prompt and itself. Each has at least one token."""
    row = list(prompt)
    positions = list(range(len(prompt)))
    owner = [-1] * len(prompt)
    sources, wanted = [], []
    for index, completion in enumerate(completions):
        start = len(row)
        # The last token of a completion is only ever predicted.
        row += completion[:-1]
        positions += range(len(prompt), len(prompt) + len(completion) - 1)
        owner += [index] * (len(completion) - 1)
        sources += [len(prompt) - 1, *range(start, start + len(completion) - 1)]
        wanted += completion
    owners = torch.tensor(owner)
    order = torch.arange(len(row))
    visible = (order[:, None] >= order[None, :]) & ((owners[None, :] == -1) | (owners[None, :] == owners[:, None]))
    mask = torch.zeros(visible.shape, dtype=dtype).masked_fill(~visible, torch.finfo(dtype).min)[None, None]
    inputs = {
        "input_ids": torch.tensor([row]),
        "position_ids": torch.tensor([positions]),
        "attention_mask": mask,
        "logits_to_keep": torch.tensor(sources),
    }
    return PackedRow(inputs, torch.tensor([wanted]))


def selected(logits, ids):
    return torch.gather(torch.log_softmax(logits.float(), -1), -1, ids.unsqueeze(-1)).squeeze(-1)
