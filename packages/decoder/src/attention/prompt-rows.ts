import { PAGE_TOKENS } from './page-format.ts';

/** Rows of a batch, behind each other, of one sequence. */
export interface PromptRows {
  readonly firstRow: number;
  readonly endRow: number;
  /** That the last of them sees. */
  readonly numKeys: number;
}

/** Query heads of a key head over all rows: fewer do not make up for bringing the sequence's keys and values together. */
const MIN_QUERIES = 48;
/** Scores of a key head, as if all queries saw what the row in the middle sees: with fewer, tiles are as fast, which leave out what lies behind each row. */
export const MIN_PROMPT_SCORES = 12_288;

/**
 * The prompts of a batch, or what is computed of them at once.
 * @param sequences [rows]
 * @param positions [rows] of each row's token, the last key that it sees
 * @param options.group query heads of a key head
 * @param options.minScores of a prompt, by what its row in the middle sees
 */
export function promptRows(
  numRows: number,
  sequences: Int32Array,
  positions: Int32Array,
  { group, minScores }: { readonly group: number; readonly minScores: number },
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
    const numQueries = (endRow - firstRow) * group;
    const inTheMiddle = (positions[firstRow]! + 1 + numKeys) / 2;
    if (numQueries >= MIN_QUERIES && numQueries * inTheMiddle >= minScores) prompts.push({ firstRow, endRow, numKeys });
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
