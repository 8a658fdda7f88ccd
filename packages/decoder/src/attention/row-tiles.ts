import { PAGE_TOKENS } from './page-format.ts';

export interface TileRow {
  readonly pages: readonly number[];
  readonly numKeys: number;
}

/**
 * Tiles of a batch: adjacent rows whose sequences start with the same pages, such as rollouts of a group. Shared
 * pages are read once per tile; tiling changes no output bit.
 */
export class RowTiles {
  /** Row range of each tile, `firstRows` to `endRows`. */
  readonly firstRows: Int32Array;
  readonly endRows: Int32Array;
  /** Leading full pages that all rows of a tile see. */
  readonly sharedPages: Int32Array;
  #length = 0;

  constructor(maxRows: number) {
    this.firstRows = new Int32Array(maxRows);
    this.endRows = new Int32Array(maxRows);
    this.sharedPages = new Int32Array(maxRows);
  }

  get length(): number {
    return this.#length;
  }

  clear(): void {
    this.#length = 0;
  }

  /** Adds tiles of rows `from` to `end`. @param rowAt called once per row, in order @param maxTileRows at least 1 */
  cut(from: number, end: number, rowAt: (row: number) => TileRow, maxTileRows: number): void {
    if (from === end) return;
    let row = from;
    let [here, next] = [rowAt(row), row + 1 < end ? rowAt(row + 1) : null];
    let common = next === null ? 0 : commonPages(here, next);
    while (row < end) {
      const tile = this.#length++;
      this.firstRows[tile] = row;
      this.sharedPages[tile] = fullPages(here);
      for (let size = 1; ; size++) {
        const shared = common;
        row++;
        if (next === null) break;
        here = next;
        next = row + 1 < end ? rowAt(row + 1) : null;
        common = next === null ? 0 : commonPages(here, next);
        // A row that shares much more with the next row is the first of a group.
        if (size === maxTileRows || shared === 0 || common > 2 * shared) break;
        this.sharedPages[tile] = Math.min(this.sharedPages[tile]!, shared);
      }
      this.endRows[tile] = row;
    }
  }
}

const fullPages = ({ numKeys }: TileRow): number => Math.floor(numKeys / PAGE_TOKENS);

function commonPages(a: TileRow, b: TileRow): number {
  const end = Math.min(fullPages(a), fullPages(b));
  if (a.pages === b.pages) return end;
  let common = 0;
  while (common < end && a.pages[common] === b.pages[common]) common++;
  return common;
}
