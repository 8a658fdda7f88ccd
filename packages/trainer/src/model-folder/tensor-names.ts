import type { Architecture } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';

/** Tensors outside the blocks. */
const OUTER: Readonly<Record<string, string>> = {
  'token_embd.weight': 'model.embed_tokens.weight',
  'output_norm.weight': 'model.norm.weight',
  'output.weight': 'lm_head.weight',
};

/** Parts of a block. */
const PARTS: Readonly<Record<string, string>> = {
  attn_norm: 'input_layernorm',
  attn_q: 'self_attn.q_proj',
  attn_k: 'self_attn.k_proj',
  attn_v: 'self_attn.v_proj',
  attn_output: 'self_attn.o_proj',
  attn_q_norm: 'self_attn.q_norm',
  attn_k_norm: 'self_attn.k_norm',
  ffn_norm: 'post_attention_layernorm',
  ffn_gate: 'mlp.gate_proj',
  ffn_up: 'mlp.up_proj',
  ffn_down: 'mlp.down_proj',
  post_attention_norm: 'post_attention_layernorm',
  post_ffw_norm: 'post_feedforward_layernorm',
};

/** The same with norms before and after attention and feed-forward, which change the meaning of a name. */
const PARTS_WITH_FOUR_NORMS: Readonly<Record<string, string>> = {
  ...PARTS,
  ffn_norm: 'pre_feedforward_layernorm',
};

/** @throws {TrainerError} `trainer.architecture_unsupported` for a tensor without such a name */
export function huggingFaceName(ggufName: string, norms: Architecture['norms']): string {
  const outer = OUTER[ggufName];
  if (outer !== undefined) return outer;
  const [, layer, part, kind] = /^blk\.(\d+)\.(\w+)\.(weight|bias)$/.exec(ggufName) ?? [];
  const parts = norms.before && norms.after ? PARTS_WITH_FOUR_NORMS : PARTS;
  const inner = part === undefined ? undefined : parts[part];
  if (inner !== undefined) return `model.layers.${layer}.${inner}.${kind}`;
  throw new TrainerError(
    'trainer.architecture_unsupported',
    `the tensor ${ggufName} of the base model does not fit the format merged-safetensors; use merged-gguf`,
  );
}
