"""Gated delta nets of transformers token by token in float64.

transformers computes them in float32 by chunks, with rounding errors that are larger than those of all other parts.
"""

import inspect


def use_exact_states():
    """Replaces the chunked function by the recurrent one of the same module. Does nothing in releases without Qwen3.5."""
    try:
        from transformers.models.qwen3_5 import modeling_qwen3_5 as module
    except ImportError:
        return
    source = inspect.getsource(module.torch_recurrent_gated_delta_rule)
    body = source[source.index("def ") :].replace("torch.float32", "torch.float64")
    exec(body.replace("def torch_recurrent_gated_delta_rule", "def torch_chunk_gated_delta_rule"), vars(module))
