import { rmSync } from 'node:fs';

import { GgufFile, type GgufTensorShape, type GgufWritableValue, GgufWriter, quantizeModel } from '@trainyard/native';
import { GGUF_LINEARS, LINEAR_NAMES, linearDims } from '@trainyard/transformer';

import type { ModelShape } from './shapes.ts';

const CONTEXT_LENGTH = 4096;
/** GGUF's type of a token that no text has. */
const UNUSED_TOKEN = 5;
/** Values that all matrices repeat: more of them would only take longer to write. */
const POOL_VALUES = (1 << 20) + 17;

/**
 * Writes a model of random weights in Q4_0.
 *
 * @param source model file whose vocabulary and chat template it gets; tokens that it lacks are unused ones
 * @param to must not exist
 */
export function writeRandomModel(source: string, shape: ModelShape, to: string): void {
  const half = `${to}.f16`;
  try {
    writeHalf(source, shape, half);
    quantizeModel(half, to, 'q4_0', 2);
  } finally {
    rmSync(half, { force: true });
  }
}

function writeHalf(from: string, shape: ModelShape, to: string): void {
  using source = GgufFile.open(from);
  const tokens = listOf(source, 'tokenizer.ggml.tokens');
  const vocabSize = Math.max(shape.vocabSize, tokens.length);
  const others = `${String(source.metadata.get('general.architecture'))}.`;
  const kept = Object.entries(source.rawMetadata()).filter(([key]) => !key.startsWith(others));
  const numUnused = vocabSize - tokens.length;
  const metadata: Record<string, GgufWritableValue> = {
    ...Object.fromEntries(kept),
    ...metadataOf(shape, vocabSize),
    'tokenizer.ggml.tokens': {
      array: { type: 'string', values: [...tokens, ...Array.from({ length: numUnused }, (_, i) => `<|unused ${i}|>`)] },
    },
    'tokenizer.ggml.token_type': {
      array: {
        type: 'i32',
        values: [
          ...listOf(source, 'tokenizer.ggml.token_type'),
          ...Array.from({ length: numUnused }, () => UNUSED_TOKEN),
        ],
      },
    },
  };
  const tensors = tensorsOf(shape, vocabSize);
  using writer = new GgufWriter(to, metadata, tensors);
  const pool = randomHalves();
  for (const { dims } of tensors) {
    const numValues = dims.reduce((product, dim) => product * dim, 1);
    // A norm of ones keeps activations in range at any depth.
    if (dims.length === 1) writer.add(new Float32Array(numValues).fill(1));
    else writer.addBytes(repeated(pool, numValues));
  }
  writer.finish();
}

function metadataOf(shape: ModelShape, vocabSize: number): Record<string, GgufWritableValue> {
  const { name, windowTokens } = shape;
  const sizes = {
    vocab_size: vocabSize,
    context_length: CONTEXT_LENGTH,
    block_count: shape.numLayers,
    embedding_length: shape.hiddenSize,
    feed_forward_length: shape.feedForwardSize,
    'attention.head_count': shape.numHeads,
    'attention.head_count_kv': shape.numKvHeads,
    'attention.key_length': shape.headSize,
    'attention.value_length': shape.headSize,
    'rope.dimension_count': shape.headSize,
    ...(windowTokens === null ? {} : { 'attention.sliding_window': windowTokens }),
  };
  return {
    'general.architecture': name,
    'general.name': 'Random weights',
    'general.file_type': { u32: 1 },
    ...Object.fromEntries(Object.entries(sizes).map(([key, value]) => [`${name}.${key}`, { u32: value }])),
    [`${name}.attention.layer_norm_rms_epsilon`]: 1e-6,
    [`${name}.rope.freq_base`]: 1e6,
  };
}

function tensorsOf(shape: ModelShape, vocabSize: number): GgufTensorShape[] {
  const { hiddenSize, headSize, hasHeadNorm, hasPostNorms } = shape;
  const vector = (name: string, size: number): GgufTensorShape => ({
    name: `${name}.weight`,
    dims: [size],
    type: 'f32',
  });
  const matrix = (name: string, dims: readonly number[]): GgufTensorShape => ({
    name: `${name}.weight`,
    dims,
    type: 'f16',
  });
  const norms = ['attn_norm', 'ffn_norm', ...(hasPostNorms ? ['post_attention_norm', 'post_ffw_norm'] : [])];
  const headNorms = hasHeadNorm ? ['attn_q_norm', 'attn_k_norm'] : [];
  return [
    matrix('token_embd', [hiddenSize, vocabSize]),
    vector('output_norm', hiddenSize),
    ...Array.from({ length: shape.numLayers }, (_, layer) => [
      ...norms.map((norm) => vector(`blk.${layer}.${norm}`, hiddenSize)),
      ...headNorms.map((norm) => vector(`blk.${layer}.${norm}`, headSize)),
      ...LINEAR_NAMES.map((linear) => {
        const dims = linearDims({ ...shape, hasOutputGate: false, deltaNet: null }, linear);
        return matrix(`blk.${layer}.${GGUF_LINEARS[linear]}`, [dims.in, dims.out]);
      }),
    ]).flat(),
  ];
}

/** Uniform in ±0.03: outputs of every layer stay finite, and no token is certain. */
function randomHalves(): Uint8Array {
  let state = 1;
  const values = Float32Array.from({ length: POOL_VALUES }, () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return 0.06 * (state / 2 ** 32 - 0.5);
  });
  return new Uint8Array(new Float16Array(values).buffer);
}

function* repeated(pool: Uint8Array, numValues: number): Generator<Uint8Array> {
  for (let left = 2 * numValues; left > 0; left -= pool.length) yield pool.subarray(0, Math.min(left, pool.length));
}

function listOf(file: GgufFile, key: string): (string | number)[] {
  const values = file.metadata.get(key);
  return Array.isArray(values) ? (values as (string | number)[]) : [];
}
