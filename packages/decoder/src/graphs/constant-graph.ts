import { OnnxSession } from '@trainyard/native';
import type { OnnxSessionPlace, OnnxTensor } from '@trainyard/native';
import { compileGraph } from '@trainyard/transformer';
import type { ConstantTensor, Outputs } from '@trainyard/transformer';

export type Feeds = Readonly<Record<string, OnnxTensor>>;

/** A graph that contains its weights. */
export class ConstantGraph {
  readonly #session: OnnxSession;
  readonly #inputNames: readonly string[];
  readonly #outputNames: readonly string[];

  constructor(outputs: Outputs, constants: Readonly<Record<string, ConstantTensor>>, numThreads: number) {
    const { bytes, weightFiles, inputs, outputNames } = compileGraph(outputs, { constants });
    this.#inputNames = inputs.map(({ name }) => name);
    this.#outputNames = outputNames;
    const options = { numThreads, inputNames: this.#inputNames, outputNames, weightFiles, sharesArena: true };
    this.#session = new OnnxSession(bytes, options);
  }

  /** Handle for other threads that run it. */
  get place(): OnnxSessionPlace {
    return this.#session.place;
  }

  /** Blocks until done. @param feeds may hold more than the graph reads @param results memory for every output */
  run(feeds: Feeds, results: Feeds): void {
    this.#session.run(
      this.#inputNames.map((name) => feeds[name]!),
      this.#outputNames.map((name) => results[name]!),
    );
  }

  close(): void {
    this.#session.close();
  }
}

export const vector = (data: Float32Array): ConstantTensor => ({ data, dims: [data.length] });
