/** A random two-layer model, small enough for finite differences, with every feature of an architecture on request. */
import type { Architecture } from '../model/architecture.ts';
import { defaultLora, linearDims, numRotated, queryKeyNormWidth } from '../model/architecture.ts';
import { projectionDims } from '../model/projections.ts';
import { expertDims, type ExpertMatrix, expertsIn } from '../model/experts.ts';
import { type DeltaVectors, deltaSizes } from '../model/gated-delta-net.ts';
import { layerMixer } from '../model/layer-mixer.ts';
import type { BlockWeights, ExpertWeights, ModelWeights } from '../model/weights.ts';
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
  rotatedSize: null,
  rmsEpsilon: 1e-5,
  ropeBase: 10_000,
  ropeScale: 1,
  yarn: null,
  longRope: null,
  hasFusedLinears: false,
  hasAttentionBias: false,
  hasSinks: false,
  hasOutputGate: false,
  queryKeyNorm: null,
  hasInterleavedHeads: true,
  activation: 'silu',
  norms: { before: true, after: false },
  embeddingScale: 1,
  attentionScale: null,
  residualScale: 1,
  logitScale: 1,
  window: null,
  unrotatedPeriod: null,
  experts: null,
  convolution: null,
  deltaNet: null,
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

function shared(values: Float32Array): Float32Array {
  const result = sharedFloats(values.length);
  result.set(values);
  return result;
}

/** Scores are far apart, as after training: a token's experts rarely depend on rounding. */
function randomExperts(architecture: Architecture, random: Random): ExpertWeights {
  const { count } = architecture.experts!;
  const matrix = (name: ExpertMatrix) => {
    const dims = expertDims(architecture, name);
    return shared(randoms(random, count * dims.in * dims.out, 2 / Math.sqrt(dims.in)));
  };
  const bias = (length: number) => randoms(random, length, 0.5);
  const biasOf = (name: ExpertMatrix) => bias(count * expertDims(architecture, name).out);
  return {
    router: shared(randoms(random, count * architecture.hiddenSize, 0.5)),
    matrices: { gate: matrix('gate'), up: matrix('up'), down: matrix('down') },
    biases: architecture.experts!.hasBiases
      ? { router: bias(count), gate: biasOf('gate'), up: biasOf('up'), down: biasOf('down') }
      : null,
  };
}

/**
 * Makes k resemble q, as training does: the output of unrelated ones is near 0, and its norm magnifies rounding.
 *
 * @param rows of q, then of k, in place @param length numbers of q
 */
function relate(rows: Float32Array, length: number): void {
  for (let i = 0; i < length; i++) rows[length + i] = 0.8 * rows[i]! + 0.6 * rows[length + i]!;
}

/** States decay slowly in some heads and fast in others, as in real models. */
function randomDeltaNet({ deltaNet }: Architecture, random: Random): DeltaVectors {
  const { channels, k } = deltaSizes(deltaNet!);
  const { numValueHeads, valueSize, convolutionSize } = deltaNet!;
  const convolution = shared(randoms(random, convolutionSize * channels, 1));
  for (let tap = 0; tap < convolutionSize; tap++) relate(convolution.subarray(tap * channels), k);
  return {
    convolution,
    decay: shared(Float32Array.from({ length: numValueHeads }, () => -Math.exp(2 * random() - 2))),
    step: shared(randoms(random, numValueHeads, 1)),
    norm: shared(randoms(random, valueSize, 0.3, 1)),
  };
}

export function tinyWeights(architecture: Architecture, random: Random): ModelWeights {
  const { vocabSize, hiddenSize, numLayers, queryKeyNorm } = architecture;
  const norm = (length: number) => randoms(random, length, 0.3, 1);
  const norms = (place: 'before' | 'after') =>
    architecture.norms[place] ? { attention: norm(hiddenSize), feedForward: norm(hiddenSize) } : null;
  const ofQueries = (linear: 'q' | 'k') => norm(queryKeyNormWidth(architecture, linear));
  const block = (layer: number): BlockWeights => {
    const mixer = layerMixer(architecture, layer);
    return {
      normsBefore: norms('before'),
      matrices: wideMatrices(architecture, { lora: defaultLora(architecture), layer }, ({ linear, numRows }) => {
        const { in: width } = linearDims(architecture, linear);
        const rows = randoms(random, width * numRows, 2 / Math.sqrt(width));
        if (linear === 'deltaQkv') relate(rows, width * deltaSizes(architecture.deltaNet!).k);
        return rows;
      }),
      normsAfter: norms('after'),
      bias: architecture.hasAttentionBias ? randoms(random, projectionDims(architecture, 'qkv').out, 0.5) : null,
      outputBias: architecture.hasSinks ? randoms(random, hiddenSize, 0.5) : null,
      sinks: architecture.hasSinks ? randoms(random, architecture.numHeads, 1) : null,
      queryKeyNorms: queryKeyNorm === null || mixer !== 'attention' ? null : { q: ofQueries('q'), k: ofQueries('k') },
      convolution:
        mixer === 'convolution' ? shared(randoms(random, architecture.convolution!.size * hiddenSize, 1)) : null,
      deltaNet: mixer === 'deltaNet' ? randomDeltaNet(architecture, random) : null,
      experts: expertsIn(architecture, layer) === null ? null : randomExperts(architecture, random),
    };
  };
  const embedding = randoms(random, vocabSize * hiddenSize, 1);
  const output = sharedFloats(vocabSize * hiddenSize);
  output.set(randoms(random, output.length, 0.5));
  return {
    embedding,
    blocks: Array.from({ length: numLayers }, (_, layer) => block(layer)),
    outputNorm: norm(hiddenSize).map((value) => value / architecture.logitScale),
    output,
    ropeFactors: architecture.longRope === null ? null : randoms(random, numRotated(architecture) / 2, 0.5, 1.5),
  };
}
