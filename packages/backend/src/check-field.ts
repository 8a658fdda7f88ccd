import { type FieldText, naming } from '@trainyard/protocol/fields';
import { EngineError } from './errors.ts';

/** @throws {EngineError} engine.invalid_request naming the field, the limit and the value */
export function checkCount(param: string, count: number, limit: number, unit: string): void {
  check(count <= limit, param, `at most ${limit} ${unit}`, count);
}

/** False for NaN, fractions and non-numbers. */
export function isIntegerIn(value: number, low: number, high = Infinity): boolean {
  return Number.isInteger(value) && value >= low && value <= high;
}

/** @throws {EngineError} engine.invalid_request naming the field, the rule and the value */
export function check(isValid: boolean, param: string, rule: string, value: unknown): void {
  if (!isValid) throw brokenRule(param, `be ${rule}`, value);
}

/** Refusal that names the field, the rule after "must", and the value. */
export function brokenRule(param: string, rule: string, value: unknown): EngineError {
  return refusal(param, naming`${{ field: param }} must ${rule}, got ${String(value)}`);
}

/** Refusal of a request for one of its fields. @param text may name further fields */
export function refusal(param: string, text: FieldText | string, options: ErrorOptions = {}): EngineError {
  return new EngineError('engine.invalid_request', text, { ...options, param });
}
