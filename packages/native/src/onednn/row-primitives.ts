import type { Primitive } from './primitive.ts';

/**
 * Numbers of rows are rounded up to multiples, so that few primitives are ever compiled: each takes about a millisecond, and is kept. A product takes as long as the
 * rows that it computes; the multiples are such that at most an eighth of them, and beyond a hundred a tenth, is nobody's.
 */
const ROW_STEPS = [
  { above: 512, step: 32 },
  { above: 256, step: 16 },
  { above: 64, step: 8 },
  { above: 16, step: 8 },
  { above: 4, step: 4 },
] as const;

/** Rows that are computed where so many are wanted. */
export function computedRows(numRows: number): number {
  const { step } = ROW_STEPS.find(({ above }) => numRows > above) ?? { step: 1 };
  return step * Math.ceil(numRows / step);
}

/** One computation for any number of rows, compiled for each at its first use. */
export class RowPrimitives {
  readonly #compile: (rows: number) => Primitive;
  readonly #byRows = new Map<number, Primitive>();

  /** @param compile for so many rows, as {@link computedRows} says */
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
