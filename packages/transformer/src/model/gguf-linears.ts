import type { LinearName } from './lora-config.ts';

/** Names of tensors. `ffn_up` of a family with fused layers has the rows of gate and up. */
export const GGUF_LINEARS: Readonly<Record<LinearName, string>> = {
  q: 'attn_q',
  k: 'attn_k',
  v: 'attn_v',
  qkv: 'attn_qkv',
  o: 'attn_output',
  gate: 'ffn_gate',
  up: 'ffn_up',
  gateUp: 'ffn_up',
  down: 'ffn_down',
};
