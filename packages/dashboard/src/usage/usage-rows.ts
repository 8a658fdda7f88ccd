import type { UsageGroupObject } from '@trainyard/sdk';

/** Tokens of one row, sampled and trained apart. */
export interface UsageRow {
  readonly key: string;
  /** Project and model, or key. */
  readonly names: readonly string[];
  /** Steps of a model that were sampled from; 0 for base models, and in tables by key. */
  readonly numSteps: number;
  readonly numRequests: number;
  readonly promptTokens: number;
  readonly completionTokens: number;
  readonly numJobs: number;
  readonly trainedTokens: number;
  readonly contextTokens: number;
}

/** Rows by names; the most tokens first. */
export function usageRows(
  groups: readonly UsageGroupObject[],
  namesOf: (group: UsageGroupObject) => readonly string[],
): UsageRow[] {
  const rows = new Map<string, UsageRow>();
  for (const group of groups) {
    const names = namesOf(group);
    const key = names.join('\n');
    const before = rows.get(key) ?? { ...NOTHING, key, names };
    const isTraining = group.kind === 'training';
    rows.set(key, {
      ...before,
      numSteps: before.numSteps + (group.num_steps ?? 0),
      numRequests: before.numRequests + (isTraining ? 0 : group.num_requests),
      promptTokens: before.promptTokens + (isTraining ? 0 : group.prompt_tokens),
      completionTokens: before.completionTokens + (isTraining ? 0 : group.completion_tokens),
      numJobs: before.numJobs + (isTraining ? group.num_requests : 0),
      trainedTokens: before.trainedTokens + (isTraining ? group.completion_tokens : 0),
      contextTokens: before.contextTokens + (isTraining ? group.prompt_tokens : 0),
    });
  }
  const total = (row: UsageRow) => row.promptTokens + row.completionTokens + row.trainedTokens + row.contextTokens;
  return [...rows.values()].toSorted((a, b) => total(b) - total(a));
}

const NOTHING = {
  numSteps: 0,
  numRequests: 0,
  promptTokens: 0,
  completionTokens: 0,
  numJobs: 0,
  trainedTokens: 0,
  contextTokens: 0,
};

/** A round number at or above a value, for the top of an axis: 1, 2 or 5 times a power of ten. */
export function roundTop(value: number): number {
  if (value <= 1) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 2, 5, 10].map((factor) => factor * power).find((top) => top >= value) ?? value;
}
