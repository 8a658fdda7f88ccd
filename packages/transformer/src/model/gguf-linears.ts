import { type Experts, expertsIn } from './experts.ts';
import type { LinearName } from './lora-config.ts';

/** Names of tensors. `ffn_up` of a family with fused layers has the rows of gate and up. */
export const GGUF_LINEARS: Readonly<Record<LinearName, string>> = {
  q: 'attn_q',
  k: 'attn_k',
  v: 'attn_v',
  qkv: 'attn_qkv',
  convIn: 'shortconv.in_proj',
  deltaQkv: 'attn_qkv',
  deltaZ: 'attn_gate',
  deltaB: 'ssm_beta',
  deltaA: 'ssm_alpha',
  o: 'attn_output',
  out: 'attn_output',
  convOut: 'shortconv.out_proj',
  deltaOut: 'ssm_out',
  gate: 'ffn_gate',
  up: 'ffn_up',
  gateUp: 'ffn_up',
  down: 'ffn_down',
  w1: 'ffn_gate',
  w3: 'ffn_up',
  w2: 'ffn_down',
};

/** Name of a linear layer of a block, whose feed-forward may be next to experts. */
export function ggufLinear(
  architecture: { readonly experts: Experts | null },
  layer: number,
  linear: LinearName,
): string {
  const isShared = expertsIn(architecture, layer)?.hasSharedFeedForward === true && IN_FEED_FORWARD.includes(linear);
  return isShared ? `${GGUF_LINEARS[linear]}_shexp` : GGUF_LINEARS[linear];
}

const IN_FEED_FORWARD: readonly LinearName[] = ['gate', 'up', 'down'];
