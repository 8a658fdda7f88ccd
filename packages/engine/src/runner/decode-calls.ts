import type { StepBatch } from './model-runner.ts';

/**
 * Divides a batch into the rows of several calls, so that those of many sequences are computed apart from prompts, and fewer than `tileRows` at once.
 *
 * From so many rows on, ggml computes attention in tiles of rows by cells, each tile whole even where the rows are of other sequences than the cells; below,
 * row by row, past the cells of others. A tile pays for rows of one prompt, not for those of many sequences: 64 rows of eight groups took 1.5 times as long
 * at once as in two halves.
 *
 * @returns indices into the batch, in its order; no call has a single row that the batch did not have alone
 */
export function decodeCalls(batch: StepBatch, tileRows: number): readonly (readonly number[])[] {
  const all = Array.from({ length: batch.length }, (_, i) => i);
  if (batch.length < tileRows) return [all];
  const lengths = new Map<number, number>();
  for (const i of all) lengths.set(batch.sequences[i]!, (lengths.get(batch.sequences[i]!) ?? 0) + 1);
  const singles = all.filter((i) => lengths.get(batch.sequences[i]!) === 1);
  if (singles.length < 2) return [all];
  const calls: number[][] = [];
  const others = all.filter((i) => lengths.get(batch.sequences[i]!) !== 1);
  if (others.length > 0) calls.push(others);
  const numParts = Math.ceil(singles.length / (tileRows - 1));
  for (let part = 0; part < numParts; part++) {
    const bound = (k: number): number => Math.round((k * singles.length) / numParts);
    calls.push(singles.slice(bound(part), bound(part + 1)));
  }
  return calls;
}
