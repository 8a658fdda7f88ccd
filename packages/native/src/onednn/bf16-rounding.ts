import assert from 'node:assert';
import type { Bf16Library } from './bf16-library.ts';
import { ARGUMENT, DATA_TYPE, describeMatrix, oneDnnLibrary } from './onednn-library.ts';
import { Primitive } from './primitive.ts';
import { computedRows, RowPrimitives } from './row-primitives.ts';

/** Rounds rows of single precision to the nearest bf16. */
export class Bf16Rounding {
  readonly #width: number;
  readonly #primitives: RowPrimitives;

  constructor({ path }: Bf16Library, width: number) {
    const library = oneDnnLibrary(path);
    this.#width = width;
    this.#primitives = new RowPrimitives((rows) => {
      const from = describeMatrix(library, DATA_TYPE.f32, [rows, width]);
      const to = describeMatrix(library, DATA_TYPE.bf16, [rows, width]);
      try {
        const reorder = library.made((out) => library.reorderCreate(out, from, library.engine, to, library.engine, 0n));
        return new Primitive(library, reorder, [
          [ARGUMENT.from, from],
          [ARGUMENT.to, to],
        ]);
      } finally {
        for (const description of [from, to]) library.descriptionDestroy(description);
      }
    });
  }

  /** @param from [numRows, width] and @param to the same, with room for {@link computedRows} */
  run(from: Float32Array, to: Uint16Array, numRows: number): void {
    const rows = computedRows(numRows);
    assert(Math.min(from.length, to.length) >= rows * this.#width, `no room for ${rows} rows`);
    this.#primitives.of(rows).run([from, to]);
  }

  close(): void {
    this.#primitives.close();
  }
}
