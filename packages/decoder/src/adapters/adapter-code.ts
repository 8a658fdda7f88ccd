import * as wasm from '../wasm/wasm-code.ts';
import type { WasmFunction } from '../wasm/wasm-code.ts';

/** Most rows of one call: they share what is loaded of the factors. */
export const MAX_CHUNK_ROWS = 4;
/** The first factor is laid out in blocks of so many ranks, its rank rounded up with zeros. */
export const RANK_BLOCK = 8;
/** Columns of the result of one block of the second factor. */
export const COLUMN_BLOCK = 4;

/**
 * low = x · aᵀ for one to four rows, which lie anywhere: `a` in blocks of 8 ranks, [ranks / 8][in][8]. Each sum goes over the inputs in order.
 *
 * Parameters, bytes: an address for each row of x, then `a`, its end, bytes of a block, and where low goes: [rows][ranks].
 */
export const lowName = (numRows: number): string => `low${numRows}`;

/**
 * y = low · b, or onto + low · b, for the same rows: `b` in blocks of 4 columns, [out / 4][rank][4].
 *
 * Parameters, bytes: an address for each row of y, then `b`, its end, bytes of a block, low, bytes of a row of low, and from y to what it is added to.
 */
export const resultName = (numRows: number, hasOnto: boolean): string => `${hasOnto ? 'onto' : 'result'}${numRows}`;

export function adapterModule(): Uint8Array<ArrayBuffer> {
  const counts = Array.from({ length: MAX_CHUNK_ROWS }, (_, i) => i + 1);
  return wasm.encodeModule(
    counts.flatMap((count) => [lowKernel(count), resultKernel(count, false), resultKernel(count, true)]),
    { isShared: true },
  );
}

const { code, get, set, load4, store4, loadSplat4, multiplyAdd4, fill4, addI32, advance } = wasm;
const rowsOf = (numRows: number) => Array.from({ length: numRows }, (_, row) => row);
const integers = (count: number) => Array.from({ length: count }, () => wasm.I32);

function lowKernel(numRows: number): WasmFunction {
  const rows = rowsOf(numRows);
  const [a, aEnd, blockBytes, low] = [numRows, numRows + 1, numRows + 2, numRows + 3];
  const [blockEnd, at] = [numRows + 4, numRows + 5];
  const [sums, left, value] = [numRows + 6, numRows + 6 + 2 * numRows, numRows + 8 + 2 * numRows];
  const input = code(
    ...[0, 1].map((half) => code(get(a), load4(16 * half), set(left + half))),
    ...rows.map((row) =>
      code(
        get(row),
        get(at),
        addI32,
        loadSplat4(0),
        set(value),
        ...[0, 1].map((half) => {
          const sum = sums + 2 * row + half;
          return code(get(value), get(left + half), get(sum), multiplyAdd4, set(sum));
        }),
      ),
    ),
    advance(at, 4),
    advance(a, 4 * RANK_BLOCK),
  );
  const block = code(
    ...rows.flatMap((row) => [0, 1].map((half) => code(fill4(0), set(sums + 2 * row + half)))),
    code(get(a), get(blockBytes), addI32, set(blockEnd), wasm.i32(0), set(at)),
    wasm.repeatWhileBelow(a, blockEnd, input),
    // Rows of low lie one behind the other within a block, blocks too: [blocks][rows][8].
    ...rows.flatMap((row) =>
      [0, 1].map((half) => code(get(low), get(sums + 2 * row + half), store4(4 * (RANK_BLOCK * row + 4 * half)))),
    ),
    advance(low, 4 * RANK_BLOCK * numRows),
  );
  return {
    name: lowName(numRows),
    parameters: integers(numRows + 4),
    locals: [
      [2, wasm.I32],
      [2 * numRows + 3, wasm.V128],
    ],
    code: wasm.repeatWhileBelow(a, aEnd, block),
  };
}

function resultKernel(numRows: number, hasOnto: boolean): WasmFunction {
  const rows = rowsOf(numRows);
  const [b, bEnd, blockBytes, low, ontoBytes] = [numRows, numRows + 1, numRows + 2, numRows + 3, numRows + 4];
  const [blockEnd, lowAt, lowBlockEnd] = [numRows + 5, numRows + 6, numRows + 7];
  const [sums, factor] = [numRows + 8, numRows + 8 + numRows];
  const rank = code(
    code(get(b), load4(0), set(factor)),
    ...rows.map((row) =>
      code(get(lowAt), loadSplat4(4 * RANK_BLOCK * row), get(factor), get(sums + row), multiplyAdd4, set(sums + row)),
    ),
    advance(b, 4 * COLUMN_BLOCK),
    advance(lowAt, 4),
  );
  // Over blocks of 8 ranks, within which rows of low lie behind each other.
  const rankBlock = code(
    code(get(lowAt), wasm.i32(4 * RANK_BLOCK), addI32, set(lowBlockEnd)),
    code([0x02, 0x40], [0x03, 0x40]),
    rank,
    // Out at the end of b's block, again while low's block lasts.
    code(get(b), get(blockEnd), [0x4f], [0x0d, 0x01], get(lowAt), get(lowBlockEnd), [0x49], [0x0d, 0x00]),
    code([0x0b], [0x0b]),
    advance(lowAt, 4 * RANK_BLOCK * (numRows - 1)),
  );
  const block = code(
    ...rows.map((row) => code(fill4(0), set(sums + row))),
    code(get(b), get(blockBytes), addI32, set(blockEnd), get(low), set(lowAt)),
    wasm.repeatWhileBelow(b, blockEnd, rankBlock),
    ...rows.map((row) =>
      code(
        get(row),
        hasOnto ? code(get(row), get(ontoBytes), addI32, load4(0), get(sums + row), wasm.add4) : get(sums + row),
        store4(0),
        advance(row, 4 * COLUMN_BLOCK),
      ),
    ),
  );
  return {
    name: resultName(numRows, hasOnto),
    parameters: integers(numRows + 5),
    locals: [
      [3, wasm.I32],
      [numRows + 1, wasm.V128],
    ],
    code: wasm.repeatWhileBelow(b, bEnd, block),
  };
}
