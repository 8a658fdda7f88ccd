import { Bf16Weights, returnFreeMemory } from '@trainyard/native';
import type { Bf16Library, GgufFile } from '@trainyard/native';
import { PROJECTION_NAMES, projectionDims, readProjection } from '@trainyard/transformer';
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
    // One after the other in the same memory: they are rounded into memory of the library's.
    const room = PROJECTION_NAMES.map((projection) => {
      const dims = projectionDims(architecture, projection);
      return { projection, dims, data: new Float32Array(dims.out * dims.in) };
    });
    this.layers = Array.from({ length: numLayers }, (_, layer) => {
      const weights = room.map(({ projection, dims, data }) => {
        readProjection(file, architecture, layer, projection, data);
        return [projection, new Bf16Weights(library, data, dims)] as const;
      });
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
