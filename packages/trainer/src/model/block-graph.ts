/**
 * The three expressions of a transformer block, and what backward needs from each.
 *
 *   attention input   x → norm → q, k, v (+ LoRA) → rope
 *   attention         one block of queries against the keys visible to it → o
 *   output            o-projection + residual → norm → gated feed-forward + residual → y
 *
 * Everything is token-major ([T, features]), so any range of tokens is one contiguous view. Axes: T tokens, Q queries of a
 * block, K keys visible to the block, D head size, G query heads that share a key head.
 */
import { gradients } from '../graph/autodiff.ts';
import type { Value } from '../graph/graph.ts';
import {
  add,
  gatherRows,
  input,
  inverseRms,
  matmul,
  mul,
  reshape,
  saved,
  sigmoid,
  softmax,
  swapHalves,
  transpose,
  treeMask,
} from '../graph/graph.ts';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import type { LinearName, LoraConfig } from './policy-model.ts';

export type Outputs = Readonly<Record<string, Value>>;

/** Names of graph inputs and outputs that hold parameters. */
export const weightName = (linear: LinearName) => `${linear}.weight`;
export const biasName = (linear: LinearName) => `${linear}.bias`;
export const headNormName = (linear: LinearName) => `${linear}.norm`;
export const loraName = (linear: LinearName, half: 'a' | 'b') => `${linear}.${half}`;
export const gradientName = (name: string) => `∂${name}`;

export const ATTENTION_INPUT_LINEARS: readonly LinearName[] = ['q', 'k', 'v'];
export const OUTPUT_LINEARS: readonly LinearName[] = ['o', 'gate', 'up', 'down'];

/** Builds the expressions of one architecture; `lora` null gives the base model alone. */
export class BlockGraph {
  readonly #architecture: Architecture;
  readonly #lora: LoraConfig | null;

  constructor(architecture: Architecture, lora: LoraConfig | null) {
    this.#architecture = architecture;
    this.#lora = lora;
  }

  /** x [T, H], cos and sin [T, 1, D] → q [T, heads·D], k and v [T, kvHeads·D]. */
  attentionInput(): Outputs {
    const { q, k, v } = this.#attentionInput();
    return { q, k, v };
  }

  /** Also ∂q, ∂k, ∂v and ∂residual [T, H] → ∂x (when wanted) and the gradients of the adapters of q, k, v. */
  attentionInputBackward(wantsInputGradient: boolean): Outputs {
    const { x, q, k, v, adapters } = this.#attentionInput();
    const seeds = new Map([q, k, v].map((value, index) => [value, input(gradientName('qkv'[index]!), value.shape)]));
    const names = Object.keys(adapters);
    const sources = [...Object.values(adapters), ...(wantsInputGradient ? [x] : [])];
    const results = gradients(seeds, sources);
    const outputs = Object.fromEntries(names.map((name, index) => [gradientName(name), results[index]!]));
    if (wantsInputGradient) outputs[gradientName('x')] = add(results.at(-1)!, input(gradientName('residual'), x.shape));
    return outputs;
  }

  #attentionInput() {
    const { hiddenSize, numHeads, numKvHeads, headSize } = this.#architecture;
    const adapters: Record<string, Value> = {};
    const x = input('x', ['T', hiddenSize]);
    const h = this.#normalise(x, 'norm');
    const head = (linear: 'q' | 'k' | 'v', heads: number) =>
      reshape(this.#linear(h, linear, adapters), ['T', heads, headSize]);
    const flat = (value: Value, heads: number) => reshape(value, ['T', heads * headSize]);
    const q = flat(this.#rope(this.#headNorm(head('q', numHeads), 'q')), numHeads);
    const k = flat(this.#rope(this.#headNorm(head('k', numKvHeads), 'k')), numKvHeads);
    const v = flat(head('v', numKvHeads), numKvHeads);
    return { x, q, k, v, adapters };
  }

  /** q [Q, heads·D], k and v [T, kvHeads·D], queries, keys, ends (see treeMask) → o [Q, heads·D]. */
  attention(): Outputs {
    return { o: this.#attention().o };
  }

  /** Also ∂o → ∂q [Q, heads·D] and, for the visible keys only, ∂k and ∂v [K, kvHeads·D]. */
  attentionBackward(): Outputs {
    const { q, k, v, o } = this.#attention();
    const [dq, dk, dv] = gradients(new Map([[o, input(gradientName('o'), o.shape)]]), [q, k, v]);
    return { [gradientName('q')]: dq!, [gradientName('k')]: dk!, [gradientName('v')]: dv! };
  }

  #attention() {
    const { numHeads, numKvHeads, headSize } = this.#architecture;
    const group = numHeads / numKvHeads;
    const keys = input('keys', ['K'], 'int64');
    const q = input('q', ['Q', numHeads * headSize]);
    const k = gatherRows(input('k', ['T', numKvHeads * headSize]), keys);
    const v = gatherRows(input('v', ['T', numKvHeads * headSize]), keys);
    // Query heads that share a key head are stacked as more rows of one product: [kvHeads, 1, G·Q, D].
    const queryRows = reshape(transpose(reshape(q, ['Q', numKvHeads, group, headSize]), [1, 2, 0, 3]), [
      numKvHeads,
      1,
      'GQ',
      headSize,
    ]);
    const keyRows = (value: Value) => transpose(reshape(value, ['K', numKvHeads, 1, headSize]), [1, 2, 0, 3]);
    const scores = matmul(queryRows, keyRows(k), { transposeB: true, scale: 1 / Math.sqrt(headSize) });
    const mask = treeMask(
      input('queries', ['Q', 1], 'int64'),
      reshape(keys, [1, 'K']),
      input('ends', [1, 'K'], 'int64'),
    );
    const probabilities = softmax(add(reshape(scores, [numKvHeads, group, 'Q', 'K']), mask));
    const mixed = matmul(reshape(probabilities, [numKvHeads, 1, 'GQ', 'K']), keyRows(v));
    const o = reshape(transpose(reshape(mixed, [numKvHeads, group, 'Q', headSize]), [2, 0, 1, 3]), [
      'Q',
      numHeads * headSize,
    ]);
    return { q, k, v, o };
  }

  /** x [T, H], o [T, heads·D] → y [T, H]; x2 (after attention) [T, H], gate and up [T, F] are what backward can start from. */
  output(): { y: Value; x2: Value; gate: Value; up: Value } {
    const { y, x2, gate, up } = this.#output();
    return { y, x2, gate, up };
  }

  /** o, saved x2, gate, up, and ∂y → ∂o, ∂x (of the residual path alone) and the gradients of the adapters of o, gate, up, down. */
  outputBackward(): Outputs {
    const { x, o, y, adapters } = this.#output();
    const names = Object.keys(adapters);
    const [dx, dO, ...rest] = gradients(new Map([[y, input(gradientName('y'), y.shape)]]), [
      x,
      o,
      ...Object.values(adapters),
    ]);
    return {
      [gradientName('x')]: dx!,
      [gradientName('o')]: dO!,
      ...Object.fromEntries(names.map((name, index) => [gradientName(name), rest[index]!])),
    };
  }

  #output() {
    const { hiddenSize, numHeads, headSize } = this.#architecture;
    const adapters: Record<string, Value> = {};
    const x = input('x', ['T', hiddenSize]);
    const o = input('o', ['T', numHeads * headSize]);
    const x2 = saved('x2', add(x, this.#linear(o, 'o', adapters)));
    const h = this.#normalise(x2, 'norm');
    const gate = saved('gate', this.#linear(h, 'gate', adapters));
    const up = saved('up', this.#linear(h, 'up', adapters));
    const activated = mul(mul(gate, sigmoid(gate)), up);
    const y = add(x2, this.#linear(activated, 'down', adapters));
    return { x, o, x2, gate, up, y, adapters };
  }

  /** x · Wᵀ + bias + scale · (x · aᵀ) · bᵀ. */
  #linear(x: Value, linear: LinearName, adapters: Record<string, Value>): Value {
    const dims = linearDims(this.#architecture, linear);
    let y = matmul(x, input(weightName(linear), [dims.out, dims.in]), { transposeB: true });
    if (this.#architecture.hasAttentionBias && ATTENTION_INPUT_LINEARS.includes(linear))
      y = add(y, input(biasName(linear), [dims.out]));
    if (this.#lora === null || !this.#lora.targets.includes(linear)) return y;
    const { rank, alpha } = this.#lora;
    const a = input(loraName(linear, 'a'), [rank, dims.in]);
    const b = input(loraName(linear, 'b'), [dims.out, rank]);
    adapters[loraName(linear, 'a')] = a;
    adapters[loraName(linear, 'b')] = b;
    return add(y, matmul(matmul(x, a, { transposeB: true }), b, { transposeB: true, scale: alpha / rank }));
  }

  #normalise(x: Value, weight: string): Value {
    return mul(mul(x, inverseRms(x, this.#architecture.rmsEpsilon)), input(weight, [x.shape.at(-1)!]));
  }

  #headNorm(heads: Value, linear: 'q' | 'k'): Value {
    return this.#architecture.hasHeadNorm ? this.#normalise(heads, headNormName(linear)) : heads;
  }

  /** The sign of the rotation is folded into `sin`: its first half is negated (see rope.ts). */
  #rope(heads: Value): Value {
    const table = (name: string) => input(name, ['T', 1, this.#architecture.headSize]);
    return add(mul(heads, table('cos')), mul(swapHalves(heads), table('sin')));
  }
}
