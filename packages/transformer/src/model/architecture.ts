import { type GgufValue, shown } from '@trainyard/native';
import {
  hasInEveryBlock,
  normTensors,
  OUTPUT_BIAS,
  ROPE_FACTORS,
  SINKS_TENSOR,
  refuseUnknownSettings,
  tensorsOutsideBlocks,
  unsupported,
  type ModelFile,
} from './architecture-limits.ts';
import { embeddingScaleOf, FAMILIES, type Activation, type Family } from './families.ts';
import {
  EXPERT_BIASES,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  type Experts,
  expertsIn,
  ROUTER_BIAS,
  ROUTER_TENSOR,
} from './experts.ts';
import {
  CONVOLUTION_LINEAR_NAMES,
  DEFAULT_LORA_CONFIG,
  DELTA_LINEAR_NAMES,
  FUSED_LINEAR_NAMES,
  LINEAR_NAMES,
} from './lora-config.ts';
import type { LinearName, LoraConfig } from './lora-config.ts';
import { ggufLinear } from './gguf-linears.ts';
import { DELTA_TENSORS, type DeltaNet, deltaSizes } from './gated-delta-net.ts';
import { hasAttention, layerMixer, type LayerMixer } from './layer-mixer.ts';
import { numberSetting } from './number-setting.ts';
import { type Convolution, CONVOLUTION_TENSOR, MAX_CONVOLUTION_SIZE } from './short-convolution.ts';

/** Layers that see only the last tokens, in a period of layers; the others see all earlier tokens. */
export interface WindowedLayers {
  /** A token sees itself and this many tokens less one before it. */
  readonly tokens: number;
  /** The last of each so many layers sees all earlier tokens. */
  readonly period: number;
  /** Rope base of these layers, without scaling or factors; null: they have the rope of the others. */
  readonly ropeBase: number | null;
}

/**
 * Rope of a model with factors for short and for long contexts (LongRoPE, arXiv 2402.13753). The short ones are
 * used, so a sequence has at most as many tokens as the context that they are for.
 */
export interface LongRope {
  /** Tokens. */
  readonly originalContext: number;
  /** Factor of rotated q and k. */
  readonly magnitude: number;
}

/** Rope scaling by yarn: slow rotations are divided by the factor, fast ones stay. */
export interface Yarn {
  readonly factor: number;
  /** Tokens of the context before the scaling. */
  readonly originalContext: number;
  /** Rotations in that context from which frequencies stay, and up to which they are divided. */
  readonly betaFast: number;
  readonly betaSlow: number;
  /** True if the pairs of dimensions of these numbers of rotations are rounded, away from each other. */
  readonly isRounded: boolean;
}

/** Sizes as in the model file. */
export interface Architecture {
  readonly name: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly feedForwardSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  readonly rmsEpsilon: number;
  /** First dimensions of a head, which rope rotates while the others stay; null: all. */
  readonly rotatedSize: number | null;
  readonly ropeBase: number;
  /** Divisor of positions (linear rope scaling); 1 = none. */
  readonly ropeScale: number;
  /** Null without yarn, which is not linear. */
  readonly yarn: Yarn | null;
  /** Null without two sets of factors. */
  readonly longRope: LongRope | null;
  /** True if q, k and v are one linear layer, and gate and up another (Phi-3). */
  readonly hasFusedLinears: boolean;
  /** True if q, k and v have a bias (Qwen 2). */
  readonly hasAttentionBias: boolean;
  /** True if the attention output has a bias, and each head a sink: a score that takes weight and has no value (gpt-oss). */
  readonly hasSinks: boolean;
  /** True if q has a gate after each head, and outputs of attention are multiplied by its sigmoid (Qwen3.5). */
  readonly hasOutputGate: boolean;
  /** Columns of q and k that one RMS norm before rope spans: a head (Qwen 3) or all (OLMo 2); null without norms. */
  readonly queryKeyNorm: Family['queryKeyNorm'] | null;
  /**
   * True if GGUF stores q and k rows for interleaved rope: rows (2j, 2j+1) of a head are rows (j, j + D/2) of the
   * original.
   */
  readonly hasInterleavedHeads: boolean;
  readonly activation: Activation;
  readonly norms: Family['norms'];
  /** Factor of embeddings as input of the first block; the head does not use it. 1 = none. */
  readonly embeddingScale: number;
  /** Factor of attention scores; null: 1 / √D. */
  readonly attentionScale: number | null;
  /** Factor of the outputs of attention and feed-forward before they are added; 1 = none. */
  readonly residualScale: number;
  /** Divisor of logits; 1 = none. */
  readonly logitScale: number;
  /** Null if all layers see all earlier tokens. */
  readonly window: WindowedLayers | null;
  /** The last of each so many layers has no rope; null if all have it. */
  readonly unrotatedPeriod: number | null;
  /** Null: all layers have one feed-forward. */
  readonly experts: Experts | null;
  /** Convolutions instead of attention in some layers; null: none. */
  readonly convolution: Convolution | null;
  /** Gated delta nets instead of attention in some layers; null: none. */
  readonly deltaNet: DeltaNet | null;
}

const DEFAULT_ROPE_BASE = 10_000;
const ATTENTION_BIASES: readonly string[] = ['attn_q.bias', 'attn_k.bias', 'attn_v.bias'];
const QUERY_KEY_NORMS: readonly string[] = ['attn_q_norm.weight', 'attn_k_norm.weight'];

export const TRAINABLE_ARCHITECTURES: readonly string[] = Object.keys(FAMILIES);

/** A layer sees all tokens before its own, or those of a sliding window; `unrotated` layers see all, without rope. */
export type LayerKind = 'full' | 'windowed' | 'unrotated';

export function layerKind({ window, unrotatedPeriod }: Architecture, layer: number): LayerKind {
  if (window !== null && (layer + 1) % window.period !== 0) return 'windowed';
  return unrotatedPeriod !== null && (layer + 1) % unrotatedPeriod === 0 ? 'unrotated' : 'full';
}

/** True if outputs of attention and feed-forward are added to the residual without a norm, a factor or a bias. */
export const addsPlainOutputs = ({ norms, residualScale, hasSinks }: Architecture): boolean =>
  !norms.after && residualScale === 1 && !hasSinks;

/** Dimensions of a head that rope rotates. */
export const numRotated = ({ rotatedSize, headSize }: Architecture): number => rotatedSize ?? headSize;

/** Linear layers that may have an adapter in at least one block, in the order of a block. */
export const linearNames = (architecture: LinearTraits & Pick<Architecture, 'numLayers'>): readonly LinearName[] => {
  const some = new Set(linearsByLayer(architecture).flat());
  return linearsOfDense(architecture).filter((linear) => some.has(linear));
};

/** Linear layers that may have an adapter, by block. */
export const linearsByLayer = (
  architecture: LinearTraits & Pick<Architecture, 'numLayers'>,
): readonly (readonly LinearName[])[] =>
  Array.from({ length: architecture.numLayers }, (_, layer) => linearsIn(architecture, layer));

/** Those of one block: not experts, nor the feed-forward next to them. */
export const linearsIn = (architecture: LinearTraits, layer: number): readonly LinearName[] => {
  if (expertsIn(architecture, layer) !== null) return ATTENTION_LINEAR_NAMES;
  const all = linearsOfDense(architecture);
  const own = layerMixer(architecture, layer);
  return all.filter((linear) => (MIXERS_OF[linear] ?? own) === own);
};

/** Those of one block in its file. Experts are none of them. */
export const storedLinears = (architecture: LinearTraits, layer: number): readonly LinearName[] =>
  expertsIn(architecture, layer)?.hasSharedFeedForward === true
    ? linearsOfDense(architecture)
    : linearsIn(architecture, layer);

type LinearTraits = Pick<Architecture, 'hasFusedLinears' | 'experts' | 'convolution' | 'deltaNet'>;

const ATTENTION_LINEAR_NAMES: readonly LinearName[] = ['q', 'k', 'v', 'o'];
/** Those that only blocks with one mixer have. */
const MIXERS_OF: Readonly<Partial<Record<LinearName, LayerMixer>>> = {
  q: 'attention',
  k: 'attention',
  v: 'attention',
  qkv: 'attention',
  o: 'attention',
  out: 'attention',
  convIn: 'convolution',
  convOut: 'convolution',
  deltaQkv: 'deltaNet',
  deltaZ: 'deltaNet',
  deltaB: 'deltaNet',
  deltaA: 'deltaNet',
  deltaOut: 'deltaNet',
};

const linearsOfDense = ({ hasFusedLinears, convolution, deltaNet }: LinearTraits): readonly LinearName[] => {
  if (convolution !== null) return CONVOLUTION_LINEAR_NAMES;
  if (deltaNet !== null) return DELTA_LINEAR_NAMES;
  return hasFusedLinears ? FUSED_LINEAR_NAMES : LINEAR_NAMES;
};

/** Shape of an adapter without settings: on all linear layers. */
export const defaultLora = (architecture: LinearTraits & Pick<Architecture, 'numLayers'>): LoraConfig => ({
  ...DEFAULT_LORA_CONFIG,
  targets: linearNames(architecture),
});

/**
 * Largest number of tokens of a sequence: the model's context, or that of the short factors of longrope.
 *
 * @returns Infinity if the file does not limit it
 */
export function contextLimit({ metadata, tensors }: ModelFile): number {
  const name = String(metadata.get('general.architecture'));
  const tokens = (key: string): number => numberSetting(metadata.get(`${name}.${key}`)) ?? Infinity;
  const trained = tokens('context_length');
  if (!tensors.has(ROPE_FACTORS.short)) return trained;
  return Math.min(trained, tokens('rope.scaling.original_context_length'));
}

/** @throws {UnsupportedModelError} with the supported values */
export function readArchitecture(file: ModelFile): Architecture {
  const name = String(file.metadata.get('general.architecture'));
  const family = Object.hasOwn(FAMILIES, name) ? FAMILIES[name] : undefined;
  if (family === undefined) {
    throw unsupported(
      `architecture ${shown(name)} cannot be trained; supported: ${TRAINABLE_ARCHITECTURES.join(', ')}`,
    );
  }
  refuseUnknownSettings(file, name, family);
  const optional = (key: string): number | undefined => {
    const stated = file.metadata.get(`${name}.${key}`);
    if (stated === undefined) return undefined;
    const value = numberSetting(stated);
    if (value === null) throw unsupported(`${name}.${key} must be one number for all layers, got ${shown(stated)}`);
    return value;
  };
  const required = (key: string): number => {
    const value = optional(key);
    if (value === undefined || !Number.isFinite(value))
      throw unsupported(`the model file has no usable ${name}.${key}`);
    return value;
  };
  const size = (key: string, otherwise?: number): number => {
    const value = optional(key) ?? otherwise ?? required(key);
    if (!Number.isSafeInteger(value) || value < 1)
      throw unsupported(`${name}.${key} is ${value}, expected a positive whole number`);
    return value;
  };
  /** Null if it is absent or 0, which means none. */
  const factor = (key: string): number | null => {
    const value = optional(key) ?? 0;
    if (!Number.isFinite(value) || value < 0)
      throw unsupported(`${name}.${key} is ${value}, expected a positive number`);
    return value === 0 ? null : value;
  };
  const hiddenSize = size('embedding_length');
  // Blocks that predict further tokens come last, and are not computed.
  const numLayers = size('block_count') - (family.hasDeltaNets ? (optional('nextn_predict_layers') ?? 0) : 0);
  if (!Number.isSafeInteger(numLayers) || numLayers < 1)
    throw unsupported(`${name}.nextn_predict_layers leaves ${numLayers} blocks, expected at least 1`);
  // Lists are made per block, so limit them by the file's tensors.
  if (numLayers > file.tensors.size)
    throw unsupported(`${name}.block_count is ${numLayers}, and the model file has ${file.tensors.size} tensors`);
  const numHeads = size('attention.head_count');
  const byLayer = family.hasConvolutions ? readHeadsByLayer(file, name, numLayers) : null;
  const numKvHeads = byLayer?.numKvHeads ?? size('attention.head_count_kv', numHeads);
  if (numHeads % numKvHeads !== 0)
    throw unsupported(`${numHeads} query heads cannot share ${numKvHeads} key heads evenly`);
  const headSize = size('attention.key_length', hiddenSize / numHeads);
  if (family.otherScaleLayers === numLayers)
    throw unsupported(`${name} with ${numLayers} blocks scales attention by another number than the head size`);
  const vocabSize = file.tensors.get('token_embd.weight')?.dims[1];
  if (vocabSize === undefined) throw unsupported('the model file has no token_embd.weight');
  const valueSize = optional('attention.value_length') ?? headSize;
  if (valueSize !== headSize)
    throw unsupported(`values of ${valueSize} dimensions with keys of ${headSize} are not supported`);
  const rotatedSize = optional('rope.dimension_count') ?? headSize;
  const isPartial =
    Number.isSafeInteger(rotatedSize) && rotatedSize % 2 === 0 && rotatedSize > 0 && rotatedSize < headSize;
  if (rotatedSize !== headSize && !(family.ropeIsPartial && isPartial))
    throw unsupported(`rope over ${rotatedSize} of ${headSize} dimensions of a head is not supported`);
  for (const tensor of ['rope_freqs.weight', ...Object.values(ROPE_FACTORS)]) {
    const numFactors = file.tensors.get(tensor)?.dims[0];
    if (numFactors !== undefined && numFactors !== rotatedSize / 2)
      throw unsupported(
        `${tensor} has ${numFactors} factors, rope over ${rotatedSize} dimensions needs ${rotatedSize / 2}`,
      );
  }
  const experts = family.hasExperts ? readExperts(file, family, { name, numLayers, size }) : null;
  const convolution = byLayer && { size: size('shortconv.l_cache'), layers: byLayer.withoutAttention };
  if (convolution !== null && convolution.size > MAX_CONVOLUTION_SIZE)
    throw unsupported(
      `${name}.shortconv.l_cache is ${convolution.size}, expected at most ${MAX_CONVOLUTION_SIZE} tokens`,
    );
  if (convolution !== null && numHeads * headSize !== hiddenSize)
    throw unsupported(
      `${numHeads} heads of ${headSize} with a hidden size of ${hiddenSize} are not supported with convolutions`,
    );
  const deltaNet = family.hasDeltaNets
    ? { ...readDeltaNet(name, size), layers: readRecurrentLayers(file, name, numLayers, size) }
    : null;
  const withAttention = Array.from({ length: numLayers }, (_, layer) => layer).filter((layer) =>
    hasAttention({ convolution, deltaNet }, layer),
  );
  const isUnrotated = family.ropeIsOptional && file.metadata.get(`${name}.rope.scaling.finetuned`) === false;
  const architecture: Architecture = {
    name,
    vocabSize,
    hiddenSize,
    feedForwardSize: feedForwardSizeOf(experts, size),
    numLayers,
    numHeads,
    numKvHeads,
    headSize,
    rotatedSize: rotatedSize === headSize ? null : rotatedSize,
    rmsEpsilon: required('attention.layer_norm_rms_epsilon'),
    ropeBase: optional('rope.freq_base') ?? DEFAULT_ROPE_BASE,
    ropeScale: readRopeScale(file.metadata.get(`${name}.rope.scaling.type`), optional),
    yarn: readYarn(file.metadata.get(`${name}.rope.scaling.type`), family, optional),
    longRope: readLongRope(file, family, optional),
    hasFusedLinears: family.hasFusedLinears,
    hasAttentionBias: !family.hasFusedLinears && hasInEveryBlock(file, withAttention, ATTENTION_BIASES),
    hasSinks: family.hasSinks,
    hasOutputGate: family.hasDeltaNets,
    queryKeyNorm:
      !family.hasFusedLinears && hasInEveryBlock(file, withAttention, QUERY_KEY_NORMS) ? family.queryKeyNorm : null,
    hasInterleavedHeads: family.hasInterleavedHeads,
    activation: family.activation,
    norms: family.norms,
    embeddingScale: factor('embedding_scale') ?? embeddingScaleOf(family, hiddenSize),
    attentionScale: factor('attention.scale'),
    residualScale: factor('residual_scale') ?? 1,
    logitScale: factor('logit_scale') ?? 1,
    window: readWindow(family, {
      numLayers,
      pattern: file.metadata.get(`${name}.attention.sliding_window_pattern`),
      optional,
    }),
    unrotatedPeriod: isUnrotated ? 1 : family.unrotatedPeriod,
    experts,
    convolution,
    deltaNet,
  };
  refuseOtherTensors(file, architecture);
  refuseOtherShapes(file, architecture);
  return architecture;
}

/** Key heads of layers with attention, which all have the same number; 0 means a convolution instead. */
function readHeadsByLayer(
  { metadata }: ModelFile,
  name: string,
  numLayers: number,
): { readonly numKvHeads: number; readonly withoutAttention: readonly number[] } {
  const key = `${name}.attention.head_count_kv`;
  const value = metadata.get(key);
  const counts = Array.isArray(value) ? value.map(Number) : Array.from({ length: numLayers }, () => Number(value));
  const [numKvHeads, ...others] = new Set(counts.filter((count) => count !== 0));
  if (numKvHeads === undefined) throw unsupported(`no block of the model file has attention (${key})`);
  const isCount = Number.isSafeInteger(numKvHeads) && numKvHeads > 0;
  if (counts.length !== numLayers || !isCount || others.length > 0)
    throw unsupported(
      `${key} must be one positive whole number, or 0, for each of ${numLayers} layers, got ${shown(value)}`,
    );
  return { numKvHeads, withoutAttention: [...counts.keys()].filter((layer) => counts[layer] === 0) };
}

/** The last of each so many layers has attention. */
const ATTENTION_INTERVAL = 'full_attention_interval';
const DEFAULT_ATTENTION_INTERVAL = 4;
const RECURRENT_LAYERS = 'attention.recurrent_layers';
/** As many heads as a real model has several times over: arrays are made for each. */
const MAX_DELTA_SIZE = 4096;

function readDeltaNet(name: string, size: (key: string, otherwise?: number) => number): Omit<DeltaNet, 'layers'> {
  const limited = (key: string, most: number): number => {
    const value = size(key);
    if (value > most) throw unsupported(`${name}.${key} is ${value}, expected at most ${most}`);
    return value;
  };
  const numValueHeads = limited('ssm.time_step_rank', MAX_DELTA_SIZE);
  const numKeyHeads = limited('ssm.group_count', MAX_DELTA_SIZE);
  if (numValueHeads % numKeyHeads !== 0)
    throw unsupported(`${numValueHeads} value heads cannot share ${numKeyHeads} key heads evenly`);
  const keySize = limited('ssm.state_size', MAX_DELTA_SIZE);
  const inner = size('ssm.inner_size');
  const valueSize = inner / numValueHeads;
  // llama.cpp has square states only.
  if (valueSize !== keySize)
    throw unsupported(
      `${name}.ssm.inner_size is ${inner}: ${numValueHeads} value heads of ${keySize}, the size of a key head, are supported`,
    );
  return {
    numKeyHeads,
    numValueHeads,
    keySize,
    valueSize,
    convolutionSize: limited('ssm.conv_kernel', MAX_CONVOLUTION_SIZE),
  };
}

/** Older files have only the interval of layers with attention. */
function readRecurrentLayers(
  { metadata }: ModelFile,
  name: string,
  numLayers: number,
  size: (key: string, otherwise?: number) => number,
): number[] {
  const stated = metadata.get(`${name}.${RECURRENT_LAYERS}`);
  if (stated === undefined) return layersBetween(size(ATTENTION_INTERVAL, DEFAULT_ATTENTION_INTERVAL), numLayers);
  const isList = Array.isArray(stated) && stated.length >= numLayers && stated.every((one) => typeof one === 'boolean');
  if (!isList)
    throw unsupported(
      `${name}.${RECURRENT_LAYERS} must be true or false for each of ${numLayers} layers, got ${shown(stated)}`,
    );
  return Array.from({ length: numLayers }, (_, layer) => layer).filter((layer) => stated[layer]);
}

/** All but the last of each so many layers. */
export const layersBetween = (interval: number, numLayers: number): number[] =>
  Array.from({ length: numLayers }, (_, layer) => layer).filter((layer) => (layer + 1) % interval !== 0);

/** Reads the rope scale like llama.cpp: linear by default, and a factor of 0 or none is 1. */
function readRopeScale(type: GgufValue | undefined, optional: (key: string) => number | undefined): number {
  const factor = optional('rope.scaling.factor') ?? optional('rope.scale_linear') ?? 0;
  if (type === 'none' || type === 'yarn') return 1;
  if (type !== undefined && type !== 'linear')
    throw unsupported(`rope scaling ${shown(type)} is not supported; supported: none, linear, yarn`);
  return factor === 0 ? 1 : factor;
}

/** Reads yarn like llama.cpp, which computes the factor of attention from the scaling. */
function readYarn(
  type: GgufValue | undefined,
  { yarnIsRounded }: Family,
  optional: (key: string) => number | undefined,
): Yarn | null {
  if (type !== 'yarn') return null;
  const positive = (key: string, otherwise?: number): number => {
    const value = optional(key) ?? otherwise;
    if (value === undefined || !Number.isFinite(value) || value <= 0)
      throw unsupported(`yarn needs a positive ${key}, got ${value ?? 'nothing'}`);
    return value;
  };
  const yarn: Yarn = {
    factor: positive('rope.scaling.factor'),
    originalContext: positive('rope.scaling.original_context_length', optional('context_length')),
    betaFast: positive('rope.scaling.yarn_beta_fast', 32),
    betaSlow: positive('rope.scaling.yarn_beta_slow', 1),
    isRounded: yarnIsRounded,
  };
  const [usual, stated] = [yarnMagnitude(yarn), optional('rope.scaling.yarn_attn_factor')];
  if (stated !== undefined && Math.abs(stated - usual) > 1e-4 * usual)
    throw unsupported(
      `yarn by ${yarn.factor} with an attention factor of ${stated} is not supported; supported: ${usual}`,
    );
  return yarn;
}

/** Two sets of factors, of which the file has none or both. */
function readLongRope(
  { metadata, tensors }: ModelFile,
  { ropeHasTwoFactors }: Family,
  optional: (key: string) => number | undefined,
): LongRope | null {
  const [short, long] = [ROPE_FACTORS.short, ROPE_FACTORS.long].map((name) => tensors.has(name));
  if (!ropeHasTwoFactors || (short !== true && long !== true)) return null;
  const name = String(metadata.get('general.architecture'));
  if (metadata.get(`${name}.rope.scaling.type`) === 'yarn')
    throw unsupported('yarn together with two sets of rope factors is not supported');
  if (short !== long) throw unsupported(`the model file has only one of ${Object.values(ROPE_FACTORS).join(' and ')}`);
  const [originalContext, magnitude] = [
    optional('rope.scaling.original_context_length'),
    optional('rope.scaling.attn_factor') ?? 1,
  ];
  if (originalContext === undefined || !Number.isSafeInteger(originalContext) || originalContext < 1)
    throw unsupported(
      `rope.scaling.original_context_length is ${originalContext ?? 'missing'}, longrope needs a positive whole number`,
    );
  if (!Number.isFinite(magnitude) || magnitude <= 0)
    throw unsupported(`rope.scaling.attn_factor is ${magnitude}, expected a positive number`);
  return { originalContext, magnitude };
}

/** Factor of rotated q and k in longrope, which transformers and llama.cpp compute. Contexts are in tokens. */
export function longRopeMagnitude(contextLength: number, originalContext: number): number {
  const scale = contextLength / originalContext;
  return scale <= 1 ? 1 : Math.sqrt(1 + Math.log(scale) / Math.log(originalContext));
}

/** Factor of rotated q and k. */
export const yarnMagnitude = ({ factor }: Yarn): number => (factor <= 1 ? 1 : 1 + 0.1 * Math.log(factor));

/** Without dense layers it is that of an expert: no tensor limits the setting of the file. */
function feedForwardSizeOf(experts: Experts | null, size: (key: string) => number): number {
  if (experts?.hasSharedFeedForward === true) return size(SHARED_SIZE);
  return experts?.denseLayers.length === 0 ? experts.feedForwardSize : size('feed_forward_length');
}

const EXPERT_SIZE = 'expert_feed_forward_length';
const SHARED_SIZE = 'expert_shared_feed_forward_length';

/** Layers without a router are dense. llama.cpp makes the shares of the used experts sum to 1 in this family. */
function readExperts(
  { tensors, metadata }: ModelFile,
  { settings, hasSinks }: Family,
  { name, numLayers, size }: { name: string; numLayers: number; size: (key: string) => number },
): Experts {
  const [count, used] = [size('expert_count'), size('expert_used_count')];
  if (used > count) throw unsupported(`${name}.expert_used_count is ${used}, of ${count} experts`);
  const layers = Array.from({ length: numLayers }, (_, layer) => layer);
  const denseLayers = layers.filter((layer) => !tensors.has(`blk.${layer}.${ROUTER_TENSOR}`));
  if (denseLayers.length === numLayers) throw unsupported(`no block of the model file has experts (${ROUTER_TENSOR})`);
  const hasSharedFeedForward =
    settings.includes(SHARED_SIZE) && Number(metadata.get(`${name}.${SHARED_SIZE}`) ?? 0) !== 0;
  // Adapters of dense layers would have no place in the others.
  if (hasSharedFeedForward && denseLayers.length > 0)
    throw unsupported(
      `the model file has no blk.${denseLayers[0]}.${ROUTER_TENSOR}; with ${SHARED_SIZE} each block needs experts`,
    );
  return {
    count,
    used,
    feedForwardSize: size(settings.includes(EXPERT_SIZE) ? EXPERT_SIZE : 'feed_forward_length'),
    hasSharedFeedForward,
    hasBiases: hasSinks,
    normalisesShares: metadata.get(`${name}.expert_weights_norm`) !== false,
    denseLayers,
  };
}

interface WindowSource {
  readonly numLayers: number;
  readonly pattern: GgufValue | undefined;
  readonly optional: (key: string) => number | undefined;
}

function readWindow({ windowedLayers }: Family, { numLayers, pattern, optional }: WindowSource): WindowedLayers | null {
  const tokens = optional('attention.sliding_window') ?? 0;
  if (windowedLayers === null || tokens === 0) return null;
  const stated = Array.isArray(pattern) ? periodOf(pattern, numLayers) : optional('attention.sliding_window_pattern');
  const period = stated ?? windowedLayers.period ?? numLayers + 1;
  for (const [what, value] of Object.entries({ window: tokens, pattern: period }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw unsupported(`the sliding ${what} is ${value}, expected a positive whole number`);
  const usual = windowedLayers.rope;
  const unscaled = usual === 'unscaled' ? (optional('rope.freq_base') ?? DEFAULT_ROPE_BASE) : null;
  const ropeBase = optional('rope.freq_base_swa') ?? (typeof usual === 'number' ? usual : unscaled);
  return { tokens, period, ropeBase };
}

/**
 * Period of windowed layers between full ones; above the number of layers if there is no full one.
 *
 * @param isWindowed of each layer
 * @throws {UnsupportedModelError} for another order
 */
export function periodOf(isWindowed: readonly unknown[], numLayers: number): number {
  const period = isWindowed.indexOf(false) + 1 || numLayers + 1;
  if (isWindowed.length === numLayers && isWindowed.every((own, layer) => own === ((layer + 1) % period !== 0)))
    return period;
  throw unsupported(
    `layers with a sliding window in another order than a full one after a number of them: ${shown(isWindowed)}`,
  );
}

/** Tensors of a block, which computes nothing from any other. */
function tensorsOfBlock(architecture: Architecture, layer: number): string[] {
  const { name, hasAttentionBias, hasSinks, queryKeyNorm } = architecture;
  const experts = expertsIn(architecture, layer);
  const mixer = layerMixer(architecture, layer);
  const linears = storedLinears(architecture, layer).map((linear) => ggufLinear(architecture, layer, linear));
  return [
    ...[...normTensors(FAMILIES[name]!), ...linears].map((part) => `${part}.weight`),
    ...(mixer === 'convolution' ? [CONVOLUTION_TENSOR] : []),
    ...(mixer === 'deltaNet' ? Object.values(DELTA_TENSORS) : []),
    ...(hasAttentionBias && mixer === 'attention' ? ATTENTION_BIASES : []),
    ...(queryKeyNorm !== null && mixer === 'attention' ? QUERY_KEY_NORMS : []),
    ...(hasSinks ? [SINKS_TENSOR, OUTPUT_BIAS] : []),
    ...(experts === null ? [] : [ROUTER_TENSOR, ...Object.values(EXPERT_TENSORS)]),
    ...(experts?.hasBiases === true ? [ROUTER_BIAS, ...Object.values(EXPERT_BIASES)] : []),
  ].map((part) => `blk.${layer}.${part}`);
}

/** A file with other tensors computes something else. */
function refuseOtherTensors({ tensors, metadata }: ModelFile, architecture: Architecture): void {
  const { name, numLayers } = architecture;
  const family = FAMILIES[name]!;
  const needed = [
    family.outputNorm,
    ...Array.from({ length: numLayers }, (_, layer) => tensorsOfBlock(architecture, layer)).flat(),
  ];
  const numBlocks = numLayers + numSkippedBlocks(metadata, architecture);
  const beyond = tensors.keys().find((tensor) => blockOf(tensor) >= numBlocks);
  if (beyond !== undefined) throw unsupported(`the model file has ${beyond}, but declares ${numBlocks} blocks`);
  const known = new Set([...needed, ...tensorsOutsideBlocks(family)]);
  const unknown = tensors.keys().find((tensor) => !known.has(tensor) && blockOf(tensor) < numLayers);
  if (unknown !== undefined)
    throw unsupported(
      `this ${name} model has the tensor ${shown(unknown)}, which training does not support there (mixture of experts, for example)`,
    );
  const missing = needed.find((tensor) => !tensors.has(tensor));
  if (missing !== undefined) throw unsupported(`the model file has no ${missing}`);
}

const blockOf = (tensor: string): number => Number(/^blk\.(\d+)\./.exec(tensor)?.[1] ?? 0);

/** Last blocks of a file, which predict further tokens. */
const numSkippedBlocks = (metadata: ModelFile['metadata'], { name, deltaNet }: Architecture): number =>
  deltaNet === null ? 0 : Number(metadata.get(`${name}.nextn_predict_layers`) ?? 0);

/** Refuses a tensor whose numbers would be read at wrong places. */
function refuseOtherShapes({ tensors }: ModelFile, architecture: Architecture): void {
  const { hiddenSize, vocabSize, numLayers, name, convolution, deltaNet } = architecture;
  const check = (tensor: string, needed: readonly number[]): void => {
    const dims = tensors.get(tensor)?.dims;
    if (dims !== undefined && dims.join() !== needed.join())
      throw unsupported(`${tensor} is [${dims.join()}], the model needs [${needed.join()}]`);
  };
  check('token_embd.weight', [hiddenSize, vocabSize]);
  check('output.weight', [hiddenSize, vocabSize]);
  check(FAMILIES[name]!.outputNorm, [hiddenSize]);
  for (let layer = 0; layer < numLayers; layer++) {
    const prefix = `blk.${layer}.`;
    for (const norm of normTensors(FAMILIES[architecture.name]!)) check(`${prefix}${norm}.weight`, [hiddenSize]);
    for (const linear of ['q', 'k'] as const)
      check(`${prefix}attn_${linear}_norm.weight`, [queryKeyNormWidth(architecture, linear)]);
    for (const linear of storedLinears(architecture, layer)) {
      const dims = linearDims(architecture, linear);
      const tensor = `${prefix}${ggufLinear(architecture, layer, linear)}`;
      check(`${tensor}.weight`, [dims.in, dims.out]);
      check(`${tensor}.bias`, [dims.out]);
    }
    if (convolution !== null) check(`${prefix}${CONVOLUTION_TENSOR}`, [convolution.size, hiddenSize]);
    if (deltaNet !== null)
      for (const [part, dims] of Object.entries(deltaDims(deltaNet)))
        check(`${prefix}${DELTA_TENSORS[part as keyof typeof DELTA_TENSORS]}`, dims);
    check(`${prefix}${SINKS_TENSOR}`, [architecture.numHeads]);
    check(`${prefix}${OUTPUT_BIAS}`, [hiddenSize]);
    if (architecture.experts === null) continue;
    const { count } = architecture.experts;
    check(`${prefix}${ROUTER_TENSOR}`, [hiddenSize, count]);
    check(`${prefix}${ROUTER_BIAS}`, [count]);
    for (const matrix of EXPERT_MATRICES) {
      const dims = expertDims(architecture, matrix);
      check(`${prefix}${EXPERT_TENSORS[matrix]}`, [dims.in, dims.out, count]);
      check(`${prefix}${EXPERT_BIASES[matrix]}`, [dims.out, count]);
    }
  }
}

/** Dims of the vectors of a layer in GGUF. */
const deltaDims = (net: DeltaNet): Readonly<Record<keyof typeof DELTA_TENSORS, readonly number[]>> => ({
  convolution: [net.convolutionSize, deltaSizes(net).channels],
  decay: [net.numValueHeads],
  step: [net.numValueHeads],
  norm: [net.valueSize],
});

/** Length of the norm of q or k. */
export const queryKeyNormWidth = (architecture: Architecture, linear: 'q' | 'k'): number =>
  architecture.queryKeyNorm === 'projection' ? linearDims(architecture, linear).out : architecture.headSize;

/** Columns of the queries of all heads, and of the outputs of attention. */
export const queryWidth = ({ numHeads, headSize }: Pick<Architecture, 'numHeads' | 'headSize'>): number =>
  numHeads * headSize;

/** Sizes that decide the linear layers of a block. */
export type BlockSizes = Pick<
  Architecture,
  'hiddenSize' | 'feedForwardSize' | 'numHeads' | 'numKvHeads' | 'headSize' | 'hasOutputGate' | 'deltaNet'
>;

export function linearDims(sizes: BlockSizes, linear: LinearName): { in: number; out: number } {
  const { hiddenSize, feedForwardSize, numHeads, numKvHeads, headSize, hasOutputGate, deltaNet } = sizes;
  switch (linear) {
    case 'q':
      return { in: hiddenSize, out: (hasOutputGate ? 2 : 1) * numHeads * headSize };
    case 'k':
    case 'v':
      return { in: hiddenSize, out: numKvHeads * headSize };
    case 'qkv':
      return { in: hiddenSize, out: (numHeads + 2 * numKvHeads) * headSize };
    case 'o':
    case 'out':
      return { in: numHeads * headSize, out: hiddenSize };
    case 'convIn':
      return { in: hiddenSize, out: 3 * hiddenSize };
    case 'convOut':
      return { in: hiddenSize, out: hiddenSize };
    case 'deltaQkv':
      return { in: hiddenSize, out: deltaSizes(deltaNet!).channels };
    case 'deltaZ':
      return { in: hiddenSize, out: deltaSizes(deltaNet!).values };
    case 'deltaB':
    case 'deltaA':
      return { in: hiddenSize, out: deltaNet!.numValueHeads };
    case 'deltaOut':
      return { in: deltaSizes(deltaNet!).values, out: hiddenSize };
    case 'gate':
    case 'up':
    case 'w1':
    case 'w3':
      return { in: hiddenSize, out: feedForwardSize };
    case 'gateUp':
      return { in: hiddenSize, out: 2 * feedForwardSize };
    case 'down':
    case 'w2':
      return { in: feedForwardSize, out: hiddenSize };
    default:
      return linear satisfies never;
  }
}
