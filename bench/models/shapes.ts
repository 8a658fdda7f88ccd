import type { Architecture } from '@trainyard/transformer';

/** Sizes of a model whose weights are random: speed and memory do not depend on their values. */
export type ModelShape = Pick<
  Architecture,
  'name' | 'hiddenSize' | 'feedForwardSize' | 'numLayers' | 'numHeads' | 'numKvHeads' | 'headSize' | 'vocabSize'
> & {
  readonly hasHeadNorm: boolean;
  readonly hasPostNorms: boolean;
  /** Tokens that a windowed layer sees; null: no windows. */
  readonly windowTokens: number | null;
};

/** Shapes of models that people train, by the size in their names. All tie embedding and head. */
export const SHAPES: Readonly<Record<string, ModelShape>> = {
  // SmolLM2-135M
  '135M': {
    name: 'llama',
    hiddenSize: 576,
    feedForwardSize: 1536,
    numLayers: 30,
    numHeads: 9,
    numKvHeads: 3,
    headSize: 64,
    vocabSize: 49_152,
    hasHeadNorm: false,
    hasPostNorms: false,
    windowTokens: null,
  },
  // Gemma 3 270M
  '270M': {
    name: 'gemma3',
    hiddenSize: 640,
    feedForwardSize: 2048,
    numLayers: 18,
    numHeads: 4,
    numKvHeads: 1,
    headSize: 256,
    vocabSize: 262_144,
    hasHeadNorm: true,
    hasPostNorms: true,
    windowTokens: 512,
  },
  // Qwen3-0.6B
  '0.6B': {
    name: 'qwen3',
    hiddenSize: 1024,
    feedForwardSize: 3072,
    numLayers: 28,
    numHeads: 16,
    numKvHeads: 8,
    headSize: 128,
    vocabSize: 151_936,
    hasHeadNorm: true,
    hasPostNorms: false,
    windowTokens: null,
  },
  // Qwen3-1.7B
  '1.7B': {
    name: 'qwen3',
    hiddenSize: 2048,
    feedForwardSize: 6144,
    numLayers: 28,
    numHeads: 16,
    numKvHeads: 8,
    headSize: 128,
    vocabSize: 151_936,
    hasHeadNorm: true,
    hasPostNorms: false,
    windowTokens: null,
  },
};

/** For tests of the bench: its figures mean nothing. */
export const TINY: ModelShape = {
  name: 'qwen3',
  hiddenSize: 64,
  feedForwardSize: 128,
  numLayers: 2,
  numHeads: 2,
  numKvHeads: 1,
  headSize: 32,
  vocabSize: 0,
  hasHeadNorm: true,
  hasPostNorms: false,
  windowTokens: null,
};
