import { type GgufFile } from '@trainyard/native';
import { fileMatrices, plainFileMatrix, UnsupportedModelError } from '@trainyard/transformer';
import type { Architecture, ByProjection, FileMatrix } from '@trainyard/transformer';
import { DecoderParts, headTensor } from '../graphs/decoder-parts.ts';
import { ExpandedProducts } from './expanded-products.ts';

/** Matrices that stay in the model file, the embedding too: they take no memory of this process. */
export class StreamedMatrices {
  readonly parts: DecoderParts;
  readonly layers: readonly ByProjection<FileMatrix>[];
  readonly head: FileMatrix;
  readonly #file: GgufFile;

  /** @param file closed with this object @throws {UnsupportedModelError} for rows that the kernels cannot multiply */
  constructor(file: GgufFile, architecture: Architecture) {
    this.#file = file;
    this.layers = fileMatrices(file, architecture);
    this.head = plainFileMatrix(file.place(headTensor(file)), architecture.hiddenSize);
    const odd = this.all.find((matrix) => !ExpandedProducts.fits(matrix));
    if (odd !== undefined)
      throw new UnsupportedModelError(
        `weights cannot be streamed with rows of ${odd.columns} values: use resident ones`,
      );
    this.parts = new DecoderParts(file, architecture, file);
  }

  get all(): FileMatrix[] {
    return [...this.layers.flatMap((layer) => Object.values(layer)), this.head];
  }

  close(): void {
    this.parts.close();
    this.#file.close();
  }
}
