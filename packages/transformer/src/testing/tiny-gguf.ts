import { writeGguf, type GgufTensorData, type GgufWritableValue } from '@trainyard/native';
import {
  linearDims,
  storedLinears,
  type Architecture,
  type LongRope,
  longRopeMagnitude,
} from '../model/architecture.ts';
import {
  EXPERT_BIASES,
  EXPERT_MATRICES,
  EXPERT_TENSORS,
  expertDims,
  type Experts,
  ROUTER_BIAS,
  ROUTER_TENSOR,
} from '../model/experts.ts';
import { FAMILIES, type Family } from '../model/families.ts';
import { PROJECTION_NAMES, projectionParts } from '../model/projections.ts';
import type { ExpertWeights } from '../model/weights.ts';
import { randomSource, TINY_ARCHITECTURE, tinyWeights } from './tiny-model.ts';
import { DELTA_TENSORS, type DeltaNet, type DeltaVectors, deltaSizes } from '../model/gated-delta-net.ts';
import { CONVOLUTION_TENSOR, hasConvolution } from '../model/short-convolution.ts';
import { normTensorsOf, OUTPUT_BIAS, ROPE_FACTORS, SINKS_TENSOR } from '../model/architecture-limits.ts';
import { ggufLinear } from '../model/gguf-linears.ts';
import type { LinearName } from '../model/lora-config.ts';
import type { BlockWeights } from '../model/weights.ts';

const CONTROL_TOKENS = ['<|endoftext|>', '<|im_start|>', '<|im_end|>'];

const OLMO2: Architecture = {
  ...TINY_ARCHITECTURE,
  name: 'olmo2',
  vocabSize: 256 + CONTROL_TOKENS.length,
  hasInterleavedHeads: false,
  norms: { before: false, after: true },
  queryKeyNorm: 'projection',
  yarn: { factor: 4, originalContext: 64, betaFast: 8, betaSlow: 1, isRounded: true },
};

const GRANITE: Architecture = {
  ...TINY_ARCHITECTURE,
  name: 'granite',
  vocabSize: 256 + CONTROL_TOKENS.length,
  embeddingScale: 0.5,
  attentionScale: 0.25,
  residualScale: 0.75,
  logitScale: 0.75,
};

const EXPERTS: Experts = {
  count: 8,
  used: 3,
  feedForwardSize: 32,
  normalisesShares: true,
  hasSharedFeedForward: false,
  hasBiases: false,
  denseLayers: [],
};

const PHI3: Architecture = {
  ...TINY_ARCHITECTURE,
  name: 'phi3',
  vocabSize: 256 + CONTROL_TOKENS.length,
  hasInterleavedHeads: false,
  hasFusedLinears: true,
};

const CONTEXT_LENGTH = 512;

/** llama.cpp takes the long factors for contexts that are longer than the original one. */
const TINY_LONG_ROPE: LongRope = {
  originalContext: CONTEXT_LENGTH,
  magnitude: Math.fround(longRopeMagnitude(2 * CONTEXT_LENGTH, CONTEXT_LENGTH)),
};

/** Tokens. */
export const tinyContextLength = ({ longRope }: Architecture): number =>
  longRope === null ? CONTEXT_LENGTH : 2 * longRope.originalContext;

export type TinyName =
  | 'llama'
  | 'qwen2'
  | 'qwen3'
  | 'gemma3'
  | 'granite'
  | 'smollm3'
  | 'olmo2'
  | 'olmo3'
  | 'mistral'
  | 'phi3'
  | 'phi4'
  | 'qwen3moe'
  | 'granitemoe'
  | 'lfm2'
  | 'qwen35'
  | 'gpt-oss';

/** Tiny models of the trainable architectures, with a vocabulary of one token per byte. */
export const TINY_ARCHITECTURES: Readonly<Record<TinyName, Architecture>> = {
  llama: { ...TINY_ARCHITECTURE, vocabSize: 256 + CONTROL_TOKENS.length },
  qwen2: {
    ...TINY_ARCHITECTURE,
    name: 'qwen2',
    vocabSize: 256 + CONTROL_TOKENS.length,
    hasAttentionBias: true,
    hasInterleavedHeads: false,
  },
  qwen3: {
    ...TINY_ARCHITECTURE,
    name: 'qwen3',
    vocabSize: 256 + CONTROL_TOKENS.length,
    queryKeyNorm: 'head',
    hasInterleavedHeads: false,
  },
  gemma3: {
    ...TINY_ARCHITECTURE,
    name: 'gemma3',
    vocabSize: 256 + CONTROL_TOKENS.length,
    // The last of three layers sees all tokens.
    numLayers: 3,
    queryKeyNorm: 'head',
    hasInterleavedHeads: false,
    activation: 'gelu',
    norms: { before: true, after: true },
    embeddingScale: Math.fround(Math.sqrt(TINY_ARCHITECTURE.hiddenSize)),
    window: { tokens: 21, period: 3, ropeBase: 1000 },
  },
  granite: GRANITE,
  smollm3: {
    ...TINY_ARCHITECTURE,
    name: 'smollm3',
    vocabSize: 256 + CONTROL_TOKENS.length,
    // The last one has no rope.
    numLayers: 4,
    unrotatedPeriod: 4,
  },
  olmo2: { ...OLMO2, yarn: null },
  olmo3: { ...OLMO2, window: { tokens: 21, period: 2, ropeBase: 10_000 } },
  mistral: {
    ...TINY_ARCHITECTURE,
    vocabSize: 256 + CONTROL_TOKENS.length,
    window: { tokens: 21, period: 3, ropeBase: null },
  },
  phi3: { ...PHI3, window: { tokens: 21, period: 3, ropeBase: null } },
  phi4: { ...PHI3, rotatedSize: 6, longRope: TINY_LONG_ROPE },
  qwen3moe: {
    ...TINY_ARCHITECTURE,
    name: 'qwen3moe',
    vocabSize: 256 + CONTROL_TOKENS.length,
    feedForwardSize: EXPERTS.feedForwardSize,
    queryKeyNorm: 'head',
    hasInterleavedHeads: false,
    experts: EXPERTS,
  },
  granitemoe: {
    ...GRANITE,
    name: 'granitemoe',
    feedForwardSize: 48,
    experts: { ...EXPERTS, hasSharedFeedForward: true },
  },
  lfm2: {
    ...TINY_ARCHITECTURE,
    name: 'lfm2',
    vocabSize: 256 + CONTROL_TOKENS.length,
    numLayers: 4,
    queryKeyNorm: 'head',
    hasInterleavedHeads: false,
    convolution: { size: 3, layers: [0, 1, 3] },
  },
  qwen35: {
    ...TINY_ARCHITECTURE,
    name: 'qwen35',
    vocabSize: 256 + CONTROL_TOKENS.length,
    // llama.cpp takes this epsilon for normalised q and k, too, which is the same in real models.
    rmsEpsilon: 1e-6,
    // The third layer has attention, the last one has none.
    numLayers: 4,
    headSize: 16,
    rotatedSize: 8,
    queryKeyNorm: 'head',
    hasInterleavedHeads: false,
    hasOutputGate: true,
    deltaNet: { numKeyHeads: 2, numValueHeads: 4, keySize: 8, valueSize: 8, convolutionSize: 4, layers: [0, 1, 3] },
  },
  'gpt-oss': {
    ...TINY_ARCHITECTURE,
    name: 'gpt-oss',
    vocabSize: 256 + CONTROL_TOKENS.length,
    feedForwardSize: EXPERTS.feedForwardSize,
    hasInterleavedHeads: false,
    hasAttentionBias: true,
    hasSinks: true,
    activation: 'clamped',
    window: { tokens: 21, period: 2, ropeBase: null },
    // llama.cpp rounds always. With these numbers all pairs are between the two, and both are the same.
    ropeBase: 7,
    yarn: { factor: 4, originalContext: 200, betaFast: 32, betaSlow: 1, isRounded: false },
    experts: { ...EXPERTS, hasBiases: true },
  },
};

/**
 * Those that are compared with PyTorch: Qwen3.5 only if its Python has transformers 5 (TRAINYARD_TEST_TRANSFORMERS=5),
 * and then no other.
 */
export const TORCH_NAMES = (Object.keys(TINY_ARCHITECTURES) as TinyName[]).filter(
  (name) => (name === 'qwen35') === (process.env['TRAINYARD_TEST_TRANSFORMERS'] === '5'),
);

/** Those that llama.cpp computes: it has no windows for llama and phi3 files. */
export const LLAMA_CPP_ARCHITECTURES: Readonly<Record<string, Architecture>> = Object.fromEntries(
  Object.entries(TINY_ARCHITECTURES).filter(([name]) => name !== 'mistral' && name !== 'phi3'),
);

export const TINY_CHAT_TEMPLATE =
  "{% for message in messages %}{{ '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' }}{% endfor %}";

interface TinyOptions {
  readonly isTied?: boolean;
  readonly seed?: number;
  readonly metadata?: Readonly<Record<string, GgufWritableValue>>;
  readonly missing?: RegExp;
}

/** Writes a random model file that llama.cpp and the trainer read, with vocabulary and chat template. @param all tensors */
export function writeTinyGguf(
  path: string,
  a: Architecture,
  options: TinyOptions = {},
  all = tinyTensors(a, options.isTied, options.seed),
): void {
  const tensors = all.filter(
    ({ name }) => (options.isTied !== true || name !== 'output.weight') && options.missing?.test(name) !== true,
  );
  writeGguf(path, { ...architectureMetadata(a), ...vocabularyMetadata(), ...options.metadata }, tensors);
}

export function architectureMetadata(a: Architecture): Record<string, GgufWritableValue> {
  return {
    'general.architecture': a.name,
    'general.name': 'Tiny',
    'general.license': 'apache-2.0',
    'general.file_type': { u32: 0 },
    [`${a.name}.vocab_size`]: { u32: a.vocabSize },
    [`${a.name}.context_length`]: { u32: tinyContextLength(a) },
    [`${a.name}.block_count`]: { u32: a.numLayers },
    [`${a.name}.embedding_length`]: { u32: a.hiddenSize },
    [`${a.name}.feed_forward_length`]: { u32: hasExpertWidth(a) ? a.feedForwardSize : a.experts!.feedForwardSize },
    [`${a.name}.attention.head_count`]: { u32: a.numHeads },
    [`${a.name}.attention.head_count_kv`]: a.convolution === null ? { u32: a.numKvHeads } : headsByLayer(a),
    ...(a.convolution === null ? {} : { [`${a.name}.shortconv.l_cache`]: { u32: a.convolution.size } }),
    ...(a.deltaNet === null ? {} : deltaMetadata(a.name, a.deltaNet)),
    [`${a.name}.attention.key_length`]: { u32: a.headSize },
    [`${a.name}.attention.value_length`]: { u32: a.headSize },
    [`${a.name}.attention.layer_norm_rms_epsilon`]: a.rmsEpsilon,
    [`${a.name}.rope.freq_base`]: a.ropeBase,
    [`${a.name}.rope.dimension_count`]: { u32: a.rotatedSize ?? a.headSize },
    ...(a.experts === null
      ? {}
      : {
          [`${a.name}.expert_count`]: { u32: a.experts.count },
          [`${a.name}.expert_used_count`]: { u32: a.experts.used },
          ...(a.experts.hasSharedFeedForward
            ? { [`${a.name}.expert_shared_feed_forward_length`]: { u32: a.feedForwardSize } }
            : {}),
          ...(hasExpertWidth(a)
            ? { [`${a.name}.expert_feed_forward_length`]: { u32: a.experts.feedForwardSize } }
            : {}),
          ...(a.experts.normalisesShares ? {} : { [`${a.name}.expert_weights_norm`]: false }),
        }),
    ...scaleMetadata(a),
    ...(a.unrotatedPeriod === 1 ? { [`${a.name}.rope.scaling.finetuned`]: false } : {}),
    ...(a.window === null
      ? {}
      : {
          [`${a.name}.attention.sliding_window`]: { u32: a.window.tokens },
          [`${a.name}.attention.sliding_window_pattern`]: { u32: a.window.period },
          ...(a.window.ropeBase === null ? {} : { [`${a.name}.rope.freq_base_swa`]: a.window.ropeBase }),
        }),
    ...(a.longRope === null
      ? {}
      : {
          [`${a.name}.rope.scaling.original_context_length`]: { u32: a.longRope.originalContext },
          [`${a.name}.rope.scaling.attn_factor`]: a.longRope.magnitude,
        }),
    ...(a.yarn === null
      ? {}
      : {
          [`${a.name}.rope.scaling.type`]: 'yarn',
          [`${a.name}.rope.scaling.factor`]: a.yarn.factor,
          [`${a.name}.rope.scaling.original_context_length`]: { u32: a.yarn.originalContext },
          [`${a.name}.rope.scaling.yarn_beta_fast`]: a.yarn.betaFast,
          [`${a.name}.rope.scaling.yarn_beta_slow`]: a.yarn.betaSlow,
        }),
  };
}

function deltaMetadata(name: string, net: DeltaNet): Record<string, GgufWritableValue> {
  const interval = [1, 2, 3, 4, 5].findIndex((layer) => !net.layers.includes(layer - 1)) + 1;
  return {
    [`${name}.ssm.conv_kernel`]: { u32: net.convolutionSize },
    [`${name}.ssm.state_size`]: { u32: net.keySize },
    [`${name}.ssm.group_count`]: { u32: net.numKeyHeads },
    [`${name}.ssm.time_step_rank`]: { u32: net.numValueHeads },
    [`${name}.ssm.inner_size`]: { u32: net.numValueHeads * net.valueSize },
    [`${name}.full_attention_interval`]: { u32: interval },
    [`${name}.rope.dimension_sections`]: { array: { type: 'i32', values: [2, 1, 1, 0] } },
  };
}

/** Key heads; 0 for layers with a convolution. */
const headsByLayer = (a: Architecture): GgufWritableValue => ({
  array: {
    type: 'i32',
    values: Array.from({ length: a.numLayers }, (_, layer) => (hasConvolution(a, layer) ? 0 : a.numKvHeads)),
  },
});
/** Family by its name; llama for others. */
const familyOf = ({ name }: Architecture): Family => FAMILIES[name] ?? FAMILIES['llama']!;

/** True if dense layers, or none, have `feed_forward_length`. */
const hasExpertWidth = (a: Architecture): boolean =>
  a.experts === null || familyOf(a).settings.includes('expert_feed_forward_length');

function scaleMetadata(a: Architecture): Record<string, GgufWritableValue> {
  if (!familyOf(a).settings.includes('logit_scale')) return {};
  return {
    [`${a.name}.embedding_scale`]: a.embeddingScale,
    [`${a.name}.attention.scale`]: a.attentionScale ?? 0,
    [`${a.name}.residual_scale`]: a.residualScale,
    [`${a.name}.logit_scale`]: a.logitScale,
  };
}

function vocabularyMetadata(): Record<string, GgufWritableValue> {
  const tokens = [...Array.from({ length: 256 }, (_, byte) => byteToken(byte)), ...CONTROL_TOKENS];
  const end = { u32: 256 + CONTROL_TOKENS.indexOf('<|im_end|>') };
  return {
    'tokenizer.ggml.model': 'gpt2',
    'tokenizer.ggml.pre': 'gpt-2',
    'tokenizer.ggml.tokens': { array: { type: 'string', values: tokens } },
    'tokenizer.ggml.token_type': { array: { type: 'i32', values: tokens.map((_, id) => (id < 256 ? 1 : 3)) } },
    'tokenizer.ggml.merges': { array: { type: 'string', values: [] } },
    'tokenizer.ggml.bos_token_id': { u32: 257 },
    'tokenizer.ggml.eos_token_id': end,
    'tokenizer.chat_template': TINY_CHAT_TEMPLATE,
  };
}

/** GPT-2's letter for a byte: itself if printable, else one from U+0100 on. */
function byteToken(byte: number): string {
  const prints = (code: number) => (code >= 33 && code <= 126) || (code >= 161 && code <= 255 && code !== 173);
  if (prints(byte)) return String.fromCodePoint(byte);
  const rank = Array.from({ length: byte }, (_, code) => code).filter((code) => !prints(code)).length;
  return String.fromCodePoint(256 + rank);
}

function expertTensors(a: Architecture, prefix: string, { router, matrices, biases }: ExpertWeights): GgufTensorData[] {
  const { count } = a.experts!;
  return [
    { name: `${prefix}.${ROUTER_TENSOR}`, dims: [a.hiddenSize, count], data: router },
    ...EXPERT_MATRICES.map((matrix) => {
      const dims = expertDims(a, matrix);
      return {
        name: `${prefix}.${EXPERT_TENSORS[matrix]}`,
        dims: [dims.in, dims.out, count],
        data: matrices[matrix] as Float32Array,
      };
    }),
    ...(biases === null
      ? []
      : [
          { name: `${prefix}.${ROUTER_BIAS}`, dims: [count], data: biases.router },
          ...EXPERT_MATRICES.map((matrix) => ({
            name: `${prefix}.${EXPERT_BIASES[matrix]}`,
            dims: [expertDims(a, matrix).out, count],
            data: biases[matrix],
          })),
        ]),
  ];
}

function convolutionTensor(a: Architecture, prefix: string, weights: Float32Array): GgufTensorData {
  const { size } = a.convolution!;
  const data = weights.map((_, i) => weights[(i % size) * a.hiddenSize + Math.floor(i / size)]!);
  return { name: `${prefix}.${CONVOLUTION_TENSOR}`, dims: [size, a.hiddenSize], data };
}

function deltaTensors(a: Architecture, prefix: string, vectors: DeltaVectors): GgufTensorData[] {
  const { convolutionSize: size, numValueHeads, valueSize } = a.deltaNet!;
  const { channels } = deltaSizes(a.deltaNet!);
  const bySize = vectors.convolution.map((_, i) => vectors.convolution[(i % size) * channels + Math.floor(i / size)]!);
  const tensor = (part: keyof DeltaVectors, dims: readonly number[], data = vectors[part]): GgufTensorData => ({
    name: `${prefix}.${DELTA_TENSORS[part]}`,
    dims,
    data,
  });
  return [
    tensor('convolution', [size, channels], bySize),
    tensor('decay', [numValueHeads]),
    tensor('step', [numValueHeads]),
    tensor('norm', [valueSize]),
  ];
}

/** Random weights in the file layout of that architecture. */
export function tinyTensors(a: Architecture, isTied = false, seed = 21): GgufTensorData[] {
  const weights = tinyWeights(a, randomSource(seed));
  const vector = (name: string, data: Float32Array) => ({ name, dims: [data.length], data });
  return [
    { name: 'token_embd.weight', dims: [a.hiddenSize, a.vocabSize], data: weights.embedding },
    ...(isTied ? [] : [{ name: 'output.weight', dims: [a.hiddenSize, a.vocabSize], data: weights.output }]),
    vector(
      familyOf(a).outputNorm,
      weights.outputNorm.map((value) => value * a.logitScale),
    ),
    ...(weights.ropeFactors === null
      ? []
      : [
          vector(
            ROPE_FACTORS.long,
            weights.ropeFactors.map((factor) => 4 * factor),
          ),
          vector(ROPE_FACTORS.short, weights.ropeFactors),
        ]),
    ...weights.blocks.flatMap((block, layer) => {
      const prefix = `blk.${layer}`;
      return [
        ...(
          [
            ['before', block.normsBefore],
            ['after', block.normsAfter],
          ] as const
        ).flatMap(([place, norms]) =>
          norms === null
            ? []
            : (['attention', 'feedForward'] as const).map((of) =>
                vector(`${prefix}.${normTensorsOf(familyOf(a))[place][of]}.weight`, norms[of]),
              ),
        ),
        ...storedLinears(a, layer).flatMap((linear) => {
          const dims = linearDims(a, linear);
          const parts = rowsOf(a, block, linear);
          return [
            {
              name: `${prefix}.${ggufLinear(a, layer, linear)}.weight`,
              dims: [dims.in, dims.out],
              data: Float32Array.from(parts.flatMap(({ data }) => [...data])),
            },
            ...(block.bias === null || !['q', 'k', 'v'].includes(linear)
              ? []
              : [vector(`${prefix}.attn_${linear}.bias`, block.bias.subarray(parts[0]!.start, parts[0]!.end))]),
          ];
        }),
        ...(block.outputBias === null ? [] : [vector(`${prefix}.${OUTPUT_BIAS}`, block.outputBias)]),
        ...(block.sinks === null ? [] : [vector(`${prefix}.${SINKS_TENSOR}`, block.sinks)]),
        ...Object.entries(block.queryKeyNorms ?? {}).map(([linear, data]) =>
          vector(`${prefix}.attn_${linear}_norm.weight`, data),
        ),
        ...(block.convolution === null ? [] : [convolutionTensor(a, prefix, block.convolution)]),
        ...(block.deltaNet === null ? [] : deltaTensors(a, prefix, block.deltaNet)),
        ...(block.experts === null ? [] : expertTensors(a, prefix, block.experts)),
      ];
    }),
  ];
}

/** Rows of a linear layer, and their places in each matrix that has some. */
function rowsOf(a: Architecture, { matrices }: BlockWeights, linear: LinearName) {
  return PROJECTION_NAMES.flatMap((projection) => {
    let end = 0;
    return projectionParts(a, projection).flatMap((rows) => {
      const start = end;
      end += rows.numRows;
      return rows.linear === linear ? [{ start, end, data: matrices[projection]!.plainRows(start, end) }] : [];
    });
  });
}
