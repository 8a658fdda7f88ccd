/** One value per data-parallel engine; servers before vLLM 0.11 use the older name. */
const KV_USE = /^vllm:(?:kv|gpu)_cache_usage_perc(?:\{[^}]*\})? ([\d.eE+-]+)$/gm;

/**
 * Used share of a server's KV cache in its Prometheus metrics: 0 to 1, the mean over its engines.
 * @returns null if not reported
 */
export function kvUseOf(metrics: string): number | null {
  const uses = [...metrics.matchAll(KV_USE)].map(([, use]) => Number(use)).filter((use) => use >= 0 && use <= 1);
  return uses.length === 0 ? null : uses.reduce((sum, use) => sum + use, 0) / uses.length;
}

/** Gauge of Prometheus' own collector; missing on a server with several HTTP processes. */
const STARTED_AT = /^process_start_time_seconds ([\d.eE+]+)$/m;

/**
 * Start time of the server's process, s since 1970; another number is another process. @returns null if not
 * reported
 */
export function processStartOf(metrics: string): number | null {
  const startedAt = STARTED_AT.exec(metrics)?.[1];
  return startedAt === undefined ? null : Number(startedAt);
}
