import {
  type Bf16Library,
  type Bf16Place,
  Bf16Weights,
  closedWith,
  type GgufFile,
  returnFreeMemory,
} from '@trainyard/native';
import { type Architecture, MatrixReader, type ProjectionName } from '@trainyard/transformer';

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
  readonly #opened: DisposableStack;

  constructor(file: Pick<GgufFile, 'readF32'>, architecture: Architecture, library: Bf16Library) {
    // Where it cannot be made, nobody could close what it has.
    using opened = new DisposableStack();
    // They are rounded into memory of the library's.
    const reader = new MatrixReader(file, architecture);
    const blocks = Array.from({ length: architecture.numLayers }, (_, layer) => {
      const places = reader.read(layer).map(({ projection, dims, data }) => {
        const forward = closedWith(opened, new Bf16Weights(library, data, dims));
        const turned = { out: dims.in, in: dims.out };
        const backward = closedWith(opened, new Bf16Weights(library, data, turned, { isTransposed: true }));
        return [projection, { forward: forward.place, backward: backward.place }] as const;
      });
      return Object.fromEntries(places) as Record<ProjectionName, MatrixPlaces>;
    });
    this.places = { libraryPath: library.path, blocks };
    this.#opened = opened.move();
    returnFreeMemory();
  }

  /** No lane may compute any more. */
  close(): void {
    this.#opened.dispose();
    returnFreeMemory();
  }
}
