/** A random two-layer model for tests: small enough for finite differences, with every feature of an architecture on request. */
import type { Architecture } from '../model/architecture.ts';
import { linearDims } from '../model/architecture.ts';
import type { LoraParameters, PackedRow } from '../model/policy-model.ts';
import { DEFAULT_LORA_CONFIG } from '../model/policy-model.ts';
import { projectionDims } from '../model/projections.ts';
import type { BlockWeights, ModelWeights } from '../model/weights.ts';
import { wideMatrices } from '../model/weights.ts';
import { sharedFloats } from '../model/workspace.ts';

export const TINY_ARCHITECTURE: Architecture = {
  name: 'llama',
  vocabSize: 48,
  hiddenSize: 32,
  feedForwardSize: 64,
  numLayers: 2,
  numHeads: 4,
  numKvHeads: 2,
  headSize: 8,
  rmsEpsilon: 1e-5,
  ropeBase: 10_000,
  ropeScale: 1,
  hasAttentionBias: false,
  hasHeadNorm: false,
  hasInterleavedHeads: true,
};

export type Random = () => number;

/** Uniform in [-1, 1). */
export function randomSource(seed: number): Random {
  let state = seed >>> 0;
  return () => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0;
    return state / 2 ** 31 - 1;
  };
}

const randoms = (random: Random, length: number, scale: number, offset = 0) =>
  Float32Array.from({ length }, () => offset + scale * random());

export function tinyWeights(architecture: Architecture, random: Random): ModelWeights {
  const { vocabSize, hiddenSize, headSize, numLayers } = architecture;
  const norm = (length: number) => randoms(random, length, 0.3, 1);
  const block = (): BlockWeights => ({
    attentionNorm: norm(hiddenSize),
    feedForwardNorm: norm(hiddenSize),
    matrices: wideMatrices(architecture, DEFAULT_LORA_CONFIG, (linear) => {
      const dims = linearDims(architecture, linear);
      return randoms(random, dims.in * dims.out, 2 / Math.sqrt(dims.in));
    }),
    bias: architecture.hasAttentionBias ? randoms(random, projectionDims(architecture, 'qkv').out, 0.5) : null,
    headNorms: architecture.hasHeadNorm ? { q: norm(headSize), k: norm(headSize) } : null,
  });
  const embedding = randoms(random, vocabSize * hiddenSize, 1);
  const output = sharedFloats(vocabSize * hiddenSize);
  output.set(randoms(random, output.length, 0.5));
  return {
    embedding,
    blocks: Array.from({ length: numLayers }, block),
    outputNorm: norm(hiddenSize),
    output,
    ropeFactors: null,
  };
}

/** Gives both halves of an adapter values of ordinary size, so that every gradient is non-zero. */
export function randomizeAdapter(lora: LoraParameters, random: Random): void {
  for (const tensor of lora.tensors) for (let i = 0; i < tensor.value.length; i++) tensor.value[i] = 0.3 * random();
}

/** Sequences of token ids as trained rows: everything after the first `numPrompt` tokens is trained. */
export interface TinySequence {
  readonly tokenIds: readonly number[];
  readonly numPrompt: number;
}

/** Each group of sequences becomes one trie; tries follow each other in the row. Trained tokens come in the order of `groups`. */
export function packTrie(groups: readonly (readonly TinySequence[])[]): PackedRow {
  const row = { tokenIds: [] as number[], positions: [] as number[], parents: [] as number[] };
  const trained = new Map<TinySequence, number[]>();
  /** Writes the subtree of sequences that agree on their first `depth` tokens. */
  const write = (sequences: readonly TinySequence[], depth: number, parent: number): void => {
    const branches = Map.groupBy(
      sequences.filter((sequence) => sequence.tokenIds.length > depth),
      (sequence) => sequence.tokenIds[depth]!,
    );
    for (const [tokenId, branch] of branches) {
      const index = row.tokenIds.push(tokenId) - 1;
      row.positions.push(depth);
      row.parents.push(parent);
      for (const sequence of branch) {
        if (depth >= sequence.numPrompt) trained.set(sequence, [...(trained.get(sequence) ?? []), index]);
      }
      write(branch, depth + 1, index);
    }
  };
  for (const group of groups) write(group, 0, -1);
  const indices = groups.flat().flatMap((sequence) => trained.get(sequence) ?? []);
  return {
    tokenIds: Int32Array.from(row.tokenIds),
    positions: Int32Array.from(row.positions),
    parents: Int32Array.from(row.parents),
    sources: Int32Array.from(indices, (index) => row.parents[index]!),
    targets: Int32Array.from(indices, (index) => row.tokenIds[index]!),
  };
}
