/** Activation of the gate of a feed-forward; GELU is its tanh form. */
export type Activation = 'silu' | 'gelu';

/** Traits of an architecture that its model files do not contain. Biases and norms show in the tensors. */
export interface Family {
  /** True if GGUF stores q and k rows for interleaved rope. */
  readonly hasInterleavedHeads: boolean;
  readonly activation: Activation;
  /** True if the outputs of attention and feed-forward are RMS-normalised before they are added. */
  readonly hasPostNorms: boolean;
  /** True if embeddings are multiplied by √H before the first block. */
  readonly scalesEmbedding: boolean;
  /** Sliding windows that a file may set, and their defaults; null if none is supported. */
  readonly windowedLayers: { readonly period: number; readonly ropeBase: number } | null;
  /** Number of blocks of the one size that llama.cpp recognises by it and whose attention has another scale. */
  readonly otherScaleLayers: number | null;
}

const LLAMA: Family = {
  hasInterleavedHeads: true,
  activation: 'silu',
  hasPostNorms: false,
  scalesEmbedding: false,
  windowedLayers: null,
  otherScaleLayers: null,
};

/** Factor of embeddings as input of the first block; 1 = none. */
export const embeddingScaleOf = ({ scalesEmbedding }: Family, hiddenSize: number): number =>
  scalesEmbedding ? Math.fround(Math.sqrt(hiddenSize)) : 1;

/** Trainable architectures by their name in GGUF files. */
export const FAMILIES: Readonly<Record<string, Family>> = {
  llama: LLAMA,
  qwen2: { ...LLAMA, hasInterleavedHeads: false },
  qwen3: { ...LLAMA, hasInterleavedHeads: false },
  gemma3: {
    hasInterleavedHeads: false,
    activation: 'gelu',
    hasPostNorms: true,
    scalesEmbedding: true,
    windowedLayers: { period: 6, ropeBase: 10_000 },
    otherScaleLayers: 62,
  },
};
