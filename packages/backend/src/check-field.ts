import { EngineError } from './errors.ts';

/** @throws {EngineError} engine.invalid_request naming the field, the limit and the value */
export function checkCount(param: string, count: number, limit: number, unit: string): void {
  check(count <= limit, param, `at most ${limit} ${unit}`, count);
}

/** NaN, fractions and what is no number at all fail. */
export function isIntegerIn(value: number, low: number, high = Infinity): boolean {
  return Number.isInteger(value) && value >= low && value <= high;
}

/** @throws {EngineError} engine.invalid_request naming the field, the rule and the value */
export function check(isValid: boolean, param: string, rule: string, value: unknown): void {
  if (isValid) return;
  throw new EngineError('engine.invalid_request', `${param} must be ${rule}, got ${String(value)}`, { param });
}
