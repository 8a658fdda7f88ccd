import type { DeltaHead, DeltaNet } from '@trainyard/transformer';

/** Numbers of a token that its gradient needs, of all value heads of a key head. */
export interface KeptToken {
  /** After the token. */
  readonly state: Float32Array;
  readonly delta: readonly Float64Array[];
  readonly memory: readonly Float64Array[];
  readonly out: readonly Float64Array[];
}

/** Gradients of a token, of one key head and its value heads. */
export interface HeadGradient {
  /** Gradients of the sums of the convolution. */
  readonly sums: { readonly q: Float64Array; readonly k: Float64Array; readonly v: readonly Float64Array[] };
  readonly out: Float64Array;
  readonly delta: Float64Array;
}

export function newKeptToken(net: DeltaNet): KeptToken {
  const groupSize = net.numValueHeads / net.numKeyHeads;
  const numbers = () => Array.from({ length: groupSize }, () => new Float64Array(net.valueSize));
  return {
    state: new Float32Array(groupSize * net.keySize * net.valueSize),
    delta: numbers(),
    memory: numbers(),
    out: numbers(),
  };
}

export function newHeadGradient({ numKeyHeads, numValueHeads, keySize, valueSize }: DeltaNet): HeadGradient {
  const numbers = (length: number) => new Float64Array(length);
  return {
    sums: {
      q: numbers(keySize),
      k: numbers(keySize),
      v: Array.from({ length: numValueHeads / numKeyHeads }, () => numbers(valueSize)),
    },
    out: numbers(valueSize),
    delta: numbers(valueSize),
  };
}

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
/** Derivative of x · sigmoid(x). */
const siluSlope = (x: number): number => {
  const s = sigmoid(x);
  return s + x * s * (1 - s);
};

/**
 * Gradient of one token, which the head has prepared.
 *
 * @param own its products, what was kept of it, and the state before it; null: 0
 * @param from ∂outputs [values] of the token, and ∂state after it, which becomes ∂state before it
 * @param into sums of the convolution, and ∂products [width], of which z, b and a are written
 */
export function addTokenGradient(
  head: DeltaHead,
  own: { readonly products: Float32Array; readonly kept: KeptToken; readonly before: Float32Array | null },
  from: { readonly dOutput: Float32Array; readonly ofState: Float32Array },
  into: { readonly gradient: HeadGradient; readonly dProducts: Float32Array },
): void {
  const { sums } = into.gradient;
  sums.q.fill(0);
  sums.k.fill(0);
  for (let i = 0; i < head.groupSize; i++) {
    outputGradient(head, i, own, { dOutput: from.dOutput, ...into });
    stateGradient(head, i, own, { ofState: from.ofState, ...into });
  }
  const { q, k, sums: before, inverse } = head;
  normalisedGradient(sums.q, { unit: q, sums: before.q, inverse: inverse.q, scale: 1 / Math.sqrt(head.net.keySize) });
  normalisedGradient(sums.k, { unit: k, sums: before.k, inverse: inverse.k, scale: 1 });
}

/** ∂(norm(o) ∘ silu(z)) → ∂o and ∂z. */
function outputGradient(
  head: DeltaHead,
  index: number,
  { products, kept }: { readonly products: Float32Array; readonly kept: KeptToken },
  into: { readonly dOutput: Float32Array; readonly gradient: HeadGradient; readonly dProducts: Float32Array },
): void {
  const { valueSize } = head.net;
  const { norm } = head.vectors;
  const { dOutput, dProducts } = into;
  const dOut = into.gradient.out;
  const out = kept.out[index]!;
  const at = head.valueHead(index) * valueSize;
  let squares = 0;
  for (let i = 0; i < valueSize; i++) squares += out[i]! * out[i]!;
  const inverse = 1 / Math.sqrt(squares / valueSize + head.epsilon);
  let product = 0;
  for (let i = 0; i < valueSize; i++) {
    const z = products[head.sizes.z + at + i]!;
    const normalised = inverse * out[i]!;
    dProducts[head.sizes.z + at + i] = dOutput[at + i]! * normalised * norm[i]! * siluSlope(z);
    dOut[i] = dOutput[at + i]! * norm[i]! * z * sigmoid(z);
    product += dOut[i]! * normalised;
  }
  const mean = product / valueSize;
  for (let i = 0; i < valueSize; i++) dOut[i] = inverse * (dOut[i]! - inverse * out[i]! * mean);
}

/** ∂o and ∂state after the token → ∂state before it, ∂b, ∂a, the sums of v, and ∂q and ∂k, which are added. */
function stateGradient(
  head: DeltaHead,
  index: number,
  {
    products,
    kept,
    before,
  }: { readonly products: Float32Array; readonly kept: KeptToken; readonly before: Float32Array | null },
  into: { readonly ofState: Float32Array; readonly gradient: HeadGradient; readonly dProducts: Float32Array },
): void {
  const { keySize, valueSize } = head.net;
  const { sums, out: dOut, delta: dDelta } = into.gradient;
  const { q, k } = head;
  const [alpha, beta] = [head.alpha[index]!, head.beta[index]!];
  const [delta, memory, value] = [kept.delta[index]!, kept.memory[index]!, head.v[index]!];
  const first = index * keySize * valueSize;
  const { ofState } = into;
  dDelta.fill(0);
  for (let row = 0, at = first; row < keySize; row++) {
    const [query, key] = [q[row]!, k[row]!];
    let [dQuery, dKey] = [0, 0];
    for (let i = 0; i < valueSize; i++, at++) {
      const dState = ofState[at]! + query * dOut[i]!;
      ofState[at] = dState;
      dQuery += kept.state[at]! * dOut[i]!;
      dKey += dState * delta[i]!;
      dDelta[i]! += key * dState;
    }
    sums.q[row]! += dQuery;
    sums.k[row]! += dKey;
  }
  let dBeta = 0;
  const dValue = sums.v[index]!;
  for (let i = 0; i < valueSize; i++) {
    dBeta += dDelta[i]! * (value[i]! - memory[i]!);
    dValue[i] = beta * dDelta[i]!;
  }
  let dAlpha = 0;
  for (let row = 0, at = first; row < keySize; row++) {
    const key = k[row]!;
    let dKey = 0;
    for (let i = 0; i < valueSize; i++, at++) {
      const state = before === null ? 0 : before[at]!;
      // ∂memory is -∂value.
      const dState = ofState[at]! - key * dValue[i]!;
      dKey -= alpha * state * dValue[i]!;
      dAlpha += dState * state;
      ofState[at] = alpha * dState;
    }
    sums.k[row]! += dKey;
  }
  const channelSums = head.sums.v[index]!;
  for (let i = 0; i < valueSize; i++) dValue[i]! *= siluSlope(channelSums[i]!);
  const valueHead = head.valueHead(index);
  const { decay, step } = head.vectors;
  const slope = decay[valueHead]! * sigmoid(products[head.sizes.a + valueHead]! + step[valueHead]!);
  into.dProducts[head.sizes.a + valueHead] = dAlpha * alpha * slope;
  into.dProducts[head.sizes.b + valueHead] = dBeta * beta * (1 - beta);
}

/** ∂ of a normalised vector → ∂ of the sums of the convolution, in place. */
function normalisedGradient(
  gradient: Float64Array,
  {
    unit,
    sums,
    inverse,
    scale,
  }: { readonly unit: Float64Array; readonly sums: Float64Array; readonly inverse: number; readonly scale: number },
): void {
  let product = 0;
  for (let i = 0; i < unit.length; i++) product += (unit[i]! / scale) * gradient[i]!;
  for (let i = 0; i < unit.length; i++)
    gradient[i] = scale * inverse * (gradient[i]! - (unit[i]! / scale) * product) * siluSlope(sums[i]!);
}
