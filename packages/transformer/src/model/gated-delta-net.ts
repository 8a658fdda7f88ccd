import { type DeltaKernels, deltaKernels, type DeltaToken } from '@trainyard/native';
import { sharedDoubles } from './workspace.ts';

/**
 * Gated delta nets (Qwen3.5, arXiv:2412.06464). One linear layer gives q, k, v, z, b and a of a token. q, k and v of
 * the last tokens go through a short convolution and SiLU; q and k are normalised. Each value head has a state S
 * [keySize, valueSize], which starts as 0, decays, and is corrected towards the token's value:
 *
 *   S ← α S;  S ← S + k ⊗ β (v - Sᵀ k);  o = Sᵀ q;  output = norm(o) ∘ silu(z)
 *
 * with α = exp(A · softplus(a + dt)) and β = sigmoid(b).
 */
export interface DeltaNet {
  readonly numKeyHeads: number;
  /** A multiple of the key heads. */
  readonly numValueHeads: number;
  readonly keySize: number;
  readonly valueSize: number;
  /** Tokens that the convolution sees, its own included. */
  readonly convolutionSize: number;
  /** Layers with it instead of attention, ascending. */
  readonly layers: readonly number[];
}

/** Vectors of a layer, float32 in shared memory. */
export interface DeltaVectors {
  /** [size, channels], the weight of the token itself last. */
  readonly convolution: Float32Array;
  /** A, negative: rate of each value head. */
  readonly decay: Float32Array;
  /** dt of each value head. */
  readonly step: Float32Array;
  /** [valueSize] */
  readonly norm: Float32Array;
}

/** GGUF tensors of a block. */
export const DELTA_TENSORS: Readonly<Record<keyof DeltaVectors, string>> = {
  convolution: 'ssm_conv1d.weight',
  decay: 'ssm_a',
  step: 'ssm_dt.bias',
  norm: 'ssm_norm.weight',
};

export const hasDeltaNet = ({ deltaNet }: { readonly deltaNet: DeltaNet | null }, layer: number): boolean =>
  deltaNet !== null && deltaNet.layers.includes(layer);

/** Columns of a token's products, and numbers of a state. */
export function deltaSizes({ numKeyHeads, numValueHeads, keySize, valueSize, convolutionSize }: DeltaNet) {
  const [keys, values] = [numKeyHeads * keySize, numValueHeads * valueSize];
  const channels = 2 * keys + values;
  return {
    values,
    channels,
    /** First columns; those of q are first of all. */
    k: keys,
    v: 2 * keys,
    z: channels,
    b: channels + values,
    a: channels + values + numValueHeads,
    width: channels + values + 2 * numValueHeads,
    /** S of all value heads. */
    state: numValueHeads * keySize * valueSize,
    /** Inputs of the convolution of the tokens before one. */
    history: (convolutionSize - 1) * channels,
  };
}

/** As transformers and its kernels have it; llama.cpp takes the epsilon of the model's norms, which is the same. */
const UNIT_EPSILON = 1e-6;

const sigmoid = (x: number): number => 1 / (1 + Math.exp(-x));
const softplus = (x: number): number => (x > 20 ? x : Math.log1p(Math.exp(x)));

/** Inputs of the convolution by tap, each a token's products, the token's own last; null: before the first token. */
export type Taps = readonly (Float32Array | null)[];

/**
 * One key head with its value heads, for one token after the other. Numbers of a token are in double precision, the
 * state in single, and sums have one order: sampler and trainer share it.
 *
 * In GGUF's order, value head h belongs to key head h mod (number of key heads).
 */
export class DeltaHead {
  readonly net: DeltaNet;
  readonly vectors: DeltaVectors;
  readonly sizes: ReturnType<typeof deltaSizes>;
  /** Value heads of a key head. */
  readonly groupSize: number;
  /** Before SiLU: sums of the convolution. */
  readonly sums: { readonly q: Float64Array; readonly k: Float64Array; readonly v: readonly Float64Array[] };
  /** q normalised and divided by √keySize. */
  readonly q: Float64Array;
  /** Normalised. */
  readonly k: Float64Array;
  /** 1 / length of q and of k. */
  readonly inverse = { q: 0, k: 0 };
  /** Values by value head. */
  readonly v: readonly Float64Array[];
  /** β (v - Sᵀ k) */
  readonly delta: readonly Float64Array[];
  /** Sᵀ k, and Sᵀ q after the correction. */
  readonly memory: readonly Float64Array[];
  readonly out: readonly Float64Array[];
  readonly alpha: Float64Array;
  readonly beta: Float64Array;
  /** Epsilon of the norm of outputs. */
  readonly epsilon: number;
  /** Loops over states in C, with the bits of those in this file. Null: TypeScript computes. */
  readonly kernels: DeltaKernels | null;
  /** q, then k. */
  readonly keys: Float64Array;
  /** Arrays of the value heads: v, memory, delta, out. */
  readonly ofValues: readonly Float64Array[];
  readonly #token: DeltaToken;
  #head = 0;

  /** @param usesNativeKernels Default true: if there is a build for this machine */
  constructor(net: DeltaNet, vectors: DeltaVectors, epsilon: number, usesNativeKernels = true) {
    this.net = net;
    this.vectors = vectors;
    this.sizes = deltaSizes(net);
    this.epsilon = epsilon;
    const { keySize, valueSize } = net;
    this.groupSize = net.numValueHeads / net.numKeyHeads;
    this.kernels = usesNativeKernels ? deltaKernels(valueSize) : null;
    // Memory that garbage collection does not move: kernels in C read it.
    this.keys = sharedDoubles(2 * keySize);
    [this.q, this.k] = [this.keys.subarray(0, keySize), this.keys.subarray(keySize)];
    this.ofValues = Array.from({ length: this.groupSize }, () => sharedDoubles(4 * valueSize));
    const part = (index: number) =>
      this.ofValues.map((all) => all.subarray(index * valueSize, (index + 1) * valueSize));
    [this.v, this.memory, this.delta, this.out] = [part(0), part(1), part(2), part(3)];
    this.#token = sharedDoubles(4);
    this.#token.set([keySize, valueSize]);
    const ofHeads = () => Array.from({ length: this.groupSize }, () => new Float64Array(valueSize));
    this.sums = { q: new Float64Array(keySize), k: new Float64Array(keySize), v: ofHeads() };
    [this.alpha, this.beta] = [new Float64Array(this.groupSize), new Float64Array(this.groupSize)];
  }

  /** Makes a key head the current one. */
  select(keyHead: number): void {
    this.#head = keyHead;
  }

  /** Value head of the current key head. */
  valueHead(index: number): number {
    return this.#head + index * this.net.numKeyHeads;
  }

  /** Column of a head's channels of q, k or v. @param index of the value head */
  column(part: 'q' | 'k' | 'v', index = 0): number {
    if (part === 'v') return this.sizes.v + this.valueHead(index) * this.net.valueSize;
    return (part === 'k' ? this.sizes.k : 0) + this.#head * this.net.keySize;
  }

  /** Computes q, k, v, α and β of a token. */
  prepare(keyHead: number, taps: Taps): void {
    this.select(keyHead);
    const own = taps.at(-1)!;
    const { sums, inverse, sizes, vectors } = this;
    this.#convolve(taps, this.column('q'), sums.q, this.q);
    this.#convolve(taps, this.column('k'), sums.k, this.k);
    inverse.q = normalise(this.q, 1 / Math.sqrt(this.net.keySize));
    inverse.k = normalise(this.k, 1);
    for (let i = 0; i < this.groupSize; i++) {
      const head = this.valueHead(i);
      this.#convolve(taps, this.column('v', i), sums.v[i]!, this.v[i]!);
      this.alpha[i] = Math.exp(vectors.decay[head]! * softplus(own[sizes.a + head]! + vectors.step[head]!));
      this.beta[i] = sigmoid(own[sizes.b + head]!);
    }
  }

  /**
   * Advances a value head by the prepared token, and computes its `out`.
   *
   * @param from state before the token [keySize, valueSize]; null: 0 @param to written, may be `from`
   */
  advance(index: number, from: Float32Array | null, to: Float32Array): void {
    if (this.kernels !== null) {
      this.kernels.advance(this.tokenOf(index), from, to, this.keys, this.ofValues[index]!);
      return;
    }
    const { keySize, valueSize } = this.net;
    const { q, k } = this;
    const [value, memory, delta, out] = [this.v[index]!, this.memory[index]!, this.delta[index]!, this.out[index]!];
    const [alpha, beta] = [this.alpha[index]!, this.beta[index]!];
    memory.fill(0);
    out.fill(0);
    if (from !== null)
      for (let row = 0, at = 0; row < keySize; row++) {
        const factor = alpha * k[row]!;
        for (let i = 0; i < valueSize; i++, at++) memory[i]! += factor * from[at]!;
      }
    for (let i = 0; i < valueSize; i++) delta[i] = beta * (value[i]! - memory[i]!);
    for (let row = 0, at = 0; row < keySize; row++) {
      const [key, query] = [k[row]!, q[row]!];
      for (let i = 0; i < valueSize; i++, at++) {
        const state = (from === null ? 0 : alpha * from[at]!) + key * delta[i]!;
        to[at] = state;
        out[i]! += query * state;
      }
    }
  }

  /** Sizes, α and β of the prepared token, for a kernel; valid until the next call. */
  tokenOf(index: number): DeltaToken {
    this.#token[2] = this.alpha[index]!;
    this.#token[3] = this.beta[index]!;
    return this.#token;
  }

  /** Computes norm(o) ∘ silu(z). @param own the token's products @param into [values] of the token, written */
  finish(index: number, own: Float32Array, into: Float32Array): void {
    const { valueSize } = this.net;
    const at = this.valueHead(index) * valueSize;
    const out = this.out[index]!;
    let squares = 0;
    for (let i = 0; i < valueSize; i++) squares += out[i]! * out[i]!;
    const inverse = 1 / Math.sqrt(squares / valueSize + this.epsilon);
    for (let i = 0; i < valueSize; i++) {
      const z = own[this.sizes.z + at + i]!;
      into[at + i] = inverse * out[i]! * this.vectors.norm[i]! * z * sigmoid(z);
    }
  }

  #convolve(taps: Taps, column: number, sums: Float64Array, into: Float64Array): void {
    const { channels } = this.sizes;
    const { convolution } = this.vectors;
    sums.fill(0);
    for (let j = 0; j < taps.length; j++) {
      const inputs = taps[j]!;
      if (inputs === null) continue;
      const weight = j * channels + column;
      for (let i = 0; i < sums.length; i++) sums[i]! += convolution[weight + i]! * inputs[column + i]!;
    }
    for (let i = 0; i < sums.length; i++) into[i] = sums[i]! * sigmoid(sums[i]!);
  }
}

/** @returns 1 / length, by which and by the scale x is multiplied */
function normalise(x: Float64Array, scale: number): number {
  let squares = 0;
  for (let i = 0; i < x.length; i++) squares += x[i]! * x[i]!;
  const inverse = 1 / Math.sqrt(squares + UNIT_EPSILON);
  for (let i = 0; i < x.length; i++) x[i]! *= inverse * scale;
  return inverse;
}
