/** Order of keys that look like integers, which plain objects sort before all others. */

const ORDERS = new WeakMap<object, readonly string[]>();
const INTEGER_KEY = /^\d+$/;
const WRITTEN_INTEGER_KEY = /"(?:\d|\\u003)+"\s*:/;
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;

/** A letter, with which no key looks like an integer. */
const MARK = 'k';

/** True if a key looks like an integer, so that its object may have moved it. */
export function isSortedKey(key: string): boolean {
  return INTEGER_KEY.test(key);
}

/** True if a JSON text may have such keys; one inside a string only costs time. */
export function mayHaveSortedKeys(text: string): boolean {
  return WRITTEN_INTEGER_KEY.test(text);
}

/**
 * Marks every key of valid JSON, so that objects keep their order; {@link markedEntries} removes the marks.
 */
export function withMarkedKeys(text: string): string {
  return text.replace(STRING, (string: string, colon: string | undefined) =>
    colon === undefined ? string : `"${MARK}${string.slice(1)}`,
  );
}

/** Members of an object parsed from marked text, in written order. */
export function markedEntries(value: object): [string, unknown][] {
  return Object.entries(value).map(([key, member]) => [key.slice(MARK.length), member]);
}

/** Parses JSON as `JSON.parse`; `keysOf` returns its keys in written order. @throws {SyntaxError} */
export function parseInOrder(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!mayHaveSortedKeys(text)) return value;
  return JSON.parse(withMarkedKeys(text), (_key, read: unknown) => {
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return read;
    return objectInOrder(markedEntries(read));
  });
}

/** Builds an object as `Object.fromEntries`; `keysOf` returns its keys in the order of the entries. */
export function objectInOrder<Value>(entries: readonly (readonly [string, Value])[]): Record<string, Value> {
  const value = Object.fromEntries(entries);
  if (entries.some(([key]) => isSortedKey(key))) ORDERS.set(value, [...new Set(entries.map(([key]) => key))]);
  return value;
}

/** Keys of an object in the recorded order, else in its own. */
export function keysOf(value: object): readonly string[] {
  return ORDERS.get(value) ?? Object.keys(value);
}

/** Entries as `Object.entries`, in the order of {@link keysOf}. */
export function entriesOf<Value>(value: Readonly<Record<string, Value>>): [string, Value][] {
  return keysOf(value).map((key) => [key, value[key]!]);
}

/** Writes plain data as `JSON.stringify`, with object keys in the order of `keysOf`. */
export function writeInOrder(value: unknown): string {
  if (!holdsOrder(value)) return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(writeInOrder).join(',')}]`;
  const members = keysOf(value).flatMap((key) => {
    const member = value[key as keyof typeof value] as unknown;
    return member === undefined ? [] : [`${JSON.stringify(key)}:${writeInOrder(member)}`];
  });
  return `{${members.join(',')}}`;
}

function holdsOrder(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  return ORDERS.has(value) || Object.values(value).some(holdsOrder);
}
