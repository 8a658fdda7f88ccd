import type { GgufFile, InstructionSet } from '@trainyard/native';
import type { Architecture, ByProjection, WeightsMode } from '@trainyard/transformer';
import { DecoderParts } from '../graphs/decoder-parts.ts';
import type { PackedMatrix } from './packed-matrix.ts';
import { PackedWeights } from './packed-weights.ts';
import { productInstructions } from './same-product-bits.ts';
import { NATIVE_LIMITS, PLAIN_FORMATS } from './weight-formats.ts';

/** Formats that take about as much memory as the file: streamed weights are packed as well. */
const SMALL_FORMATS = NATIVE_LIMITS.formats.filter((format) => !(PLAIN_FORMATS as readonly string[]).includes(format));

/** A model whose products all are computed by kernels in C, from its weights as the file has them. */
export class PackedMatrices {
  readonly parts: DecoderParts;
  readonly layers: readonly ByProjection<PackedMatrix>[];
  readonly head: PackedMatrix;
  readonly instructions: InstructionSet;
  readonly #file: GgufFile | null;

  /**
   * @param file read, and in mode `streamed` closed with the matrices
   * @returns null if {@link PackedMatrices.bytesOf} is 0
   */
  static open(file: GgufFile, architecture: Architecture, mode: WeightsMode): PackedMatrices | null {
    const sizeBytes = PackedMatrices.bytesOf(file, architecture, mode);
    return sizeBytes === 0 ? null : new PackedMatrices(file, architecture, mode, sizeBytes);
  }

  private constructor(file: GgufFile, architecture: Architecture, mode: WeightsMode, allBytes: number) {
    this.instructions = productInstructions()!;
    const memory = new SharedArrayBuffer(allBytes);
    let end = 0;
    const take = (sizeBytes: number): Uint8Array<SharedArrayBuffer> => {
      const start = end;
      end += 64 * Math.ceil(sizeBytes / 64);
      return new Uint8Array(memory, start, sizeBytes);
    };
    const { layers, head } = new PackedWeights(file, architecture, take);
    this.layers = layers;
    this.head = head;
    this.#file = mode === 'streamed' ? file : null;
    this.parts = new DecoderParts(file, architecture, this.#file);
  }

  /** Bytes of the matrices; 0 if kernels in C do not compute all of them on this machine, or they stay in the file. */
  static bytesOf(file: Pick<GgufFile, 'tensors'>, architecture: Architecture, mode: WeightsMode): number {
    if (productInstructions() === null) return 0;
    return PackedWeights.bytesOf(file, architecture, {
      ...NATIVE_LIMITS,
      ...(mode === 'streamed' && { formats: SMALL_FORMATS }),
    });
  }

  close(): void {
    this.parts.close();
    this.#file?.close();
  }
}
