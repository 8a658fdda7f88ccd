import {
  addExpertOutputs,
  chooseExperts,
  EXPERT_MATRICES,
  type ExpertBiases,
  expertDims,
  type ExpertMatrix,
  type Experts,
  expertShares,
  type ExpertSlots,
  type FileMatrix,
  plainFileMatrix,
  slotsByExpert,
  UnsupportedModelError,
} from '@trainyard/transformer';
import type { DecoderParts } from '../graphs/decoder-parts.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import { ExpandedProducts } from '../products/expanded-products.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { BlockRows } from './block-rows.ts';

type LayerMatrices = Readonly<Record<ExpertMatrix | 'router', FileMatrix>>;

interface LayerExperts {
  readonly matrices: LayerMatrices;
  readonly biases: ExpertBiases | null;
}

/**
 * Routers and experts of a decoder. Rows are grouped by expert, and an expert's weights are expanded for its rows only.
 * Products have one order of sums for any number of rows, so a row's bits do not depend on the batch.
 */
export class ExpertSteps {
  /** @see PagedDecoder.observeExperts */
  observer: ((layer: number, chosen: Int32Array) => void) | null = null;
  readonly #parts: DecoderParts;
  readonly #experts: Experts;
  readonly #layers: readonly (LayerMatrices | null)[];
  readonly #products: ExpandedProducts;
  /** [rows, E] */
  readonly #scores: Float32Array;
  /** [slots, H]: inputs, then outputs */
  readonly #x: Float32Array;
  readonly #outputs: Float32Array;
  /** [slots, F of one expert] */
  readonly #gate: Float32Array;
  readonly #up: Float32Array;
  readonly #activated: Float32Array;

  /** @param memory also of the rows, with room for {@link bytesFor} @throws {UnsupportedModelError} for odd sizes */
  constructor(parts: DecoderParts, maxRows: number, memory: DecoderMemory, team: ThreadTeam) {
    const { hiddenSize } = parts.architecture;
    const experts = parts.architecture.experts!;
    this.#parts = parts;
    this.#experts = experts;
    this.#layers = layersOf(parts);
    const all = matricesOf(this.#layers);
    const odd = all.find((matrix) => !ExpandedProducts.fits(matrix));
    if (odd !== undefined)
      throw new UnsupportedModelError(`experts with rows of ${odd.columns} values are not supported`);
    this.#products = new ExpandedProducts(all, maxRows, memory, team);
    const numSlots = maxRows * experts.used;
    this.#scores = memory.take(maxRows * experts.count);
    this.#x = memory.take(numSlots * hiddenSize);
    this.#outputs = memory.take(numSlots * hiddenSize);
    this.#gate = memory.take(numSlots * experts.feedForwardSize);
    this.#up = memory.take(numSlots * experts.feedForwardSize);
    this.#activated = memory.take(numSlots * experts.feedForwardSize);
  }

  static bytesFor(parts: DecoderParts, maxRows: number, numThreads: number): number {
    const { hiddenSize, experts } = parts.architecture;
    const all = matricesOf(layersOf(parts));
    if (experts === null || all.length === 0) return 0;
    const widths = experts.count + experts.used * (2 * hiddenSize + 3 * experts.feedForwardSize);
    return 4 * maxRows * widths + 6 * 64 + ExpandedProducts.bytesFor(all, maxRows, numThreads);
  }

  /** h, x2 → x, and h of the next block; h, x2 → x2 if the block has another feed-forward, too */
  compute(layer: number, { h, x, x2 }: BlockRows): void {
    const [numRows, width] = h.dims;
    const { count, used } = this.#experts;
    const matrices = this.#layers[layer]!;
    const { biases } = this.#parts.experts[layer]!;
    const scores = this.#scores.subarray(0, numRows * count);
    startSums(scores, biases?.router ?? null);
    this.#products.addProduct(h.data, matrices.router, scores);
    const chosen = new Int32Array(numRows * used);
    const shares = new Float32Array(numRows * used);
    chooseExperts(scores, this.#experts, chosen);
    expertShares(scores, this.#experts, chosen, shares);
    this.observer?.(layer, chosen);
    const slots = slotsByExpert(chosen, this.#experts);
    const outputs = this.#computeSlots({ matrices, biases }, slots, h.data);
    const sizes = { used, width, scale: this.#parts.architecture.residualScale };
    const sum = this.#experts.hasSharedFeedForward ? x2 : x;
    addExpertOutputs({ x: x2.data, y: sum.data, outputs, shares }, slots, { start: 0, end: numRows }, sizes);
    if (sum === x2) return;
    this.#parts.normaliseForAttention(layer + 1, x, h);
  }

  /** @returns outputs [slots, H] */
  #computeSlots({ matrices, biases }: LayerExperts, slots: ExpertSlots, h: Float32Array): Float32Array {
    const { hiddenSize } = this.#parts.architecture;
    const { feedForwardSize } = this.#experts;
    const { tokens } = slots;
    const numSlots = tokens.length;
    for (const [slot, row] of tokens.entries())
      this.#x.set(h.subarray(row * hiddenSize, (row + 1) * hiddenSize), slot * hiddenSize);
    const wide = (data: Float32Array) => ({
      data: data.subarray(0, numSlots * feedForwardSize),
      dims: [numSlots, feedForwardSize],
    });
    const [gate, up, activated] = [wide(this.#gate), wide(this.#up), wide(this.#activated)];
    const multiply = (name: ExpertMatrix, x: Float32Array, y: Float32Array): void =>
      this.#multiply(slots, { all: matrices[name], biases: biases?.[name] ?? null }, x, y);
    multiply('gate', this.#x, gate.data);
    multiply('up', this.#x, up.data);
    this.#parts.between.expertActivation.run({ gate, up }, { activated });
    const outputs = this.#outputs.subarray(0, numSlots * hiddenSize);
    multiply('down', activated.data, outputs);
    return outputs;
  }

  /** Computes y = x · Wᵀ + bias for the slots of each expert by its own W. */
  #multiply(
    { starts }: ExpertSlots,
    { all, biases }: { readonly all: FileMatrix; readonly biases: Float32Array | null },
    x: Float32Array,
    y: Float32Array,
  ): void {
    const { count } = this.#experts;
    const { columns } = all;
    const out = all.rows / count;
    for (let expert = 0; expert < count; expert++) {
      const [start, end] = [starts[expert]!, starts[expert + 1]!];
      if (start === end) continue;
      const rows = { start: expert * out, end: (expert + 1) * out };
      const sums = y.subarray(start * out, end * out);
      startSums(sums, biases?.subarray(rows.start, rows.end) ?? null);
      this.#products.addProduct(x.subarray(start * columns, end * columns), all, sums, rows);
    }
  }
}

/** Writes the bias to each row, or 0 without one. */
function startSums(sums: Float32Array, bias: Float32Array | null): void {
  if (bias === null) sums.fill(0);
  else for (let at = 0; at < sums.length; at += bias.length) sums.set(bias, at);
}

function layersOf({ experts, architecture }: DecoderParts): (LayerMatrices | null)[] {
  return experts.map((own) => {
    if (own === null) return null;
    const matrix = (name: ExpertMatrix) => plainFileMatrix(own.matrices[name], expertDims(architecture, name).in);
    const router = plainFileMatrix(own.router, architecture.hiddenSize);
    return { router, gate: matrix('gate'), up: matrix('up'), down: matrix('down') };
  });
}

const matricesOf = (layers: readonly (LayerMatrices | null)[]): FileMatrix[] =>
  layers.flatMap((layer) => (layer === null ? [] : [layer.router, ...EXPERT_MATRICES.map((name) => layer[name])]));
