import { type FieldText, naming } from '@trainyard/protocol/fields';
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
export function check(isValid: boolean, param: string, rule: string, value: unknown, verb = 'must be'): void {
  if (!isValid) throw refusal(param, naming`${{ field: param }} ${verb} ${rule}, got ${String(value)}`);
}

/** A request that is refused for one of its fields. @param text names others, too, where it speaks of them */
export function refusal(param: string, text: FieldText | string, options: ErrorOptions = {}): EngineError {
  return new EngineError('engine.invalid_request', text, { ...options, param });
}
