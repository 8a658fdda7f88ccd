import { computedRows, GgufFile } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import {
  addsPlainOutputs,
  embedTokens,
  hasAttention,
  hasConvolution,
  layerKind,
  OUTPUT_GATE_NAME,
  outputProjection,
  readArchitecture,
  contextLimit,
  numRotated,
  ropeTables,
  sharedFloats,
  UnsupportedModelError,
} from '@trainyard/transformer';
import type { Architecture, LayerKind, RopeTables } from '@trainyard/transformer';
import { AdapterProducts } from '../adapters/adapter-products.ts';
import { DecoderAdapter } from '../adapters/decoder-adapter.ts';
import { PagedAttention } from '../attention/paged-attention.ts';
import type { PagedAttentionSizes } from '../attention/paged-attention.ts';
import { MIN_PROMPT_SCORES } from '../attention/prompt-rows.ts';
import { instructionsWithSameBits, promptsHaveSameBits } from '../attention/same-bits.ts';
import { ConvolutionInputs, type RowPlaces } from '../convolution/convolution-inputs.ts';
import { DeltaStates } from '../delta-net/delta-states.ts';
import { KvFullError } from '../contract/errors.ts';
import type { Feeds } from '../graphs/constant-graph.ts';
import { DecoderGraphs } from '../graphs/decoder-graphs.ts';
import type { DecoderParts } from '../graphs/decoder-parts.ts';
import { FlatLogits } from '../logits/flat-logits.ts';
import { DecoderMemory } from '../memory/decoder-memory.ts';
import { Bf16Matrices } from '../products/bf16-matrices.ts';
import { ExpandedProducts } from '../products/expanded-products.ts';
import { PackedMatrices } from '../packed/packed-matrices.ts';
import { PackedProducts } from '../packed/packed-products.ts';
import { PackedWeights } from '../packed/packed-weights.ts';
import { StreamedMatrices } from '../products/streamed-matrices.ts';
import { WASM_LIMITS } from '../packed/weight-formats.ts';
import { ThreadTeam } from '../team/thread-team.ts';
import { BlockBuffers, type BlockRows, type Rows } from './block-rows.ts';
import { Bf16Steps } from './bf16-steps.ts';
import type { BlockSteps } from './block-steps.ts';
import { DecoderBatch } from './decoder-batch.ts';
import { ExpertSteps } from './expert-steps.ts';
import { GraphSteps } from './graph-steps.ts';
import { type DecoderWeights, openWeights, type WeightsOptions } from './open-weights.ts';
import { ProductSteps } from './product-steps.ts';
import { type StepPart, StepTimes } from './step-times.ts';

export interface PagedDecoderOptions
  extends WeightsOptions, Pick<PagedAttentionSizes, 'capacityTokens' | 'maxSequences'> {
  readonly batchTokens: number;
  /**
   * Memory for adapter factors, bytes; adapters that do not fit together take turns. Default 2 GiB, committed when
   * touched.
   */
  readonly adapterBytes?: number;
  /** Clock of {@link PagedDecoder.partMs}, ms. Default: wall time. */
  readonly clock?: () => number;
}

type RopeFeeds = Readonly<Record<LayerKind, Feeds>>;

export type ExpertObserver = (layer: number, chosen: Int32Array) => void;

const ADAPTERS_PER_BATCH = 64;
/**
 * Rows of a batch that WebAssembly computes by packed weights: above it, the graphs' products are as fast, or those by
 * streamed weights.
 */
const MAX_PACKED_ROWS = { resident: 4, streamed: 32 } as const;
/** Rows whose bits are compared, more than the registers of a kernel hold. */
const COMPARED_ROWS = 13;
const DEFAULT_ADAPTER_BYTES = 2 ** 31;
const KEPT_LOGIT_ROWS = 64;

/**
 * A decoder on the trainer's graphs, with the same expressions and library. Keys and values are float32 in
 * pages. The engine uses it as a `ModelRunner`.
 *
 * A row has the same bits in any batch, pages and number of threads, except with matrices in bf16: products by
 * constants and the kernels have a fixed order of sums.
 */
export class PagedDecoder {
  readonly vocabSize: number;
  readonly capacityTokens: number;
  readonly contextLength: number;
  readonly maxSequences: number;
  readonly batchTokens: number;
  readonly adaptersPerBatch = ADAPTERS_PER_BATCH;
  readonly shareGranularity = 1;
  /** Instruction set of the native kernels; null if WebAssembly computes. */
  readonly instructions: InstructionSet | null;
  readonly #architecture: Architecture;
  readonly #weights: DecoderWeights;
  readonly #parts: DecoderParts;
  readonly #ownsWeights: boolean;
  readonly #attention: PagedAttention;
  readonly #adapters: AdapterProducts;
  readonly #team: ThreadTeam;
  readonly #times: StepTimes;
  readonly #buffers: BlockBuffers;
  readonly #steps: BlockSteps;
  /** Null: all layers are dense. */
  readonly #experts: ExpertSteps | null;
  /** Steps for batches of few rows; null if all batches are computed the same way. */
  #few: BlockSteps | null = null;
  readonly #maxFewRows: number;
  readonly #k: Float32Array;
  readonly #v: Float32Array;
  /** Output gate of a layer [rows, heads · D]; empty without one. */
  readonly #outputGate: Float32Array;
  readonly #convolutions: ConvolutionInputs;
  readonly #deltas: DeltaStates;
  /** Place of each layer among those with attention, which have keys and values. */
  readonly #attentionIndex: readonly number[];
  #logits: Float32Array;

  /**
   * Opens a decoder with its own graphs, laid out from a model file.
   *
   * @throws {UnsupportedModelError} if the graphs do not compute this model
   * @throws {NativeError} if the file is missing or malformed
   */
  static open(path: string, options: PagedDecoderOptions): PagedDecoder {
    using opened = new DisposableStack();
    const file = opened.use(GgufFile.open(path));
    const architecture = readArchitecture(file);
    const contextLength = Math.min(contextLimit(file), options.capacityTokens);
    const { weights, keepsFile } = openWeights(file, architecture, options);
    try {
      const decoder = new PagedDecoder(weights, { ...options, contextLength, ownsWeights: true, packed: file });
      if (keepsFile) opened.move();
      return decoder;
    } catch (error) {
      weights.close();
      throw error;
    }
  }

  /**
   * @param weights may serve several decoders, one at a time
   * @param options.ownsWeights closes them with the decoder. Default false
   * @param options.packed file whose weights are packed for batches of few rows in WebAssembly, if kernels in C do not
   * compute. Default null: all batches are computed alike
   * @throws {RangeError} if one layer's keys and values exceed the size of a memory
   */
  constructor(
    weights: DecoderWeights,
    options: Omit<PagedDecoderOptions, 'bf16' | 'weights'> & {
      readonly contextLength: number;
      readonly ownsWeights?: boolean;
      readonly packed?: GgufFile | null;
    },
  ) {
    const { parts } = weights;
    const { architecture } = parts;
    const { numHeads, numKvHeads, headSize, numLayers, vocabSize } = architecture;
    const { capacityTokens, contextLength, maxSequences, batchTokens, numThreads } = options;
    const { ownsWeights = false, packed = null, adapterBytes = DEFAULT_ADAPTER_BYTES } = options;
    const { usesNativeKernels = true } = options;
    this.#architecture = architecture;
    this.vocabSize = vocabSize;
    this.capacityTokens = capacityTokens;
    this.contextLength = contextLength;
    this.maxSequences = maxSequences;
    this.batchTokens = batchTokens;
    const team = new ThreadTeam(numThreads);
    this.#times = new StepTimes(options.clock);
    const withAttention = Array.from({ length: numLayers }, (_, layer) => layer).filter((layer) =>
      hasAttention(architecture, layer),
    );
    const sizes = {
      numLayers: withAttention.length,
      numHeads,
      numKvHeads,
      headSize,
      capacityTokens,
      maxSequences,
      contextLength,
      maxRows: batchTokens,
      numThreads,
    };
    this.instructions = usesNativeKernels ? instructionsWithSameBits(sizes) : null;
    this.#attention = new PagedAttention(sizes, team, {
      minPromptScores: promptsHaveSameBits(sizes) ? MIN_PROMPT_SCORES : Infinity,
      instructions: this.instructions,
    });
    const { tables } = this.#attention;
    this.#convolutions = new ConvolutionInputs(architecture, tables, PagedAttention.numCells(sizes));
    this.#deltas = new DeltaStates(
      architecture,
      parts.vectors.map(({ deltaNet }) => deltaNet),
      maxSequences,
    );
    this.#attentionIndex = Array.from({ length: numLayers }, (_, layer) => withAttention.indexOf(layer));
    this.#weights = weights;
    this.#parts = parts;
    this.#ownsWeights = ownsWeights;
    this.#k = new Float32Array(batchTokens * numKvHeads * headSize);
    this.#v = new Float32Array(batchTokens * numKvHeads * headSize);
    this.#outputGate = new Float32Array(architecture.hasOutputGate ? batchTokens * numHeads * headSize : 0);
    this.#logits = sharedFloats(KEPT_LOGIT_ROWS * vocabSize);
    const isWhole = weights instanceof PackedMatrices || weights instanceof Bf16Matrices;
    const packedBytes = packed === null || isWhole ? 0 : PackedWeights.bytesOf(packed, architecture, WASM_LIMITS);
    this.#maxFewRows = MAX_PACKED_ROWS[weights instanceof StreamedMatrices ? 'streamed' : 'resident'];
    const bufferRows = weights instanceof Bf16Matrices ? computedRows(batchTokens) : batchTokens;
    const ownBytes =
      stepBytes(weights, batchTokens, numThreads) +
      BlockBuffers.bytesFor(architecture, bufferRows) +
      ProductSteps.bytesFor(architecture, this.#maxFewRows) +
      ExpertSteps.bytesFor(parts, batchTokens, numThreads) +
      AdapterProducts.lowBytes(numThreads);
    const freeBytes = DecoderMemory.maxBytes - ownBytes;
    const hasFew = packedBytes > 0 && packedBytes < freeBytes;
    const spare = hasFew ? freeBytes - packedBytes : freeBytes;
    const memory = new DecoderMemory(DecoderMemory.maxBytes - spare + Math.min(spare, adapterBytes));
    this.#buffers = new BlockBuffers(architecture, bufferRows, memory);
    this.#team = team;
    this.#steps = stepsOf(weights, batchTokens, memory, team);
    const isDense = parts.experts.every((own) => own === null);
    this.#experts = isDense ? null : new ExpertSteps(parts, batchTokens, memory, team);
    const few = hasFew
      ? new ProductSteps(
          parts,
          {
            matrices: new PackedWeights(packed!, architecture, (sizeBytes) => bytesOf(memory.take(sizeBytes / 4))),
            products: new PackedProducts(memory.shared, team),
          },
          this.#maxFewRows,
          { memory, team },
        )
      : null;
    this.#adapters = new AdapterProducts(architecture, memory, { maxRows: batchTokens, maxBytes: adapterBytes }, team);
    if (few !== null && this.#givesSameBits(few)) this.#few = few;
  }

  /** Time per part of all batches so far on the calling thread, ms. */
  get partMs(): Readonly<Record<StepPart, number>> {
    return this.#times.ms;
  }

  /** Time in which the calling thread waited for other threads' last units, ms; in the parts, too. */
  get waitMs(): number {
    return this.#team.waitMs;
  }

  /** Batches that are computed by packed weights: all, those of few rows, or none. */
  get packedBatches(): 'all' | 'few' | 'none' {
    if (this.#weights instanceof PackedMatrices) return 'all';
    return this.#few === null ? 'none' : 'few';
  }

  run(batch: DecoderBatch): FlatLogits {
    const adapters = rowAdapters(batch);
    if (!this.#adapters.fits(batch.adapters as (DecoderAdapter | null)[])) return this.#runInParts(batch);
    this.#takePages(batch);
    this.#adapters.begin(adapters);
    const few = batch.length <= this.#maxFewRows ? this.#few : null;
    return this.#compute(batch, few ?? this.#steps);
  }

  /**
   * Reports the experts of each row of a batch and layer, [rows, K] ascending, valid until the callback returns. Rows
   * of the last layer are those that want logits, if there are any others. Null ends it.
   */
  observeExperts(observer: ExpertObserver | null): void {
    if (this.#experts !== null) this.#experts.observer = observer;
  }

  /** Most first tokens, up to `length`, with which another sequence can start. */
  shareableLength(sequence: number, length: number): number {
    return this.#deltas.shareableLength(sequence, length);
  }

  /** @param length shareable */
  share(from: number, to: number, length: number): void {
    this.#deltas.share(from, to, length);
    this.#attention.tables.share(from, to, length);
  }

  forget(sequence: number, fromPosition: number): void {
    this.#deltas.forget(sequence, fromPosition);
    this.#attention.tables.forget(sequence, fromPosition);
  }

  loadAdapter(path: string): DecoderAdapter {
    const adapter = DecoderAdapter.load(path, this.#architecture);
    const { capacityBytes } = this.#adapters;
    if (adapter.sizeBytes <= capacityBytes) return adapter;
    throw new UnsupportedModelError(`the adapter needs ${adapter.sizeBytes} bytes, the limit is ${capacityBytes}`);
  }

  close(): void {
    this.#attention.close();
    this.#steps.close();
    if (this.#ownsWeights) this.#weights.close();
  }

  /** Computes a batch; rows without wanted logits skip the last block except for keys and values. */
  #compute(batch: DecoderBatch, steps: BlockSteps): FlatLogits {
    const times = this.#times;
    times.begin();
    const { length, numLogits } = batch;
    const { numLayers, embeddingScale } = this.#architecture;
    const places: RowPlaces = {
      sequences: batch.sequences.subarray(0, length),
      positions: batch.positions.subarray(0, length),
    };
    const rope = this.#ropeFeeds(places.positions);
    const rows = this.#rowsOf(length, steps);
    embedTokens(batch.tokens.subarray(0, length), this.#parts.embedding, rows.x.data, embeddingScale);
    // Products follow each other so fast that threads poll for the next one.
    this.#team.isAlert = true;
    try {
      this.#attention.begin(length, places.sequences, places.positions);
      this.#deltas.begin(places, batch);
      this.#parts.normaliseForAttention(0, rows.x, rows.h);
      times.end('rows');
      for (let layer = 0; layer < numLayers; layer++) {
        const isLast = layer === numLayers - 1;
        const wantsOutput = !isLast || numLogits > 0;
        if (hasAttention(this.#architecture, layer)) this.#attend(layer, rows, steps, { ...places, rope, wantsOutput });
        else this.#convolve(layer, rows, steps, { ...places, wantsOutput });
        if (!wantsOutput) break;
        if (!isLast || numLogits === length) this.#feedForward(layer, rows, steps);
      }
      if (numLogits === 0 || numLogits === length) return this.#head(numLogits, rows, steps);
      const last = (numLogits <= this.#maxFewRows ? this.#few : null) ?? steps;
      const wanted = this.#wantedRows(batch, rows, last);
      this.#feedForward(numLayers - 1, wanted, last);
      return this.#head(numLogits, wanted, last);
    } finally {
      this.#team.isAlert = false;
    }
  }

  /** h → mixed, or only keys and values. */
  #attend(
    layer: number,
    rows: BlockRows,
    steps: BlockSteps,
    { rope, wantsOutput, ...places }: RowPlaces & { readonly rope: RopeFeeds; readonly wantsOutput: boolean },
  ): void {
    const times = this.#times;
    const { numHeads, headSize, numKvHeads } = this.#architecture;
    const { length } = places.positions;
    const index = this.#attentionIndex[layer]!;
    const queryWidth = numHeads * headSize;
    const keyWidth = numKvHeads * headSize;
    const keys = this.#k.subarray(0, length * keyWidth);
    const values = this.#v.subarray(0, length * keyWidth);
    const dims = [length, queryWidth];
    const gate = this.#architecture.hasOutputGate
      ? { data: this.#outputGate.subarray(0, length * queryWidth), dims }
      : null;
    if (!rows.isPlain)
      this.#adapters.compute('attention', layer, { x: rows.h.data, into: { qkv: rows.sums.qkv.data }, onto: null });
    times.end('adapters');
    steps.attention(layer, rows, rope[layerKind(this.#architecture, layer)], {
      q: { data: this.#attention.queries(index, length), dims: [1, length, queryWidth] },
      k: { data: keys, dims: [1, length, keyWidth] },
      v: { data: values, dims: [length, keyWidth] },
      ...(gate !== null && { [OUTPUT_GATE_NAME]: gate }),
    });
    times.end('products');
    this.#attention.write(index, { keys, values }, places);
    times.end('keysAndValues');
    if (!wantsOutput) return;
    this.#attention.attend(index, this.#windowOf(layer), this.#parts.vectors[layer]!.sinks);
    const o = this.#attention.outputs(index, length);
    if (gate === null) rows.mixed.o.data.set(o);
    else
      this.#parts.between.outputGate!.run({ o: { data: o, dims }, [OUTPUT_GATE_NAME]: gate }, { gated: rows.mixed.o });
    times.end('attention');
  }

  /** h → mixed of a layer with a convolution or a gated delta net, or only what later tokens need. */
  #convolve(
    layer: number,
    rows: BlockRows,
    steps: BlockSteps,
    { wantsOutput, ...places }: RowPlaces & { readonly wantsOutput: boolean },
  ): void {
    const times = this.#times;
    if (!rows.isPlain)
      this.#adapters.compute('convIn', layer, { x: rows.h.data, into: { convIn: rows.sums.convIn.data }, onto: null });
    times.end('adapters');
    const { data: products } = steps.convolutionInput(layer, rows);
    times.end('products');
    const o = rows.mixed.convOut.data;
    if (hasConvolution(this.#architecture, layer)) {
      this.#convolutions.write(layer, products, places);
      times.end('keysAndValues');
      const weights = this.#parts.vectors[layer]!.convolution!;
      if (wantsOutput) this.#convolutions.convolve(layer, weights, { bcx: products, o }, places);
    } else this.#deltas.advance(layer, products, wantsOutput ? o : null, places);
    times.end('attention');
  }

  #rowsOf(numRows: number, steps: BlockSteps): BlockRows {
    return this.#buffers.of(numRows, this.#adapters.isEmpty && steps.takesPlainSums);
  }

  /** Rows of a batch that want logits, after attention. */
  #wantedRows(batch: DecoderBatch, { x, mixed }: BlockRows, steps: BlockSteps): BlockRows {
    const o = mixed[outputProjection(this.#architecture, this.#architecture.numLayers - 1)];
    let to = 0;
    for (let row = 0; row < batch.length; row++) {
      if (batch.wantsLogits[row] === 0) continue;
      // Rows only move forward.
      for (const { data, dims } of [x, o]) data.copyWithin(to * dims[1], row * dims[1], (row + 1) * dims[1]);
      to++;
    }
    this.#adapters.begin(rowAdapters(batch).filter((_, row) => batch.wantsLogits[row] === 1));
    return this.#rowsOf(to, steps);
  }

  #feedForward(layer: number, rows: BlockRows, steps: BlockSteps): void {
    const { x, x2, h, mixed, activated, sums, isPlain } = rows;
    const adapters = this.#adapters;
    const times = this.#times;
    // Products with a norm or a factor are added to the residual later.
    const onto = (residual: Rows) => (addsPlainOutputs(this.#architecture) ? residual.data : null);
    const output = outputProjection(this.#architecture, layer);
    if (!isPlain)
      adapters.compute(output, layer, { x: mixed[output].data, into: { [output]: sums.o.data }, onto: onto(x) });
    times.end('adapters');
    steps.output(layer, rows);
    times.end('products');
    if (this.#parts.experts[layer] !== null) {
      this.#experts!.compute(layer, rows);
      times.end('products');
      if (this.#architecture.experts?.hasSharedFeedForward !== true) return;
    }
    if (!isPlain)
      adapters.compute('feedForward', layer, {
        x: h.data,
        into: { gate: sums.gate.data, up: sums.up.data },
        onto: null,
      });
    times.end('adapters');
    steps.feedForward(layer, rows);
    times.end('products');
    if (!isPlain)
      adapters.compute('down', layer, { x: activated.data, into: { down: sums.down.data }, onto: onto(x2) });
    times.end('adapters');
    steps.down(layer, rows);
    times.end('products');
  }

  /** Runs adapters of one batch in turns: rows depend only on their sequence, and a sequence has one adapter. */
  #runInParts(batch: DecoderBatch): FlatLogits {
    this.#pagesFor(batch);
    const logits = new Float32Array(batch.numLogits * this.vocabSize);
    for (const adapter of batch.adapters) {
      const part = new DecoderBatch<object>(batch.length);
      const places: number[] = [];
      let place = 0;
      for (let i = 0; i < batch.length; i++) {
        const wantsLogits = batch.wantsLogits[i] === 1;
        if (batch.adapterOf(i) === adapter) {
          const [token, position, sequence] = [batch.tokens[i]!, batch.positions[i]!, batch.sequences[i]!];
          const keepsState = batch.keepsState[i] === 1;
          part.add({ token, position, sequence, wantsLogits, keepsState }, adapter);
          if (wantsLogits) places.push(place);
        }
        if (wantsLogits) place++;
      }
      const found = this.run(part);
      for (const [index, at] of places.entries()) logits.set(found.row(index), at * this.vocabSize);
    }
    return new FlatLogits(logits, this.vocabSize);
  }

  /**
   * True if other steps for few rows give the graphs' bits, which depends on the machine's multiply-add and the
   * library's build.
   */
  #givesSameBits(few: BlockSteps): boolean {
    const most = Math.min(COMPARED_ROWS, this.#maxFewRows, this.batchTokens);
    const batch = new DecoderBatch<object>(most);
    const logitsOf = (steps: BlockSteps): Float32Array[] => {
      const rows: Float32Array[] = [];
      for (const length of [most, 1]) {
        batch.clear();
        const begun = this.#attention.tables.lengthOf(0);
        for (let i = 0; i < length; i++)
          batch.add({
            token: (begun + i) % this.vocabSize,
            position: begun + i,
            sequence: 0,
            wantsLogits: true,
          });
        this.#takePages(batch);
        this.#adapters.begin(rowAdapters(batch));
        const logits = this.#compute(batch, steps);
        for (let i = 0; i < length; i++) rows.push(logits.row(i).slice());
      }
      this.forget(0, 0);
      return rows;
    };
    const [expected, found] = [logitsOf(this.#steps), logitsOf(few)];
    return expected.every((row, i) => row.every((logit, id) => Object.is(logit, found[i]![id])));
  }

  /** Takes pages for the batch's tokens. @throws {KvFullError} before any change */
  #takePages(batch: DecoderBatch): void {
    for (const [sequence, count] of this.#pagesFor(batch)) {
      const copy = this.#attention.tables.append(sequence, count);
      if (copy === null) continue;
      this.#attention.copyPage(copy);
      this.#convolutions.copyPage(copy);
    }
  }

  /** Tokens of the batch by sequence. @throws {KvFullError} if too few pages are free */
  #pagesFor(batch: DecoderBatch): ReadonlyMap<number, number> {
    const { tables } = this.#attention;
    const counts = new Map<number, number>();
    for (let i = 0; i < batch.length; i++) counts.set(batch.sequences[i]!, (counts.get(batch.sequences[i]!) ?? 0) + 1);
    const needed = tables.pagesNeeded(counts);
    if (needed > tables.numFree)
      throw new KvFullError(`the batch needs ${needed} pages of keys and values, ${tables.numFree} are free`);
    return counts;
  }

  #head(numLogits: number, { x }: BlockRows, steps: BlockSteps): FlatLogits {
    const { hiddenSize } = this.#architecture;
    const length = Math.max(steps.computedRows(numLogits), KEPT_LOGIT_ROWS) * this.vocabSize;
    if (this.#logits.length < length || (numLogits <= KEPT_LOGIT_ROWS && this.#logits.length > length))
      this.#logits = sharedFloats(length);
    const hidden = x.data.subarray(0, numLogits * hiddenSize);
    if (numLogits > 0) steps.head(hidden, this.#logits.subarray(0, numLogits * this.vocabSize));
    this.#times.end('head');
    return new FlatLogits(this.#logits, this.vocabSize);
  }

  #ropeFeeds(positions: Int32Array): RopeFeeds {
    const dims = [positions.length, numRotated(this.#architecture) / 2];
    const feeds = ({ cos, sin }: RopeTables): Feeds => ({ cos: { data: cos, dims }, sin: { data: sin, dims } });
    const { full, windowed, unrotated } = ropeTables(positions, this.#architecture, this.#parts.ropeFactors);
    return { full: feeds(full), windowed: feeds(windowed), unrotated: feeds(unrotated) };
  }

  /** Tokens that a layer sees; null: all. */
  #windowOf(layer: number): number | null {
    return layerKind(this.#architecture, layer) === 'windowed' ? this.#architecture.window!.tokens : null;
  }
}

const bytesOf = ({ buffer, byteOffset, byteLength }: Float32Array): Uint8Array<SharedArrayBuffer> =>
  new Uint8Array(buffer as SharedArrayBuffer, byteOffset, byteLength);

function stepBytes(weights: DecoderWeights, maxRows: number, numThreads: number): number {
  const { architecture } = weights.parts;
  if (weights instanceof DecoderGraphs) return GraphSteps.bytesFor(weights, maxRows, numThreads);
  if (weights instanceof Bf16Matrices) return Bf16Steps.bytesFor(architecture, maxRows);
  if (weights instanceof PackedMatrices) return ProductSteps.bytesFor(architecture, maxRows);
  return ProductSteps.bytesFor(architecture, maxRows) + ExpandedProducts.bytesFor(weights.all, maxRows, numThreads);
}

function stepsOf(weights: DecoderWeights, maxRows: number, memory: DecoderMemory, team: ThreadTeam): BlockSteps {
  if (weights instanceof DecoderGraphs) return new GraphSteps(weights, maxRows, memory, team);
  if (weights instanceof Bf16Matrices) return new Bf16Steps(weights, maxRows, memory, team);
  if (weights instanceof PackedMatrices) {
    const products = new PackedProducts(memory.shared, team, weights.instructions);
    return new ProductSteps(weights.parts, { matrices: weights, products }, maxRows, { memory, team });
  }
  const products = new ExpandedProducts(weights.all, maxRows, memory, team);
  return new ProductSteps(weights.parts, { matrices: weights, products }, maxRows, { memory, team });
}

function rowAdapters(batch: DecoderBatch): (DecoderAdapter | null)[] {
  const { adapters } = batch;
  if (!adapters.every((adapter) => adapter === null || adapter instanceof DecoderAdapter))
    throw new TypeError('the adapter was loaded by another runner');
  return Array.from(
    { length: batch.length },
    (_, row) => adapters[batch.adapterIndices[row]!] as DecoderAdapter | null,
  );
}
