import { median } from './percentile.ts';

/** `1234`, `12.3`, `1.23` */
export function threeDigits(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}

/** Median, and the range. */
export function spread(values: readonly number[]): string {
  return `${threeDigits(median(values))} (${threeDigits(Math.min(...values))}–${threeDigits(Math.max(...values))})`;
}
