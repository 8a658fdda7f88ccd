import type { StepBatch } from './model-runner.ts';

/**
 * Divides a batch into calls, so that rows of many sequences run apart from prompts, fewer than `tileRows` at
 * once.
 *
 * From `tileRows` on, ggml computes attention in tiles of rows by cells, whole even if the rows belong to other
 * sequences: 64 rows of eight groups took 1.5 times as long at once as in two halves.
 *
 * @returns indices into the batch, in order; no call has a single row unless the batch has
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
