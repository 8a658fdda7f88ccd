/**
 * Row order of q and k. GGUF files of the llama family store each head for interleaved rope (pairs are
 * neighbours); the original weights, PEFT and these graphs rotate halves (pairs are D/2 apart). Interleaved row
 * 2j + i is row i·D/2 + j of the halves.
 */

import type { Architecture } from './architecture.ts';
import type { LinearName } from './lora-config.ts';

/** Converts interleaved (GGUF) to halves. `matrix` is [numHeads · D, columns]; returns a new array. */
export const toHalves = (matrix: Float32Array, numHeads: number, columns: number): Float32Array =>
  permute(matrix, numHeads, columns, true);

/** The inverse of {@link toHalves}. */
export const toInterleaved = (matrix: Float32Array, numHeads: number, columns: number): Float32Array =>
  permute(matrix, numHeads, columns, false);

/** Only q and k of a file with interleaved heads change. */
export function inHalves(
  matrix: Float32Array,
  linear: LinearName,
  { hasInterleavedHeads, numHeads, numKvHeads }: Architecture,
  columns: number,
): Float32Array {
  if (!hasInterleavedHeads || (linear !== 'q' && linear !== 'k')) return matrix;
  return toHalves(matrix, linear === 'q' ? numHeads : numKvHeads, columns);
}

function permute(matrix: Float32Array, numHeads: number, columns: number, fromInterleaved: boolean): Float32Array {
  const headSize = matrix.length / columns / numHeads;
  const half = headSize / 2;
  const result = new Float32Array(matrix.length);
  for (let head = 0; head < numHeads; head++) {
    for (let j = 0; j < half; j++) {
      for (let i = 0; i < 2; i++) {
        const interleaved = (head * headSize + 2 * j + i) * columns;
        const halves = (head * headSize + i * half + j) * columns;
        const [from, to] = fromInterleaved ? [interleaved, halves] : [halves, interleaved];
        result.set(matrix.subarray(from, from + columns), to);
      }
    }
  }
  return result;
}
