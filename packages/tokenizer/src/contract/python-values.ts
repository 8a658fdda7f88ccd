import { isSortedKey, markedEntries, mayHaveSortedKeys, withMarkedKeys } from '@trainyard/protocol/json';

/**
 * JSON as Python reads it: integers of any length, floats that stay floats, keys in their order. Templates write the calls of earlier turns as JSON
 * again, and the text has to be the one that was sampled.
 *
 * What a plain value of JavaScript cannot hold is told apart, and only that: an integer beyond 2^53 is a `bigint`, a float that would be written
 * otherwise (`1.0`) a `Number` object, an object whose keys JavaScript would sort (`{"b": 1, "10": 2}`) a `Map`. All of them pass between processes.
 *
 * @param text valid JSON, which does not nest deep
 */
export function parsePythonValues(text: string): unknown {
  return JSON.parse(withMarkedKeys(text), (_key, value: unknown, context?: { source?: string }) => {
    if (typeof value === 'number') return pythonNumber(value, context?.source ?? '');
    if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Number) return value;
    const entries = markedEntries(value);
    return entries.some(([key]) => isSortedKey(key)) ? new Map(entries) : Object.fromEntries(entries);
  });
}

/**
 * Whether `JSON.parse` may read a text otherwise: for a key that looks like an integer, a float, or many digits. Within a string they cost the
 * longer way and no more.
 */
export function needsPythonValues(text: string): boolean {
  return mayHaveSortedKeys(text) || NUMBER_MAY_DIFFER.test(text);
}

const NUMBER_MAY_DIFFER = /\d[.eE]|\d{16}/;
/** Python refuses longer ones, as their value takes long to compute. */
const MAX_INTEGER_DIGITS = 4300;

function pythonNumber(value: number, source: string): unknown {
  if (/^-?\d+$/.test(source))
    return Number.isSafeInteger(value) || source.length > MAX_INTEGER_DIGITS ? value + 0 : BigInt(source);
  // An object: structured clones keep it apart from a number.
  return pythonFloat(value) === JSON.stringify(value) ? value : new Number(value);
}

/** A float as Python writes it in JSON: `1.0`, `1e-05`, `1e+16`, `Infinity`. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Object.is(value, -0)) return '-0.0';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16))
    return value.toExponential().replace(/e([+-])(\d)$/, (_, sign: string, digit: string) => `e${sign}0${digit}`);
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/** The members of a list, an object or a Map. */
export function membersOf(value: object): unknown[] {
  return value instanceof Map ? [...(value as Map<string, unknown>).values()] : Object.values(value);
}

/** Whether a value holds what no plain value can: a Map, or a number that is told apart. @see parsePythonValues */
export function holdsPythonValues(value: unknown): boolean {
  if (typeof value === 'bigint') return true;
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Map || value instanceof Number || membersOf(value).some(holdsPythonValues);
}
