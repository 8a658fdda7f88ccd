import * as wasm from '../wasm/wasm-code.ts';
import type { Code, WasmFunction } from '../wasm/wasm-code.ts';

/** Rows per call share each load of the factors. */
export const MAX_CHUNK_ROWS = 4;
/** Ranks are padded with zeros to a multiple. */
export const RANK_BLOCK = 8;
export const COLUMN_BLOCK = 4;

/**
 * Name of the kernel low = x · aᵀ for one to four rows at any addresses: `a` in blocks of 8 ranks, [ranks /
 * 8][in][8]. Each sum goes over the inputs in order.
 *
 * Parameters, bytes: the address of each row of x, then `a`, its end, bytes per block, and the address of low,
 * [rows][ranks].
 */
export const lowName = (numRows: number): string => `low${numRows}`;

/**
 * Name of the kernel y = low · b, or onto + low · b, for the same rows: `b` in blocks of 4 columns, [out /
 * 4][rank][4], at least one.
 *
 * Parameters, bytes: the address of each row of y, then `b`, its end, bytes per block, low, bytes per row of
 * low, and the distance from y to its addend.
 */
export const resultName = (numRows: number, hasOnto: boolean): string => `${hasOnto ? 'onto' : 'result'}${numRows}`;

/**
 * Name of the kernel for the one to three columns after the last whole block, with the same order of sums: `b`
 * is their block; one more parameter is their number.
 */
export const restName = (numRows: number, hasOnto: boolean): string => `${hasOnto ? 'ontoRest' : 'rest'}${numRows}`;

export function adapterModule(): Uint8Array<ArrayBuffer> {
  const counts = Array.from({ length: MAX_CHUNK_ROWS }, (_, i) => i + 1);
  return wasm.encodeModule(
    counts.flatMap((count) => [
      lowKernel(count),
      ...[false, true].flatMap((hasOnto) => [wholeKernel(count, hasOnto), restKernel(count, hasOnto)]),
    ]),
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
    // Rows of low are contiguous within a block, and so are the blocks: [blocks][rows][8].
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

function wholeKernel(numRows: number, hasOnto: boolean): WasmFunction {
  const [b, bEnd] = [numRows, numRows + 1];
  const store = (row: number, result: Code): Code => code(get(row), result, store4(0), advance(row, 4 * COLUMN_BLOCK));
  return {
    name: resultName(numRows, hasOnto),
    parameters: integers(numRows + 5),
    locals: resultLocals(numRows),
    code: wasm.repeatWhileBelow(b, bEnd, resultBlock(numRows, hasOnto, numRows + 5, store)),
  };
}

function restKernel(numRows: number, hasOnto: boolean): WasmFunction {
  const columns = numRows + 5;
  const block = resultBlock(numRows, hasOnto, numRows + 6, (row, result, sum) =>
    code(
      code(result, set(sum)),
      ...[0, 1, 2].map((lane) =>
        wasm.whereAbove(columns, lane, code(get(row), get(sum), wasm.storeLane4(lane, 4 * lane))),
      ),
    ),
  );
  return {
    name: restName(numRows, hasOnto),
    parameters: integers(numRows + 6),
    locals: resultLocals(numRows),
    code: block,
  };
}

const resultLocals = (numRows: number): WasmFunction['locals'] => [
  [3, wasm.I32],
  [numRows + 1, wasm.V128],
];

/**
 * One block of result columns. Reads four columns of the addend; if the block has fewer, the last ones belong to
 * the next row.
 *
 * @param firstLocal of {@link resultLocals}
 * @param store writes four columns of a row and advances; may use the local `sum`
 */
function resultBlock(
  numRows: number,
  hasOnto: boolean,
  firstLocal: number,
  store: (row: number, result: Code, sum: number) => Code,
): Code {
  const rows = rowsOf(numRows);
  const [b, blockBytes, low, ontoBytes] = [numRows, numRows + 2, numRows + 3, numRows + 4];
  const [blockEnd, lowAt, lowBlockEnd] = [firstLocal, firstLocal + 1, firstLocal + 2];
  const [sums, factor] = [firstLocal + 3, firstLocal + 3 + numRows];
  const rank = code(
    code(get(b), load4(0), set(factor)),
    ...rows.map((row) =>
      code(get(lowAt), loadSplat4(4 * RANK_BLOCK * row), get(factor), get(sums + row), multiplyAdd4, set(sums + row)),
    ),
    advance(b, 4 * COLUMN_BLOCK),
    advance(lowAt, 4),
  );
  // Over blocks of 8 ranks, each with all rows of low.
  const rankBlock = code(
    code(get(lowAt), wasm.i32(4 * RANK_BLOCK), addI32, set(lowBlockEnd)),
    code([0x02, 0x40], [0x03, 0x40]),
    rank,
    // Leaves the loop at the end of b's block; repeats within low's block.
    code(get(b), get(blockEnd), [0x4f], [0x0d, 0x01], get(lowAt), get(lowBlockEnd), [0x49], [0x0d, 0x00]),
    code([0x0b], [0x0b]),
    advance(lowAt, 4 * RANK_BLOCK * (numRows - 1)),
  );
  return code(
    ...rows.map((row) => code(fill4(0), set(sums + row))),
    code(get(b), get(blockBytes), addI32, set(blockEnd), get(low), set(lowAt)),
    wasm.repeatWhileBelow(b, blockEnd, rankBlock),
    ...rows.map((row) =>
      store(
        row,
        hasOnto ? code(get(row), get(ontoBytes), addI32, load4(0), get(sums + row), wasm.add4) : get(sums + row),
        sums + row,
      ),
    ),
  );
}
