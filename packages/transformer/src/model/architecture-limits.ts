import { type GgufFile, shown } from '@trainyard/native';
import { UnsupportedModelError } from '../contract/errors.ts';
import type { Family } from './families.ts';

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

/** Tensors that no block has, except for the norm before the head. */
export const tensorsOutsideBlocks = ({ ropeHasTwoFactors }: Pick<Family, 'ropeHasTwoFactors'>): string[] => [
  'token_embd.weight',
  'output.weight',
  'rope_freqs.weight',
  ...(ropeHasTwoFactors ? Object.values(ROPE_FACTORS) : []),
];

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
