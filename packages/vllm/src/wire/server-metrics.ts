/** One a data-parallel engine; servers before vLLM 0.11 have the older name. */
const KV_USE = /^vllm:(?:kv|gpu)_cache_usage_perc(?:\{[^}]*\})? ([\d.eE+-]+)$/gm;

/**
 * The part of its KV cache that a server says is in use, in its metrics for Prometheus: 0 to 1, the mean over its engines.
 * @returns null where it says nothing of it
 */
export function kvUseOf(metrics: string): number | null {
  const uses = [...metrics.matchAll(KV_USE)].map(([, use]) => Number(use)).filter((use) => use >= 0 && use <= 1);
  return uses.length === 0 ? null : uses.reduce((sum, use) => sum + use, 0) / uses.length;
}

/** Gauge of Prometheus' own collector; a server with several processes for HTTP has none. */
const STARTED_AT = /^process_start_time_seconds ([\d.eE+]+)$/m;

/** When the process of the server started, s since 1970; another number is another process. @returns null if it is not reported */
export function processStartOf(metrics: string): number | null {
  const startedAt = STARTED_AT.exec(metrics)?.[1];
  return startedAt === undefined ? null : Number(startedAt);
}
