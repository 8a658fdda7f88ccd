"""A transformers model from the tensors of a GGUF file of the llama family, expanded to float32."""

import torch
from safetensors.torch import load_file
from transformers import LlamaConfig, LlamaForCausalLM

LINEARS = {
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "attn_norm": "input_layernorm",
    "ffn_norm": "post_attention_layernorm",
}


def half_rotation(weight, num_heads):
    """llama.cpp keeps the two members of a rotated pair side by side, transformers half a head apart."""
    rows, columns = weight.shape
    return weight.view(num_heads, rows // num_heads // 2, 2, columns).transpose(1, 2).reshape(rows, columns)


def load(path, metadata, dtype):
    config = LlamaConfig(
        vocab_size=metadata["vocab_size"],
        hidden_size=metadata["embedding_length"],
        intermediate_size=metadata["feed_forward_length"],
        num_hidden_layers=metadata["block_count"],
        num_attention_heads=metadata["attention.head_count"],
        num_key_value_heads=metadata["attention.head_count_kv"],
        rms_norm_eps=metadata["attention.layer_norm_rms_epsilon"],
        rope_theta=metadata["rope.freq_base"],
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    tensors = load_file(path)
    state = {
        "model.embed_tokens.weight": tensors["token_embd.weight"],
        "lm_head.weight": tensors["token_embd.weight"],
        "model.norm.weight": tensors["output_norm.weight"],
    }
    for layer in range(config.num_hidden_layers):
        for ours, theirs in LINEARS.items():
            weight = tensors.pop(f"blk.{layer}.{ours}.weight")
            if ours == "attn_q":
                weight = half_rotation(weight, config.num_attention_heads)
            if ours == "attn_k":
                weight = half_rotation(weight, config.num_key_value_heads)
            state[f"model.layers.{layer}.{theirs}.weight"] = weight
    assert set(tensors) <= {"token_embd.weight", "output_norm.weight"}, sorted(tensors)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    model = model.to_empty(device="cpu")
    model.load_state_dict(state, strict=True)
    # Not in the state: empty after to_empty.
    model.model.rotary_emb = type(model.model.rotary_emb)(config=config)
    return model.to(dtype)
