import {
  type Architecture,
  type Convolution,
  type DeltaNet,
  type Experts,
  hasConvolution,
  hasDeltaNet,
  layerKind,
  layersBetween,
  MAX_CONVOLUTION_SIZE,
  numRotated,
  periodOf,
  type WindowedLayers,
} from '@trainyard/transformer';
import { shown } from '@trainyard/native';
import { CONFIG_FILE, decimal, type Fields, flag, invalid, real, whole } from './config-fields.ts';
import {
  type FeedForwardLayout,
  GPT_OSS_LAYOUTS,
  GRANITE_HYBRID_LAYOUTS,
  GRANITE_LAYOUTS,
  GRANITE_SHARED_LAYOUTS,
  QWEN3_LAYOUTS,
} from './feed-forward-layouts.ts';
import { isRecord } from './folder-files.ts';
import { unsupportedFolder } from './model-folder-error.ts';

/** A family as transformers saves it. */
export interface TransformersFamily {
  /** Name of its architecture in GGUF. */
  readonly architecture: string;
  /** transformers' class. */
  readonly className: string;
  /** True if it has sliding windows, by which it differs from another family of the architecture. */
  readonly hasWindows: boolean;
  /** True if layers have a feed-forward next to experts, by which it differs from another family of the architecture. */
  readonly hasSharedFeedForward: boolean;
  /** Prefix of the names of the text's tensors in a model with images, instead of `model.`; null: none. */
  readonly textPrefix: string | null;
  /** Values of `layer_types` for layers without windows. */
  readonly layerTypes: readonly unknown[];
  /** Norms of q and k, which its models always or never have. */
  readonly queryKeyNorm: Architecture['queryKeyNorm'];
  /** True for biases of q, k and v alone, without a setting. */
  readonly hasQkvBias: boolean;
  /** Default of `head_dim`; null: hidden size / heads. */
  readonly headSize: number | null;
  /** Setting with the width of a feed-forward. */
  readonly feedForwardSize: string;
  /** Default of `tie_word_embeddings`, which transformers leaves out if it is true. */
  readonly isTied: boolean;
  /** Default of `original_max_position_embeddings`, which GGUF files of the family state; null if they do not. */
  readonly originalContext: number | null;
  /** Its settings by the names of other families. */
  readonly usual: (fields: Fields) => Fields;
  /** transformers adds it to the weights of norms. */
  readonly normOffset: number;
  /** Layouts that its folders may have, the one of exports first. */
  readonly feedForwardLayouts: readonly FeedForwardLayout[];
  /**
   * Traits that its configuration sets in addition to the common ones.
   * @param ropeBase of all layers, which releases of transformers store in different places
   * @throws {ModelFolderError}
   */
  readonly traits: (fields: Fields, numLayers: number, ropeBase: number) => Partial<Architecture>;
  /** Settings for these traits, and others that its class needs. */
  readonly fields: (architecture: Architecture) => object;
}

const LLAMA: TransformersFamily = {
  architecture: 'llama',
  className: 'LlamaForCausalLM',
  hasWindows: false,
  hasSharedFeedForward: false,
  textPrefix: null,
  layerTypes: ['full_attention'],
  queryKeyNorm: null,
  hasQkvBias: false,
  headSize: null,
  feedForwardSize: 'intermediate_size',
  isTied: false,
  originalContext: null,
  usual: (fields) => fields,
  normOffset: 0,
  feedForwardLayouts: [],
  traits: () => ({}),
  fields: ({ hasAttentionBias }) => ({ hidden_act: 'silu', attention_bias: hasAttentionBias, mlp_bias: false }),
};

const GRANITE: TransformersFamily = {
  ...LLAMA,
  architecture: 'granite',
  className: 'GraniteForCausalLM',
  traits: graniteScales,
  fields: (architecture) => ({
    ...LLAMA.fields(architecture),
    embedding_multiplier: decimal(architecture.embeddingScale),
    attention_multiplier: decimal(architecture.attentionScale ?? 1 / Math.sqrt(architecture.headSize)),
    residual_multiplier: decimal(architecture.residualScale),
    logits_scaling: decimal(architecture.logitScale),
  }),
};

/** Types of layers of Granite 4; from transformers 5 on the second ones. */
const GRANITE_ATTENTION: readonly unknown[] = ['attention', 'full_attention'];
const GRANITE_MAMBA: readonly unknown[] = ['mamba', 'linear_attention'];

const GRANITE_MOE: TransformersFamily = {
  ...GRANITE,
  architecture: 'granitemoe',
  className: 'GraniteMoeForCausalLM',
  feedForwardLayouts: GRANITE_LAYOUTS,
  traits: (fields) => ({
    ...graniteScales(fields),
    experts: localExperts(fields, { count: 8, used: 2, hasBiases: false }),
  }),
  fields: (architecture) => ({
    ...GRANITE.fields(architecture),
    intermediate_size: architecture.experts!.feedForwardSize,
    num_local_experts: architecture.experts!.count,
    num_experts_per_tok: architecture.experts!.used,
  }),
};

const QWEN35: TransformersFamily = {
  ...LLAMA,
  architecture: 'qwen35',
  className: 'Qwen3_5ForCausalLM',
  layerTypes: ['full_attention', 'linear_attention'],
  queryKeyNorm: 'head',
  headSize: 256,
  normOffset: 1,
  usual: qwen35Usual,
  traits: (fields, numLayers) => ({ deltaNet: deltaNetOf(fields, numLayers) }),
  fields: (architecture) => ({
    hidden_act: 'silu',
    attention_bias: false,
    attn_output_gate: true,
    linear_conv_kernel_dim: architecture.deltaNet!.convolutionSize,
    linear_key_head_dim: architecture.deltaNet!.keySize,
    linear_value_head_dim: architecture.deltaNet!.valueSize,
    linear_num_key_heads: architecture.deltaNet!.numKeyHeads,
    linear_num_value_heads: architecture.deltaNet!.numValueHeads,
    layer_types: layerTypes(architecture),
    rope_parameters: {
      rope_type: 'default',
      rope_theta: decimal(architecture.ropeBase),
      partial_rotary_factor: numRotated(architecture) / architecture.headSize,
    },
  }),
};

/** Families by their `model_type`. */
export const TRANSFORMERS_FAMILIES: Readonly<Record<string, TransformersFamily>> = {
  llama: LLAMA,
  qwen2: {
    ...LLAMA,
    architecture: 'qwen2',
    className: 'Qwen2ForCausalLM',
    hasQkvBias: true,
    fields: () => ({ hidden_act: 'silu', use_sliding_window: false }),
  },
  qwen3: {
    ...LLAMA,
    architecture: 'qwen3',
    className: 'Qwen3ForCausalLM',
    queryKeyNorm: 'head',
    headSize: 128,
    fields: ({ hasAttentionBias }) => ({
      hidden_act: 'silu',
      attention_bias: hasAttentionBias,
      use_sliding_window: false,
    }),
  },
  qwen3_moe: {
    ...LLAMA,
    architecture: 'qwen3moe',
    className: 'Qwen3MoeForCausalLM',
    queryKeyNorm: 'head',
    feedForwardLayouts: QWEN3_LAYOUTS,
    traits: (fields, numLayers) => ({ experts: expertsOf(fields, numLayers) }),
    fields: ({ hasAttentionBias, experts }) => ({
      hidden_act: 'silu',
      attention_bias: hasAttentionBias,
      use_sliding_window: false,
      num_experts: experts!.count,
      num_experts_per_tok: experts!.used,
      moe_intermediate_size: experts!.feedForwardSize,
      norm_topk_prob: experts!.normalisesShares,
      decoder_sparse_step: 1,
      mlp_only_layers: experts!.denseLayers,
    }),
  },
  gemma3_text: {
    ...LLAMA,
    architecture: 'gemma3',
    className: 'Gemma3ForCausalLM',
    hasWindows: true,
    queryKeyNorm: 'head',
    headSize: 256,
    isTied: true,
    normOffset: 1,
    traits: gemma3Traits,
    fields: gemma3Fields,
  },
  granite: GRANITE,
  granitemoe: GRANITE_MOE,
  granitemoeshared: {
    ...GRANITE_MOE,
    className: 'GraniteMoeSharedForCausalLM',
    hasSharedFeedForward: true,
    feedForwardSize: 'shared_intermediate_size',
    feedForwardLayouts: GRANITE_SHARED_LAYOUTS,
    traits: (fields, numLayers, ropeBase) => {
      const { experts, ...scales } = GRANITE_MOE.traits(fields, numLayers, ropeBase);
      return { ...scales, experts: { ...experts!, hasSharedFeedForward: true } };
    },
    fields: (architecture) => ({
      ...GRANITE_MOE.fields(architecture),
      shared_intermediate_size: architecture.feedForwardSize,
    }),
  },
  granitemoehybrid: {
    ...GRANITE,
    className: 'GraniteMoeHybridForCausalLM',
    layerTypes: [...GRANITE_ATTENTION, ...GRANITE_MAMBA],
    feedForwardSize: 'shared_intermediate_size',
    feedForwardLayouts: GRANITE_HYBRID_LAYOUTS,
    traits: graniteHybridTraits,
  },
  gpt_oss: {
    ...LLAMA,
    architecture: 'gpt-oss',
    className: 'GptOssForCausalLM',
    hasWindows: true,
    headSize: 64,
    feedForwardLayouts: GPT_OSS_LAYOUTS,
    traits: gptOssTraits,
    fields: (architecture) => ({
      hidden_act: 'silu',
      attention_bias: true,
      num_local_experts: architecture.experts!.count,
      num_experts_per_tok: architecture.experts!.used,
      swiglu_limit: 7,
      sliding_window: architecture.window?.tokens ?? null,
      layer_types: layerTypes(architecture),
    }),
  },
  olmo2: {
    ...LLAMA,
    architecture: 'olmo2',
    className: 'Olmo2ForCausalLM',
    queryKeyNorm: 'projection',
  },
  olmo3: {
    ...LLAMA,
    architecture: 'olmo2',
    className: 'Olmo3ForCausalLM',
    hasWindows: true,
    queryKeyNorm: 'projection',
    traits: (fields, numLayers, ropeBase) => ({ window: windowOf(fields, numLayers, { period: 4, ropeBase }) }),
    fields: (architecture) => ({
      ...LLAMA.fields(architecture),
      sliding_window: architecture.window?.tokens ?? null,
      layer_types: layerTypes(architecture),
    }),
  },
  mistral: {
    ...LLAMA,
    className: 'MistralForCausalLM',
    hasWindows: true,
    traits: mistralTraits,
    fields: ({ window }) => ({ hidden_act: 'silu', sliding_window: window?.tokens ?? null }),
  },
  phi3: {
    ...LLAMA,
    architecture: 'phi3',
    className: 'Phi3ForCausalLM',
    hasWindows: true,
    originalContext: 4096,
    traits: phi3Traits,
    fields: ({ window, headSize, rotatedSize }) => ({
      hidden_act: 'silu',
      sliding_window: window?.tokens ?? null,
      partial_rotary_factor: rotatedSize === null ? 1 : rotatedSize / headSize,
      resid_pdrop: 0,
      embd_pdrop: 0,
    }),
  },
  lfm2: {
    ...LLAMA,
    architecture: 'lfm2',
    className: 'Lfm2ForCausalLM',
    layerTypes: ['full_attention', 'conv'],
    queryKeyNorm: 'head',
    isTied: true,
    usual: lfm2Usual,
    traits: (fields, numLayers) => ({ convolution: convolutionOf(fields, numLayers) }),
    fields: (architecture) => ({
      norm_eps: decimal(architecture.rmsEpsilon),
      conv_bias: false,
      conv_L_cache: architecture.convolution!.size,
      // The size of the feed-forward is that of its matrices.
      block_auto_adjust_ff_dim: false,
      block_ffn_dim_multiplier: 1,
      block_multiple_of: 1,
      layer_types: layerTypes(architecture),
    }),
  },
  qwen3_5_text: QWEN35,
  // With images, of which only the text is read.
  qwen3_5: {
    ...QWEN35,
    className: 'Qwen3_5ForConditionalGeneration',
    textPrefix: 'model.language_model.',
  },
  smollm3: {
    ...LLAMA,
    architecture: 'smollm3',
    className: 'SmolLM3ForCausalLM',
    isTied: true,
    traits: smolLm3Traits,
    fields: (architecture) => ({
      ...LLAMA.fields(architecture),
      use_sliding_window: false,
      no_rope_layers: ropeOfLayers(architecture),
      layer_types: layerTypes(architecture),
    }),
  },
};

function graniteScales(fields: Fields): Partial<Architecture> {
  return {
    embeddingScale: multiplier(fields, 'embedding_multiplier'),
    attentionScale: multiplier(fields, 'attention_multiplier'),
    residualScale: multiplier(fields, 'residual_multiplier'),
    logitScale: multiplier(fields, 'logits_scaling'),
  };
}

const multiplier = (fields: Fields, name: string): number => real(fields, name, [1e-9, 1e9], 1);

const layerTypes = (architecture: Architecture): string[] =>
  Array.from({ length: architecture.numLayers }, (_, layer) => {
    if (hasConvolution(architecture, layer)) return 'conv';
    if (hasDeltaNet(architecture, layer)) return 'linear_attention';
    return layerKind(architecture, layer) === 'windowed' ? 'sliding_attention' : 'full_attention';
  });

/** 1 for layers with rope, 0 for the others. */
const ropeOfLayers = (architecture: Architecture): number[] =>
  Array.from({ length: architecture.numLayers }, (_, layer) =>
    layerKind(architecture, layer) === 'unrotated' ? 0 : 1,
  );

/** Files from before transformers had the family have names of their own. */
function lfm2Usual(fields: Fields): Fields {
  const rope = isRecord(fields['rope_parameters']) ? fields['rope_parameters'] : {};
  return {
    ...fields,
    intermediate_size: lfm2FeedForwardSize(fields),
    rms_norm_eps: fields['norm_eps'] ?? 1e-5,
    rope_theta: rope['rope_theta'] ?? fields['rope_theta'] ?? fields['theta'] ?? 1_000_000,
    tie_word_embeddings: fields['tie_embedding'] ?? fields['tie_word_embeddings'] ?? true,
  };
}

/** Computed like transformers: by default two thirds, as a multiple of a number. */
function lfm2FeedForwardSize(fields: Fields): number {
  const name = fields['block_ff_dim'] === undefined ? 'intermediate_size' : 'block_ff_dim';
  const stated = whole(fields, name, [1, 1 << 21]);
  if (!flag(fields, 'block_auto_adjust_ff_dim', true)) return stated;
  const part = Math.trunc((2 * stated) / 3);
  if (fields['block_ffn_dim_multiplier'] === null) return part;
  const multiple = whole(fields, 'block_multiple_of', [1, 1 << 20], 256);
  return multiple * Math.ceil(Math.trunc(part * real(fields, 'block_ffn_dim_multiplier', [1e-3, 1e3], 1)) / multiple);
}

/** Settings of the text of a model with images are in a part of their own. */
function qwen35Usual(own: Fields): Fields {
  const text = isRecord(own['text_config']) ? own['text_config'] : {};
  const fields: Fields = { ...own, ...text };
  const rope = isRecord(fields['rope_parameters']) ? fields['rope_parameters'] : fields['rope_scaling'];
  const isStated = isRecord(rope) && rope['partial_rotary_factor'] !== undefined;
  return isStated ? fields : { partial_rotary_factor: 0.25, ...fields };
}

function deltaNetOf(fields: Fields, numLayers: number): DeltaNet {
  for (const [name, only] of [
    ['attn_output_gate', true],
    ['attention_bias', false],
  ] as const)
    if ((fields[name] ?? only) !== only)
      throw unsupportedFolder(`\`${name}\` is ${shown(fields[name])}; only ${only} is supported`);
  const types = fields['layer_types'];
  const isList = Array.isArray(types) && types.length === numLayers;
  if ((types ?? null) !== null && !isList)
    throw invalid('layer_types', `a type for each of ${numLayers} layers`, types);
  const first = isList ? types.indexOf('full_attention') : -1;
  const interval = isList
    ? (first === -1 ? numLayers : first) + 1
    : whole(fields, 'full_attention_interval', [1, 1 << 20], 4);
  const layers = layersBetween(interval, numLayers);
  if (isList && types.some((type, layer) => (type === 'linear_attention') !== layers.includes(layer)))
    throw unsupportedFolder(
      `\`layer_types\` in ${CONFIG_FILE} has full attention in another order than in the last of each so many layers`,
    );
  const size = (name: string, otherwise: number) => whole(fields, name, [1, 4096], otherwise);
  const [numKeyHeads, numValueHeads] = [size('linear_num_key_heads', 16), size('linear_num_value_heads', 32)];
  if (numValueHeads % numKeyHeads !== 0)
    throw invalid('linear_num_value_heads', `a multiple of linear_num_key_heads (${numKeyHeads})`, numValueHeads);
  const [keySize, valueSize] = [size('linear_key_head_dim', 128), size('linear_value_head_dim', 128)];
  if (keySize !== valueSize)
    throw unsupportedFolder(
      `\`linear_value_head_dim\` is ${valueSize}; only \`linear_key_head_dim\` (${keySize}) is supported`,
    );
  const convolutionSize = whole(fields, 'linear_conv_kernel_dim', [1, MAX_CONVOLUTION_SIZE], 4);
  return { numKeyHeads, numValueHeads, keySize, valueSize, convolutionSize, layers };
}

function convolutionOf(fields: Fields, numLayers: number): Convolution {
  if (flag(fields, 'conv_bias')) throw unsupportedFolder('convolutions with biases (`conv_bias`) are not supported');
  const [types, attention] = [fields['layer_types'], fields['full_attn_idxs']];
  const numbers = Array.from({ length: numLayers }, (_, layer) => layer);
  const isList = (value: unknown, isItem: (item: unknown) => boolean): value is unknown[] =>
    Array.isArray(value) && value.every(isItem);
  const size = whole(fields, 'conv_L_cache', [2, MAX_CONVOLUTION_SIZE], 3);
  if (isList(types, (type) => type === 'conv' || type === 'full_attention') && types.length === numLayers)
    return withAttention({ size, layers: numbers.filter((layer) => types[layer] === 'conv') }, numLayers);
  if ((types ?? null) !== null)
    throw invalid('layer_types', `\`conv\` or \`full_attention\` for each of ${numLayers} layers`, types);
  if (!isList(attention, (layer) => numbers.includes(layer as number)))
    throw invalid('full_attn_idxs', `a list of layers from 0 to ${numLayers - 1}`, attention);
  return withAttention({ size, layers: numbers.filter((layer) => !attention.includes(layer)) }, numLayers);
}

function withAttention(convolution: Convolution, numLayers: number): Convolution {
  if (convolution.layers.length === numLayers)
    throw unsupportedFolder('models with convolutions in all layers are not supported');
  return convolution;
}

/** GGUF has no setting for other layers. */
function smolLm3Traits(fields: Fields, numLayers: number): Partial<Architecture> {
  const period = 4;
  const stated = fields['no_rope_layers'];
  const expected = Array.from({ length: numLayers }, (_, layer) => ((layer + 1) % period === 0 ? 0 : 1));
  const isUsual = Array.isArray(stated)
    ? stated.join() === expected.join()
    : whole(fields, 'no_rope_layer_interval', [1, 512], period) === period;
  if (!isUsual) throw unsupportedFolder('of smollm3 models, those without rope in every fourth layer are supported');
  return { unrotatedPeriod: period };
}

/** Windowed layers between full ones of one period. @throws {ModelFolderError} for another order */
function windowOf(
  fields: Fields,
  numLayers: number,
  defaults: Pick<WindowedLayers, 'period' | 'ropeBase'>,
): WindowedLayers {
  const stated = fields['layer_types'];
  const tokens = whole(fields, 'sliding_window', [1, 1 << 27], 4096);
  if (!Array.isArray(stated)) return { tokens, ...defaults };
  const isWindowed = stated.map((type) => type === 'sliding_attention');
  try {
    return { tokens, period: periodOf(isWindowed, numLayers), ropeBase: defaults.ropeBase };
  } catch (error) {
    throw unsupportedFolder(`\`layer_types\` in ${CONFIG_FILE}: ${(error as Error).message}`);
  }
}

/** All layers have the window; null is none. */
function mistralTraits(fields: Fields, numLayers: number): Partial<Architecture> {
  if (fields['sliding_window'] === null) return {};
  return { window: windowOf(fields, numLayers, { period: numLayers + 1, ropeBase: null }) };
}

/** Without the setting there is no window. */
function phi3Traits(fields: Fields, numLayers: number): Partial<Architecture> {
  return mistralTraits({ sliding_window: null, ...fields }, numLayers);
}

function expertsOf(fields: Fields, numLayers: number): Experts {
  const count = whole(
    fields,
    fields['num_experts'] === undefined ? 'num_local_experts' : 'num_experts',
    [1, 4096],
    128,
  );
  const step = whole(fields, 'decoder_sparse_step', [1, 512], 1);
  const dense = fields['mlp_only_layers'] ?? [];
  if (!Array.isArray(dense) || !dense.every((layer) => Number.isSafeInteger(layer)))
    throw invalid('mlp_only_layers', 'a list of layers', dense);
  const denseLayers = Array.from({ length: numLayers }, (_, layer) => layer).filter(
    (layer) => dense.includes(layer) || (layer + 1) % step !== 0,
  );
  if (denseLayers.length === numLayers)
    throw unsupportedFolder('mixtures of experts without a layer of experts are not supported');
  return {
    count,
    used: whole(fields, 'num_experts_per_tok', [1, count], 8),
    feedForwardSize: whole(fields, 'moe_intermediate_size', [1, 1 << 20], 768),
    normalisesShares: flag(fields, 'norm_topk_prob'),
    hasSharedFeedForward: false,
    hasBiases: false,
    denseLayers,
  };
}

/** Shares of the chosen experts always sum to 1. */
function localExperts(
  fields: Fields,
  defaults: { readonly count: number; readonly used: number; readonly hasBiases: boolean },
): Experts {
  const count = whole(fields, 'num_local_experts', [1, 4096], defaults.count);
  return {
    count,
    used: whole(fields, 'num_experts_per_tok', [1, count], defaults.used),
    feedForwardSize: whole(fields, 'intermediate_size', [1, 1 << 20]),
    normalisesShares: true,
    hasSharedFeedForward: false,
    hasBiases: defaults.hasBiases,
    denseLayers: [],
  };
}

function gptOssTraits(fields: Fields, numLayers: number): Partial<Architecture> {
  for (const [name, only] of [
    ['swiglu_limit', 7],
    ['swiglu_alpha', 1.702],
  ] as const)
    if ((fields[name] ?? only) !== only)
      throw unsupportedFolder(`\`${name}\` is ${shown(fields[name])}; only ${only} is supported`);
  return {
    window: windowOf({ sliding_window: 128, ...fields }, numLayers, { period: 2, ropeBase: null }),
    experts: localExperts(fields, { count: 128, used: 4, hasBiases: true }),
  };
}

/** Granite 4 with attention in all layers and one feed-forward each. */
function graniteHybridTraits(fields: Fields, numLayers: number): Partial<Architecture> {
  const layers = fields['layer_types'];
  const isAttention =
    Array.isArray(layers) && layers.length === numLayers && layers.every((type) => GRANITE_ATTENTION.includes(type));
  if (!isAttention)
    throw unsupportedFolder(
      `layers with Mamba (\`layer_types\` in ${CONFIG_FILE}) are not supported; of granitemoehybrid, models with attention in all layers are`,
    );
  const count = whole(fields, 'num_local_experts', [0, 4096], 8);
  if (count > 0)
    throw unsupportedFolder(
      `\`num_local_experts\` is ${count}; of granitemoehybrid, models without experts are supported`,
    );
  return { ...graniteScales(fields), unrotatedPeriod: fields['position_embedding_type'] === 'rope' ? null : 1 };
}

function gemma3Traits(fields: Fields, numLayers: number): Partial<Architecture> {
  for (const name of ['attn_logit_softcapping', 'final_logit_softcapping'])
    if ((fields[name] ?? null) !== null) throw unsupportedFolder(`\`${name}\` in ${CONFIG_FILE} is not supported`);
  if (flag(fields, 'use_bidirectional_attention'))
    throw unsupportedFolder('`use_bidirectional_attention` is not supported');
  const scalar = real(fields, 'query_pre_attn_scalar', [1e-9, 1e9], 256);
  if (scalar !== (fields['head_dim'] ?? 256))
    throw unsupportedFolder(`\`query_pre_attn_scalar\` is ${scalar}; only the size of a head is supported`);
  const period = whole(fields, '_sliding_window_pattern', [1, 512], 6);
  const ropeBase = real(fields, 'rope_local_base_freq', [1, 1e12], 10_000);
  return { window: windowOf(fields, numLayers, { period, ropeBase }) };
}

function gemma3Fields(architecture: Architecture): object {
  const { hasAttentionBias, headSize, window } = architecture;
  return {
    hidden_activation: 'gelu_pytorch_tanh',
    attention_bias: hasAttentionBias,
    query_pre_attn_scalar: headSize,
    attn_logit_softcapping: null,
    final_logit_softcapping: null,
    layer_types: layerTypes(architecture),
    ...(window === null ? {} : { sliding_window: window.tokens }),
    ...(window === null || window.ropeBase === null ? {} : { rope_local_base_freq: decimal(window.ropeBase) }),
  };
}

/** Family whose class computes it; undefined without one that exports have. */
export function transformersFamily(
  architecture: Architecture,
): (TransformersFamily & { readonly modelType: string }) | undefined {
  const { name, queryKeyNorm, window, unrotatedPeriod, experts } = architecture;
  // The classes of Granite have rope in all layers.
  if (unrotatedPeriod === 1) return undefined;
  const [modelType, family] =
    Object.entries(TRANSFORMERS_FAMILIES)
      .filter(
        ([, own]) =>
          own.architecture === name &&
          own.queryKeyNorm === queryKeyNorm &&
          own.hasSharedFeedForward === (experts?.hasSharedFeedForward ?? false),
      )
      .toSorted(([, a], [, b]) => Number(a.hasWindows) - Number(b.hasWindows))
      .find(([, { hasWindows }]) => window === null || hasWindows) ?? [];
  return modelType === undefined || family === undefined ? undefined : { ...family, modelType };
}
