import {
  addExpertOutputs,
  type Architecture,
  chooseExperts,
  EXPERT_MATRICES,
  type ExpertBiases,
  expertBiasName,
  expertDims,
  type ExpertMatrix,
  type Experts,
  type ExpertSlots,
  expertShares,
  type ExpertWeights,
  float32,
  gradientName,
  queryWidth,
  MatrixRows,
  type Scratch,
  scoreGradient,
  slotsByExpert,
  type Tensor,
  type Tensors,
  weightName,
} from '@trainyard/transformer';
import type { BlockIntermediates, BlockRouting, ExpertBuffers } from './activations.ts';
import type { NamedArrays } from './block-adapter.ts';
import { feedsOf } from './block-compute.ts';
import type { LaneRuntime, RunGraph } from './block-sessions.ts';
import type { ExpertOperation } from './lane-schedule.ts';
import type { TokenRange } from '../model/token-range.ts';
import { rowsOf } from '../model/token-range.ts';

/** Cost of an expert's weights, in tokens: they are expanded, and the processor waits for them. */
const TOKENS_OF_WEIGHTS = 32;

/** Runs the router and the experts of one block. A lane routes its own tokens, and computes some experts for all. */
export class ExpertCompute {
  readonly #run: RunGraph;
  readonly #scratch: Scratch;
  readonly #architecture: Architecture;
  readonly #experts: Experts;
  readonly #output: NamedArrays;
  readonly #matrices: Readonly<Record<ExpertMatrix, MatrixRows>>;
  readonly #biases: ExpertBiases | null;
  readonly #hiddenSize: number;
  readonly #queryWidth: number;
  /** Slots of the current pass, after all lanes have routed their tokens. */
  #slots: ExpertSlots | null = null;

  /** @param parameters of the graph after attention, and the weights of all experts */
  constructor(
    architecture: Architecture,
    { output, matrices, biases }: { readonly output: NamedArrays } & Pick<ExpertWeights, 'matrices' | 'biases'>,
    { run, scratch }: LaneRuntime,
  ) {
    this.#run = run;
    this.#scratch = scratch;
    this.#architecture = architecture;
    this.#experts = architecture.experts!;
    this.#output = output;
    this.#biases = biases;
    const rows = (matrix: ExpertMatrix) => new MatrixRows(matrices[matrix], expertDims(architecture, matrix).in);
    this.#matrices = { gate: rows('gate'), up: rows('up'), down: rows('down') };
    this.#hiddenSize = architecture.hiddenSize;
    this.#queryWidth = queryWidth(architecture);
  }

  /** Starts a pass over another row. */
  begin(): void {
    this.#slots = null;
  }

  /**
   * Computes x2, h and scores of a lane's tokens, and the sum of x2 and the shared feed-forward if there is one.
   *
   * @param rows x [T, H], and y [T, H] for the sum; null: it is not computed again
   */
  routed(
    range: TokenRange,
    own: BlockIntermediates,
    { h }: ExpertBuffers,
    { x, y }: { readonly x: Float32Array; readonly y: Float32Array | null },
  ): void {
    const feeds = {
      ...feedsOf(this.#output),
      x: rowsOf(x, this.#hiddenSize, range),
      o: rowsOf(own.o, this.#queryWidth, range),
    };
    const results = {
      x2: rowsOf(own.x2, this.#hiddenSize, range),
      h: rowsOf(h, this.#hiddenSize, range),
      scores: rowsOf(own.routing!.scores, this.#experts.count, range),
    };
    if (y === null) this.#run('recomputingRouted', feeds, results, null);
    else {
      const sum = this.#experts.hasSharedFeedForward ? { y: rowsOf(y, this.#hiddenSize, range) } : {};
      this.#run('routed', feeds, { ...results, ...sum }, null);
    }
  }

  /** Chooses the experts of a lane's tokens by their scores. @param given [T, K] overrides them, except for -1 */
  choose(range: TokenRange, routing: BlockRouting, given: Int32Array | null): void {
    const { scores, chosen } = this.#rowsOf(range, routing);
    chooseExperts(scores, this.#experts, chosen);
    const first = range.start * this.#experts.used;
    if (given !== null)
      for (let i = 0; i < chosen.length; i++) if (given[first + i]! >= 0) chosen[i] = given[first + i]!;
    this.share(range, routing);
  }

  /** Computes the shares of chosen experts. */
  share(range: TokenRange, routing: BlockRouting): void {
    const { scores, chosen, shares } = this.#rowsOf(range, routing);
    expertShares(scores, this.#experts, chosen, shares);
  }

  /** Experts that a lane computes: all lanes have about the same work, and find the same division. */
  shareOf(lane: number, numLanes: number, routing: BlockRouting): number[] {
    const { starts } = this.#slotsOf(routing);
    const counts = Array.from({ length: this.#experts.count }, (_, expert) => starts[expert + 1]! - starts[expert]!);
    const loads = Array.from({ length: numLanes }, () => 0);
    const own: number[] = [];
    const busiestFirst = [...counts.keys()]
      .filter((expert) => counts[expert]! > 0)
      .toSorted((a, b) => counts[b]! - counts[a]!);
    for (const expert of busiestFirst) {
      const least = loads.indexOf(Math.min(...loads));
      loads[least]! += counts[expert]! + TOKENS_OF_WEIGHTS;
      if (least === lane) own.push(expert);
    }
    return own;
  }

  /** Computes one expert for all of its tokens; the graph's name decides if the inputs of backward are written. */
  forward(
    graph: Exclude<ExpertOperation, 'expertBackward'>,
    expert: number,
    own: BlockIntermediates,
    { h, outputs }: ExpertBuffers,
  ): void {
    const slots = this.#slotsOf(own.routing!);
    const range = rangeOf(slots, expert);
    const feeds = { ...this.#weights(expert), x: this.#gathered('expert.x', h, slots.tokens, range) };
    const { feedForwardSize } = this.#experts;
    const inputs = { gate: rowsOf(own.gate, feedForwardSize, range), up: rowsOf(own.up, feedForwardSize, range) };
    this.#run(
      graph,
      feeds,
      {
        ...(graph === 'recomputingExpert' ? {} : { y: rowsOf(outputs, this.#hiddenSize, range) }),
        ...(graph === 'expert' ? {} : inputs),
      },
      null,
    );
  }

  /** Computes ∂y → the gradients of one expert's inputs, in the place of its outputs, and of its shares. */
  backward(
    expert: number,
    own: BlockIntermediates,
    { outputs, shareGradients }: ExpertBuffers,
    dy: Float32Array,
  ): void {
    const { routing, gate, up } = own;
    const slots = this.#slotsOf(routing!);
    const range = rangeOf(slots, expert);
    const { feedForwardSize } = this.#experts;
    const { residualScale } = this.#architecture;
    const gradient = this.#gathered('expert.dy', dy, slots.tokens, range);
    if (residualScale !== 1) scale(gradient.data as Float32Array, residualScale);
    this.#run(
      'expertBackward',
      {
        ...this.#weights(expert),
        gate: rowsOf(gate, feedForwardSize, range),
        up: rowsOf(up, feedForwardSize, range),
        shares: this.#slotShares(routing!, slots, range),
        [gradientName('y')]: gradient,
      },
      {
        [gradientName('x')]: rowsOf(outputs, this.#hiddenSize, range),
        [gradientName('shares')]: rowsOf(shareGradients!, 1, range),
      },
      null,
    );
  }

  /** Computes y = x2 + scale · Σ share · output of a lane's tokens; y has the shared feed-forward already. */
  combined(range: TokenRange, { x2, routing }: BlockIntermediates, { outputs }: ExpertBuffers, y: Float32Array): void {
    const { residualScale } = this.#architecture;
    const sizes = { used: this.#experts.used, width: this.#hiddenSize, scale: residualScale };
    const x = this.#experts.hasSharedFeedForward ? y : x2;
    addExpertOutputs({ x, y, outputs, shares: routing!.shares }, this.#slotsOf(routing!), range, sizes);
  }

  /** Gradients of h by the experts, and of scores. */
  routedBackwardFeeds(range: TokenRange, { routing }: BlockIntermediates, buffers: ExpertBuffers): Tensors {
    const { outputs, shareGradients } = buffers;
    const { slotOf } = this.#slotsOf(routing!);
    const { used, count } = this.#experts;
    const width = this.#hiddenSize;
    const numTokens = range.end - range.start;
    const dh = this.#scratch.take('expert.dh', numTokens * width);
    const dShares = this.#scratch.take('expert.dShares', numTokens * used);
    const dScores = this.#scratch.take('expert.dScores', numTokens * count);
    const sum = new Float64Array(width);
    for (let token = 0; token < numTokens; token++) {
      sum.fill(0);
      for (let i = 0; i < used; i++) {
        const slot = slotOf[(range.start + token) * used + i]!;
        for (let j = 0; j < width; j++) sum[j]! += outputs[slot * width + j]!;
        dShares[token * used + i] = shareGradients![slot]!;
      }
      dh.set(sum, token * width);
    }
    scoreGradient(this.#rowsOf(range, routing!), this.#experts, dShares, dScores);
    return {
      [gradientName('h')]: float32(dh, [numTokens, width]),
      [gradientName('scores')]: float32(dScores, [numTokens, count]),
    };
  }

  #slotsOf({ chosen }: BlockRouting): ExpertSlots {
    this.#slots ??= slotsByExpert(chosen, this.#experts);
    return this.#slots;
  }

  #rowsOf({ start, end }: TokenRange, { scores, chosen, shares }: BlockRouting): BlockRouting {
    const { count, used } = this.#experts;
    return {
      scores: scores.subarray(start * count, end * count),
      chosen: chosen.subarray(start * used, end * used),
      shares: shares.subarray(start * used, end * used),
    };
  }

  #weights(expert: number): Tensors {
    const entries = EXPERT_MATRICES.map((matrix) => {
      const { in: columns, out } = expertDims(this.#architecture, matrix);
      const memory = (length: number) => this.#scratch.take(`expert.${matrix}`, length);
      const data = this.#matrices[matrix].rows(expert * out, (expert + 1) * out, memory);
      const bias = this.#biases?.[matrix].subarray(expert * out, (expert + 1) * out);
      const weight = [weightName(matrix), float32(data, [out, columns])] as const;
      return bias === undefined ? [weight] : [weight, [expertBiasName(matrix), float32(bias, [out])] as const];
    });
    return Object.fromEntries(entries.flat());
  }

  /** Rows of a [T, H] matrix by slot. */
  #gathered(name: string, from: Float32Array, tokens: Int32Array, { start, end }: TokenRange): Tensor {
    const width = this.#hiddenSize;
    const rows = this.#scratch.take(name, (end - start) * width);
    for (let slot = start; slot < end; slot++) {
      const at = tokens[slot]! * width;
      rows.set(from.subarray(at, at + width), (slot - start) * width);
    }
    return float32(rows, [end - start, width]);
  }

  /** [slots, 1] */
  #slotShares({ shares }: BlockRouting, { slotOf, tokens }: ExpertSlots, { start, end }: TokenRange): Tensor {
    const { used } = this.#experts;
    const values = this.#scratch.take('expert.shares', end - start);
    for (let slot = start; slot < end; slot++) {
      let i = tokens[slot]! * used;
      while (slotOf[i] !== slot) i++;
      values[slot - start] = shares[i]!;
    }
    return float32(values, [end - start, 1]);
  }
}

const rangeOf = ({ starts }: ExpertSlots, expert: number): TokenRange => ({
  start: starts[expert]!,
  end: starts[expert + 1]!,
});

function scale(values: Float32Array, factor: number): void {
  for (let i = 0; i < values.length; i++) values[i]! *= factor;
}
