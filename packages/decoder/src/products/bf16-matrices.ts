import { Bf16Weights, returnFreeMemory } from '@trainyard/native';
import type { Bf16Library, GgufFile } from '@trainyard/native';
import { MatrixReader } from '@trainyard/transformer';
import type { Architecture, ProjectionName } from '@trainyard/transformer';
import { DecoderParts } from '../graphs/decoder-parts.ts';

/** A decoder whose matrices are in bf16: half the memory of single precision. */
export class Bf16Matrices {
  readonly parts: DecoderParts;
  readonly library: Bf16Library;
  readonly layers: readonly Readonly<Record<ProjectionName, Bf16Weights>>[];
  readonly head: Bf16Weights;

  constructor(file: Pick<GgufFile, 'tensors' | 'readF32'>, architecture: Architecture, library: Bf16Library) {
    this.parts = new DecoderParts(file, architecture);
    this.library = library;
    const { vocabSize, hiddenSize, numLayers } = architecture;
    // They are rounded into memory of the library's.
    const reader = new MatrixReader(file, architecture);
    this.layers = Array.from({ length: numLayers }, (_, layer) => {
      const weights = reader
        .read(layer)
        .map(({ projection, dims, data }) => [projection, new Bf16Weights(library, data, dims)] as const);
      return Object.fromEntries(weights) as Record<ProjectionName, Bf16Weights>;
    });
    this.head = new Bf16Weights(library, this.parts.readHead(file), { out: vocabSize, in: hiddenSize });
    returnFreeMemory();
  }

  close(): void {
    for (const layer of this.layers) for (const weights of Object.values(layer)) weights.close();
    this.head.close();
    this.parts.close();
  }
}
