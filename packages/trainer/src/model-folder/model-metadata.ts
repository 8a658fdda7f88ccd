import type { GgufWritableValue } from '@trainyard/native';
import {
  type Architecture,
  type DeltaNet,
  type Experts,
  FAMILIES,
  hasConvolution,
  numRotated,
  type WindowedLayers,
  type Yarn,
} from '@trainyard/transformer';
import type { FolderConfig, RopeScaling } from './folder-config.ts';

/** `general.file_type` by type of the matrices. */
const FILE_TYPES = { F32: 0, F16: 1, BF16: 32 } as const;
export type MatrixType = keyof typeof FILE_TYPES;

/** Metadata of the architecture, with the names that llama.cpp's converter writes. */
export function modelMetadata(config: FolderConfig, name: string, type: MatrixType): Record<string, GgufWritableValue> {
  const { architecture, ropeScaling, statesHeadSize } = config;
  const { window } = architecture;
  const u32 = (value: number) => ({ u32: value });
  const fields: Record<string, GgufWritableValue> = {
    block_count: u32(architecture.numLayers),
    context_length: u32(config.contextLength),
    embedding_length: u32(architecture.hiddenSize),
    feed_forward_length: u32(feedForwardLength(architecture)),
    'attention.head_count': u32(architecture.numHeads),
    'attention.head_count_kv':
      architecture.convolution === null ? u32(architecture.numKvHeads) : keyHeadsByLayer(architecture),
    ...(architecture.convolution === null
      ? {}
      : { vocab_size: u32(architecture.vocabSize), 'shortconv.l_cache': u32(architecture.convolution.size) }),
    ...(architecture.deltaNet === null ? {} : deltaSettings(architecture, architecture.deltaNet, config.ropeSections!)),
    'attention.layer_norm_rms_epsilon': architecture.rmsEpsilon,
    ...((statesHeadSize || config.family.headSize !== null) && !architecture.name.startsWith('granite')
      ? { 'attention.key_length': u32(architecture.headSize), 'attention.value_length': u32(architecture.headSize) }
      : {}),
    ...(config.originalContext === null
      ? {}
      : { 'rope.scaling.original_context_length': u32(config.originalContext), 'attention.sliding_window': u32(0) }),
    ...(architecture.longRope === null ? {} : { 'rope.scaling.attn_factor': architecture.longRope.magnitude }),
    'rope.freq_base': architecture.ropeBase,
    ...(ropeScaling.kind === 'linear'
      ? { 'rope.scaling.type': 'linear', 'rope.scaling.factor': ropeScaling.factor }
      : {}),
    ...(architecture.yarn === null ? {} : yarnSettings(architecture.yarn)),
    ...(architecture.hasInterleavedHeads
      ? { vocab_size: u32(architecture.vocabSize), 'rope.dimension_count': u32(architecture.headSize) }
      : {}),
    ...(FAMILIES[architecture.name]!.ropeIsPartial ? { 'rope.dimension_count': u32(numRotated(architecture)) } : {}),
    ...scales(architecture),
    ...(architecture.unrotatedPeriod === 1 ? { 'rope.scaling.finetuned': false } : {}),
    ...(architecture.experts === null ? {} : expertSettings(architecture, architecture.experts)),
    ...(window === null ? {} : windowSettings(architecture, window)),
  };
  return {
    'general.architecture': architecture.name,
    'general.type': 'model',
    'general.name': name,
    'general.file_type': u32(FILE_TYPES[type]),
    'general.quantization_version': u32(2),
    ...Object.fromEntries(Object.entries(fields).map(([field, value]) => [`${architecture.name}.${field}`, value])),
  };
}

function deltaSettings(
  { numLayers }: Architecture,
  net: DeltaNet,
  ropeSections: readonly number[],
): Record<string, GgufWritableValue> {
  const interval = Array.from({ length: numLayers }, (_, layer) => layer).find((layer) => !net.layers.includes(layer));
  return {
    'ssm.conv_kernel': { u32: net.convolutionSize },
    'ssm.state_size': { u32: net.keySize },
    'ssm.group_count': { u32: net.numKeyHeads },
    'ssm.time_step_rank': { u32: net.numValueHeads },
    'ssm.inner_size': { u32: net.numValueHeads * net.valueSize },
    full_attention_interval: { u32: (interval ?? numLayers) + 1 },
    'attention.recurrent_layers': {
      array: { type: 'bool', values: Array.from({ length: numLayers }, (_, layer) => net.layers.includes(layer)) },
    },
    'rope.dimension_sections': { array: { type: 'i32', values: ropeSections } },
  };
}

/** 0 for layers with a convolution. */
const keyHeadsByLayer = (architecture: Architecture): GgufWritableValue => ({
  array: {
    type: 'i32',
    values: Array.from({ length: architecture.numLayers }, (_, layer) =>
      hasConvolution(architecture, layer) ? 0 : architecture.numKvHeads,
    ),
  },
});

function yarnSettings({ factor, originalContext, betaFast, betaSlow }: Yarn): Record<string, GgufWritableValue> {
  return {
    'rope.scaling.type': 'yarn',
    'rope.scaling.factor': factor,
    'rope.scaling.original_context_length': { u32: originalContext },
    'rope.scaling.yarn_beta_fast': betaFast,
    'rope.scaling.yarn_beta_slow': betaSlow,
  };
}

/** True if the width of experts has a setting of its own. */
const hasExpertWidth = (name: string): boolean => FAMILIES[name]!.settings.includes('expert_feed_forward_length');

const feedForwardLength = ({ name, feedForwardSize, experts }: Architecture): number =>
  experts === null || hasExpertWidth(name) ? feedForwardSize : experts.feedForwardSize;

/** Without a setting, llama.cpp makes the shares of a token's experts sum to 1. */
function expertSettings(
  { name, feedForwardSize: ofShared }: Architecture,
  { count, used, feedForwardSize, normalisesShares, hasSharedFeedForward }: Experts,
): Record<string, GgufWritableValue> {
  return {
    expert_count: { u32: count },
    expert_used_count: { u32: used },
    ...(hasExpertWidth(name) ? { expert_feed_forward_length: { u32: feedForwardSize } } : {}),
    ...(hasSharedFeedForward ? { expert_shared_feed_forward_length: { u32: ofShared } } : {}),
    ...(normalisesShares ? {} : { expert_weights_norm: false }),
  };
}

/** The pattern is left out if it is the default of the family. */
function windowSettings(
  { name, numLayers, ropeBase }: Architecture,
  { tokens, period, ropeBase: ofWindows }: WindowedLayers,
): Record<string, GgufWritableValue> {
  const usual = FAMILIES[name]!.windowedLayers;
  const ownBase = usual?.rope === 'unscaled' ? ropeBase : usual?.rope;
  const isWindowed = Array.from({ length: numLayers }, (_, layer) => (layer + 1) % period !== 0);
  const isUsual = usual?.period === period || (usual?.period === null && !isWindowed.includes(false));
  return {
    'attention.sliding_window': { u32: tokens },
    ...(isUsual ? {} : { 'attention.sliding_window_pattern': { array: { type: 'bool', values: isWindowed } } }),
    ...(ofWindows === null || ofWindows === ownBase ? {} : { 'rope.freq_base_swa': ofWindows }),
  };
}

/** Factors of families that have settings for them. */
function scales({
  name,
  embeddingScale,
  attentionScale,
  residualScale,
  logitScale,
}: Architecture): Record<string, number> {
  if (!FAMILIES[name]!.settings.includes('logit_scale')) return {};
  return {
    ...(attentionScale !== null && { 'attention.scale': attentionScale }),
    embedding_scale: embeddingScale,
    residual_scale: residualScale,
    logit_scale: logitScale,
  };
}

/**
 * Divisors of the rope frequencies of Llama 3.1 and later, [headSize / 2]. Rounded to single precision after each
 * operation, as transformers and llama.cpp's converter are.
 *
 * @see transformers, `_compute_llama3_parameters`
 */
export function ropeFactors(
  scaling: Extract<RopeScaling, { readonly kind: 'llama3' }>,
  { headSize, ropeBase }: Architecture,
): Float32Array {
  const { fround: f32 } = Math;
  const { factor, lowFrequencyFactor: low, highFrequencyFactor: high, originalContextLength: length } = scaling;
  return Float32Array.from({ length: headSize / 2 }, (_, j) => {
    const frequency = f32(1 / f32(ropeBase ** f32((2 * j) / headSize)));
    const wavelength = f32((2 * Math.PI) / frequency);
    if (wavelength < length / high) return 1;
    if (wavelength > length / low) return factor;
    const smooth = f32(f32(f32(length / wavelength) - low) / f32(high - low));
    return f32(1 / f32(f32(f32(1 - smooth) / factor) + smooth));
  });
}
