import { PAGE_TOKENS } from './page-format.ts';

/** A row, as far as its tile depends on it. */
export interface TileRow {
  /** Pages of its sequence, in order. */
  readonly pages: readonly number[];
  /** Keys that it sees. */
  readonly numKeys: number;
}

/**
 * A batch's rows in tiles: rows behind each other that begin with the same pages, such as tokens of a prompt, or rollouts of a group behind theirs. What a tile's rows
 * share is read once for all of them; how rows are put into tiles changes no bit of their outputs.
 */
export class RowTiles {
  /** Rows of each tile, `firstRows` to `endRows`. */
  readonly firstRows: Int32Array;
  readonly endRows: Int32Array;
  /** Full pages, from the first on, that all rows of a tile see. */
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

  /**
   * Adds tiles of rows `from` to `end`.
   * @param rowAt called for each row, in order
   * @param maxTileRows at least 1
   */
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
        // A row that has much more in common with the one behind it is a group's first.
        if (size === maxTileRows || shared === 0 || common > 2 * shared) break;
        this.sharedPages[tile] = Math.min(this.sharedPages[tile]!, shared);
      }
      this.endRows[tile] = row;
    }
  }
}

const fullPages = ({ numKeys }: TileRow): number => Math.floor(numKeys / PAGE_TOKENS);

/** Full pages that both begin with. */
function commonPages(a: TileRow, b: TileRow): number {
  const end = Math.min(fullPages(a), fullPages(b));
  if (a.pages === b.pages) return end;
  let common = 0;
  while (common < end && a.pages[common] === b.pages[common]) common++;
  return common;
}
