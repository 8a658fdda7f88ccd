import type { Tensor } from 'onnxruntime-common';
import type { Tensors } from '../graph/session.ts';
import { float32 } from '../graph/session.ts';
import type { Architecture } from './architecture.ts';
import { linearDims } from './architecture.ts';
import {
  ATTENTION_INPUT_LINEARS,
  OUTPUT_LINEARS,
  biasName,
  gradientName,
  headNormName,
  loraName,
  weightName,
} from './block-graph.ts';
import type { ModelSessions } from './block-sessions.ts';
import type { ComputeTurns } from './compute-turns.ts';
import type { LinearName, LoraParameters, LoraTensor } from './policy-model.ts';
import type { RowPlan } from './row-plan.ts';
import { rowsOf } from './row-plan.ts';
import type { BlockWeights } from './weights.ts';

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
  readonly #adapters: ReadonlyMap<string, LoraTensor>;
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
    this.#queryWidth = linearDims(architecture, 'q').out;
    this.#keyWidth = linearDims(architecture, 'k').out;
    this.#adapters = new Map(
      lora.tensors
        .filter((tensor) => tensor.layer === layer)
        .map((tensor) => [loraName(tensor.linear, tensor.half), tensor]),
    );
    this.#attentionInputFeeds = this.#parameterFeeds(
      architecture,
      weights,
      ATTENTION_INPUT_LINEARS,
      weights.attentionNorm,
    );
    this.#outputFeeds = this.#parameterFeeds(architecture, weights, OUTPUT_LINEARS, weights.feedForwardNorm);
  }

  /** Whether any of the given linear layers carries an adapter. */
  adapts(linears: readonly LinearName[]): boolean {
    return linears.some((linear) => this.#adapters.has(loraName(linear, 'a')));
  }

  async attentionInput(
    plan: RowPlan,
    turns: ComputeTurns,
    x: Float32Array,
    into: AttentionInput,
    withoutAdapter: boolean,
  ): Promise<void> {
    const session = await this.#sessions.get(withoutAdapter ? 'baseAttentionInput' : 'attentionInput');
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
    const shared = { k: rowsOf(k, this.#keyWidth, all), v: rowsOf(v, this.#keyWidth, all) };
    for (const block of plan.attention) {
      const feeds = { ...shared, ...block.feeds, q: rowsOf(q, this.#queryWidth, block) };
      await turns.run(() => session.run(feeds, { o: rowsOf(into.o, this.#queryWidth, block) }));
    }
  }

  /** Writes y, the intermediates, or both: whichever is given. */
  async output(
    plan: RowPlan,
    turns: ComputeTurns,
    from: { x: Float32Array; o: Float32Array },
    into: { y?: Float32Array; intermediates?: OutputIntermediates },
    withoutAdapter: boolean,
  ): Promise<void> {
    const { y, intermediates } = into;
    const plain = withoutAdapter ? 'baseOutput' : 'output';
    const session = await this.#sessions.get(
      intermediates === undefined ? plain : y === undefined ? 'recomputingOutput' : 'savingOutput',
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
      this.#addGradients(await turns.run(() => session.run(feeds, results)));
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
    const shared = { k: rowsOf(from.k, this.#keyWidth, all), v: rowsOf(from.v, this.#keyWidth, all) };
    into.dk.fill(0);
    into.dv.fill(0);
    for (const block of plan.attention) {
      const feeds = {
        ...shared,
        ...block.feeds,
        q: rowsOf(from.q, this.#queryWidth, block),
        [gradientName('o')]: rowsOf(from.dO, this.#queryWidth, block),
      };
      const results = { [gradientName('q')]: rowsOf(into.dq, this.#queryWidth, block) };
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
        [gradientName('q')]: rowsOf(from.dq, this.#queryWidth, range),
        [gradientName('k')]: rowsOf(from.dk, this.#keyWidth, range),
        [gradientName('v')]: rowsOf(from.dv, this.#keyWidth, range),
        [gradientName('residual')]: rowsOf(from.residual, this.#hiddenSize, range),
      };
      const results = into.dx === null ? {} : { [gradientName('x')]: rowsOf(into.dx, this.#hiddenSize, range) };
      this.#addGradients(await turns.run(() => session.run(feeds, results)));
    }
  }

  #parameterFeeds(
    architecture: Architecture,
    weights: BlockWeights,
    linears: readonly LinearName[],
    norm: Float32Array,
  ): Tensors {
    const feeds: Record<string, Tensor> = { norm: float32(norm, [norm.length]) };
    for (const linear of linears) {
      const dims = linearDims(architecture, linear);
      feeds[weightName(linear)] = float32(weights.linears[linear], [dims.out, dims.in]);
      for (const half of ['a', 'b'] as const) {
        const tensor = this.#adapters.get(loraName(linear, half));
        if (tensor !== undefined) feeds[loraName(linear, half)] = float32(tensor.value, tensor.dims);
      }
      if (linear !== 'q' && linear !== 'k' && linear !== 'v') continue;
      const bias = weights.biases?.[linear];
      if (bias !== undefined) feeds[biasName(linear)] = float32(bias, [bias.length]);
      const headNorm = linear === 'v' ? undefined : weights.headNorms?.[linear];
      if (headNorm !== undefined) feeds[headNormName(linear)] = float32(headNorm, [headNorm.length]);
    }
    return feeds;
  }

  #ropeFeeds(plan: RowPlan, range: { start: number; end: number }): Tensors {
    return { cos: rowsOf(plan.cos, this.#headSize, range, [1]), sin: rowsOf(plan.sin, this.#headSize, range, [1]) };
  }

  #attentionViews({ q, k, v }: AttentionInput, range: { start: number; end: number }): Tensors {
    return {
      q: rowsOf(q, this.#queryWidth, range),
      k: rowsOf(k, this.#keyWidth, range),
      v: rowsOf(v, this.#keyWidth, range),
    };
  }

  #intermediateViews({ x2, gate, up }: OutputIntermediates, range: { start: number; end: number }): Tensors {
    return {
      x2: rowsOf(x2, this.#hiddenSize, range),
      gate: rowsOf(gate, this.#feedForwardSize, range),
      up: rowsOf(up, this.#feedForwardSize, range),
    };
  }

  #addGradients(outputs: Tensors): void {
    for (const [name, tensor] of this.#adapters) {
      const part = outputs[gradientName(name)];
      if (part === undefined) continue;
      const values = floats(part);
      const { gradient } = tensor;
      for (let i = 0; i < gradient.length; i++) gradient[i]! += values[i]!;
    }
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

function floats(tensor: Tensor): Float32Array {
  if (!(tensor.data instanceof Float32Array)) throw new TypeError(`expected a float32 result, got ${tensor.type}`);
  return tensor.data;
}
