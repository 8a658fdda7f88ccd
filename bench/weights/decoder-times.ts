import { DecoderBatch, PagedDecoder } from '@trainyard/decoder';
import type { WeightsMode } from '@trainyard/transformer';

const MAX_SEQUENCES = 64;
const NUM_STEPS = 3;

/** Decoding steps in both modes, in this process. */
export class DecoderTimes {
  readonly #decoders: ReadonlyMap<WeightsMode, { readonly decoder: PagedDecoder; readonly lengths: number[] }>;
  readonly #batch = new DecoderBatch<never>(1024);

  constructor(modelPath: string, modes: readonly WeightsMode[]) {
    const sizes = { capacityTokens: 8192, maxSequences: MAX_SEQUENCES, batchTokens: 1024, numThreads: 2 };
    this.#decoders = new Map(
      modes.map((weights) => {
        const lengths = Array.from({ length: MAX_SEQUENCES }, () => 0);
        return [weights, { decoder: PagedDecoder.open(modelPath, { ...sizes, weights }), lengths }];
      }),
    );
  }

  /** Runs some steps of that many sequences. @returns the least seconds of one */
  step(mode: WeightsMode, numRows: number): number {
    const { decoder, lengths } = this.#decoders.get(mode)!;
    const times = Array.from({ length: NUM_STEPS }, () => {
      this.#batch.clear();
      for (let sequence = 0; sequence < numRows; sequence++) {
        const position = lengths[sequence]!++;
        this.#batch.add({ token: (31 * position + sequence) % 40_000, position, sequence, wantsLogits: true }, null);
      }
      const startedAt = performance.now();
      decoder.run(this.#batch);
      return (performance.now() - startedAt) / 1000;
    });
    return Math.min(...times);
  }

  close(): void {
    for (const { decoder } of this.#decoders.values()) decoder.close();
  }
}
