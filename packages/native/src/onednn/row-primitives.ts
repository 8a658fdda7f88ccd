import type { Primitive } from './primitive.ts';

/**
 * Row counts are rounded up, so that few primitives are compiled: each takes about a millisecond. Padding is at
 * most an eighth of the rows, and above a hundred a tenth.
 */
const ROW_STEPS = [
  { above: 512, step: 32 },
  { above: 256, step: 16 },
  { above: 64, step: 8 },
  { above: 16, step: 8 },
  { above: 4, step: 4 },
] as const;

/** Rows that are computed if `numRows` are wanted. */
export function computedRows(numRows: number): number {
  const { step } = ROW_STEPS.find(({ above }) => numRows > above) ?? { step: 1 };
  return step * Math.ceil(numRows / step);
}

/** Compiled for each number of rows at first use. */
export class RowPrimitives {
  readonly #compile: (rows: number) => Primitive;
  readonly #byRows = new Map<number, Primitive>();

  /** @param compile for a row count of {@link computedRows} */
  constructor(compile: (rows: number) => Primitive) {
    this.#compile = compile;
  }

  of(rows: number): Primitive {
    let primitive = this.#byRows.get(rows);
    if (primitive === undefined) {
      primitive = this.#compile(rows);
      this.#byRows.set(rows, primitive);
    }
    return primitive;
  }

  close(): void {
    for (const primitive of this.#byRows.values()) primitive[Symbol.dispose]();
    this.#byRows.clear();
  }
}
