import { kernelInstructionSets } from '@trainyard/native';
import type { InstructionSet } from '@trainyard/native';
import { sharedMemory } from '../wasm/web-assembly.ts';
import { PackedProductWork, PRODUCT_CELL } from './packed-product-work.ts';
import { BLOCK_VALUES, FORMATS, GROUP_BLOCK_BYTES, GROUP_ROWS, WASM_FORMATS } from './weight-formats.ts';

/** Groups and values of a row: an odd number of groups, and more than one sum of values. */
const [NUM_GROUPS, NUM_VALUES] = [3, 288];
/** Rows at once, and more than any registers hold. */
const ROWS = [1, 4, 13];
const WEIGHTS_AT = 65_536;

let found: InstructionSet | null | undefined;

/** The widest instruction set whose product kernels give the bits of WebAssembly, tried once; null: none. */
export function productInstructions(): InstructionSet | null {
  if (found === undefined) {
    const expected = trial(null);
    found =
      kernelInstructionSets().find((instructions) =>
        trial(instructions).every((value, i) => Object.is(value, expected[i])),
      ) ?? null;
  }
  return found;
}

function trial(instructions: InstructionSet | null): Float32Array {
  const memory = sharedMemory(2 * WEIGHTS_AT);
  const cells = new Float64Array(new SharedArrayBuffer(8 * Object.keys(PRODUCT_CELL).length));
  const work = new PackedProductWork({ memory, cells, instructions });
  const floats = new Float32Array(memory.buffer);
  const words = new Uint32Array(memory.buffer);
  const most = Math.max(...ROWS);
  const width = NUM_GROUPS * GROUP_ROWS;
  const y = 4 * most * NUM_VALUES;
  for (let i = 0; i < most * NUM_VALUES; i++) floats[i] = Math.sin(i);
  cells[PRODUCT_CELL.xRowBytes] = 4 * NUM_VALUES;
  // Kernels in WebAssembly add to y.
  cells[PRODUCT_CELL.sum] = y;
  cells[PRODUCT_CELL.y] = y;
  cells[PRODUCT_CELL.yRowBytes] = 4 * width;
  cells[PRODUCT_CELL.weights] = WEIGHTS_AT;
  cells[PRODUCT_CELL.numColumns] = width;
  cells[PRODUCT_CELL.columnsPerUnit] = width;
  for (const format of WASM_FORMATS) {
    const blockWords = GROUP_BLOCK_BYTES[format] / 4;
    const numNumbers = format === 'affine4' ? 2 * GROUP_ROWS : GROUP_ROWS;
    for (let i = 0; i < (NUM_GROUPS * NUM_VALUES * blockWords) / BLOCK_VALUES; i++) {
      const at = WEIGHTS_AT / 4 + i;
      if (i % blockWords < numNumbers) floats[at] = Math.cos(i) / 8;
      else words[at] = Math.imul(i + 1, 2_654_435_761);
    }
    cells[PRODUCT_CELL.format] = FORMATS.indexOf(format);
    for (const numRows of ROWS) {
      cells[PRODUCT_CELL.numRows] = numRows;
      work.compute(0);
    }
  }
  return floats.slice(y / 4, y / 4 + most * width);
}
