import type { DeltaToken } from '@trainyard/native';
import { type DeltaHead, type DeltaNet, sharedDoubles, sharedFloats } from '@trainyard/transformer';

/** Numbers of a token that its gradient needs, of all value heads of a key head. */
export interface KeptToken {
  /** After the token. */
  readonly state: Float32Array;
  /** Arrays of the value heads, as of `DeltaHead`: v, memory, delta, out. */
  readonly ofValues: readonly Float64Array[];
}

/** Gradients of a token, of one key head and its value heads. */
export interface HeadGradient {
  /** Gradients of the sums of the convolution. */
  readonly sums: { readonly q: Float64Array; readonly k: Float64Array; readonly v: readonly Float64Array[] };
  readonly out: Float64Array;
  /** ∂q, then ∂k. */
  readonly keys: Float64Array;
  /** Arrays of the value heads: ∂v, ∂delta, ∂α and ∂β. */
  readonly ofValues: readonly Float64Array[];
}

export function newKeptToken(net: DeltaNet): KeptToken {
  const groupSize = net.numValueHeads / net.numKeyHeads;
  return {
    state: sharedFloats(groupSize * net.keySize * net.valueSize),
    ofValues: Array.from({ length: groupSize }, () => sharedDoubles(4 * net.valueSize)),
  };
}

export function newHeadGradient({ numKeyHeads, numValueHeads, keySize, valueSize }: DeltaNet): HeadGradient {
  const keys = sharedDoubles(2 * keySize);
  const ofValues = Array.from({ length: numValueHeads / numKeyHeads }, () => sharedDoubles(2 * valueSize + 2));
  return {
    sums: {
      q: keys.subarray(0, keySize),
      k: keys.subarray(keySize),
      v: ofValues.map((own) => own.subarray(0, valueSize)),
    },
    out: sharedDoubles(valueSize),
    keys,
    ofValues,
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
  const out = kept.ofValues[index]!.subarray(3 * valueSize);
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
  const stateFloats = keySize * valueSize;
  const ofHead = (states: Float32Array) => states.subarray(index * stateFloats, (index + 1) * stateFloats);
  const { gradient } = into;
  const own: HeadNumbers = {
    keys: head.keys,
    values: kept.ofValues[index]!,
    before: before === null ? null : ofHead(before),
    after: ofHead(kept.state),
  };
  const of = { out: gradient.out, state: ofHead(into.ofState), keys: gradient.keys, values: gradient.ofValues[index]! };
  const token = head.tokenOf(index);
  const { kernels } = head;
  if (kernels === null) addStateGradient(token, own, of);
  else kernels.addGradient(token, own.keys, own.values, own.before, own.after, of.out, of.state, of.keys, of.values);
  const dValue = gradient.sums.v[index]!;
  const [dAlpha, dBeta] = [of.values[2 * valueSize]!, of.values[2 * valueSize + 1]!];
  const [alpha, beta] = [head.alpha[index]!, head.beta[index]!];
  const channelSums = head.sums.v[index]!;
  for (let i = 0; i < valueSize; i++) dValue[i]! *= siluSlope(channelSums[i]!);
  const valueHead = head.valueHead(index);
  const { decay, step } = head.vectors;
  const slope = decay[valueHead]! * sigmoid(products[head.sizes.a + valueHead]! + step[valueHead]!);
  into.dProducts[head.sizes.a + valueHead] = dAlpha * alpha * slope;
  into.dProducts[head.sizes.b + valueHead] = dBeta * beta * (1 - beta);
}

/** Numbers of a token and one value head; arrays as of the kernels. */
interface HeadNumbers {
  readonly keys: Float64Array;
  readonly values: Float64Array;
  readonly before: Float32Array | null;
  readonly after: Float32Array;
}

/** The kernel's loops in TypeScript. */
function addStateGradient(
  [keySize = 0, valueSize = 0, alpha = 0, beta = 0]: DeltaToken,
  { keys, values, before, after }: HeadNumbers,
  of: {
    readonly out: Float64Array;
    readonly state: Float32Array;
    readonly keys: Float64Array;
    readonly values: Float64Array;
  },
): void {
  const [dValue, dDelta] = [of.values.subarray(0, valueSize), of.values.subarray(valueSize, 2 * valueSize)];
  dDelta.fill(0);
  for (let row = 0, at = 0; row < keySize; row++) {
    const [query, key] = [keys[row]!, keys[keySize + row]!];
    let [dQuery, dKey] = [0, 0];
    for (let i = 0; i < valueSize; i++, at++) {
      const dState = of.state[at]! + query * of.out[i]!;
      of.state[at] = dState;
      dQuery += after[at]! * of.out[i]!;
      dKey += dState * values[2 * valueSize + i]!;
      dDelta[i]! += key * dState;
    }
    of.keys[row]! += dQuery;
    of.keys[keySize + row]! += dKey;
  }
  let [dAlpha, dBeta] = [0, 0];
  for (let i = 0; i < valueSize; i++) {
    dBeta += dDelta[i]! * (values[i]! - values[valueSize + i]!);
    dValue[i] = beta * dDelta[i]!;
  }
  for (let row = 0, at = 0; row < keySize; row++) {
    const key = keys[keySize + row]!;
    let dKey = 0;
    for (let i = 0; i < valueSize; i++, at++) {
      const state = before === null ? 0 : before[at]!;
      // ∂memory is -∂value.
      const dState = of.state[at]! - key * dValue[i]!;
      dKey -= alpha * state * dValue[i]!;
      dAlpha += dState * state;
      of.state[at] = alpha * dState;
    }
    of.keys[keySize + row]! += dKey;
  }
  of.values[2 * valueSize] = dAlpha;
  of.values[2 * valueSize + 1] = dBeta;
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
