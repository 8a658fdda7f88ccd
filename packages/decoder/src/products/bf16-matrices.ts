import { Bf16Columns, Bf16Weights, closedWith, returnFreeMemory } from '@trainyard/native';
import type { Bf16Library, ColumnPlace, GgufFile } from '@trainyard/native';
import { addsPlainOutputs, MatrixReader } from '@trainyard/transformer';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
import { DecoderParts } from '../graphs/decoder-parts.ts';

/** True if the steps with these matrices compute a model: they multiply SiLU inside and add products to the residual. */
export const hasBf16Steps = (architecture: Architecture): boolean =>
  architecture.activation === 'silu' &&
  addsPlainOutputs(architecture) &&
  architecture.experts === null &&
  architecture.convolution === null &&
  architecture.deltaNet === null;

export class Bf16Matrices {
  readonly parts: DecoderParts;
  readonly library: Bf16Library;
  readonly layers: readonly Readonly<Record<ProjectionName, Bf16Weights>>[];
  readonly head: Bf16Weights;
  /** Cuts of block matrices for threads that share columns, by shape; null if a shape cannot be cut. */
  readonly #columns = new Map<string, Bf16Columns | null>();
  readonly #opened: DisposableStack;

  constructor(
    file: Pick<GgufFile, 'tensors' | 'readF32' | 'readStored'>,
    architecture: Architecture,
    library: Bf16Library,
    numThreads: number,
  ) {
    // If the constructor throws, no caller could close these.
    using opened = new DisposableStack();
    this.parts = closedWith(opened, new DecoderParts(file, architecture));
    this.library = library;
    const { vocabSize, hiddenSize, numLayers } = architecture;
    // The library rounds them into its own memory.
    const reader = new MatrixReader(file, architecture);
    this.layers = Array.from({ length: numLayers }, (_, layer) => {
      const weights = reader.read(layer).map(({ projection, dims, data }) => {
        const own = closedWith(opened, new Bf16Weights(library, data, dims));
        const shape = shapeOf(own);
        if (!this.#columns.has(shape)) {
          const columns = Bf16Columns.of(library, own, data, numThreads);
          this.#columns.set(shape, columns === null ? null : closedWith(opened, columns));
        }
        return [projection, own] as const;
      });
      return Object.fromEntries(weights) as Record<ProjectionName, Bf16Weights>;
    });
    this.head = closedWith(
      opened,
      new Bf16Weights(library, this.parts.readHead(file), { out: vocabSize, in: hiddenSize }),
    );
    this.#opened = opened.move();
    returnFreeMemory();
  }

  columnsOf(weights: Bf16Weights): readonly ColumnPlace[] {
    return this.#columns.get(shapeOf(weights))?.placesIn(weights) ?? [];
  }

  close(): void {
    this.#opened.dispose();
    returnFreeMemory();
  }
}

const shapeOf = ({ dims }: Bf16Weights): string => `${dims.out} ${dims.in}`;
