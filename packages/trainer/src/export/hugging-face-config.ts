import { type Architecture, longRopeMagnitude } from '@trainyard/transformer';
import { TrainerError } from '../contract/errors.ts';
import { decimal } from '../model-folder/config-fields.ts';
import { transformersFamily } from '../model-folder/transformers-families.ts';
import type { MergedType } from './merged-weights.ts';

const DTYPES: Readonly<Record<MergedType, string>> = { f32: 'float32', f16: 'float16' };

export interface ModelFacts {
  /** Tokens. */
  readonly contextLength: number;
  readonly bosTokenId: number | null;
  readonly eosTokenId: number;
  /** True if the output matrix is the embedding. */
  readonly hasTiedEmbeddings: boolean;
}

/** Factors of longrope. */
export type LongRopeFactors = Readonly<Record<'short' | 'long', Float32Array>>;

function ropeScaling({ ropeScale, yarn }: Architecture, factors: LongRopeFactors | null): object | null {
  // transformers wants no other members.
  if (factors !== null)
    return {
      type: 'longrope',
      short_factor: Array.from(factors.short, decimal),
      long_factor: Array.from(factors.long, decimal),
    };
  if (yarn === null) return ropeScale === 1 ? null : { type: 'linear', rope_type: 'linear', factor: ropeScale };
  return {
    type: 'yarn',
    rope_type: 'yarn',
    factor: decimal(yarn.factor),
    original_max_position_embeddings: yarn.originalContext,
    beta_fast: decimal(yarn.betaFast),
    beta_slow: decimal(yarn.betaSlow),
    truncate: yarn.isRounded,
  };
}

/**
 * @param ropeFactors null without longrope
 * @throws {TrainerError} `trainer.architecture_unsupported` if no class of transformers that exports have computes it
 */
export function huggingFaceConfig(
  architecture: Architecture,
  facts: ModelFacts,
  ropeFactors: LongRopeFactors | null,
  type: MergedType,
): object {
  const { name, rmsEpsilon, longRope } = architecture;
  const usual = longRope === null ? 1 : longRopeMagnitude(facts.contextLength, longRope.originalContext);
  const family = Math.abs((longRope?.magnitude ?? 1) - usual) < 1e-4 ? transformersFamily(architecture) : undefined;
  const fields = family?.fields(architecture) ?? {};
  // Without the setting, only the class of Qwen 2 has biases of q, k and v.
  const mayHaveBiases = family?.hasQkvBias === true || 'attention_bias' in fields;
  if (family === undefined || (architecture.hasAttentionBias && !mayHaveBiases)) {
    throw new TrainerError(
      'trainer.architecture_unsupported',
      `the format merged-safetensors has no class of transformers for this ${name} model; use the format merged-gguf`,
    );
  }
  return {
    architectures: [family.className],
    model_type: family.modelType,
    vocab_size: architecture.vocabSize,
    hidden_size: architecture.hiddenSize,
    intermediate_size: architecture.feedForwardSize,
    num_hidden_layers: architecture.numLayers,
    num_attention_heads: architecture.numHeads,
    num_key_value_heads: architecture.numKvHeads,
    head_dim: architecture.headSize,
    max_position_embeddings: facts.contextLength,
    rms_norm_eps: decimal(rmsEpsilon),
    rope_theta: decimal(architecture.ropeBase),
    rope_scaling: ropeScaling(architecture, ropeFactors),
    ...(longRope === null ? {} : { original_max_position_embeddings: longRope.originalContext }),
    ...fields,
    attention_dropout: 0,
    initializer_range: 0.02,
    tie_word_embeddings: facts.hasTiedEmbeddings,
    // Defaults of some classes are above the vocabulary.
    pad_token_id: null,
    bos_token_id: facts.bosTokenId,
    eos_token_id: facts.eosTokenId,
    use_cache: true,
    torch_dtype: DTYPES[type],
  };
}
