"""Writes random models of each family as folders, with their log-probabilities and the ids of texts.

usage: model_folders.py OUTPUT CORPUS NUM_TEXTS

transformers saves OUTPUT/NAME with a tokenizer that tokenizers trained on the Markdown files below CORPUS.
OUTPUT/NAME.json has `ids`, `logprobs` (of each id after the first, in float32), and `texts` as pairs of a text and its ids.
"""

import json
import random
import sys
import unicodedata
from pathlib import Path

import torch
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers
from transformers import (
    AutoModelForCausalLM,
    Gemma3ForCausalLM,
    Gemma3TextConfig,
    GptOssConfig,
    GptOssForCausalLM,
    GraniteConfig,
    GraniteForCausalLM,
    GraniteMoeConfig,
    GraniteMoeForCausalLM,
    GraniteMoeHybridConfig,
    GraniteMoeHybridForCausalLM,
    GraniteMoeSharedConfig,
    GraniteMoeSharedForCausalLM,
    Lfm2Config,
    Lfm2ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    Olmo2Config,
    Olmo2ForCausalLM,
    Olmo3Config,
    Olmo3ForCausalLM,
    Phi3Config,
    Phi3ForCausalLM,
    PreTrainedTokenizerFast,
    Qwen2Config,
    Qwen2ForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Qwen3MoeConfig,
    Qwen3MoeForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
)

try:
    from transformers import Qwen3_5Config, Qwen3_5ForCausalLM, Qwen3_5ForConditionalGeneration, Qwen3_5TextConfig
except ImportError:
    # Releases before 5.2 lack the family.
    Qwen3_5ForCausalLM = None

from exact_states import use_exact_states

use_exact_states()
OUTPUT, CORPUS, NUM_TEXTS = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])

LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
O200K = (
    rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+{CONTRACTION}|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*{CONTRACTION}"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35_PATTERN = QWEN2.replace(r"\p{L}+", r"[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")


def byte_level(use_regex):
    return pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=use_regex)


def split(pattern):
    return pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), byte_level(False)])


def smollm():
    return pre_tokenizers.Sequence([pre_tokenizers.Digits(individual_digits=True), byte_level(True)])


LLAMA3_ROPE = {
    "rope_type": "llama3",
    "factor": 8.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 64,
}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 64}
LONGROPE = {"type": "longrope", "short_factor": [1.0, 1.2, 1.7], "long_factor": [1.5, 3.0, 9.0]}
GRANITE = {"embedding_multiplier": 12.0, "attention_multiplier": 0.2, "residual_multiplier": 0.22, "logits_scaling": 3.0, "tie_word_embeddings": True}
# No Mamba layers, but its sizes must fit.
GRANITE4 = {"layer_types": ["attention"] * 3, "num_local_experts": 0, "num_experts_per_tok": 0, "shared_intermediate_size": 48, "mamba_n_heads": 8}
# class, configuration, fields, type, pre-tokenizer, whole words first, NFC, size of a file
CASES = {
    "llama3": (LlamaForCausalLM, LlamaConfig, {"head_dim": 16, "rope_theta": 500_000.0, "rope_scaling": LLAMA3_ROPE}, torch.bfloat16, split(LLAMA3), True, False, "200KB"),
    "smollm": (LlamaForCausalLM, LlamaConfig, {"tie_word_embeddings": True, "rope_scaling": {"rope_type": "linear", "factor": 2.0}}, torch.float32, smollm(), False, False, "5GB"),
    "gpt2": (LlamaForCausalLM, LlamaConfig, {"num_key_value_heads": 4}, torch.float32, byte_level(True), False, False, "5GB"),
    "qwen2": (Qwen2ForCausalLM, Qwen2Config, {"tie_word_embeddings": True}, torch.bfloat16, split(QWEN2), False, True, "5GB"),
    "granite": (GraniteForCausalLM, GraniteConfig, GRANITE, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "granitemoe": (GraniteMoeForCausalLM, GraniteMoeConfig, {**GRANITE, "num_local_experts": 6, "num_experts_per_tok": 3}, torch.bfloat16, smollm(), False, False, "5GB"),
    "granitemoeshared": (GraniteMoeSharedForCausalLM, GraniteMoeSharedConfig, {**GRANITE, "num_local_experts": 6, "num_experts_per_tok": 2, "shared_intermediate_size": 40}, torch.bfloat16, smollm(), False, False, "5GB"),
    "granite4": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig, {**GRANITE, **GRANITE4, "position_embedding_type": "rope"}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "granite4 without rope": (GraniteMoeHybridForCausalLM, GraniteMoeHybridConfig, {**GRANITE, **GRANITE4}, torch.float32, split(LLAMA3), True, False, "5GB"),
    "smollm3": (SmolLM3ForCausalLM, SmolLM3Config, {"num_hidden_layers": 5}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "olmo2": (Olmo2ForCausalLM, Olmo2Config, {}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "olmo3": (Olmo3ForCausalLM, Olmo3Config, {"num_hidden_layers": 5, "sliding_window": 37, "rope_scaling": YARN}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "mistral": (MistralForCausalLM, MistralConfig, {"sliding_window": 37}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "gemma3": (Gemma3ForCausalLM, Gemma3TextConfig, {"num_hidden_layers": 7, "head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 37}, torch.bfloat16, None, False, False, "5GB"),
    "phi-windows": (Phi3ForCausalLM, Phi3Config, {"sliding_window": 37}, torch.bfloat16, None, False, False, "5GB"),
    "phi4": (Phi3ForCausalLM, Phi3Config, {"partial_rotary_factor": 0.75, "rope_scaling": LONGROPE, "original_max_position_embeddings": 256, "tie_word_embeddings": True}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    # The second one has the settings of older configurations, and more taps.
    "lfm2": (Lfm2ForCausalLM, Lfm2Config, {"num_hidden_layers": 5, "layer_types": ["conv", "conv", "full_attention", "conv", "full_attention"], "block_auto_adjust_ff_dim": False}, torch.bfloat16, split(LLAMA3), True, False, "5GB"),
    "lfm2 adjusted": (Lfm2ForCausalLM, Lfm2Config, {"num_hidden_layers": 4, "full_attn_idxs": [1], "conv_L_cache": 5, "block_multiple_of": 16}, torch.float32, split(LLAMA3), True, False, "5GB"),
    "qwen3moe": (Qwen3MoeForCausalLM, Qwen3MoeConfig, {"head_dim": 16, "num_experts": 8, "num_experts_per_tok": 3, "moe_intermediate_size": 24, "norm_topk_prob": True}, torch.bfloat16, split(QWEN2), False, True, "200KB"),
    # Layers 1 and 3 have experts, but for a list of layers without them.
    "qwen3moe mixed": (Qwen3MoeForCausalLM, Qwen3MoeConfig, {"num_hidden_layers": 4, "head_dim": 16, "num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 24, "decoder_sparse_step": 2, "mlp_only_layers": [3]}, torch.float32, split(QWEN2), False, True, "5GB"),
    "gpt-oss": (GptOssForCausalLM, GptOssConfig, {"num_hidden_layers": 4, "head_dim": 16, "num_local_experts": 6, "num_experts_per_tok": 3, "sliding_window": 37, "rope_scaling": {**YARN, "beta_fast": 8.0, "beta_slow": 1.0, "truncate": False}}, torch.bfloat16, split(O200K), False, False, "5GB"),
    "qwen3": (Qwen3ForCausalLM, Qwen3Config, {"head_dim": 16}, torch.float16, split(QWEN2), False, True, "200KB"),
}

if Qwen3_5ForCausalLM is not None:
    QWEN35 = {
        "num_hidden_layers": 5, "head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "rope_parameters": {"rope_type": "default", "rope_theta": 50_000.0, "partial_rotary_factor": 0.5},
    }  # fmt: skip
    # Others are compared with the release that the tests install.
    CASES = {}
    CASES["qwen35"] = (Qwen3_5ForCausalLM, Qwen3_5TextConfig, QWEN35, torch.bfloat16, split(QWEN35_PATTERN), False, True, "5GB")
    CASES["qwen35 one value head"] = (Qwen3_5ForCausalLM, Qwen3_5TextConfig, {**QWEN35, "linear_num_value_heads": 2, "tie_word_embeddings": True}, torch.float32, split(QWEN35_PATTERN), False, True, "5GB")

corpus = [path.read_text(encoding="utf8") for path in sorted(CORPUS.rglob("*.md"))]
everything = "".join(corpus)
RANGES = ((32, 127), (0xA0, 0x180), (0x370, 0x460), (0x4E00, 0x4E40), (0x3040, 0x3060), (0x900, 0x930), (0x660, 0x66A), (0x1F600, 0x1F620))
PIECES = [chr(code) for first, last in RANGES for code in range(first, last)] + [
    "\n", "\r\n", "\t", "\u0085", "\u2028", "\ufeff", "\u017f", "\u200d", "\u3000", "'s", "'LL", "'Re", "  ", "<think>", "123456", "\u2167", "\u00b2", "the", "ing ", " and",
]  # fmt: skip


def random_text():
    if random.random() < 0.5:
        start = random.randrange(len(everything))
        text = everything[start : start + random.randrange(1, 120)]
    else:
        text = "".join(random.choice(PIECES) for _ in range(random.randrange(1, 60)))
    # Text never becomes a control token here, and always does in tokenizers.
    return text.replace("<|", "< |")


def tokenizer_of(pre_tokenizer, prefers_whole_words, normalizes):
    tokenizer = Tokenizer(models.BPE(ignore_merges=prefers_whole_words))
    tokenizer.pre_tokenizer = pre_tokenizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    if normalizes:
        tokenizer.normalizer = normalizers.NFC()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(vocab_size=2000, initial_alphabet=alphabet, show_progress=False)
    tokenizer.train_from_iterator(corpus, trainer)
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in ("<|im_start|>", "<|im_end|>")])
    tokenizer.add_tokens([AddedToken("<think>", special=False, normalized=False)])
    return tokenizer


def sentence_piece():
    """Of a size that tests can have: every split of a piece into two others is a merge, as in real ones."""
    special = ["<unk>", "<|im_start|>", "<|im_end|>"]
    bytes_ = [f"<0x{byte:02X}>" for byte in range(256)]
    spaces = normalizers.Replace(" ", "▁")
    trained = Tokenizer(models.BPE())
    trained.normalizer = spaces
    trained.pre_tokenizer = pre_tokenizers.Split(Regex("▁+[^▁]*|[^▁]+"), "isolated")
    trained.train_from_iterator(corpus, trainers.BpeTrainer(vocab_size=1500, show_progress=False))
    pieces = sorted(trained.get_vocab(), key=trained.get_vocab().get)
    vocab = {token: index for index, token in enumerate([*special, *bytes_, *pieces])}
    merges = [
        (piece[:at], piece[at:]) for piece in pieces for at in range(1, len(piece)) if piece[:at] in vocab and piece[at:] in vocab
    ]
    tokenizer = Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = spaces
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.add_special_tokens([AddedToken(text, special=True) for text in special])
    return tokenizer


def write(name, case):
    model_class, config_class, fields, dtype, pre_tokenizer, prefers_whole_words, normalizes, shard_size = case
    tokenizer = sentence_piece() if pre_tokenizer is None else tokenizer_of(pre_tokenizer, prefers_whole_words, normalizes)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3, "num_attention_heads": 4}
    # Larger than the vocabulary, as in real models.
    config = config_class(
        **{**sizes, "pad_token_id": None, "num_key_value_heads": 2, "vocab_size": tokenizer.get_vocab_size() + 13, "max_position_embeddings": 512, **fields}
    )
    model = model_class(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, 1.0 if parameter.dim() == 1 else 0.0, 0.3)
    for module in model.modules():
        if hasattr(module, "in_proj_qkv"):
            # As after training: outputs of unrelated q and k are near 0, and their norm magnifies rounding.
            for weight in (module.in_proj_qkv.weight, module.conv1d.weight):
                q, k = weight.data[: module.key_dim], weight.data[module.key_dim : 2 * module.key_dim]
                k.mul_(0.6).add_(0.8 * q)
    folder = OUTPUT / name
    model.to(dtype).save_pretrained(folder, max_shard_size=shard_size)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|im_start|>", eos_token="<|im_end|>", clean_up_tokenization_spaces=False
    )
    fast.chat_template = "{% for message in messages %}<|im_start|>{{ message.content }}<|im_end|>{% endfor %}"
    fast.save_pretrained(folder)

    ids = [random.randrange(config.vocab_size) for _ in range(200)]
    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float64, attn_implementation="eager").eval()
    with torch.no_grad():
        logits = loaded(torch.tensor([ids])).logits[0, :-1]
    logprobs = torch.log_softmax(logits, -1)[torch.arange(len(ids) - 1), torch.tensor(ids[1:])]
    texts = [random_text() for _ in range(NUM_TEXTS)]
    if normalizes:
        texts = [unicodedata.normalize("NFC", text) for text in texts]
    pairs = [[text, fast.encode(text, add_special_tokens=False)] for text in texts]
    chat = fast.apply_chat_template([{"role": "user", "content": "Hello"}], return_dict=False)
    report = {"ids": ids, "logprobs": logprobs.tolist(), "texts": pairs, "chat": chat}
    (OUTPUT / f"{name}.json").write_text(json.dumps(report))


for name, case in CASES.items():
    # Another family does not change the weights and texts of this one.
    torch.manual_seed(1)
    random.seed(3)
    write(name, case)
