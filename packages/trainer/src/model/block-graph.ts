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
  concat,
  gatherRows,
  input,
  matmul,
  mul,
  reshape,
  rmsNorm,
  rope,
  saved,
  silu,
  slice,
  softmax,
  transpose,
  treeMask,
} from '../graph/graph.ts';
import type { Architecture } from './architecture.ts';
import type { LoraConfig, LoraHalf } from './policy-model.ts';
import type { InputName, ProjectionName } from './projections.ts';
import { INPUTS, lowWidth, projectionDims } from './projections.ts';

export type Outputs = Readonly<Record<string, Value>>;

/** Names of graph inputs and outputs that hold parameters. */
export const weightName = (projection: ProjectionName) => `${projection}.weight`;
export const biasName = 'qkv.bias';
export const headNormName = (linear: 'q' | 'k') => `${linear}.norm`;
export const adapterName = (of: InputName | ProjectionName, half: LoraHalf) => `${of}.${half}`;
export const gradientName = (name: string) => `∂${name}`;

/** Projections of one input with the adapters' part of the input, `low` = x · aᵀ. */
interface Projected {
  readonly of: InputName;
  readonly outputs: Readonly<Partial<Record<ProjectionName, Value>>>;
  readonly adapter: { readonly a: Value; readonly low: Value } | null;
}

/** Builds the expressions of one architecture. */
export class BlockGraph {
  readonly #architecture: Architecture;
  readonly #lora: LoraConfig;

  constructor(architecture: Architecture, lora: LoraConfig) {
    this.#architecture = architecture;
    this.#lora = lora;
  }

  /** x [T, H], cos and sin [T, D/2] → q [1, T, heads·D], k [1, T, kvHeads·D], v [T, kvHeads·D]. */
  attentionInput(): Outputs {
    const { q, k, v } = this.#attentionInput();
    return { q, k, v };
  }

  /** Also ∂q, ∂k, ∂v and ∂residual [T, H] → ∂x (when wanted) and the gradients of the adapters of q, k, v. */
  attentionInputBackward(wantsInputGradient: boolean): Outputs {
    const { x, q, k, v, parts, projected } = this.#attentionInput();
    const seeds = new Map([q, k, v].map((value, index) => [value, input(gradientName('qkv'[index]!), value.shape)]));
    const dy = concat(gradients(seeds, parts));
    const outputs: Record<string, Value> = {};
    const [dx] = this.#backward(
      new Map([[projected.outputs.qkv!, dy]]),
      wantsInputGradient ? [x] : [],
      [projected],
      outputs,
    );
    if (dx !== undefined) outputs[gradientName('x')] = add(dx, input(gradientName('residual'), x.shape));
    return outputs;
  }

  #attentionInput() {
    const { hiddenSize, numHeads, numKvHeads, headSize, hasAttentionBias, hasHeadNorm, rmsEpsilon } =
      this.#architecture;
    const x = input('x', ['T', hiddenSize]);
    const projected = this.#project(this.#normalise(x), 'attention');
    let y = projected.outputs.qkv!;
    if (hasAttentionBias) y = add(y, input(biasName, [y.shape.at(-1)!]));
    const widths = [numHeads, numKvHeads, numKvHeads].map((heads) => heads * headSize);
    const starts = [0, widths[0]!, widths[0]! + widths[1]!];
    const parts = widths.map((width, index) => slice(y, starts[index]!, starts[index]! + width));
    const table = (name: string) => input(name, ['T', headSize / 2]);
    const rotated = (linear: 'q' | 'k', part: Value, heads: number) => {
      const norm = (perHead: Value) => rmsNorm(perHead, input(headNormName(linear), [headSize]), rmsEpsilon);
      const normalised = hasHeadNorm ? norm(reshape(part, ['T', heads, headSize])) : part;
      return rope(reshape(normalised, [1, 'T', heads * headSize]), table('cos'), table('sin'));
    };
    const q = rotated('q', parts[0]!, numHeads);
    const k = rotated('k', parts[1]!, numKvHeads);
    return { x, q, k, v: parts[2]!, parts, projected };
  }

  /** q [Q, kvHeads, G, D], k and v [T, kvHeads, 1, D], queries, keys, ends (see treeMask) → o [Q, kvHeads, G, D]. */
  attention(): Outputs {
    return { o: this.#attention().o };
  }

  /** Also ∂o → ∂q [Q, kvHeads, G, D] and, for the visible keys only, ∂k and ∂v [K, kvHeads, 1, D]. */
  attentionBackward(): Outputs {
    const { q, k, v, o } = this.#attention();
    const [dq, dk, dv] = gradients(new Map([[o, input(gradientName('o'), o.shape)]]), [q, k, v]);
    return { [gradientName('q')]: dq!, [gradientName('k')]: dk!, [gradientName('v')]: dv! };
  }

  #attention() {
    const { numHeads, numKvHeads, headSize } = this.#architecture;
    const group = numHeads / numKvHeads;
    const keys = input('keys', ['K'], 'int64');
    const q = input('q', ['Q', numKvHeads, group, headSize]);
    const k = gatherRows(input('k', ['T', numKvHeads, 1, headSize]), keys);
    const v = gatherRows(input('v', ['T', numKvHeads, 1, headSize]), keys);
    // Query heads that share a key head are stacked as more rows of one product: [kvHeads, 1, G·Q, D].
    const queryRows = reshape(transpose(q, [1, 2, 0, 3]), [numKvHeads, 1, `${group}Q`, headSize]);
    const keyRows = (value: Value) => transpose(value, [1, 2, 0, 3]);
    const scores = matmul(queryRows, keyRows(k), { transposeB: true, scale: 1 / Math.sqrt(headSize) });
    const mask = treeMask(
      input('queries', ['Q', 1], 'int64'),
      reshape(keys, [1, 'K']),
      input('ends', [1, 'K'], 'int64'),
    );
    const probabilities = softmax(add(reshape(scores, [numKvHeads, group, 'Q', 'K']), mask));
    const mixed = matmul(reshape(probabilities, [numKvHeads, 1, `${group}Q`, 'K']), keyRows(v));
    const o = transpose(reshape(mixed, [numKvHeads, group, 'Q', headSize]), [2, 0, 1, 3]);
    return { q, k, v, o };
  }

  /** x [T, H], o [T, heads·D] → y [T, H]; x2 (after attention) [T, H], gate and up [T, F] are what backward can start from. */
  output(): { y: Value; x2: Value; gate: Value; up: Value } {
    const { y, x2, gate, up } = this.#output();
    return { y, x2, gate, up };
  }

  /** o, saved x2, gate, up, and ∂y → ∂o, ∂x (of the residual path alone) and the gradients of the adapters of o, gate, up, down. */
  outputBackward(): Outputs {
    const { x, o, y, projected } = this.#output();
    const outputs: Record<string, Value> = {};
    const [dx, dO] = this.#backward(new Map([[y, input(gradientName('y'), y.shape)]]), [x, o], projected, outputs);
    return { [gradientName('x')]: dx!, [gradientName('o')]: dO!, ...outputs };
  }

  #output() {
    const { hiddenSize, numHeads, headSize } = this.#architecture;
    const x = input('x', ['T', hiddenSize]);
    const o = input('o', ['T', numHeads * headSize]);
    const fromAttention = this.#project(o, 'o');
    const x2 = saved('x2', add(x, fromAttention.outputs.o!));
    const wide = this.#project(this.#normalise(x2), 'feedForward');
    const gate = saved('gate', wide.outputs.gate!);
    const up = saved('up', wide.outputs.up!);
    const back = this.#project(mul(silu(gate), up), 'down');
    const y = add(x2, back.outputs.down!);
    return { x, o, x2, gate, up, y, projected: [fromAttention, wide, back] };
  }

  /** x · Wᵀ + scale · (x · aᵀ) · bᵀ, where the weights hold scale · b behind W. */
  #project(x: Value, of: InputName): Projected {
    const numLow = lowWidth(of, this.#lora);
    const a = numLow === 0 ? null : input(adapterName(of, 'a'), [numLow, x.shape.at(-1)!]);
    const low = a === null ? null : matmul(x, a, { transposeB: true });
    const extended = low === null ? x : concat([x, low]);
    const outputs = INPUTS[of].map((projection) => {
      const dims = projectionDims(this.#architecture, projection);
      const weight = input(weightName(projection), [dims.out, dims.in + numLow]);
      return [projection, matmul(extended, weight, { transposeB: true })] as const;
    });
    return { of, outputs: Object.fromEntries(outputs), adapter: a === null || low === null ? null : { a, low } };
  }

  /** @returns ∂loss/∂source for each of `sources`; the gradients of adapters are added to `outputs` by name. */
  #backward(
    seeds: ReadonlyMap<Value, Value>,
    sources: readonly Value[],
    projected: readonly Projected[],
    outputs: Record<string, Value>,
  ): Value[] {
    const adapted = projected.flatMap(({ of, outputs: ys, adapter }) =>
      adapter === null ? [] : [{ of, ys, ...adapter }],
    );
    const results = adapted.flatMap(({ of, ys, low }) =>
      Object.entries(ys).map(([projection, y]) => ({ name: gradientName(`${projection}.b`), y, low, of })),
    );
    const all = gradients(seeds, [...sources, ...adapted.map(({ a }) => a), ...results.map(({ y }) => y)]);
    adapted.forEach(({ of }, index) => {
      outputs[gradientName(adapterName(of, 'a'))] = all[sources.length + index]!;
    });
    const scale = this.#lora.alpha / this.#lora.rank;
    results.forEach(({ name, low }, index) => {
      const dy = all[sources.length + adapted.length + index]!;
      outputs[name] = matmul(dy, low, { transposeA: true, scale });
    });
    return all.slice(0, sources.length);
  }

  #normalise(x: Value): Value {
    return rmsNorm(x, input('norm', [x.shape.at(-1)!]), this.#architecture.rmsEpsilon);
  }
}
