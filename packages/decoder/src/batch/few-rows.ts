import type { OnnxTensor } from '@trainyard/native';
import { biasName, headNormName, INPUTS, linearDims, PROJECTIONS } from '@trainyard/transformer';
import type { Architecture, InputName, LinearName, ProjectionName } from '@trainyard/transformer';
import type { PagedAttention } from '../attention/paged-attention.ts';
import type { Feeds } from '../graphs/constant-graph.ts';
import type { DecoderGraphs } from '../graphs/decoder-graphs.ts';
import { FewRowGraphs } from '../graphs/few-row-graphs.ts';
import type { QuantisedMatrix } from '../products/quantised-matrix.ts';
import { QuantisedProducts } from '../products/quantised-products.ts';
import type { QuantisedWeights } from '../products/quantised-weights.ts';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { AdapterStack } from './adapter-stack.ts';

/** Where a batch's tokens are. */
export interface BatchPlaces {
  /** [rows] each. */
  readonly sequences: Int32Array;
  readonly positions: Int32Array;
}

/** [rows, width] */
interface Rows {
  readonly data: Float32Array;
  readonly dims: readonly [number, number];
}

/** Room for as many rows as there may be. */
type Room = Readonly<Record<'h' | 'x2' | 'y' | 'qkv' | 'o' | 'gate' | 'up' | 'activated' | 'logits', Float32Array>>;

/** Most rows: above, products of the whole graphs are as fast. */
export const MAX_FEW_ROWS = 4;

/** Float32 that {@link FewRows} takes behind the weights. */
export function fewRowActivations(architecture: Architecture): number {
  const { hiddenSize, vocabSize, feedForwardSize } = architecture;
  const [q, k] = [linearDims(architecture, 'q').out, linearDims(architecture, 'k').out];
  const widths = [3 * hiddenSize, q + 2 * k, q, 3 * feedForwardSize, vocabSize];
  return MAX_FEW_ROWS * widths.reduce((sum, width) => sum + width, 0);
}

/**
 * A batch of a few rows by quantised weights: such a batch waits for memory, and they are a fifth of float32's.
 *
 * Products are those of the whole graphs to the bit: weights expand to the same float32, and sums go in the same order.
 */
export class FewRows {
  readonly #graphs: DecoderGraphs;
  readonly #between: FewRowGraphs;
  readonly #weights: QuantisedWeights;
  readonly #products: QuantisedProducts;
  readonly #attention: PagedAttention;
  readonly #team: ThreadTeam;
  readonly #room: Room;
  readonly #k: Float32Array;
  readonly #v: Float32Array;

  constructor(graphs: DecoderGraphs, weights: QuantisedWeights, attention: PagedAttention, team: ThreadTeam) {
    const { architecture } = graphs;
    const { hiddenSize, vocabSize, feedForwardSize } = architecture;
    const [q, k] = [linearDims(architecture, 'q').out, linearDims(architecture, 'k').out];
    const take = (width: number) => weights.take(MAX_FEW_ROWS * width);
    this.#graphs = graphs;
    this.#weights = weights;
    this.#attention = attention;
    this.#team = team;
    this.#products = new QuantisedProducts(weights.memory, team);
    this.#between = new FewRowGraphs(architecture);
    this.#room = {
      h: take(hiddenSize),
      x2: take(hiddenSize),
      y: take(hiddenSize),
      qkv: take(q + 2 * k),
      o: take(q),
      gate: take(feedForwardSize),
      up: take(feedForwardSize),
      activated: take(feedForwardSize),
      logits: take(vocabSize),
    };
    [this.#k, this.#v] = [new Float32Array(MAX_FEW_ROWS * k), new Float32Array(MAX_FEW_ROWS * k)];
  }

  /**
   * The blocks of the model.
   *
   * @param x [rows, H] embeddings
   * @param feeds rope tables and places of the stack
   * @returns [rows, H], valid until the next run
   */
  run(x: Float32Array, { sequences, positions }: BatchPlaces, stack: AdapterStack, feeds: Feeds): Float32Array {
    const { architecture, vectors } = this.#graphs;
    const { hiddenSize, headSize, numKvHeads, feedForwardSize, numLayers } = architecture;
    const numRows = positions.length;
    const room = (name: keyof Room, width: number): Rows => rowsOf(this.#room[name], numRows, width);
    const queryWidth = linearDims(architecture, 'q').out;
    const keyWidth = numKvHeads * headSize;
    const [h, x2, y] = [room('h', hiddenSize), room('x2', hiddenSize), room('y', hiddenSize)];
    const [qkv, o] = [room('qkv', queryWidth + 2 * keyWidth), room('o', queryWidth)];
    const gate = room('gate', feedForwardSize);
    const up = room('up', feedForwardSize);
    const activated = room('activated', feedForwardSize);
    const [k, v] = [rowsOf(this.#k, numRows, keyWidth), rowsOf(this.#v, numRows, keyWidth)];
    const { norm, rotation, activation } = this.#between;
    y.data.set(x);
    this.#team.isAlert = true;
    try {
      for (let layer = 0; layer < numLayers; layer++) {
        const { attentionNorm, feedForwardNorm, bias, headNorms } = vectors[layer]!;
        const weights = this.#weights.layers[layer]!;
        const adapters = stack.isEmpty ? null : { layer, stack, places: feeds };
        norm.run({ x: y, norm: vector(attentionNorm) }, { h });
        this.#project('attention', h, weights, { qkv }, null, adapters);
        const vectorFeeds = {
          ...(bias === null ? {} : { [biasName]: vector(bias) }),
          ...(headNorms === null
            ? {}
            : { [headNormName('q')]: vector(headNorms.q), [headNormName('k')]: vector(headNorms.k) }),
        };
        const q = { data: this.#attention.queries(layer, numRows), dims: [1, numRows, queryWidth] };
        rotation.run({ ...feeds, ...vectorFeeds, qkv }, { q, k: { data: k.data, dims: [1, numRows, keyWidth] }, v });
        this.#attention.write(layer, k.data, v.data, sequences, positions);
        this.#attention.attend(layer);
        o.data.set(this.#attention.outputs(layer, numRows));
        this.#project('o', o, weights, { o: x2 }, y, adapters);
        norm.run({ x: x2, norm: vector(feedForwardNorm) }, { h });
        this.#project('feedForward', h, weights, { gate, up }, null, adapters);
        activation.run({ gate, up }, { h: activated });
        this.#project('down', activated, weights, { down: y }, x2, adapters);
      }
    } finally {
      this.#team.isAlert = false;
    }
    return y.data;
  }

  /** @param hidden [rows, H] @param logits [rows, V], written */
  head(hidden: Float32Array, logits: Float32Array): void {
    const { hiddenSize, vocabSize } = this.#graphs.architecture;
    const numRows = hidden.length / hiddenSize;
    const h = rowsOf(this.#room.h, numRows, hiddenSize);
    this.#between.norm.run({ x: { data: hidden, dims: h.dims }, norm: vector(this.#graphs.outputNorm) }, { h });
    const result = this.#room.logits.subarray(0, numRows * vocabSize).fill(0);
    this.#products.addProduct(h.data, this.#weights.head, result);
    logits.set(result);
  }

  close(): void {
    this.#between.close();
  }

  /**
   * The linear layers of an input: into = onto + adapters + h · Wᵀ.
   *
   * @param adapters null: no row has one
   */
  #project(
    of: InputName,
    h: Rows,
    weights: Readonly<Record<ProjectionName, QuantisedMatrix>>,
    into: Partial<Record<ProjectionName, Rows>>,
    onto: Rows | null,
    adapters: { readonly layer: number; readonly stack: AdapterStack; readonly places: Feeds } | null,
  ): void {
    const sums = Object.entries(into) as [ProjectionName, Rows][];
    if (adapters === null) {
      for (const [, { data }] of sums) {
        if (onto === null) data.fill(0);
        else data.set(onto.data);
      }
    } else {
      const feeds: Record<string, OnnxTensor> = { ...adapters.places, h, ...(onto === null ? {} : { x: onto }) };
      const linears = INPUTS[of].flatMap((projection): readonly LinearName[] => PROJECTIONS[projection]);
      adapters.stack.addFeeds(feeds, adapters.layer, linears);
      this.#between.adapted[of].run(feeds, Object.fromEntries(sums));
    }
    for (const [projection, { data }] of sums) this.#products.addProduct(h.data, weights[projection], data);
  }
}

const vector = (data: Float32Array) => ({ data, dims: [data.length] });

function rowsOf(room: Float32Array, numRows: number, width: number): Rows {
  return { data: room.subarray(0, numRows * width), dims: [numRows, width] };
}
