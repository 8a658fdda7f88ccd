/** `rl`: has rewards; `sft`: learns from conversations only; null: not known yet, or never trained. */
export type ModelKind = 'rl' | 'sft' | null;

/** Kind of a model by the names of its metrics. @param newestJob decides before there are any */
export function kindOf(metricNames: readonly string[], newestJob: ModelKind): ModelKind {
  if (metricNames.some((name) => name.endsWith('/reward'))) return 'rl';
  return metricNames.includes('train/loss') ? 'sft' : newestJob;
}
