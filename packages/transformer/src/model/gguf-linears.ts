import type { LinearName } from './lora-config.ts';

export const GGUF_LINEARS: Readonly<Record<LinearName, string>> = {
  q: 'attn_q',
  k: 'attn_k',
  v: 'attn_v',
  o: 'attn_output',
  gate: 'ffn_gate',
  up: 'ffn_up',
  down: 'ffn_down',
};
