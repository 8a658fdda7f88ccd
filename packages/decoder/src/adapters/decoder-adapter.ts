import { GgufFile } from '@trainyard/native';
import {
  linearDims,
  linearNames,
  PROJECTION_NAMES,
  projectionParts,
  readAdapterFile,
  storedLinears,
  UnsupportedModelError,
} from '@trainyard/transformer';
import type { AdapterWeights, Architecture, LinearAdapter, LinearName, LinearRows } from '@trainyard/transformer';
import { COLUMN_BLOCK, RANK_BLOCK } from './adapter-code.ts';

/** Greater than the width of any layer worth adapting. */
export const MAX_ADAPTER_RANK = 4096;

export interface FactorPlaces {
  readonly rank: number;
  readonly a: number;
  /** Places of the rows of each projection, by their first row. */
  readonly b: ReadonlyMap<number, number>;
}

/** An adapter in memory, in the kernels' layout. */
export class DecoderAdapter {
  readonly factors: Float32Array;
  /** Places by layer; linear layers without an adapter are absent. */
  readonly layers: readonly Readonly<Partial<Record<LinearName, FactorPlaces>>>[];
  /** True if a linear layer has no adapter, or may not have one: its sums are cleared first. */
  readonly isPartial: boolean;

  /** @throws {NativeError} or {UnsupportedModelError} if it is unreadable or of another model */
  static load(path: string, architecture: Architecture): DecoderAdapter {
    using file = GgufFile.open(path);
    const weights = readAdapterFile(file, architecture);
    const adapter = new DecoderAdapter(weights, architecture);
    for (const layer of weights) for (const { a, b } of Object.values(layer)) [a, b].forEach(release);
    return adapter;
  }

  constructor(weights: AdapterWeights, architecture: Architecture) {
    const sizes = weights.flatMap((layer) => Object.entries(layer) as [LinearName, LinearAdapter][]);
    const total = sizes.reduce((sum, [linear, { rank }]) => {
      if (rank > MAX_ADAPTER_RANK)
        throw new UnsupportedModelError(
          `the adapter of ${linear} has rank ${rank}, the maximum is ${MAX_ADAPTER_RANK}`,
        );
      const dims = linearDims(architecture, linear);
      return sum + paddedRank(rank) * dims.in + rank * paddedOutputs(rowsOf(architecture, linear));
    }, 0);
    this.factors = new Float32Array(total);
    let end = 0;
    this.layers = weights.map((layer) => {
      const places: Partial<Record<LinearName, FactorPlaces>> = {};
      for (const linear of linearNames(architecture)) {
        const adapter = layer[linear];
        if (adapter === undefined) continue;
        const dims = linearDims(architecture, linear);
        const { rank } = adapter;
        const a = end;
        end += paddedRank(rank) * dims.in;
        layOutFirst(adapter.a, dims.in, this.factors.subarray(a, end));
        const b = new Map<number, number>();
        for (const { firstRow, numRows } of rowsOf(architecture, linear)) {
          b.set(firstRow, end);
          const part = adapter.b.subarray(firstRow * rank, (firstRow + numRows) * rank);
          layOutSecond(part, rank, this.factors.subarray(end, (end += rank * paddedColumns(numRows))));
        }
        places[linear] = { rank, a, b };
      }
      return places;
    });
    this.isPartial = weights.some((layer, i) => Object.keys(layer).length < storedLinears(architecture, i).length);
  }

  get sizeBytes(): number {
    return this.factors.byteLength;
  }

  close(): void {
    release(this.factors);
  }
}

/** Rows of a linear layer in each projection that has some. */
const rowsOf = (architecture: Architecture, linear: LinearName): LinearRows[] =>
  PROJECTION_NAMES.flatMap((projection) => projectionParts(architecture, projection)).filter(
    (rows) => rows.linear === linear,
  );

/** Frees memory at once: a few adapters are too little to start the garbage collector. */
function release({ buffer }: Float32Array): void {
  (buffer as ArrayBuffer).transfer(0);
}

export const paddedRank = (rank: number): number => RANK_BLOCK * Math.ceil(rank / RANK_BLOCK);
/** Columns beyond the layer's are 0 and not stored. */
const paddedColumns = (columns: number): number => COLUMN_BLOCK * Math.ceil(columns / COLUMN_BLOCK);
const paddedOutputs = (rows: readonly LinearRows[]): number =>
  rows.reduce((sum, { numRows }) => sum + paddedColumns(numRows), 0);

/** Lays out a [rank, in] as [ranks / 8][in][8]. */
function layOutFirst(a: Float32Array, width: number, into: Float32Array): void {
  for (let i = 0; i < a.length; i++) {
    const rank = Math.floor(i / width);
    const within = rank % RANK_BLOCK;
    into[(rank - within) * width + RANK_BLOCK * (i % width) + within] = a[i]!;
  }
}

/** Lays out b [out, rank] as [out / 4, rounded up][rank][4]. */
function layOutSecond(b: Float32Array, rank: number, into: Float32Array): void {
  for (let i = 0; i < b.length; i++) {
    const column = Math.floor(i / rank);
    const within = column % COLUMN_BLOCK;
    into[(column - within) * rank + COLUMN_BLOCK * (i % rank) + within] = b[i]!;
  }
}
