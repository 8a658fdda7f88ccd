import { INPUTS, PROJECTION_NAMES, projectionDims, projectionParts } from '@trainyard/transformer';
import type { Architecture, InputName, LinearRows, ProjectionName } from '@trainyard/transformer';
import type { ThreadTeam } from '../team/thread-team.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';
import { MAX_CHUNK_ROWS } from './adapter-code.ts';
import { ADAPTER_CELL, AdapterWork, CHUNK_CELLS, CHUNKS_AT, LINEAR_CELLS } from './adapter-work.ts';
import type { AdapterWorkData } from './adapter-work.ts';
import { MAX_ADAPTER_RANK } from './decoder-adapter.ts';
import type { DecoderAdapter } from './decoder-adapter.ts';

/** Adapter of each row of a batch; null = none. */
export type RowAdapters = readonly (DecoderAdapter | null)[];

interface Chunk {
  readonly adapter: DecoderAdapter;
  readonly rows: readonly number[];
}

const LOW_BYTES = 4 * MAX_CHUNK_ROWS * MAX_ADAPTER_RANK;
/** Bytes of factors kept for later batches: 25 adapters of rank 8 of the default model. */
const KEPT_BYTES = 256e6;
/** Minimum rows of a product that threads share; smaller ones finish before another thread is awake. */
const MIN_SHARED_ROWS = 8;

/** Rows of a product with adapters, all in the memory. */
export interface AdapterRows {
  readonly x: Float32Array; // [rows, in]
  /** Written. */
  readonly into: Readonly<Partial<Record<ProjectionName, Float32Array>>>; // [rows, out] of each projection
  /** Null: 0. */
  readonly onto: Float32Array | null; // [rows, out]
}

/**
 * Adapter part of linear layers, for any adapters of any ranks. A row's sums do not depend on the batch. Factors
 * stay in kernel memory until others need the room.
 */
export class AdapterProducts {
  readonly capacityBytes: number;
  readonly #architecture: Architecture;
  readonly #parts: Readonly<Record<ProjectionName, readonly LinearRows[]>>;
  readonly #memory: DecoderMemory;
  readonly #team: ThreadTeam;
  readonly #work: number;
  readonly #cells: Float64Array;
  readonly #compute: (unit: number) => void;
  /** Byte offsets in the memory: start of the factors, and where the next ones go. */
  readonly #start: number;
  #end: number;
  /** Addresses of factors by adapter. Weak, so a closed adapter leaves only unused bytes. */
  #addresses = new WeakMap<DecoderAdapter, number>();
  #chunks: readonly Chunk[] = [];
  #numRows = 0;
  #isPartial = false;

  /** @param memory its rest is for factors @param maxBytes limit for factors */
  constructor(
    architecture: Architecture,
    memory: DecoderMemory,
    { maxRows, maxBytes }: { readonly maxRows: number; readonly maxBytes: number },
    team: ThreadTeam,
  ) {
    this.#architecture = architecture;
    const parts = PROJECTION_NAMES.map((projection) => [projection, projectionParts(architecture, projection)]);
    this.#parts = Object.fromEntries(parts) as Record<ProjectionName, LinearRows[]>;
    this.#memory = memory;
    this.#team = team;
    this.#cells = new Float64Array(new SharedArrayBuffer(8 * (CHUNKS_AT + CHUNK_CELLS * maxRows)));
    const low = memory.take((team.numThreads * LOW_BYTES) / 4).byteOffset;
    const data: AdapterWorkData = { memory: memory.shared, cells: this.#cells, low, lowBytes: LOW_BYTES };
    const own = new AdapterWork(data, 0);
    this.#compute = (unit) => own.compute(unit);
    this.#work = team.add({ kind: 'adapter', data });
    this.#start = memory.takeRest();
    this.#end = this.#start;
    this.capacityBytes = Math.min(maxBytes, memory.shared.buffer.byteLength - this.#start);
  }

  static lowBytes(numThreads: number): number {
    return numThreads * LOW_BYTES + 64;
  }

  fits(adapters: readonly (DecoderAdapter | null)[]): boolean {
    return adapters.reduce((sum, adapter) => sum + (adapter?.sizeBytes ?? 0), 0) <= this.capacityBytes;
  }

  begin(rows: RowAdapters): void {
    const groups = Map.groupBy(rows.keys(), (row) => rows[row] ?? null);
    const adapters = [...groups.keys()].filter((adapter) => adapter !== null);
    this.#bring(adapters);
    this.#numRows = rows.length;
    this.#isPartial = groups.has(null) || adapters.some(({ isPartial }) => isPartial);
    this.#chunks = adapters.flatMap((adapter) => {
      const own = groups.get(adapter)!;
      const numChunks = Math.ceil(own.length / MAX_CHUNK_ROWS);
      return Array.from({ length: numChunks }, (_, i) => ({
        adapter,
        rows: own.slice(i * MAX_CHUNK_ROWS, (i + 1) * MAX_CHUNK_ROWS),
      }));
    });
    for (const [index, { rows: own }] of this.#chunks.entries()) {
      const chunk = CHUNKS_AT + index * CHUNK_CELLS;
      this.#cells[chunk] = own.length;
      own.forEach((row, i) => (this.#cells[chunk + 1 + i] = row));
    }
  }

  get isEmpty(): boolean {
    return this.#chunks.length === 0;
  }

  /**
   * Computes into = onto + adapters for the linear layers that read one input.
   *
   * @param of the input
   */
  compute(of: InputName, layer: number, { x, into, onto }: AdapterRows): void {
    const cells = this.#cells;
    if (this.#isPartial || this.isEmpty) {
      for (const sums of Object.values(into)) {
        if (onto === null) sums.fill(0);
        else sums.set(onto);
      }
    }
    if (this.isEmpty) return;
    const parts: LinearRows[] = [];
    for (const projection of INPUTS[of]) {
      const sums = into[projection]!;
      const rowBytes = 4 * projectionDims(this.#architecture, projection).out;
      let column = 0;
      for (const part of this.#parts[projection]) {
        const place = ADAPTER_CELL.linears + LINEAR_CELLS * parts.length;
        cells[place] = part.numRows;
        cells[place + 1] = sums.byteOffset + 4 * column;
        cells[place + 2] = rowBytes;
        cells[place + 3] = onto === null ? NaN : onto.byteOffset - sums.byteOffset;
        column += part.numRows;
        parts.push(part);
      }
    }
    cells[ADAPTER_CELL.x] = x.byteOffset;
    cells[ADAPTER_CELL.width] = x.length / this.#numRows;
    cells[ADAPTER_CELL.numLinears] = parts.length;
    for (const [index, { adapter }] of this.#chunks.entries()) {
      const address = this.#addresses.get(adapter)!;
      const chunk = CHUNKS_AT + index * CHUNK_CELLS + 1 + MAX_CHUNK_ROWS;
      for (const [i, { linear, firstRow }] of parts.entries()) {
        const places = adapter.layers[layer]![linear];
        cells[chunk + 3 * i] = places?.rank ?? 0;
        cells[chunk + 3 * i + 1] = address + 4 * (places?.a ?? 0);
        cells[chunk + 3 * i + 2] = address + 4 * (places?.b.get(firstRow) ?? 0);
      }
    }
    this.#team.run(this.#work, this.#chunks.length, this.#numRows >= MIN_SHARED_ROWS, this.#compute);
  }

  /** Copies factors into memory; if they do not fit, evicts all others. */
  #bring(adapters: readonly DecoderAdapter[]): void {
    const sizeOf = (some: readonly DecoderAdapter[]) => some.reduce((sum, { sizeBytes }) => sum + sizeBytes, 0);
    const missing = adapters.filter((adapter) => !this.#addresses.has(adapter));
    if (missing.length === 0) return;
    const keeps = this.#end + sizeOf(missing) <= this.#start + Math.min(KEPT_BYTES, this.capacityBytes);
    if (!keeps) {
      this.#addresses = new WeakMap();
      this.#end = this.#start;
    }
    for (const adapter of keeps ? missing : adapters) this.#place(adapter);
  }

  #place(adapter: DecoderAdapter): void {
    this.#memory.floats(this.#end, adapter.factors.length).set(adapter.factors);
    this.#addresses.set(adapter, this.#end);
    this.#end += adapter.sizeBytes;
  }
}
