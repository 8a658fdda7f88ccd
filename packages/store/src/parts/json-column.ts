import assert from 'node:assert/strict';
import type { Metrics } from './runs/runs.ts';

/** Reads a JSON object that this package wrote. */
export function parseObject(text: string): Record<string, unknown> {
  return JSON.parse(text);
}

export function parseMetrics(text: string): Metrics {
  return JSON.parse(text);
}

/** JSON has no NaN: it would be read as null and break clients that expect numbers. */
export function metricsText(metrics: Metrics): string {
  for (const [name, value] of Object.entries(metrics))
    assert(Number.isFinite(value), `metric ${name} must be a finite number, got ${value}`);
  return JSON.stringify(metrics);
}
