import { PAGE_TOKENS } from './page-format.ts';

/** Rows of a batch, behind each other, of one sequence. */
export interface PromptRows {
  readonly firstRow: number;
  readonly endRow: number;
  /** That the last of them sees. */
  readonly numKeys: number;
}

/** Fewer rows do not make up for bringing the sequence's keys and values together. */
const MIN_ROWS = 16;
/** Keys that the row in the middle sees: with fewer, tiles are as fast, which leave out what lies behind each row. */
export const MIN_PROMPT_KEYS = 384;

/**
 * The prompts of a batch, or what is computed of them at once.
 * @param sequences [rows]
 * @param positions [rows] of each row's token, the last key that it sees
 * @param minKeys that the row in the middle of a prompt sees
 */
export function promptRows(
  numRows: number,
  sequences: Int32Array,
  positions: Int32Array,
  minKeys: number,
): PromptRows[] {
  const prompts: PromptRows[] = [];
  for (let firstRow = 0, endRow = 1; firstRow < numRows; firstRow = endRow++) {
    while (
      endRow < numRows &&
      sequences[endRow] === sequences[firstRow] &&
      positions[endRow] === positions[endRow - 1]! + 1
    )
      endRow++;
    const numKeys = positions[endRow - 1]! + 1;
    const inTheMiddle = (positions[firstRow]! + 1 + numKeys) / 2;
    if (endRow - firstRow >= MIN_ROWS && inTheMiddle >= minKeys) prompts.push({ firstRow, endRow, numKeys });
  }
  return prompts;
}

/** Scores of some rows that stay in the second-level cache, more or less, from one product to the other. */
const SCORES_AT_ONCE = 256 * 1024;
/** Fewer queries than that are multiplied at half the speed; more gain nothing. */
const QUERIES_AT_ONCE = { fewest: 24, most: 192 } as const;

/** Rows of a prompt that are computed at once. @param group query heads of a key head @param numTokens of the pages that the last of them sees */
export function promptRowsAtOnce(group: number, numTokens: number): number {
  const { fewest, most } = QUERIES_AT_ONCE;
  const numQueries = Math.min(most, Math.max(fewest, Math.floor(SCORES_AT_ONCE / numTokens)));
  return Math.max(1, Math.floor(numQueries / group));
}

/** Most scores of such rows. @param maxPages of the longest sequence */
export const maxPromptScores = (group: number, maxPages: number): number =>
  Math.max(SCORES_AT_ONCE, group * promptRowsAtOnce(group, Infinity) * maxPages * PAGE_TOKENS);
