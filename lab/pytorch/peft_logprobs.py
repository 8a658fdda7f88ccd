"""Log-probabilities of adapters of PEFT on the CPU in float32.

usage: peft_logprobs.py BASE TOKEN_IDS ADAPTER...

Prints one JSON list with a list for each adapter.
"""

import json
import sys

import torch
from peft import PeftModel

from peft_adapters import load, logprobs


def main(base_directory, token_file, *adapters):
    torch.set_num_threads(1)
    with open(token_file, encoding="utf-8") as file:
        token_ids = torch.tensor(json.load(file))
    report = [logprobs(PeftModel.from_pretrained(load(base_directory), folder).eval(), token_ids) for folder in adapters]
    print("REPORT", json.dumps(report))


if __name__ == "__main__":
    main(*sys.argv[1:])
