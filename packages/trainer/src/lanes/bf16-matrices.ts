import {
  type Bf16Library,
  type Bf16Place,
  Bf16Weights,
  closedWith,
  type GgufFile,
  returnFreeMemory,
} from '@trainyard/native';
import { type Architecture, MatrixReader, type ProjectionName } from '@trainyard/transformer';

/** Layouts for products and for their gradients. */
export interface MatrixPlaces {
  readonly forward: Bf16Place;
  readonly backward: Bf16Place;
}

/** Places of the matrices, as sent to lanes. */
export interface Bf16Places {
  readonly libraryPath: string;
  readonly blocks: readonly Readonly<Record<ProjectionName, MatrixPlaces>>[];
}

/** A model's block matrices in bf16, in two layouts: together the memory of single precision. Threads share them. */
export class Bf16BlockMatrices {
  readonly places: Bf16Places;
  readonly #opened: DisposableStack;

  constructor(file: Pick<GgufFile, 'readF32'>, architecture: Architecture, library: Bf16Library) {
    // If the constructor throws, no caller could close these.
    using opened = new DisposableStack();
    // The library rounds them into its own memory.
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
