import { type Bf16Library, type Bf16Place, Bf16Weights, type GgufFile, returnFreeMemory } from '@trainyard/native';
import {
  type Architecture,
  PROJECTION_NAMES,
  projectionDims,
  type ProjectionName,
  readProjection,
} from '@trainyard/transformer';

/** A matrix as products read it, and as their gradients do: two layouts. */
export interface MatrixPlaces {
  readonly forward: Bf16Place;
  readonly backward: Bf16Place;
}

/** Where the matrices of a model's blocks lie, as its lanes are told. */
export interface Bf16Places {
  readonly libraryPath: string;
  /** By layer. */
  readonly blocks: readonly Readonly<Record<ProjectionName, MatrixPlaces>>[];
}

/** The matrices of a model's blocks in bf16, in the memory of single precision's: each in two layouts. Threads share them. */
export class Bf16BlockMatrices {
  readonly places: Bf16Places;
  readonly #all: Bf16Weights[] = [];

  constructor(file: Pick<GgufFile, 'readF32'>, architecture: Architecture, library: Bf16Library) {
    // One after the other in the same memory: they are rounded into memory of the library's.
    const room = PROJECTION_NAMES.map((projection) => {
      const dims = projectionDims(architecture, projection);
      return { projection, dims, data: new Float32Array(dims.out * dims.in) };
    });
    const blocks = Array.from({ length: architecture.numLayers }, (_, layer) => {
      const places = room.map(({ projection, dims, data }) => {
        readProjection(file, architecture, layer, projection, data);
        const forward = new Bf16Weights(library, data, dims);
        const backward = new Bf16Weights(library, data, { out: dims.in, in: dims.out }, { isTransposed: true });
        this.#all.push(forward, backward);
        return [projection, { forward: forward.place, backward: backward.place }] as const;
      });
      return Object.fromEntries(places) as Record<ProjectionName, MatrixPlaces>;
    });
    this.places = { libraryPath: library.path, blocks };
    returnFreeMemory();
  }

  /** No lane may compute any more. */
  close(): void {
    for (const weights of this.#all) weights.close();
    this.#all.length = 0;
  }
}
