import { isSortedKey, markedEntries, mayHaveSortedKeys, withMarkedKeys } from '@trainyard/protocol/json';

/**
 * JSON as Python reads it: integers of any length, floats that stay floats, keys in their order. Templates write the calls of earlier turns as JSON
 * again, and the text has to be the one that was sampled.
 *
 * What a plain value of JavaScript cannot hold is told apart, and only that: an integer beyond 2^53 is a `bigint`, a float that would be written
 * otherwise (`1.0`) a `Number` object, an object whose keys JavaScript would sort (`{"b": 1, "10": 2}`) a `Map`. All of them pass between processes.
 *
 * @param text JSON with Python's constants, which does not nest deep
 * @throws {SyntaxError} as {@link parsePythonJson}
 */
export function parsePythonValues(text: string): unknown {
  return JSON.parse(withMarkedKeys(withLiterals(text)), (_key, value: unknown, context?: { source?: string }) => {
    if (typeof value === 'number') return pythonNumber(value, context?.source ?? '');
    if (typeof value !== 'object' || value === null || Array.isArray(value) || value instanceof Number) return value;
    const entries = markedEntries(value);
    return entries.some(([key]) => isSortedKey(key)) ? new Map(entries) : Object.fromEntries(entries);
  });
}

/**
 * Any JSON that Python reads, `NaN`, `Infinity` and `-Infinity` included. Values are as `JSON.parse` reads them, except for numbers that are infinite
 * there: those are as {@link parsePythonValues} reads them.
 *
 * @throws {SyntaxError} for what Python does not read, such as an integer of more than 4,300 digits
 */
export function parsePythonJson(text: string): unknown {
  if (!MAY_BE_INFINITE.test(text)) return JSON.parse(text);
  return JSON.parse(withLiterals(text), (_key, value: unknown, context?: { source?: string }) =>
    value === Infinity || value === -Infinity ? pythonNumber(value, context?.source ?? '') : value,
  );
}

const MAY_BE_INFINITE = /NaN|Infinity|\d{300}|[eE]\+?\d{2}/;
const STRING_OR_CONSTANT = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.+-])(-?Infinity|NaN)(?![\w.+-])/g;
/** Literals that stand for constants: Python reads the first two as infinite, too, and no writer of JSON makes the third. */
const LITERALS: Readonly<Record<string, string>> = { Infinity: '1e999', '-Infinity': '-1e999', NaN: '1e+000999' };

/** JSON with the constants of Python as numbers that are infinite here. */
function withLiterals(text: string): string {
  if (!/NaN|Infinity/.test(text)) return text;
  return text.replace(STRING_OR_CONSTANT, (found, constant: string | undefined) =>
    constant === undefined ? found : LITERALS[constant]!,
  );
}

/**
 * Whether `JSON.parse` may read a text otherwise: for a key that looks like an integer, a float, many digits, or a constant of Python. Within a
 * string they cost the longer way and no more.
 */
export function needsPythonValues(text: string): boolean {
  return mayHaveSortedKeys(text) || NUMBER_MAY_DIFFER.test(text);
}

const NUMBER_MAY_DIFFER = /\d[.eE]|\d{16}|NaN|Infinity/;
/** Python refuses longer ones, as their value takes long to compute. */
const MAX_INTEGER_DIGITS = 4300;

function pythonNumber(value: number, source: string): unknown {
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value + 0 : longInteger(source);
  if (source === LITERALS['NaN']) return new Number(Number.NaN);
  // An object: structured clones keep it apart from a number.
  return pythonFloat(value) === JSON.stringify(value) ? value : new Number(value);
}

function longInteger(digits: string): bigint {
  const numDigits = digits.replace('-', '').length;
  if (numDigits <= MAX_INTEGER_DIGITS) return BigInt(digits);
  throw new SyntaxError(`an integer of ${numDigits} digits, of at most ${MAX_INTEGER_DIGITS}`);
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
