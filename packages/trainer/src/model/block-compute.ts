import type { Tensor } from 'onnxruntime-common';
import type { Tensors } from '../graph/session.ts';
import { float32 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import { BlockAdapter, floats } from './block-adapter.ts';
import { biasName, gradientName, headNormName, weightName } from './block-graph.ts';
import type { ModelSessions } from './block-sessions.ts';
import type { ComputeTurns } from './compute-turns.ts';
import type { LoraParameters } from './policy-model.ts';
import type { InputName } from './projections.ts';
import { INPUTS, INPUT_NAMES } from './projections.ts';
import type { RowPlan, TokenRange } from './row-plan.ts';
import { rowsOf } from './row-plan.ts';
import type { BlockWeights } from './weights.ts';

/** What the graph before attention and the one behind it read. */
const ATTENTION_INPUTS: readonly InputName[] = ['attention'];
const OUTPUT_INPUTS: readonly InputName[] = INPUT_NAMES.filter((name) => name !== 'attention');

/** [T, heads·D], [T, kvHeads·D], [T, kvHeads·D] */
export interface AttentionInput {
  readonly q: Float32Array;
  readonly k: Float32Array;
  readonly v: Float32Array;
}

/** [T, H], [T, F], [T, F] */
export interface OutputIntermediates {
  readonly x2: Float32Array;
  readonly gate: Float32Array;
  readonly up: Float32Array;
}

/** Runs one transformer block over a row, piece by piece. Every array is [T, features], read or written in place. */
export class BlockCompute {
  readonly #sessions: ModelSessions;
  readonly #hiddenSize: number;
  readonly #feedForwardSize: number;
  readonly #headSize: number;
  readonly #queryWidth: number;
  readonly #keyWidth: number;
  readonly #keyHeads: number;
  readonly #adapter: BlockAdapter;
  readonly #attentionInputFeeds: Tensors;
  readonly #outputFeeds: Tensors;

  constructor(
    architecture: Architecture,
    weights: BlockWeights,
    lora: LoraParameters,
    layer: number,
    sessions: ModelSessions,
  ) {
    this.#sessions = sessions;
    this.#hiddenSize = architecture.hiddenSize;
    this.#feedForwardSize = architecture.feedForwardSize;
    this.#headSize = architecture.headSize;
    this.#keyHeads = architecture.numKvHeads;
    this.#queryWidth = linearDims(architecture, 'q').out;
    this.#keyWidth = linearDims(architecture, 'k').out;
    this.#adapter = new BlockAdapter(architecture, weights.matrices, lora, layer);
    this.#attentionInputFeeds = this.#parameterFeeds(weights, ATTENTION_INPUTS, weights.attentionNorm);
    this.#outputFeeds = this.#parameterFeeds(weights, OUTPUT_INPUTS, weights.feedForwardNorm);
  }

  /** Whether what attention reads is computed with an adapter. */
  get adaptsAttention(): boolean {
    return this.#adapter.adapts('attention');
  }

  /** Every pass starts here: later runs compute with the adapter as it is now, or without. */
  loadAdapter(withoutAdapter: boolean): void {
    this.#adapter.load(withoutAdapter);
  }

  async attentionInput(plan: RowPlan, turns: ComputeTurns, x: Float32Array, into: AttentionInput): Promise<void> {
    const session = await this.#sessions.get('attentionInput');
    for (const range of plan.chunks) {
      const feeds = {
        ...this.#attentionInputFeeds,
        ...this.#ropeFeeds(plan, range),
        x: rowsOf(x, this.#hiddenSize, range),
      };
      await turns.run(() => session.run(feeds, this.#attentionViews(into, range)));
    }
  }

  async attention(
    plan: RowPlan,
    turns: ComputeTurns,
    { q, k, v }: AttentionInput,
    into: { o: Float32Array },
  ): Promise<void> {
    const session = await this.#sessions.get('attention');
    const all = { start: 0, end: plan.numTokens };
    const shared = { k: this.#keys(k, all), v: this.#keys(v, all) };
    for (const block of plan.attention) {
      const feeds = { ...shared, ...block.feeds, q: this.#queries(q, block) };
      await turns.run(() => session.run(feeds, { o: this.#queries(into.o, block) }));
    }
  }

  /** Writes y, the intermediates, or both: whichever is given. */
  async output(
    plan: RowPlan,
    turns: ComputeTurns,
    from: { x: Float32Array; o: Float32Array },
    into: { y?: Float32Array; intermediates?: OutputIntermediates },
  ): Promise<void> {
    const { y, intermediates } = into;
    const session = await this.#sessions.get(
      intermediates === undefined ? 'output' : y === undefined ? 'recomputingOutput' : 'savingOutput',
    );
    for (const range of plan.chunks) {
      const feeds = {
        ...this.#outputFeeds,
        x: rowsOf(from.x, this.#hiddenSize, range),
        o: rowsOf(from.o, this.#queryWidth, range),
      };
      const results = {
        ...(y === undefined ? {} : { y: rowsOf(y, this.#hiddenSize, range) }),
        ...(intermediates === undefined ? {} : this.#intermediateViews(intermediates, range)),
      };
      await turns.run(() => session.run(feeds, results));
    }
  }

  /** ∂y → ∂o and ∂x of the residual path; adds the gradients of the adapters of o, gate, up, down. */
  async outputBackward(
    plan: RowPlan,
    turns: ComputeTurns,
    from: OutputIntermediates & { o: Float32Array; dy: Float32Array },
    into: { dx: Float32Array; dO: Float32Array },
  ): Promise<void> {
    const session = await this.#sessions.get('outputBackward');
    for (const range of plan.chunks) {
      const feeds = {
        ...this.#outputFeeds,
        ...this.#intermediateViews(from, range),
        o: rowsOf(from.o, this.#queryWidth, range),
        [gradientName('y')]: rowsOf(from.dy, this.#hiddenSize, range),
      };
      const results = {
        [gradientName('x')]: rowsOf(into.dx, this.#hiddenSize, range),
        [gradientName('o')]: rowsOf(into.dO, this.#queryWidth, range),
      };
      this.#adapter.addGradients(await turns.run(() => session.run(feeds, results)));
    }
  }

  /** ∂o → ∂q, ∂k, ∂v. */
  async attentionBackward(
    plan: RowPlan,
    turns: ComputeTurns,
    from: AttentionInput & { dO: Float32Array },
    into: { dq: Float32Array; dk: Float32Array; dv: Float32Array },
  ): Promise<void> {
    const session = await this.#sessions.get('attentionBackward');
    const all = { start: 0, end: plan.numTokens };
    const shared = { k: this.#keys(from.k, all), v: this.#keys(from.v, all) };
    into.dk.fill(0);
    into.dv.fill(0);
    for (const block of plan.attention) {
      const feeds = {
        ...shared,
        ...block.feeds,
        q: this.#queries(from.q, block),
        [gradientName('o')]: this.#queries(from.dO, block),
      };
      const results = { [gradientName('q')]: this.#queries(into.dq, block) };
      const outputs = await turns.run(() => session.run(feeds, results));
      addRows(into.dk, outputs[gradientName('k')]!, block.keys, this.#keyWidth);
      addRows(into.dv, outputs[gradientName('v')]!, block.keys, this.#keyWidth);
    }
  }

  /** ∂q, ∂k, ∂v, ∂residual → ∂x (unless `dx` is null); adds the gradients of the adapters of q, k, v. */
  async attentionInputBackward(
    plan: RowPlan,
    turns: ComputeTurns,
    from: { x: Float32Array; dq: Float32Array; dk: Float32Array; dv: Float32Array; residual: Float32Array },
    into: { dx: Float32Array | null },
  ): Promise<void> {
    const session = await this.#sessions.get(
      into.dx === null ? 'firstAttentionInputBackward' : 'attentionInputBackward',
    );
    for (const range of plan.chunks) {
      const feeds = {
        ...this.#attentionInputFeeds,
        ...this.#ropeFeeds(plan, range),
        x: rowsOf(from.x, this.#hiddenSize, range),
        [gradientName('q')]: rowsOf(from.dq, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
        [gradientName('k')]: rowsOf(from.dk, this.#keyWidth, range, (rows) => [1, rows, this.#keyWidth]),
        [gradientName('v')]: rowsOf(from.dv, this.#keyWidth, range),
        [gradientName('residual')]: rowsOf(from.residual, this.#hiddenSize, range),
      };
      const results = into.dx === null ? {} : { [gradientName('x')]: rowsOf(into.dx, this.#hiddenSize, range) };
      this.#adapter.addGradients(await turns.run(() => session.run(feeds, results)));
    }
  }

  #parameterFeeds(weights: BlockWeights, inputs: readonly InputName[], norm: Float32Array): Tensors {
    const vector = (data: Float32Array) => float32(data, [data.length]);
    const feeds: Record<string, Tensor> = { ...this.#adapter.feeds(inputs), norm: vector(norm) };
    for (const projection of inputs.flatMap((name) => INPUTS[name])) {
      const { data, rows, width } = weights.matrices[projection];
      feeds[weightName(projection)] = float32(data, [rows, width]);
    }
    if (weights.bias !== null) feeds[biasName] = vector(weights.bias);
    for (const linear of ['q', 'k'] as const) {
      if (weights.headNorms !== null) feeds[headNormName(linear)] = vector(weights.headNorms[linear]);
    }
    return feeds;
  }

  #ropeFeeds(plan: RowPlan, range: TokenRange): Tensors {
    const half = this.#headSize / 2;
    return { cos: rowsOf(plan.cos, half, range), sin: rowsOf(plan.sin, half, range) };
  }

  #attentionViews({ q, k, v }: AttentionInput, range: TokenRange): Tensors {
    return {
      q: rowsOf(q, this.#queryWidth, range, (rows) => [1, rows, this.#queryWidth]),
      k: rowsOf(k, this.#keyWidth, range, (rows) => [1, rows, this.#keyWidth]),
      v: rowsOf(v, this.#keyWidth, range),
    };
  }

  /** [Q, kvHeads, G, D] */
  #queries(matrix: Float32Array, range: TokenRange): Tensor {
    const group = this.#queryWidth / this.#keyWidth;
    return rowsOf(matrix, this.#queryWidth, range, (rows) => [rows, this.#keyHeads, group, this.#headSize]);
  }

  /** [T, kvHeads, 1, D] */
  #keys(matrix: Float32Array, range: TokenRange): Tensor {
    return rowsOf(matrix, this.#keyWidth, range, (rows) => [rows, this.#keyHeads, 1, this.#headSize]);
  }

  #intermediateViews({ x2, gate, up }: OutputIntermediates, range: TokenRange): Tensors {
    return {
      x2: rowsOf(x2, this.#hiddenSize, range),
      gate: rowsOf(gate, this.#feedForwardSize, range),
      up: rowsOf(up, this.#feedForwardSize, range),
    };
  }
}

/** matrix[rows[i]] += part[i], for rows of `columns` elements. */
function addRows(matrix: Float32Array, part: Tensor, rows: Int32Array, columns: number): void {
  const values = floats(part);
  for (let i = 0; i < rows.length; i++) {
    const to = rows[i]! * columns;
    const from = i * columns;
    for (let j = 0; j < columns; j++) matrix[to + j]! += values[from + j]!;
  }
}
