/**
 * Row order of q and k. GGUF files of the llama family store each head for interleaved rope (pairs are
 * neighbours); the original weights, PEFT and these graphs rotate halves (pairs are D/2 apart). Interleaved row
 * 2j + i is row i·D/2 + j of the halves.
 */

import type { Architecture } from './architecture.ts';
import { DELTA_TENSORS, deltaSizes } from './gated-delta-net.ts';
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

/**
 * Value heads of gated delta nets in a tensor. transformers and PEFT have those of a key head next to each other
 * (groups); GGUF, and these graphs, one of each key head in turns (tiles).
 */
export interface ValueHeads {
  readonly axis: 'rows' | 'columns';
  /** First row or column of the first head. The heads are the last ones of their axis. */
  readonly first: number;
  readonly headSize: number;
  readonly numKeyHeads: number;
  readonly numValueHeads: number;
}

/**
 * @param part name of a tensor of a block in GGUF; that of a linear layer without `.weight`
 * @returns null if it has no value heads, or one per key head, whose orders are equal
 */
export function valueHeads({ deltaNet }: Pick<Architecture, 'deltaNet'>, part: string): ValueHeads | null {
  if (deltaNet === null || deltaNet.numKeyHeads === deltaNet.numValueHeads) return null;
  const { numKeyHeads, numValueHeads, valueSize } = deltaNet;
  const heads = (axis: ValueHeads['axis'], first: number, headSize: number): ValueHeads => ({
    axis,
    first,
    headSize,
    numKeyHeads,
    numValueHeads,
  });
  switch (part) {
    case 'attn_qkv':
    case DELTA_TENSORS.convolution:
      return heads('rows', deltaSizes(deltaNet).v, valueSize);
    case 'attn_gate':
      return heads('rows', 0, valueSize);
    case 'ssm_beta':
    case 'ssm_alpha':
    case DELTA_TENSORS.step:
    case DELTA_TENSORS.decay:
      return heads('rows', 0, 1);
    case 'ssm_out':
      return heads('columns', 0, valueSize);
    default:
      return null;
  }
}

/**
 * Tensor with its value heads in another order.
 *
 * @param values row-major @param heads null: they stay @param size of a number, in elements of the array. Default 1
 * @returns a copy; `values` itself without heads
 */
export function orderValueHeads<Values extends Float32Array | Uint8Array>(
  values: Values,
  heads: ValueHeads | null,
  to: 'groups' | 'tiles',
  size = 1,
): Values {
  if (heads === null) return values;
  const { axis, first, headSize, numKeyHeads, numValueHeads } = heads;
  const groupSize = numValueHeads / numKeyHeads;
  const count = first + numValueHeads * headSize;
  // Rows of a head are adjacent; its columns are, in each row.
  const rowLength = axis === 'rows' ? values.length / count : count * size;
  const length = headSize * (axis === 'rows' ? rowLength : size);
  // `slice` of a Buffer would share its memory.
  const result = values.constructor === Float32Array ? values.slice() : Uint8Array.from(values);
  const numParts = axis === 'rows' ? 1 : values.length / rowLength;
  for (let part = 0; part < numParts; part++) {
    const start = axis === 'rows' ? first * rowLength : part * rowLength + first * size;
    for (let head = 0; head < numValueHeads; head++) {
      const grouped = start + ((head % numKeyHeads) * groupSize + Math.floor(head / numKeyHeads)) * length;
      const tiled = start + head * length;
      const [from, into] = to === 'tiles' ? [grouped, tiled] : [tiled, grouped];
      result.set(values.subarray(from, from + length), into);
    }
  }
  return result as Values;
}
