import assert from 'node:assert';
import * as wasm from '../wasm/wasm-code.ts';
import type { Code } from '../wasm/wasm-code.ts';
import { compileModule, instantiate } from '../wasm/web-assembly.ts';
import type { DecoderMemory } from '../memory/decoder-memory.ts';

const STEP = 8;

/**
 * Rows in bf16 for the next products, rounded to nearest, ties to even, like oneDNN. Runs on the calling thread:
 * rounding 64 rows takes less time than waking another.
 */
export class RoundedRows {
  readonly data: Uint16Array;
  readonly #memory: DecoderMemory;
  readonly #kernel: Kernel;

  /** @param memory of the rows @param maxLength maximum numbers */
  constructor(memory: DecoderMemory, maxLength: number) {
    const block = memory.take(RoundedRows.#floats(maxLength));
    this.data = new Uint16Array(block.buffer, block.byteOffset, 2 * block.length);
    this.#memory = memory;
    this.#kernel = instantiate<Kernel>(compileModule(roundingModule()), memory.shared);
  }

  static bytesFor(maxLength: number): number {
    return 4 * RoundedRows.#floats(maxLength) + 64;
  }

  /** @param rows with room up to a multiple of {@link STEP} numbers, so that the last step touches no other data */
  round(rows: Float32Array): void {
    const { buffer, byteOffset, length } = rows;
    assert(buffer === this.#memory.shared.buffer, 'rows of another memory');
    assert(length <= this.data.length, `no room for ${length} numbers`);
    // Addresses above 2 GiB are negative here; the kernel accepts them.
    const end = byteOffset + 4 * STEP * Math.ceil(length / STEP);
    if (length > 0) this.#kernel.round(byteOffset, end, this.data.byteOffset);
  }

  static #floats(maxLength: number): number {
    return (STEP / 2) * Math.ceil(maxLength / STEP);
  }
}

interface Kernel {
  round(from: number, end: number, to: number): void;
}

function roundingModule(): Uint8Array<ArrayBuffer> {
  const { I32, V128, code, get, set } = wasm;
  const [from, end, to, value, bits] = [0, 1, 2, 3, 4];
  // Adds half of the discarded unit, less one bit if the kept part is even. A NaN could become infinite or -0.
  const halfOfFour = (offset: number): Code =>
    code(
      code(get(from), wasm.load4(offset), set(value), get(value), wasm.i32(16), wasm.shiftRight4, set(bits)),
      code(get(bits), wasm.fill4Integer(1), wasm.and, wasm.fill4Integer(0x7fff), wasm.addInteger4),
      code(get(value), wasm.addInteger4, wasm.i32(16), wasm.shiftRight4),
      code(get(bits), wasm.fill4Integer(0x40), wasm.or),
      code(get(value), get(value), wasm.equal4, wasm.select),
    );
  return wasm.encodeModule(
    [
      {
        name: 'round',
        parameters: [I32, I32, I32],
        locals: [[2, V128]],
        code: wasm.repeatWhileBelow(
          from,
          end,
          code(
            code(get(to), halfOfFour(0), halfOfFour(16), wasm.narrow4, wasm.store4(0)),
            code(wasm.advance(from, 4 * STEP), wasm.advance(to, 2 * STEP)),
          ),
        ),
      },
    ],
    { isShared: true },
  );
}
