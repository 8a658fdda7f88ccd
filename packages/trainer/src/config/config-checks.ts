/** Checks of single settings. Each gives the value back, or throws `trainer.config_invalid` with the wire field, its limit and the value. */
import { TrainerError } from '../contract/errors.ts';

export function orNull(value: number | null | undefined, check: (value: number) => number): number | null {
  return value === undefined || value === null ? null : check(value);
}

export function flag(name: string, value: boolean): boolean {
  if (typeof value !== 'boolean') throw invalid(name, 'true or false', value);
  return value;
}

export function within(name: string, value: number, minimum: number, maximum = Infinity): number {
  if (typeof value !== 'number' || !Number.isFinite(value) || value < minimum || value > maximum) {
    throw invalid(name, range('a finite number', minimum, maximum), value);
  }
  return value;
}

export function wholeWithin(name: string, value: number, minimum: number, maximum = Infinity): number {
  if (!Number.isSafeInteger(value) || value < minimum || value > maximum) {
    throw invalid(name, range('an integer', minimum, maximum), value);
  }
  return value;
}

export function oneOf<Choice extends string>(name: string, value: Choice, choices: readonly Choice[]): Choice {
  if (!choices.includes(value)) throw invalid(name, `one of ${choices.join(', ')}`, value);
  return value;
}

function range(what: string, minimum: number, maximum: number): string {
  if (minimum === -Infinity) return what;
  return maximum === Infinity ? `${what} >= ${minimum}` : `${what} in [${minimum}, ${maximum}]`;
}

function invalid(name: string, expected: string, value: unknown): TrainerError {
  return new TrainerError('trainer.config_invalid', `\`${name}\` must be ${expected}, got ${String(value)}`);
}
