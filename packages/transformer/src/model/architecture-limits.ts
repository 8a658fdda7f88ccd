import { type GgufFile, shown } from '@trainyard/native';
import { UnsupportedModelError } from '../contract/errors.ts';
import { EXPERT_BIASES, EXPERT_TENSORS, ROUTER_BIAS, ROUTER_TENSOR } from './experts.ts';
import type { Family } from './families.ts';
import { CONVOLUTION_TENSOR } from './short-convolution.ts';

/** GGUF tensors of a block: score of each head's sink [heads], and the bias of the attention output [H]. */
export const SINKS_TENSOR = 'attn_sinks.weight';
export const OUTPUT_BIAS = 'attn_output.bias';

export type ModelFile = Pick<GgufFile, 'metadata' | 'tensors'>;

/** Settings that `readArchitecture` reads, and settings without influence on the computation. */
const KNOWN_SETTINGS: ReadonlySet<string> = new Set([
  'attention.head_count',
  'attention.head_count_kv',
  'attention.key_length',
  'attention.layer_norm_rms_epsilon',
  'attention.value_length',
  'block_count',
  'context_length',
  'embedding_length',
  'feed_forward_length',
  'rope.dimension_count',
  'rope.freq_base',
  'rope.scale_linear',
  'rope.scaling.factor',
  'rope.scaling.finetuned',
  'rope.scaling.original_context_length',
  'rope.scaling.type',
  'tensor_data_layout',
  'vocab_size',
]);

/** Settings of sliding windows, read for families that have them. */
const WINDOW_SETTINGS: ReadonlySet<string> = new Set([
  'attention.sliding_window',
  'attention.sliding_window_pattern',
  'rope.freq_base_swa',
]);

/** Settings of yarn, read with that type of rope scaling. */
const YARN_SETTINGS: ReadonlySet<string> = new Set([
  'rope.scaling.yarn_attn_factor',
  'rope.scaling.yarn_beta_fast',
  'rope.scaling.yarn_beta_slow',
]);

/** Settings that change the computation, with the values under which the layer graphs are right. */
const NEUTRAL_SETTINGS: Readonly<Record<string, readonly (number | boolean)[]>> = {
  'attention.causal': [true],
  'attention.scale': [0],
  'attention.sliding_window': [0],
  attn_logit_softcapping: [0],
  embedding_scale: [0, 1],
  expert_count: [0],
  expert_used_count: [0],
  final_logit_softcapping: [0],
  logit_scale: [0, 1],
  residual_scale: [0, 1],
  'rope.scaling.attn_factor': [1],
  'rope.scaling.yarn_ext_factor': [1],
};

/** A file with other tensors computes something else. */
const BLOCK_TENSORS: Readonly<Record<'separate' | 'fused', ReadonlySet<string>>> = {
  separate: new Set([
    ...['attn_q_norm', 'attn_k_norm'].map((name) => `${name}.weight`),
    ...['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'].map((name) => `${name}.weight`),
    ...['attn_q', 'attn_k', 'attn_v'].map((name) => `${name}.bias`),
  ]),
  fused: new Set(['attn_qkv', 'attn_output', 'ffn_up', 'ffn_down'].map((name) => `${name}.weight`)),
};
/** Router and experts, for families that have them, and the feed-forward next to experts. */
const OF_EXPERTS: ReadonlySet<string> = new Set([ROUTER_TENSOR, ...Object.values(EXPERT_TENSORS)]);
const SHARED: ReadonlySet<string> = new Set(['gate', 'up', 'down'].map((name) => `ffn_${name}_shexp.weight`));
/** Parts of layers with a convolution, for families that have some. */
const OF_CONVOLUTIONS: ReadonlySet<string> = new Set([
  CONVOLUTION_TENSOR,
  'shortconv.in_proj.weight',
  'shortconv.out_proj.weight',
]);
/** Tensors that blocks of families with sinks have in addition. */
export const WITH_SINKS: readonly string[] = [SINKS_TENSOR, OUTPUT_BIAS, ROUTER_BIAS, ...Object.values(EXPERT_BIASES)];
/** Divisors of rope frequencies for contexts up to the original one, and for longer ones. */
export const ROPE_FACTORS = { short: 'rope_factors_short.weight', long: 'rope_factors_long.weight' } as const;
/** Norms before and after attention and feed-forward. */
export const normTensorsOf = (family: Pick<Family, 'feedForwardNorm'>) =>
  ({
    before: { attention: 'attn_norm', feedForward: family.feedForwardNorm },
    after: { attention: 'post_attention_norm', feedForward: 'post_ffw_norm' },
  }) as const;

/** Names of the norms that a block of the family has. */
export const normTensors = (family: Pick<Family, 'norms' | 'feedForwardNorm'>): string[] =>
  (['before', 'after'] as const).flatMap((place) =>
    family.norms[place] ? Object.values(normTensorsOf(family)[place]) : [],
  );

const OTHER_TENSORS: ReadonlySet<string> = new Set(['token_embd.weight', 'output.weight', 'rope_freqs.weight']);

export const unsupported = (message: string) => new UnsupportedModelError(message);

/** Refuses an unknown setting of the architecture: the graphs would ignore it, and the sampler would not. */
export function refuseUnknownSettings(file: ModelFile, name: string, { windowedLayers, settings }: Family): void {
  const isYarn = file.metadata.get(`${name}.rope.scaling.type`) === 'yarn';
  for (const [key, value] of file.metadata) {
    if (!key.startsWith(`${name}.`)) continue;
    const setting = key.slice(name.length + 1);
    const neutral = Object.hasOwn(NEUTRAL_SETTINGS, setting) ? NEUTRAL_SETTINGS[setting] : undefined;
    if (KNOWN_SETTINGS.has(setting) || neutral?.some((allowed) => allowed === plain(value))) continue;
    if (isYarn && YARN_SETTINGS.has(setting)) continue;
    if (settings.includes(setting) || (windowedLayers !== null && WINDOW_SETTINGS.has(setting))) continue;
    throw unsupported(
      neutral === undefined
        ? `the model file sets ${shown(key)} to ${shown(value)}, which training does not support`
        : `the model file sets ${key} to ${shown(value)}; training supports ${neutral.join(' or ')} only`,
    );
  }
}

export function refuseUnknownTensors(file: ModelFile, name: string, family: Family): void {
  const { hasFusedLinears, ropeHasTwoFactors, hasExperts, hasSinks, hasConvolutions, outputNorm } = family;
  const mayShare = family.settings.includes('expert_shared_feed_forward_length');
  const inBlocks = BLOCK_TENSORS[hasFusedLinears ? 'fused' : 'separate'];
  const others = new Set([...OTHER_TENSORS, outputNorm, ...(ropeHasTwoFactors ? Object.values(ROPE_FACTORS) : [])]);
  const normNames = new Set(normTensors(family).map((norm) => `${norm}.weight`));
  for (const tensor of file.tensors.keys()) {
    const part = /^blk\.\d+\.(.+)$/.exec(tensor)?.[1];
    if (part === undefined ? others.has(tensor) : inBlocks.has(part)) continue;
    if (part !== undefined && (normNames.has(part) || (hasExperts && OF_EXPERTS.has(part)))) continue;
    if (part !== undefined && hasConvolutions && OF_CONVOLUTIONS.has(part)) continue;
    if (part !== undefined && hasSinks && WITH_SINKS.includes(part)) continue;
    if (part !== undefined && hasExperts && mayShare && SHARED.has(part)) continue;
    throw unsupported(
      `this ${name} model has the tensor ${shown(tensor)}, which training does not support (mixture of experts, for example)`,
    );
  }
}

/**
 * True if every one of these blocks has all of these tensors, false if none has any.
 *
 * @throws {UnsupportedModelError} if some are missing
 */
export function hasInEveryBlock(file: ModelFile, layers: readonly number[], parts: readonly string[]): boolean {
  const names = layers.flatMap((layer) => parts.map((part) => `blk.${layer}.${part}`));
  const missing = names.filter((name) => !file.tensors.has(name));
  if (missing.length > 0 && missing.length < names.length)
    throw unsupported(`the model file has no ${missing[0]}, but has other tensors of this kind`);
  return missing.length === 0;
}

const plain = (value: unknown): unknown => (typeof value === 'bigint' ? Number(value) : value);
