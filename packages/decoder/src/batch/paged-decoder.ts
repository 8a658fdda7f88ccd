import { GgufFile } from '@trainyard/native';
import type { OnnxTensor } from '@trainyard/native';
import { embedTokens, linearDims, readArchitecture, ropeTables } from '@trainyard/transformer';
import type { Architecture, LinearName } from '@trainyard/transformer';
import { PagedAttention } from '../attention/paged-attention.ts';
import type { PagedAttentionSizes } from '../attention/paged-attention.ts';
import { KvFullError } from '../contract/errors.ts';
import { FlatLogits } from '../logits/flat-logits.ts';
import { DecoderBatch } from './decoder-batch.ts';
import { FewRows, fewRowActivations, MAX_FEW_ROWS } from './few-rows.ts';
import { QuantisedWeights } from '../products/quantised-weights.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { AdapterStack, DecoderAdapter } from './adapter-stack.ts';
import { DecoderGraphs } from '../graphs/decoder-graphs.ts';

export interface PagedDecoderOptions extends Pick<
  PagedAttentionSizes,
  'capacityTokens' | 'maxSequences' | 'numThreads'
> {
  readonly batchTokens: number;
}

/** Most adapters of one batch: each has as many slots as the one with most rows. */
const ADAPTERS_PER_BATCH = 16;
/** A product of a lone row with an adapter, which is no constant, is summed in an order of its own. */
const MIN_ADAPTED_ROWS = 2;
/** Logits that are kept room for between batches, rows. */
const KEPT_LOGIT_ROWS = 64;

const ATTENTION: readonly LinearName[] = ['q', 'k', 'v'];
const OUTPUT: readonly LinearName[] = ['o', 'gate', 'up', 'down'];

/**
 * A decoder on the trainer's graphs: the same expressions, the same weights in single precision, the same library. Keys and values are float32 in pages. To the engine it
 * is a `ModelRunner`.
 *
 * A row gives the same bits whatever else is in its batch, wherever its pages lie and however many threads there are: ONNX Runtime sums a product by constants in one
 * order, and one by an adapter of rank 16 or less; beyond that a logit moves by some 1e-5 with the size of the batch.
 */
export class PagedDecoder {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  readonly adaptersPerBatch = ADAPTERS_PER_BATCH;
  readonly shareGranularity = 1;
  readonly #architecture: Architecture;
  readonly #graphs: DecoderGraphs;
  readonly #ownsGraphs: boolean;
  readonly #attention: PagedAttention;
  #stack: AdapterStack;
  readonly #x: [Float32Array, Float32Array];
  readonly #k: Float32Array;
  readonly #v: Float32Array;
  #logits: Float32Array;
  #fewRows: FewRows | null = null;

  /**
   * A decoder of its own graphs: the weights of a model file are laid out for it.
   *
   * @throws {UnsupportedModelError} when the graphs do not compute this model
   * @throws {NativeError} when the file is missing or malformed
   */
  static open(path: string, options: PagedDecoderOptions): PagedDecoder {
    using file = GgufFile.open(path);
    const architecture = readArchitecture(file);
    const trainedLength = Number(file.metadata.get(`${architecture.name}.context_length`) ?? Infinity);
    const contextLength = Math.min(trainedLength, options.capacityTokens);
    const graphs = new DecoderGraphs(file, architecture, options.numThreads);
    try {
      const quantised = QuantisedWeights.read(file, architecture, fewRowActivations(architecture));
      return new PagedDecoder(graphs, { ...options, contextLength, ownsGraphs: true, quantised });
    } catch (error) {
      graphs.close();
      throw error;
    }
  }

  /**
   * @param graphs may serve several decoders, one at a time
   * @param options.ownsGraphs they are closed with it. Default false
   * @param options.quantised the same weights for batches of few rows. Default null: the graphs compute those, too
   * @throws {RangeError} when one layer's keys and values are more than a memory can hold
   */
  constructor(
    graphs: DecoderGraphs,
    options: PagedDecoderOptions & {
      readonly contextLength: number;
      readonly ownsGraphs?: boolean;
      readonly quantised?: QuantisedWeights | null;
    },
  ) {
    const { architecture } = graphs;
    const { numHeads, numKvHeads, headSize, numLayers, hiddenSize, vocabSize } = architecture;
    const { capacityTokens, contextLength, maxSequences, batchTokens, numThreads } = options;
    const { ownsGraphs = false, quantised = null } = options;
    const maxRows = Math.max(MIN_ADAPTED_ROWS, batchTokens);
    this.#architecture = architecture;
    this.vocabSize = vocabSize;
    this.capacityTokens = capacityTokens;
    this.contextLength = contextLength;
    this.maxSequences = maxSequences;
    this.batchTokens = batchTokens;
    const team = new ThreadTeam(numThreads);
    const sizes = {
      numLayers,
      numHeads,
      numKvHeads,
      headSize,
      capacityTokens,
      maxSequences,
      contextLength,
      maxRows,
      numThreads,
    };
    this.#attention = new PagedAttention(sizes, team);
    this.#graphs = graphs;
    this.#ownsGraphs = ownsGraphs;
    this.#stack = new AdapterStack([], architecture);
    const rows = (width: number) => new Float32Array(maxRows * width);
    this.#x = [rows(hiddenSize), rows(hiddenSize)];
    [this.#k, this.#v] = [rows(numKvHeads * headSize), rows(numKvHeads * headSize)];
    this.#logits = new Float32Array(KEPT_LOGIT_ROWS * vocabSize);
    if (quantised !== null) this.#tryFewRows(new FewRows(graphs, quantised, this.#attention, team));
  }

  /** Whether batches of few rows read the weights as they are quantised. */
  get readsQuantised(): boolean {
    return this.#fewRows !== null;
  }

  run(batch: DecoderBatch): FlatLogits {
    this.#makeRoom(batch);
    const { length } = batch;
    const [sequences, positions] = [batch.sequences.subarray(0, length), batch.positions.subarray(0, length)];
    this.#attention.begin(length, sequences, positions);
    const stack = this.#stackFor(batch);
    const few = length <= MAX_FEW_ROWS ? this.#fewRows : null;
    if (few !== null) {
      const x = this.#rows(this.#x[0], length).data;
      embedTokens(batch.tokens.subarray(0, length), this.#graphs.embedding, x);
      const feeds = { ...this.#ropeFeeds(batch, length), ...stack.placesOf(batch, length) };
      return this.#head(batch, few.run(x, { sequences, positions }, stack, feeds));
    }
    const numRows = stack.isEmpty ? length : Math.max(MIN_ADAPTED_ROWS, length);
    const { numLayers } = this.#architecture;
    let [x, y] = [this.#rows(this.#x[0], numRows), this.#rows(this.#x[1], numRows)];
    embedTokens(batch.tokens.subarray(0, length), this.#graphs.embedding, this.#rows(x.data, length).data);
    const feeds: Record<string, OnnxTensor> = {
      x,
      ...this.#ropeFeeds(batch, numRows),
      ...stack.placesOf(batch, numRows),
    };
    const [k, v] = [this.#keyRows(this.#k, [1, numRows]), this.#keyRows(this.#v, [numRows])];
    stack.addFeeds(feeds, 0, ATTENTION);
    this.#graphs.first.run(feeds, { q: this.#queries(0, numRows), k, v });
    for (let layer = 0; layer < numLayers; layer++) {
      this.#attention.write(layer, k.data, v.data, sequences, positions);
      this.#attention.attend(layer);
      feeds['o'] = this.#outputs(layer, numRows);
      stack.addFeeds(feeds, layer, OUTPUT);
      if (layer === numLayers - 1) {
        this.#graphs.last.run(feeds, { y });
        break;
      }
      stack.addFeeds(feeds, layer + 1, ATTENTION);
      this.#graphs.between[layer]!.run(feeds, { y, q: this.#queries(layer + 1, numRows), k, v });
      [x, y] = [y, x];
      feeds['x'] = x;
    }
    return this.#head(batch, y.data);
  }

  share(from: number, to: number, length: number): void {
    this.#attention.tables.share(from, to, length);
  }

  forget(sequence: number, fromPosition: number): void {
    this.#attention.tables.forget(sequence, fromPosition);
  }

  loadAdapter(path: string): DecoderAdapter {
    return DecoderAdapter.load(path, this.#architecture);
  }

  close(): void {
    this.#fewRows?.close();
    this.#attention.close();
    if (this.#ownsGraphs) this.#graphs.close();
  }

  /**
   * Takes another way for few rows if it gives the bits of the graphs on this machine: those follow from how it multiplies and adds, and from how the library was
   * built for it.
   */
  #tryFewRows(few: FewRows): void {
    const batch = new DecoderBatch(MAX_FEW_ROWS);
    const logitsOf = (way: FewRows | null): Float32Array[] => {
      this.#fewRows = way;
      const rows: Float32Array[] = [];
      for (const length of [Math.min(MAX_FEW_ROWS, this.batchTokens), 1]) {
        batch.clear();
        const begun = this.#attention.tables.lengthOf(0);
        for (let i = 0; i < length; i++) batch.add((begun + i) % this.vocabSize, begun + i, 0, true);
        const logits = this.run(batch);
        for (let i = 0; i < length; i++) rows.push(logits.row(i).slice());
      }
      this.forget(0, 0);
      return rows;
    };
    const [expected, found] = [logitsOf(null), logitsOf(few)];
    const isSame = expected.every((row, i) => row.every((logit, id) => Object.is(logit, found[i]![id])));
    this.#fewRows = isSame ? few : null;
    if (!isSame) few.close();
  }

  /** Pages for the batch's tokens. @throws {KvFullError} before anything is changed */
  #makeRoom(batch: DecoderBatch): void {
    const { tables } = this.#attention;
    const counts = new Map<number, number>();
    for (let i = 0; i < batch.length; i++) counts.set(batch.sequences[i]!, (counts.get(batch.sequences[i]!) ?? 0) + 1);
    const needed = tables.pagesNeeded(counts);
    if (needed > tables.numFree)
      throw new KvFullError(`the batch needs ${needed} pages of keys and values, ${tables.numFree} are free`);
    for (const [sequence, count] of counts) {
      const copy = tables.append(sequence, count);
      if (copy !== null) this.#attention.copyPage(copy);
    }
  }

  /** A stack that holds the batch's adapters. */
  #stackFor(batch: DecoderBatch): AdapterStack {
    const { adapters } = batch;
    if (!adapters.every((adapter) => adapter === null || adapter instanceof DecoderAdapter))
      throw new TypeError('the adapter was loaded by another runner');
    const kept = this.#stack.adapters;
    const isOfBaseAlone = adapters.every((adapter) => adapter === null);
    if (
      isOfBaseAlone
        ? kept.length > 0
        : !adapters.every((adapter) => kept.includes(adapter)) || kept.length > 2 * adapters.length
    )
      this.#stack = new AdapterStack(isOfBaseAlone ? [] : [...adapters], this.#architecture);
    return this.#stack;
  }

  /** Logits of the flagged rows of y [rows, H]. */
  #head(batch: DecoderBatch, y: Float32Array): FlatLogits {
    const { hiddenSize } = this.#architecture;
    const { numLogits } = batch;
    const size = numLogits * this.vocabSize;
    if (
      this.#logits.length < size ||
      (numLogits <= KEPT_LOGIT_ROWS && this.#logits.length > KEPT_LOGIT_ROWS * this.vocabSize)
    )
      this.#logits = new Float32Array(Math.max(numLogits, KEPT_LOGIT_ROWS) * this.vocabSize);
    if (numLogits > 0) {
      let to = 0;
      for (let row = 0; row < batch.length; row++) {
        if (batch.wantsLogits[row] === 0) continue;
        // Rows only move forward.
        y.copyWithin(to * hiddenSize, row * hiddenSize, (row + 1) * hiddenSize);
        to++;
      }
      const [hidden, logits] = [y.subarray(0, numLogits * hiddenSize), this.#logits.subarray(0, size)];
      if (this.#fewRows !== null && numLogits <= MAX_FEW_ROWS) this.#fewRows.head(hidden, logits);
      else this.#graphs.head.run(hidden, logits);
    }
    return new FlatLogits(this.#logits, this.vocabSize);
  }

  #ropeFeeds(batch: DecoderBatch, numRows: number): Record<string, OnnxTensor> {
    // Rows behind the batch's are computed for nothing, at any position.
    const positions = new Int32Array(numRows);
    positions.set(batch.positions.subarray(0, batch.length));
    const { cos, sin } = ropeTables(positions, this.#architecture, this.#graphs.ropeFactors);
    const dims = [positions.length, this.#architecture.headSize / 2];
    return { cos: { data: cos, dims }, sin: { data: sin, dims } };
  }

  #rows(buffer: Float32Array, numRows: number) {
    const { hiddenSize } = this.#architecture;
    return { data: buffer.subarray(0, numRows * hiddenSize), dims: [numRows, hiddenSize] };
  }

  #keyRows(buffer: Float32Array, leading: readonly number[]) {
    const width = linearDims(this.#architecture, 'k').out;
    return { data: buffer.subarray(0, leading.at(-1)! * width), dims: [...leading, width] };
  }

  #queries(layer: number, numRows: number): OnnxTensor {
    const width = linearDims(this.#architecture, 'q').out;
    return { data: this.#attention.queries(layer, numRows), dims: [1, numRows, width] };
  }

  #outputs(layer: number, numRows: number): OnnxTensor {
    const width = linearDims(this.#architecture, 'q').out;
    return { data: this.#attention.outputs(layer, numRows), dims: [numRows, width] };
  }
}
