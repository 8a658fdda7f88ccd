import { PAGE_TOKENS } from './attention-code.ts';

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
  /** The first row of each tile, and behind the last one the number of rows. */
  readonly firstRows: Int32Array;
  /** Full pages, from the first on, that all rows of a tile see. */
  readonly sharedPages: Int32Array;
  #length = 0;

  constructor(maxRows: number) {
    this.firstRows = new Int32Array(maxRows + 1);
    this.sharedPages = new Int32Array(maxRows);
  }

  get length(): number {
    return this.#length;
  }

  /**
   * @param rowAt called for each row, in order
   * @param maxTileRows at least 1
   */
  cut(numRows: number, rowAt: (row: number) => TileRow, maxTileRows: number): void {
    this.#length = 0;
    let row = 0;
    let [here, next] = [rowAt(0), numRows > 1 ? rowAt(1) : null];
    let common = next === null ? 0 : commonPages(here, next);
    while (row < numRows) {
      const tile = this.#length++;
      this.firstRows[tile] = row;
      this.sharedPages[tile] = fullPages(here);
      for (let size = 1; ; size++) {
        const shared = common;
        row++;
        if (next === null) break;
        here = next;
        next = row + 1 < numRows ? rowAt(row + 1) : null;
        common = next === null ? 0 : commonPages(here, next);
        // A row that has much more in common with the one behind it is a group's first.
        if (size === maxTileRows || shared === 0 || common > 2 * shared) break;
        this.sharedPages[tile] = Math.min(this.sharedPages[tile]!, shared);
      }
    }
    this.firstRows[this.#length] = numRows;
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
