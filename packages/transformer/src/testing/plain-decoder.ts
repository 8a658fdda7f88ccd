import { layerKind, type Architecture } from '../model/architecture.ts';
import { deltaSizes } from '../model/gated-delta-net.ts';
import { projectionDims, type ProjectionName } from '../model/projections.ts';
import type { BlockWeights, ExpertWeights, ModelWeights } from '../model/weights.ts';

type Vector = ArrayLike<number>;

/** The tanh form of GELU, from its definition. */
const plainGelu = (x: number): number => (x / 2) * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** GELU of llama.cpp on a processor: a table by half-precision arguments of half-precision values. */
export const tabulatedGelu = (x: number): number =>
  x <= -10 ? 0 : x >= 10 ? x : Math.f16round(plainGelu(Math.f16round(x)));

/**
 * Naive twin of all graphs in float64, one token after the other.
 *
 * @param gelu for models with that activation
 * @returns log-probabilities [T][V] of each next token
 */
export function plainLogprobs(
  architecture: Architecture,
  weights: ModelWeights,
  tokenIds: readonly number[],
  gelu = plainGelu,
): number[][] {
  const { hiddenSize: H, rmsEpsilon, embeddingScale, numLayers } = architecture;
  const norm = (x: Vector, weight: Vector) => rmsNorm(x, weight, rmsEpsilon);
  const caches = Array.from({ length: numLayers }, (): { k: number[]; v: number[] }[] => []);
  const inputs = Array.from({ length: numLayers }, (): number[][] => []);
  const states = Array.from({ length: numLayers }, (): number[][][] => []);
  return tokenIds.map((id, position) => {
    let x = Array.from(weights.embedding.subarray(id * H, (id + 1) * H), (value) => value * embeddingScale);
    const normOr = (row: number[], weight: Float32Array | undefined) =>
      weight === undefined ? row : norm(row, weight);
    for (const [layer, block] of weights.blocks.entries()) {
      const linear = linearsOf(architecture, block);
      const { normsBefore, normsAfter } = block;
      const scaled = (row: number[]) => row.map((value) => value * architecture.residualScale);
      const h = normOr(x, normsBefore?.attention);
      const mixed = () => {
        const { q, k, v, gate } = attentionInput(architecture, weights, block, {
          layer,
          position,
          qkv: linear('qkv', h),
        });
        caches[layer]!.push({ k, v });
        const { window } = architecture;
        const isWindowed = layerKind(architecture, layer) === 'windowed';
        const seen = isWindowed ? caches[layer]!.slice(-window!.tokens) : caches[layer]!;
        const o = attend(architecture, { q, seen, sinks: block.sinks });
        const gated = gate === null ? o : o.map((value, i) => value / (1 + Math.exp(-gate[i]!)));
        return plus(linear('o', gated), block.outputBias);
      };
      const instead = () =>
        block.deltaNet === null
          ? convolved(block.convolution!, linear('convIn', h), inputs[layer]!)
          : deltaOutput(architecture, block.deltaNet, linear('convIn', h), {
              inputs: inputs[layer]!,
              states: states[layer]!,
            });
      const attended = block.convolution === null && block.deltaNet === null ? mixed() : linear('convOut', instead());
      x = sum(x, scaled(normOr(attended, normsAfter?.attention)));
      const h2 = normOr(x, normsBefore?.feedForward);
      const activate = architecture.activation === 'gelu' ? gelu : (g: number) => g / (1 + Math.exp(-g));
      const gate = (g: number, u: number) =>
        architecture.activation === 'clamped' ? plainClampedGate(g, u) : activate(g) * u;
      const gated = (by: (name: 'gate' | 'up' | 'down', z: Vector) => number[]) => {
        const up = by('up', h2);
        return by(
          'down',
          by('gate', h2).map((g, i) => gate(g, up[i]!)),
        );
      };
      const ofExperts = block.experts === null ? null : expertSum(architecture, block.experts, h2, gated);
      const ofAll = architecture.experts?.hasSharedFeedForward === true || ofExperts === null ? gated(linear) : null;
      const back = ofExperts === null || ofAll === null ? (ofExperts ?? ofAll!) : sum(ofExperts, ofAll);
      x = sum(x, scaled(normOr(back, normsAfter?.feedForward)));
    }
    // The output norm has the divisor of logits.
    return logSoftmax(multiply(weights.output, norm(x, weights.outputNorm)));
  });
}

/** Appends the token's input to those of the layer. @param weights [size, H] */
function convolved(weights: Float32Array, bcx: number[], inputs: number[][]): number[] {
  const H = bcx.length / 3;
  inputs.push(bcx.slice(0, H).map((b, i) => b * bcx[2 * H + i]!));
  const size = weights.length / H;
  return bcx.slice(H, 2 * H).map((c, i) => {
    const products = Array.from(
      { length: size },
      (_, ago) => weights[(size - 1 - ago) * H + i]! * (inputs.at(-1 - ago)?.[i] ?? 0),
    );
    return c * products.reduce((a, b) => a + b);
  });
}

/** Straight from the formulas, without memory layouts: one matrix [keySize][valueSize] per value head. */
function deltaOutput(
  { deltaNet, rmsEpsilon }: Architecture,
  { convolution, decay, step, norm }: NonNullable<BlockWeights['deltaNet']>,
  products: number[],
  past: { readonly inputs: number[][]; readonly states: number[][][] },
): number[] {
  const { numKeyHeads, numValueHeads, keySize, valueSize, convolutionSize } = deltaNet!;
  const { channels } = deltaSizes(deltaNet!);
  const silu = (x: number) => x / (1 + Math.exp(-x));
  past.inputs.push(products.slice(0, channels));
  const mixed = Array.from({ length: channels }, (_, channel) =>
    silu(
      Array.from(
        { length: convolutionSize },
        (__, ago) =>
          convolution[(convolutionSize - 1 - ago) * channels + channel]! * (past.inputs.at(-1 - ago)?.[channel] ?? 0),
      ).reduce((a, b) => a + b),
    ),
  );
  const unit = (x: number[]) => x.map((value) => value / Math.sqrt(dot(x, x) + 1e-6));
  const [values, gates] = [numKeyHeads * keySize * 2, channels + numValueHeads * valueSize];
  return Array.from({ length: numValueHeads }, (_, head) => {
    const from = (head % numKeyHeads) * keySize;
    const q = unit(mixed.slice(from, from + keySize)).map((value) => value / Math.sqrt(keySize));
    const k = unit(mixed.slice(numKeyHeads * keySize + from, numKeyHeads * keySize + from + keySize));
    const v = mixed.slice(values + head * valueSize, values + (head + 1) * valueSize);
    const z = products.slice(channels + head * valueSize, channels + (head + 1) * valueSize);
    const beta = 1 / (1 + Math.exp(-products[gates + head]!));
    const alpha = Math.exp(
      decay[head]! * Math.log(1 + Math.exp(products[gates + numValueHeads + head]! + step[head]!)),
    );
    const before = past.states[head] ?? k.map(() => v.map(() => 0));
    const decayed = before.map((row) => row.map((value) => alpha * value));
    const wrong = v.map(
      (value, i) => beta * (value - k.reduce((total, key, row) => total + key * decayed[row]![i]!, 0)),
    );
    const state = decayed.map((row, r) => row.map((value, i) => value + k[r]! * wrong[i]!));
    past.states[head] = state;
    const o = v.map((__, i) => q.reduce((total, query, row) => total + query * state[row]![i]!, 0));
    return rmsNorm(o, norm, rmsEpsilon).map((value, i) => value * silu(z[i]!));
  }).flat();
}

function plainClampedGate(gate: number, up: number): number {
  const [g, u] = [Math.min(gate, 7), Math.max(-7, Math.min(up, 7))];
  return ((u + 1) * g) / (1 + Math.exp(-1.702 * g));
}

type Feed = (by: (name: 'gate' | 'up' | 'down', z: Vector) => number[]) => number[];

/** All experts are computed; those that the router does not choose have the factor 0. */
function expertSum(
  architecture: Architecture,
  { router, matrices, biases }: ExpertWeights,
  x: Vector,
  gated: Feed,
): number[] {
  const { count, used, normalisesShares } = architecture.experts!;
  const probabilities = logSoftmax(plus(multiply(router, x), biases?.router ?? null)).map(Math.exp);
  const ranked = [...probabilities.keys()].toSorted((a, b) => probabilities[b]! - probabilities[a]!).slice(0, used);
  const total = normalisesShares ? ranked.reduce((all, expert) => all + probabilities[expert]!, 0) : 1;
  return Array.from({ length: count }, (_, expert) => {
    const share = ranked.includes(expert) ? probabilities[expert]! / total : 0;
    return gated((name, z) => {
      const all = matrices[name] as Float32Array;
      const own = (array: Float32Array) =>
        array.subarray((expert * array.length) / count, ((expert + 1) * array.length) / count);
      return plus(multiply(own(all), z), biases === null ? null : own(biases[name]));
    }).map((value) => share * value);
  }).reduce(sum);
}

const sum = (a: number[], b: number[]): number[] => a.map((value, i) => value + b[i]!);
const plus = (a: number[], b: Float32Array | null): number[] => (b === null ? a : a.map((value, i) => value + b[i]!));
const dot = (a: Vector, b: Vector): number => {
  let total = 0;
  for (let i = 0; i < a.length; i++) total += a[i]! * b[i]!;
  return total;
};
/** matrix [out, in] · x */
const multiply = (matrix: Float32Array, x: Vector): number[] =>
  Array.from({ length: matrix.length / x.length }, (_, row) =>
    dot(matrix.subarray(row * x.length, (row + 1) * x.length), x),
  );

function rmsNorm(x: Vector, weight: Vector, epsilon: number): number[] {
  const scale = 1 / Math.sqrt(dot(x, x) / x.length + epsilon);
  return Array.from(x, (value, i) => value * scale * weight[i]!);
}

const linearsOf = (architecture: Architecture, block: BlockWeights) => (name: ProjectionName, x: Vector) => {
  const { out } = projectionDims(architecture, name);
  return multiply(block.matrices[name]!.plainRows(0, out), x);
};

function attentionInput(
  architecture: Architecture,
  { ropeFactors }: ModelWeights,
  { bias, queryKeyNorms }: BlockWeights,
  { layer, position, qkv }: { readonly layer: number; readonly position: number; readonly qkv: number[] },
): Readonly<Record<'q' | 'k' | 'v', number[]>> & { readonly gate: number[] | null } {
  const { numHeads, numKvHeads, headSize: D, rmsEpsilon, ropeScale, window, yarn } = architecture;
  const { ropeBase, longRope, rotatedSize } = architecture;
  const R = rotatedSize ?? D;
  const y = qkv.map((value, i) => value + (bias?.[i] ?? 0));
  const kind = layerKind(architecture, layer);
  const frequency = (j: number) => {
    if (kind === 'unrotated') return 0;
    if (kind === 'windowed' && window!.ropeBase !== null) return window!.ropeBase ** ((-2 * j) / R);
    const plain = ropeBase ** ((-2 * j) / R) / (ropeFactors?.[j] ?? 1) / ropeScale;
    return yarn === null ? plain : plain / plainYarnDivisor(yarn, ropeBase, { j, size: R });
  };
  const isScaled = kind === 'full' || (kind === 'windowed' && window!.ropeBase === null);
  const magnitude = !isScaled ? 1 : yarn === null ? (longRope?.magnitude ?? 1) : 0.1 * Math.log(yarn.factor) + 1;
  const normalised = (part: number[], weight: Float32Array | undefined) =>
    weight === undefined
      ? part
      : Array.from({ length: part.length / weight.length }, (_, i) =>
          rmsNorm(part.slice(i * weight.length, (i + 1) * weight.length), weight, rmsEpsilon),
        ).flat();
  const rotated = (part: number[], weight: Float32Array | undefined) => {
    const heads = normalised(part, weight);
    return Array.from({ length: part.length / D }, (_, head) => {
      const z = heads.slice(head * D, (head + 1) * D);
      return z.map((value, i) => {
        if (i >= R) return value;
        const angle = position * frequency(i % (R / 2));
        const other = i < R / 2 ? -z[i + R / 2]! : z[i - R / 2]!;
        return magnitude * (value * Math.cos(angle) + other * Math.sin(angle));
      });
    }).flat();
  };
  const endOfQ = (architecture.hasOutputGate ? 2 : 1) * numHeads * D;
  const endOfK = endOfQ + numKvHeads * D;
  const ofHeads = (first: number) =>
    Array.from({ length: numHeads }, (_, head) => y.slice(2 * head * D + first, 2 * head * D + first + D)).flat();
  return {
    q: rotated(architecture.hasOutputGate ? ofHeads(0) : y.slice(0, endOfQ), queryKeyNorms?.q),
    k: rotated(y.slice(endOfQ, endOfK), queryKeyNorms?.k),
    v: y.slice(endOfK),
    gate: architecture.hasOutputGate ? ofHeads(D) : null,
  };
}

/** The paper's ramp over rotations per context, between whole pairs. */
function plainYarnDivisor(
  { factor, originalContext, betaFast, betaSlow, isRounded }: NonNullable<Architecture['yarn']>,
  base: number,
  { j, size }: { j: number; size: number },
): number {
  const pair = (rotations: number) =>
    (size * Math.log(originalContext / (2 * Math.PI * rotations))) / (2 * Math.log(base));
  const [down, up] = isRounded ? [Math.floor, Math.ceil] : [Number, Number];
  const [first, last] = [Math.max(down(pair(betaFast)), 0), Math.min(up(pair(betaSlow)), size - 1)];
  const ramp = j <= first ? 0 : j >= last ? 1 : (j - first) / (last - first);
  return 1 / (ramp / factor + (1 - ramp));
}

function attend(
  { numHeads, numKvHeads, headSize: D, attentionScale }: Architecture,
  { q, seen, sinks }: { q: number[]; seen: readonly { k: number[]; v: number[] }[]; sinks: Float32Array | null },
): number[] {
  return Array.from({ length: numHeads }, (_, head) => {
    const first = Math.floor((head * numKvHeads) / numHeads) * D;
    const query = q.slice(head * D, (head + 1) * D);
    const scores = seen.map(({ k }) => dot(query, k.slice(first, first + D)) * (attentionScale ?? 1 / Math.sqrt(D)));
    const weights = logSoftmax([...scores, ...(sinks === null ? [] : [sinks[head]!])]).map(Math.exp);
    return Array.from({ length: D }, (__, d) =>
      dot(
        seen.map(({ v }) => v[first + d]!),
        weights,
      ),
    );
  }).flat();
}

function logSoftmax(logits: number[]): number[] {
  const maximum = logits.reduce((a, b) => Math.max(a, b));
  const logPartition = maximum + Math.log(logits.reduce((total, logit) => total + Math.exp(logit - maximum), 0));
  return logits.map((logit) => logit - logPartition);
}
