/**
 * The expressions of a transformer block, forward and backward.
 *
 *   attention input   x → norm → q, k, v (+ LoRA) → rope
 *   attention         one block of queries against the keys visible to it → o
 *   output            o-projection (→ norm, scale) + residual → norm → gated feed-forward (→ norm, scale) + residual → y
 *
 * A block with a convolution (LFM2) has this instead of the first two:
 *
 *   convolution input  x → norm → b, c, x (+ LoRA), u = b ∘ x
 *   convolution        outside the graphs: c ∘ Σ w ∘ u over the last tokens → o
 *
 * A gated delta net (Qwen3.5) has the same two with other contents: the graph ends with the product of the linear layers.
 *
 * With an output gate, q has one after each head, and `output` multiplies o by its sigmoid first.
 *
 * A block with experts ends after the second norm; the experts are graphs of their own, and the caller adds their
 * outputs: a token's experts are known only then.
 *
 * Norms and scales are there if the architecture has them.
 *
 * Everything is token-major ([T, features]), so any range of tokens is one contiguous view. Axes: T tokens, Q
 * queries of a block, K keys visible to the block, D head size, G query heads that share a key head.
 */
import assert from 'node:assert/strict';
import { gradients } from '../graph/autodiff.ts';
import type { Value } from '../graph/graph.ts';
import {
  add,
  clampedGate,
  concat,
  constant,
  gatherRows,
  gelu,
  input,
  log,
  matmul,
  mul,
  product,
  reduceMax,
  reduceSum,
  reshape,
  rmsNorm,
  rope,
  saved,
  sigmoid,
  silu,
  slice,
  softmax,
  sub,
  transpose,
} from '../graph/graph.ts';
import type { Dim } from '../graph/onnx-writer.ts';
import {
  addsPlainOutputs,
  numRotated,
  queryKeyNormWidth,
  queryWidth,
  type Architecture,
} from '../model/architecture.ts';
import { expertDims, type ExpertMatrix } from '../model/experts.ts';
import type { LinearName, LoraConfig, LoraHalf } from '../model/lora-config.ts';
import type { InputName, outputProjection, ProjectionName } from '../model/projections.ts';
import { convolutionParts } from '../model/short-convolution.ts';
import { baseScale } from '../model/lora-modules.ts';
import { INPUTS, lowWidth, projectionDims } from '../model/projections.ts';

export type Outputs = Readonly<Record<string, Value>>;

export const weightName = (projection: ProjectionName) => `${projection}.weight`;
export const biasName = 'qkv.bias';
export const outputBiasName = 'o.bias';
/** Scores of the sinks, [kvHeads, G, 1, 1]. */
export const SINKS_NAME = 'sinks';
export const ROUTER_NAME = 'router.weight';
export const ROUTER_BIAS_NAME = 'router.bias';
/** Bias of a matrix of an expert. */
export const expertBiasName = (matrix: ExpertMatrix) => `${matrix}.bias`;
/** RMS norm before the linear layers that read it. */
export const inputNormName = (of: 'attention' | 'feedForward') => `${of}.norm`;
/** RMS norm of the output of attention or feed-forward. */
export const outputNormName = (of: 'attention' | 'feedForward') => `${of}.outputNorm`;
/** Gate of the outputs of attention [T, heads·D]. */
export const OUTPUT_GATE_NAME = 'outputGate';
export const queryKeyNormName = (linear: 'q' | 'k') => `${linear}.norm`;
export const adapterName = (of: InputName | ProjectionName | LinearName, half: LoraHalf) => `${of}.${half}`;
/** Addend of a product, with adapters `outside`. */
export const sumName = (projection: ProjectionName) => `${projection}.sum`;
export const gradientName = (name: string) => `∂${name}`;

type OutputProjection = ReturnType<typeof outputProjection>;

/** Projections of one input, and the adapters' product with the input, `low` = x · aᵀ. */
interface Projected {
  readonly of: InputName;
  readonly outputs: Readonly<Partial<Record<ProjectionName, Value>>>;
  readonly adapter: { readonly a: Value; readonly low: Value } | null;
}

/**
 * Place of adapters. `LoraConfig`: one adapter for all tokens, with `b` after the weights, so that two products
 * become one. `outside`: passed as addends; weights stay plain, so they can be constants.
 */
export type AdapterLayout = LoraConfig | 'outside';

/**
 * Place of products with frozen weights: in the graphs, or in the caller of a `CutSession`; then `b` of an
 * adapter is a separate input.
 */
export type ProductLayout = 'inside' | 'outside';

export class BlockGraph {
  readonly #architecture: Architecture;
  readonly #adapters: AdapterLayout;
  readonly #products: ProductLayout;

  constructor(architecture: Architecture, adapters: AdapterLayout, products: ProductLayout = 'inside') {
    this.#architecture = architecture;
    this.#adapters = adapters;
    this.#products = products;
  }

  get #lora(): LoraConfig {
    assert(this.#adapters !== 'outside', 'adapters that others compute are no part of this expression');
    return this.#adapters;
  }

  /**
   * Graph x [T, H], cos and sin [T, rotated dimensions / 2] → q [1, T, heads·D], k [1, T, kvHeads·D], v [T, kvHeads·D],
   * and the output gate [T, heads·D] if there is one.
   */
  attentionInput(): Outputs {
    return headsOf(this.#attentionInput());
  }

  /**
   * Graph of some columns of a product, with adapters `outside`: x and the addend [T, columns] → y [T, columns].
   *
   * @param numColumns their weights are [columns, in]
   */
  columnsOf(projection: ProjectionName, numColumns: number): Outputs {
    return { y: this.#summedColumns(this.#columnInput(projection), projection, numColumns) };
  }

  /** The same for gate and up: x and the addend of each → y, some columns of the input of `down`. */
  activatedColumns(numColumns: number): Outputs {
    const x = this.#columnInput('gate');
    const [gate, up] = (['gate', 'up'] as const).map((name) => this.#summedColumns(x, name, numColumns));
    return { y: this.#gated(gate!, up!) };
  }

  /** Graph of a block without its products: x [T, H] and a norm [H] → h [T, H]. */
  normalised(): Outputs {
    const { hiddenSize, rmsEpsilon } = this.#architecture;
    return { h: rmsNorm(input('x', ['T', hiddenSize]), input('norm', [hiddenSize]), rmsEpsilon) };
  }

  /** Like {@link normalised}: x and y [T, H], and a norm [H] and a bias [H] of outputs if they have one → sum [T, H]. */
  outputSum(of: 'attention' | 'feedForward'): Outputs {
    const rows = (name: string) => input(name, ['T', this.#architecture.hiddenSize]);
    const y = of === 'attention' ? this.#biasedOutput(rows('y')) : rows('y');
    return { sum: this.#outputSum(rows('x'), y, 'norm') };
  }

  #biasedOutput(y: Value): Value {
    return this.#architecture.hasSinks ? add(y, input(outputBiasName, [this.#architecture.hiddenSize])) : y;
  }

  /** Like {@link normalised}: the products qkv [T, (heads + 2 · kvHeads)·D] → q, k, v as in {@link attentionInput}. */
  rotated(): Outputs {
    return headsOf(this.#rotated(input('qkv', ['T', projectionDims(this.#architecture, 'qkv').out])));
  }

  /** Like {@link normalised}: o and the output gate [T, heads·D] → gated [T, heads·D]. */
  gatedOutput(): Outputs {
    return { gated: this.#gatedOutput(input('o', ['T', queryWidth(this.#architecture)])).gated };
  }

  #gatedOutput(o: Value) {
    const gate = input(OUTPUT_GATE_NAME, o.shape);
    return { gate, gated: mul(o, sigmoid(gate)) };
  }

  /** Like {@link normalised}: gate and up [T, F] → activated [T, F]. @param width of gate and up */
  activated(width = this.#architecture.feedForwardSize): Outputs {
    const [gate, up] = (['gate', 'up'] as const).map((projection) => input(projection, ['T', width]));
    return { activated: this.#gated(gate!, up!) };
  }

  #columnInput(projection: ProjectionName): Value {
    return input('x', ['T', projectionDims(this.#architecture, projection).in]);
  }

  #summedColumns(x: Value, projection: ProjectionName, numColumns: number): Value {
    const weight = input(weightName(projection), [numColumns, x.shape.at(-1)!]);
    const y = matmul(x, weight, { transposeB: true });
    return add(input(sumName(projection), y.shape), y);
  }

  /**
   * Graph that also takes ∂q, ∂k, ∂v, ∂gate (if there is one) and ∂residual [T, H] → ∂x (if wanted) and the gradients of the adapters of q,
   * k, v.
   */
  attentionInputBackward(wantsInputGradient: boolean): Outputs {
    const { x, parts, projected, ...all } = this.#attentionInput();
    const seeds = new Map(
      Object.entries(headsOf(all)).map(([name, value]) => [value, input(gradientName(name), value.shape)]),
    );
    const dy = this.#joined(gradients(seeds, parts));
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

  /** Graph x [T, H] → b, c and x of a convolution [T, 3H], and u = b ∘ x [T, H]; or the products of a gated delta net. */
  convolutionInput(): Outputs {
    const bcx = this.#convolutionInput().projected.outputs.convIn!;
    if (this.#architecture.deltaNet !== null) return { bcx };
    const { hiddenSize: width } = this.#architecture;
    const part = (start: number) => slice(bcx, start, start + width);
    const { b, x } = convolutionParts(width);
    return { bcx, u: mul(part(b), part(x)) };
  }

  /** Graph that also takes ∂bcx and ∂residual [T, H] → ∂x (if wanted) and the gradients of the adapter. */
  convolutionInputBackward(wantsInputGradient: boolean): Outputs {
    const { x, projected } = this.#convolutionInput();
    const bcx = projected.outputs.convIn!;
    const outputs: Record<string, Value> = {};
    const seeds = new Map([[bcx, input(gradientName('bcx'), bcx.shape)]]);
    const [dx] = this.#backward(seeds, wantsInputGradient ? [x] : [], [projected], outputs);
    if (dx !== undefined) outputs[gradientName('x')] = add(dx, input(gradientName('residual'), x.shape));
    return outputs;
  }

  #convolutionInput() {
    const x = input('x', ['T', this.#architecture.hiddenSize]);
    return { x, projected: this.#project(this.#normalise(x, 'attention'), 'convIn') };
  }

  #attentionInput(x = input('x', ['T', this.#architecture.hiddenSize])) {
    const projected = this.#project(this.#normalise(x, 'attention'), 'attention');
    return { x, projected, ...this.#rotated(projected.outputs.qkv!) };
  }

  #rotated(product: Value) {
    const { numHeads, numKvHeads, headSize, rotatedSize, hasAttentionBias, attentionScale } = this.#architecture;
    let y = product;
    if (hasAttentionBias) y = add(y, input(biasName, [y.shape.at(-1)!]));
    const { hasOutputGate } = this.#architecture;
    const widths = [(hasOutputGate ? 2 : 1) * numHeads, numKvHeads, numKvHeads].map((heads) => heads * headSize);
    const starts = [0, widths[0]!, widths[0]! + widths[1]!];
    const [first, ...keys] = widths.map((width, index) => slice(y, starts[index]!, starts[index]! + width));
    const pairs = hasOutputGate ? reshape(first!, ['T', numHeads, 2 * headSize]) : null;
    const ofHeads = (start: number) => reshape(slice(pairs!, start, start + headSize), ['T', numHeads * headSize]);
    const gate = pairs === null ? null : ofHeads(headSize);
    const parts = gate === null ? [first!, ...keys] : [ofHeads(0), gate, ...keys];
    const table = (name: string) => input(name, ['T', numRotated(this.#architecture) / 2]);
    const rotated = (part: Value, heads: number) =>
      rope(reshape(part, [1, 'T', heads * headSize]), table('cos'), table('sin'), rotatedSize === null ? null : heads);
    const q = this.#normaliseHeads('q', parts[0]!, numHeads);
    const k = this.#normaliseHeads('k', keys[0]!, numKvHeads);
    // Attention itself scales by 1 / √D.
    const scaled = attentionScale === null ? q : mul(q, constant(attentionScale * Math.sqrt(headSize)));
    return { q: rotated(scaled, numHeads), k: rotated(k, numKvHeads), v: keys[1]!, gate, parts };
  }

  /** Inverse of the division of the product into q, an output gate after each head if there is one, k and v. */
  #joined(parts: readonly Value[]): Value {
    const { numHeads, headSize, hasOutputGate } = this.#architecture;
    if (!hasOutputGate) return concat(parts);
    const [q, gate, ...keys] = parts.map((part, index) =>
      index < 2 ? reshape(part, ['T', numHeads, headSize]) : part,
    );
    return concat([reshape(concat([q!, gate!]), ['T', 2 * numHeads * headSize]), ...keys]);
  }

  #normaliseHeads(linear: 'q' | 'k', x: Value, heads: number): Value {
    const { headSize, queryKeyNorm, rmsEpsilon } = this.#architecture;
    if (queryKeyNorm === null) return x;
    const norm = input(queryKeyNormName(linear), [queryKeyNormWidth(this.#architecture, linear)]);
    return rmsNorm(queryKeyNorm === 'head' ? reshape(x, ['T', heads, headSize]) : x, norm, rmsEpsilon);
  }

  /** Graph q [Q, kvHeads, G, D], k and v [T, kvHeads, 1, D], visible keys [K], mask [Q, K] → o [Q, kvHeads, G, D]. */
  attention(): Outputs {
    const { probabilities, v } = this.#attention();
    return { o: this.#tokenMajor(matmul(this.#rowsOfKeyHeads(probabilities, 'K'), v)) };
  }

  /**
   * Graph that also takes o and ∂o → ∂q [Q, kvHeads, G, D] and, for the visible keys only, ∂k and ∂v [K, kvHeads,
   * 1, D].
   *
   * With P = softmax(S) and o = P · v: ∂S = P ∘ (∂P - Σ ∂P ∘ P). That sum of a row is Σ ∂o ∘ o, which needs no
   * pass over [Q, K] (FlashAttention-2, arXiv:2307.08691, algorithm 2).
   */
  attentionBackward(): Outputs {
    const { numKvHeads, headSize } = this.#architecture;
    const { q, k, v, probabilities, scale } = this.#attention();
    const o = input('o', ['Q', numKvHeads, this.#groupSize, headSize]);
    const dO = input(gradientName('o'), o.shape);
    const dORows = this.#headMajor(dO);
    const rowSums = transpose(reduceSum(mul(dO, o), [-1]), [1, 2, 0, 3]);
    const dP = reshape(matmul(dORows, v, { transposeB: true }), probabilities.shape);
    const dS = this.#rowsOfKeyHeads(mul(probabilities, sub(dP, rowSums)), 'K');
    const dK = matmul(dS, q, { transposeA: true, scale });
    const dV = matmul(this.#rowsOfKeyHeads(probabilities, 'K'), dORows, { transposeA: true });
    return {
      [gradientName('q')]: this.#tokenMajor(matmul(dS, k, { scale })),
      [gradientName('k')]: transpose(dK, [2, 0, 1, 3]),
      [gradientName('v')]: transpose(dV, [2, 0, 1, 3]),
    };
  }

  /** Queries that share a key head become rows of one product: q [kvHeads, 1, G·Q, D], k and v [kvHeads, 1, K, D]. */
  #attention() {
    const { numKvHeads, headSize } = this.#architecture;
    const scale = 1 / Math.sqrt(headSize);
    const keys = input('keys', ['K'], 'int64');
    const q = this.#headMajor(input('q', ['Q', numKvHeads, this.#groupSize, headSize]));
    const visible = (name: string) =>
      transpose(gatherRows(input(name, ['T', numKvHeads, 1, headSize]), keys), [1, 2, 0, 3]);
    const [k, v] = [visible('k'), visible('v')];
    const scores = reshape(matmul(q, k, { transposeB: true, scale }), [numKvHeads, this.#groupSize, 'Q', 'K']);
    return { q, k, v, probabilities: this.#probabilities(add(scores, input('mask', ['Q', 'K']))), scale };
  }

  /**
   * Softmax over keys and the sink, if there is one: that over keys, times the keys' share, sigmoid(logsumexp - sink).
   * The largest probability is 1 / Σ exp(score - largest score). The sink has no value, so backward is as without it.
   */
  #probabilities(scores: Value): Value {
    const amongKeys = softmax(scores);
    if (!this.#architecture.hasSinks) return amongKeys;
    const sinks = input(SINKS_NAME, [this.#architecture.numKvHeads, this.#groupSize, 1, 1]);
    const logSum = sub(reduceMax(scores, [-1]), log(reduceMax(amongKeys, [-1])));
    return mul(amongKeys, sigmoid(sub(logSum, sinks)));
  }

  get #groupSize(): number {
    return this.#architecture.numHeads / this.#architecture.numKvHeads;
  }

  /** [Q, kvHeads, G, D] → [kvHeads, 1, G·Q, D] */
  #headMajor(perToken: Value): Value {
    return this.#rowsOfKeyHeads(transpose(perToken, [1, 2, 0, 3]), this.#architecture.headSize);
  }

  /** [kvHeads, 1, G·Q, D] → [Q, kvHeads, G, D] */
  #tokenMajor(rows: Value): Value {
    const { numKvHeads, headSize } = this.#architecture;
    return transpose(reshape(rows, [numKvHeads, this.#groupSize, 'Q', headSize]), [2, 0, 1, 3]);
  }

  /** [kvHeads, G, Q, C] → [kvHeads, 1, G·Q, C] */
  #rowsOfKeyHeads(value: Value, columns: Dim): Value {
    return reshape(value, [this.#architecture.numKvHeads, 1, `${this.#groupSize}Q`, columns]);
  }

  /**
   * Graph x [T, H], o [T, heads·D], and the output gate if there is one → y [T, H], and the values that backward can start from: x2 (after attention)
   * [T, H], gate and up [T, F].
   *
   * @param of product of o. Default: that of attention
   */
  output(of: OutputProjection = 'o'): { y: Value; x2: Value; gate: Value; up: Value } {
    const { y, x2, gate, up } = this.#output(of);
    return { y, x2, gate, up };
  }

  /**
   * Graph o, saved x2, gate, up, and ∂y → ∂o, ∂x (only of the residual path), the gradient of the output gate if there
   * is one, and the gradients of the adapters of o, gate, up, down.
   */
  outputBackward(of: OutputProjection = 'o'): Outputs {
    const { x, o, outputGate, y, projected } = this.#output(of);
    const outputs: Record<string, Value> = {};
    const sources = [x, o, ...(outputGate === null ? [] : [outputGate])];
    const seeds = new Map([[y, input(gradientName('y'), y.shape)]]);
    const [dx, dO, dGate] = this.#backward(seeds, sources, projected, outputs);
    return {
      [gradientName('x')]: dx!,
      [gradientName('o')]: dO!,
      ...(dGate !== undefined && { [gradientName(OUTPUT_GATE_NAME)]: dGate }),
      ...outputs,
    };
  }

  #attended(of: OutputProjection = 'o') {
    const isPlain = addsPlainOutputs(this.#architecture);
    const x = input('x', ['T', this.#architecture.hiddenSize]);
    const o = input('o', ['T', projectionDims(this.#architecture, of).in]);
    const isGated = this.#architecture.hasOutputGate && of === 'o';
    const { gate: outputGate, gated } = isGated ? this.#gatedOutput(o) : { gate: null, gated: o };
    const fromAttention = this.#project(gated, of, isPlain ? x : null);
    const attended = this.#biasedOutput(fromAttention.outputs[of]!);
    const x2 = saved('x2', isPlain ? attended : this.#outputSum(x, attended, outputNormName('attention')));
    return { x, o, outputGate, x2, h: this.#normalise(x2, 'feedForward'), isPlain, fromAttention };
  }

  /**
   * Graph of a block with experts, up to them: x [T, H], o [T, heads·D] → x2 (after attention) [T, H], h [T, H], the
   * input of the experts, the router's scores [T, E], and y [T, H]: x2 with the shared feed-forward, if there is one.
   */
  routed(): Outputs {
    const { x2, h, scores, y } = this.#routed();
    return { x2, h, scores, ...(y !== x2 && { y }) };
  }

  /**
   * Graph of o, saved x2, ∂y, and ∂h (of the experts) and ∂scores → ∂o, ∂x (only of the residual path) and the
   * gradients of the adapters of o.
   */
  routedBackward(): Outputs {
    const { x, o, x2, h, scores, y, fromAttention } = this.#routed();
    const seeds = new Map([
      [y, input(gradientName('y'), x2.shape)],
      [h, input(gradientName('h'), h.shape)],
      [scores, input(gradientName('scores'), scores.shape)],
    ]);
    const outputs: Record<string, Value> = {};
    const [dx, dO] = this.#backward(seeds, [x, o], [fromAttention], outputs);
    return { [gradientName('x')]: dx!, [gradientName('o')]: dO!, ...outputs };
  }

  #routed() {
    const { hiddenSize, experts } = this.#architecture;
    const attended = this.#attended();
    const router = input(ROUTER_NAME, [experts!.count, hiddenSize]);
    const scores = matmul(attended.h, router, { transposeB: true });
    return {
      ...attended,
      y: experts!.hasSharedFeedForward ? this.#sharedSum(attended) : attended.x2,
      scores: experts!.hasBiases ? add(scores, input(ROUTER_BIAS_NAME, [experts!.count])) : scores,
    };
  }

  /** x2 with the output of the feed-forward that all tokens of a block with experts share; it has no adapter. */
  #sharedSum({ x2, h }: { readonly x2: Value; readonly h: Value }): Value {
    const [gate, up] = (['gate', 'up'] as const).map((name) => this.#fedProduct(h, name, 0));
    const added = this.#fedProduct(this.#gated(gate!, up!), 'down', 0);
    return this.#outputSum(x2, added, outputNormName('feedForward'));
  }

  /** Graph of one expert: x [T, H] → gate and up [T, F], from which backward can start, and y [T, H]. */
  expert(): { gate: Value; up: Value; y: Value } {
    const { gate, up, activated } = this.#expert();
    return { gate, up, y: this.#expertProduct(activated, 'down') };
  }

  /** Graph of saved gate and up, shares [T, 1], and ∂(sum over experts) [T, H] → ∂x [T, H] and ∂shares [T, 1]. */
  expertBackward(): Outputs {
    const { x, activated } = this.#expert();
    const dy = input(gradientName('y'), x.shape);
    const dActivated = matmul(dy, this.#expertWeight('down'));
    const scaled = mul(dActivated, input('shares', ['T', 1]));
    const [dx] = gradients(new Map([[activated, scaled]]), [x]);
    const ofProduct = reduceSum(mul(dActivated, activated), [-1]);
    const bias = this.#expertBias('down');
    return {
      [gradientName('x')]: dx!,
      [gradientName('shares')]: bias === null ? ofProduct : add(ofProduct, reduceSum(mul(dy, bias), [-1])),
    };
  }

  #expert() {
    const x = input('x', ['T', this.#architecture.hiddenSize]);
    const [gate, up] = (['gate', 'up'] as const).map((name) => saved(name, this.#expertProduct(x, name)));
    return { x, gate: gate!, up: up!, activated: this.#gated(gate!, up!) };
  }

  #expertProduct(x: Value, name: ExpertMatrix): Value {
    const y = matmul(x, this.#expertWeight(name), { transposeB: true });
    const bias = this.#expertBias(name);
    return bias === null ? y : add(y, bias);
  }

  #expertBias(name: ExpertMatrix): Value | null {
    const { experts } = this.#architecture;
    return experts!.hasBiases ? input(expertBiasName(name), [expertDims(this.#architecture, name).out]) : null;
  }

  #expertWeight(name: ExpertMatrix): Value {
    const dims = expertDims(this.#architecture, name);
    return input(weightName(name), [dims.out, dims.in]);
  }

  #output(of: OutputProjection) {
    const { x, o, outputGate, x2, h, isPlain, fromAttention } = this.#attended(of);
    const wide = this.#project(h, 'feedForward');
    const gate = saved('gate', wide.outputs.gate!);
    const up = saved('up', wide.outputs.up!);
    const back = this.#project(this.#gated(gate, up), 'down', isPlain ? x2 : null);
    const added = back.outputs.down!;
    const y = isPlain ? added : this.#outputSum(x2, added, outputNormName('feedForward'));
    return { x, o, outputGate, x2, gate, up, y, projected: [fromAttention, wide, back] };
  }

  /**
   * x · Wᵀ + scale · (x · aᵀ) · bᵀ, where the input `b` holds scale · b. One product for weights and adapter, [x |
   * x · aᵀ] · [W | scale · b]ᵀ, unless products with weights are computed outside.
   *
   * @param onto is added to the result
   */
  #project(x: Value, of: InputName, onto: Value | null = null): Projected {
    const numLow = lowWidth(of, this.#lora);
    const a = numLow === 0 ? null : input(adapterName(of, 'a'), [numLow, x.shape.at(-1)!]);
    const low = a === null ? null : matmul(x, a, { transposeB: true });
    const extended = low === null ? x : concat([x, low]);
    const outputs = INPUTS[of].map((projection) => {
      const y =
        this.#products === 'inside'
          ? this.#fedProduct(extended, projection, numLow)
          : this.#outside(x, low, projection);
      return [projection, onto === null ? y : add(onto, y)] as const;
    });
    return { of, outputs: Object.fromEntries(outputs), adapter: a === null || low === null ? null : { a, low } };
  }

  #fedProduct(extended: Value, projection: ProjectionName, numLow: number): Value {
    const dims = projectionDims(this.#architecture, projection);
    const weight = input(weightName(projection), [dims.out, dims.in + numLow]);
    return matmul(extended, weight, { transposeB: true });
  }

  #outside(x: Value, low: Value | null, projection: ProjectionName): Value {
    const dims = projectionDims(this.#architecture, projection);
    const y = product(x, projection, dims);
    if (low === null) return y;
    const b = input(adapterName(projection, 'b'), [dims.out, low.shape.at(-1)!]);
    return add(y, matmul(low, b, { transposeB: true }));
  }

  /**
   * @returns ∂loss/∂source for each of `sources`; adds the gradients of adapters to `outputs` by name, those of `b`
   * at the base scale
   */
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
    const scale = baseScale(this.#lora);
    results.forEach(({ name, low }, index) => {
      const dy = all[sources.length + adapted.length + index]!;
      outputs[name] = matmul(dy, low, { transposeA: true, scale });
    });
    return all.slice(0, sources.length);
  }

  #gated(gate: Value, up: Value): Value {
    const { activation } = this.#architecture;
    if (activation === 'clamped') return clampedGate(gate, up);
    return mul(activation === 'gelu' ? gelu(gate) : silu(gate), up);
  }

  /** x + scale · norm(y) */
  #outputSum(x: Value, y: Value, norm: string): Value {
    const { norms, residualScale, rmsEpsilon } = this.#architecture;
    const normalised = norms.after ? rmsNorm(y, input(norm, [x.shape.at(-1)!]), rmsEpsilon) : y;
    return add(x, residualScale === 1 ? normalised : mul(normalised, constant(residualScale)));
  }

  #normalise(x: Value, of: 'attention' | 'feedForward'): Value {
    const { norms, rmsEpsilon } = this.#architecture;
    return norms.before ? rmsNorm(x, input(inputNormName(of), [x.shape.at(-1)!]), rmsEpsilon) : x;
  }
}

/** Outputs of the first graph of a block with attention. */
const headsOf = ({
  q,
  k,
  v,
  gate,
}: Readonly<Record<'q' | 'k' | 'v', Value>> & { readonly gate: Value | null }): Outputs => ({
  q,
  k,
  v,
  ...(gate === null ? {} : { [OUTPUT_GATE_NAME]: gate }),
});
