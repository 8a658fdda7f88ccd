import { closedWith } from '@trainyard/native';
import { input, matmul, rmsNorm } from '@trainyard/transformer';
import type { Architecture } from '@trainyard/transformer';
import { ConstantGraph, vector } from './constant-graph.ts';

/** Maximum bytes of weights per graph: an ONNX model must stay below 2 GiB. */
const MAX_PART_BYTES = 1 << 30;

/** Head from hidden states to logits: the last norm and a product over the vocabulary, in parts. */
export class DecoderHead {
  readonly #parts: readonly { readonly graph: ConstantGraph; readonly start: number; readonly end: number }[];
  readonly #opened: DisposableStack;
  readonly #hiddenSize: number;
  readonly #vocabSize: number;

  /** @param weights `vocabulary` [V, H], `norm` [H] */
  constructor(
    { vocabulary, norm }: { readonly vocabulary: Float32Array; readonly norm: Float32Array },
    { hiddenSize, vocabSize, rmsEpsilon }: Architecture,
    numThreads: number,
    maxPartBytes = MAX_PART_BYTES,
  ) {
    this.#hiddenSize = hiddenSize;
    this.#vocabSize = vocabSize;
    const numParts = Math.ceil((4 * vocabSize * hiddenSize) / maxPartBytes);
    const size = Math.ceil(vocabSize / numParts);
    const h = rmsNorm(input('h', ['N', hiddenSize]), input('norm', [hiddenSize]), rmsEpsilon);
    using opened = new DisposableStack();
    this.#parts = Array.from({ length: numParts }, (_, part) => {
      const [start, end] = [part * size, Math.min(vocabSize, (part + 1) * size)];
      const weights = {
        data: vocabulary.subarray(start * hiddenSize, end * hiddenSize),
        dims: [end - start, hiddenSize],
      };
      const product = matmul(h, input('vocabulary', weights.dims), { transposeB: true });
      const constants = { norm: vector(norm), vocabulary: weights };
      return { graph: closedWith(opened, new ConstantGraph({ logits: product }, constants, numThreads)), start, end };
    });
    this.#opened = opened.move();
  }

  /** @param hidden [N, H] @param logits [N, V], written */
  run(hidden: Float32Array, logits: Float32Array): void {
    const numRows = hidden.length / this.#hiddenSize;
    const feeds = { h: { data: hidden, dims: [numRows, this.#hiddenSize] } };
    const isWhole = this.#parts.length === 1;
    for (const { graph, start, end } of this.#parts) {
      const width = end - start;
      const data = isWhole ? logits : new Float32Array(numRows * width);
      graph.run(feeds, { logits: { data, dims: [numRows, width] } });
      if (isWhole) return;
      for (let row = 0; row < numRows; row++)
        logits.set(data.subarray(row * width, (row + 1) * width), row * this.#vocabSize + start);
    }
  }

  close(): void {
    this.#opened.dispose();
  }
}
