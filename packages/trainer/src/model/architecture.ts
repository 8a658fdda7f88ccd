import type { GgufFile } from '@trainyard/native';
import { TrainerError } from '../errors.ts';
import type { LinearName } from './policy-model.ts';

/** What distinguishes one decoder from another, as the layer graphs need it. Sizes as in the model file. */
export interface Architecture {
  /** `general.architecture` of the GGUF file. */
  readonly name: string;
  readonly vocabSize: number;
  readonly hiddenSize: number;
  readonly feedForwardSize: number;
  readonly numLayers: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headSize: number;
  readonly rmsEpsilon: number;
  readonly ropeBase: number;
  /** Positions are divided by it (linear rope scaling); 1 = none. */
  readonly ropeScale: number;
  /** q, k and v have a bias (Qwen 2). */
  readonly hasAttentionBias: boolean;
  /** Each head of q and k is RMS-normalised before rope (Qwen 3). */
  readonly hasHeadNorm: boolean;
  /** GGUF stores q and k rows for interleaved rope: rows (2j, 2j+1) of a head are rows (j, j + D/2) of the original. */
  readonly hasInterleavedHeads: boolean;
}

type ModelFile = Pick<GgufFile, 'metadata' | 'tensors'>;

// Only what the file cannot tell by itself; biases and head norms show in its tensors.
const SUPPORTED: Readonly<Record<string, { readonly hasInterleavedHeads: boolean }>> = {
  llama: { hasInterleavedHeads: true },
  qwen2: { hasInterleavedHeads: false },
  qwen3: { hasInterleavedHeads: false },
};

/** Tensors of a block that the layer graphs use; a file with others computes something else. */
const BLOCK_TENSORS: ReadonlySet<string> = new Set([
  ...['attn_norm', 'ffn_norm', 'attn_q_norm', 'attn_k_norm'].map((name) => `${name}.weight`),
  ...['attn_q', 'attn_k', 'attn_v', 'attn_output', 'ffn_gate', 'ffn_up', 'ffn_down'].map((name) => `${name}.weight`),
  ...['attn_q', 'attn_k', 'attn_v'].map((name) => `${name}.bias`),
]);

/**
 * Reads the architecture from a model file's metadata.
 * @throws {TrainerError} `trainer.architecture_unsupported`, naming what is supported
 */
export function readArchitecture(file: ModelFile): Architecture {
  const name = String(file.metadata.get('general.architecture'));
  const family = SUPPORTED[name];
  if (family === undefined) {
    throw unsupported(`architecture "${name}" cannot be trained; supported: ${Object.keys(SUPPORTED).join(', ')}`);
  }
  const optional = (key: string): number | undefined => {
    const value = file.metadata.get(`${name}.${key}`);
    return value === undefined ? undefined : Number(value);
  };
  const required = (key: string): number => {
    const value = optional(key);
    if (value === undefined || !Number.isFinite(value))
      throw unsupported(`the model file has no usable ${name}.${key}`);
    return value;
  };
  const hiddenSize = required('embedding_length');
  const numHeads = required('attention.head_count');
  const headSize = optional('attention.key_length') ?? hiddenSize / numHeads;
  const vocabSize = file.tensors.get('token_embd.weight')?.dims[1];
  if (vocabSize === undefined) throw unsupported('the model file has no token_embd.weight');
  refuseUnknownTensors(file, name);
  const ropeDims = optional('rope.dimension_count') ?? headSize;
  if (ropeDims !== headSize)
    throw unsupported(`rope over ${ropeDims} of ${headSize} dimensions of a head is not supported`);
  const scaling = file.metadata.get(`${name}.rope.scaling.type`) ?? 'none';
  if (scaling !== 'none' && scaling !== 'linear')
    throw unsupported(`rope scaling "${String(scaling)}" is not supported; supported: none, linear`);
  return {
    name,
    vocabSize,
    hiddenSize,
    feedForwardSize: required('feed_forward_length'),
    numLayers: required('block_count'),
    numHeads,
    numKvHeads: optional('attention.head_count_kv') ?? numHeads,
    headSize,
    rmsEpsilon: required('attention.layer_norm_rms_epsilon'),
    ropeBase: optional('rope.freq_base') ?? 10_000,
    ropeScale: scaling === 'linear' ? required('rope.scaling.factor') : 1,
    hasAttentionBias: file.tensors.has('blk.0.attn_q.bias'),
    hasHeadNorm: file.tensors.has('blk.0.attn_q_norm.weight'),
    hasInterleavedHeads: family.hasInterleavedHeads,
  };
}

/** Input and output features of a linear layer. */
export function linearDims(architecture: Architecture, linear: LinearName): { in: number; out: number } {
  const { hiddenSize, feedForwardSize, numHeads, numKvHeads, headSize } = architecture;
  switch (linear) {
    case 'q':
      return { in: hiddenSize, out: numHeads * headSize };
    case 'k':
    case 'v':
      return { in: hiddenSize, out: numKvHeads * headSize };
    case 'o':
      return { in: numHeads * headSize, out: hiddenSize };
    case 'gate':
    case 'up':
      return { in: hiddenSize, out: feedForwardSize };
    case 'down':
      return { in: feedForwardSize, out: hiddenSize };
    default:
      return linear satisfies never;
  }
}

function refuseUnknownTensors(file: ModelFile, name: string): void {
  for (const tensor of file.tensors.keys()) {
    const part = /^blk\.\d+\.(.+)$/.exec(tensor)?.[1];
    if (part !== undefined && !BLOCK_TENSORS.has(part)) {
      throw unsupported(
        `this ${name} model has the tensor ${tensor}, which training does not know (mixture of experts, for example)`,
      );
    }
  }
}

const unsupported = (message: string) => new TrainerError('trainer.architecture_unsupported', message);
