/**
 * The page of the rollouts behind a point of a chart. A point of training lies at the step that its job makes; its rollouts were sampled at the one
 * before. Those of a split lie at the step that they were sampled at.
 */
export function rolloutsHref(modelId: string, metric: string, step: number): string {
  const split = metric.split('/')[0] ?? 'train';
  const sampledAt = split === 'train' ? Math.max(0, step - 1) : step;
  return `/models/${encodeURIComponent(modelId)}/rollouts?${new URLSearchParams({ split, step: String(sampledAt) })}`;
}
