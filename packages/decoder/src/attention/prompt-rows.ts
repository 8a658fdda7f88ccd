import { PAGE_TOKENS } from './page-format.ts';

export interface PromptRows {
  readonly firstRow: number;
  readonly endRow: number;
  /** Keys seen by the last row. */
  readonly numKeys: number;
}

/** Fewer query heads over all rows do not repay gathering keys and values. */
const MIN_QUERIES = 48;
/**
 * Below this number, counted by the keys of the middle row, tiles are as fast, because they skip the keys after
 * each row.
 */
export const MIN_PROMPT_SCORES = 12_288;

/**
 * Prompts of a batch, or the part of them computed at once.
 *
 * @param sequences [rows]
 * @param positions [rows] of each row's token, the last key that it sees
 * @param options.group query heads of a key head
 * @param options.minScores of a prompt, by the keys that its middle row sees
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

/** Scores that stay in the second-level cache between the two products. */
const SCORES_AT_ONCE = 256 * 1024;
/** Fewer queries multiply at half the speed; more gain nothing. */
const QUERIES_AT_ONCE = { fewest: 24, most: 192 } as const;

/**
 * Prompt rows to compute at once.
 *
 * @param group query heads of a key head
 * @param numTokens of the pages seen by the last row
 */
export function promptRowsAtOnce(group: number, numTokens: number): number {
  const { fewest, most } = QUERIES_AT_ONCE;
  const numQueries = Math.min(most, Math.max(fewest, Math.floor(SCORES_AT_ONCE / numTokens)));
  return Math.max(1, Math.floor(numQueries / group));
}

/** Maximum scores of such rows. @param maxPages of the longest sequence */
export const maxPromptScores = (group: number, maxPages: number): number =>
  Math.max(SCORES_AT_ONCE, group * promptRowsAtOnce(group, Infinity) * maxPages * PAGE_TOKENS);
