import { isSortedKey, markedEntries, mayHaveSortedKeys, withMarkedKeys } from '@trainyard/protocol/json';

/**
 * Reads JSON like Python, because templates write earlier calls as JSON again and the text must equal the
 * sampled one. An integer beyond 2^53 is a `bigint`, a float with another spelling (`1.0`) a `Number` object, an
 * object whose keys JavaScript would sort (`{"b": 1, "10": 2}`) a `Map`; all can pass between processes.
 *
 * @param text JSON with Python's constants, not nested deep
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
 * Reads any JSON that Python reads, including `NaN`, `Infinity` and `-Infinity`. Values are as from
 * `JSON.parse`, except numbers that are infinite there: those are as from {@link parsePythonValues}.
 *
 * @throws {SyntaxError} for text that Python refuses, such as an integer of more than 4,300 digits
 */
export function parsePythonJson(text: string): unknown {
  if (!MAY_BE_INFINITE.test(text)) return JSON.parse(text);
  return JSON.parse(withLiterals(text), (_key, value: unknown, context?: { source?: string }) =>
    value === Infinity || value === -Infinity ? pythonNumber(value, context?.source ?? '') : value,
  );
}

const MAY_BE_INFINITE = /NaN|Infinity|\d{300}|[eE]\+?\d{2}/;
const STRING_OR_CONSTANT = /"[^"\\]*(?:\\.[^"\\]*)*"|(?<![\w.+-])(-?Infinity|NaN)(?![\w.+-])/g;
/**
 * Literals that replace constants: Python reads the first two as infinite too, and no JSON writer produces the
 * third.
 */
const LITERALS: Readonly<Record<string, string>> = { Infinity: '1e999', '-Infinity': '-1e999', NaN: '1e+000999' };

function withLiterals(text: string): string {
  if (!/NaN|Infinity/.test(text)) return text;
  return text.replace(STRING_OR_CONSTANT, (found, constant: string | undefined) =>
    constant === undefined ? found : LITERALS[constant]!,
  );
}

/**
 * True if `JSON.parse` might read a text differently: a key like an integer, a float, many digits, or a Python
 * constant. Matches inside a string only cost the slower way.
 */
export function needsPythonValues(text: string): boolean {
  return mayHaveSortedKeys(text) || NUMBER_MAY_DIFFER.test(text);
}

const NUMBER_MAY_DIFFER = /\d[.eE]|\d{16}|NaN|Infinity/;
/** Python refuses longer ones, because computing their value takes long. */
const MAX_INTEGER_DIGITS = 4300;

function pythonNumber(value: number, source: string): unknown {
  if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value + 0 : longInteger(source);
  if (source === LITERALS['NaN']) return new Number(Number.NaN);
  // An object, so that structured clones distinguish it from a number.
  return pythonFloat(value) === JSON.stringify(value) ? value : new Number(value);
}

function longInteger(digits: string): bigint {
  const numDigits = digits.replace('-', '').length;
  if (numDigits <= MAX_INTEGER_DIGITS) return BigInt(digits);
  throw new SyntaxError(`an integer of ${numDigits} digits, of at most ${MAX_INTEGER_DIGITS}`);
}

/** Formats a float as Python does in JSON: `1.0`, `1e-05`, `1e+16`, `Infinity`. */
export function pythonFloat(value: number): string {
  if (!Number.isFinite(value)) return String(value);
  if (Object.is(value, -0)) return '-0.0';
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e16))
    return value.toExponential().replace(/e([+-])(\d)$/, (_, sign: string, digit: string) => `e${sign}0${digit}`);
  return Number.isInteger(value) ? value.toFixed(1) : String(value);
}

export function membersOf(value: object): unknown[] {
  return value instanceof Map ? [...(value as Map<string, unknown>).values()] : Object.values(value);
}

export function holdsPythonValues(value: unknown): boolean {
  if (typeof value === 'bigint') return true;
  if (typeof value !== 'object' || value === null) return false;
  return value instanceof Map || value instanceof Number || membersOf(value).some(holdsPythonValues);
}
