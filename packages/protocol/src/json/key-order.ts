/** The order of keys that look like integers, which plain objects sort in front of all others. */

const ORDERS = new WeakMap<object, readonly string[]>();
const INTEGER_KEY = /^\d+$/;
const WRITTEN_INTEGER_KEY = /"(?:\d|\\u003)+"\s*:/;
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;

/** A letter: behind it no key looks like an integer. */
const MARK = 'k';

/** Whether a key looks like an integer, so that its object may not have it where it was written. */
export function isSortedKey(key: string): boolean {
  return INTEGER_KEY.test(key);
}

/** Whether a JSON text may have such keys: also where one stands in a string, which costs the longer way and no more. */
export function mayHaveSortedKeys(text: string): boolean {
  return WRITTEN_INTEGER_KEY.test(text);
}

/** Valid JSON with every key behind a mark, so that objects keep them where they are; {@link markedEntries} takes it away again. */
export function withMarkedKeys(text: string): string {
  return text.replace(STRING, (string: string, colon: string | undefined) =>
    colon === undefined ? string : `"${MARK}${string.slice(1)}`,
  );
}

/** The members of an object that was read from such a text, as they were written. */
export function markedEntries(value: object): [string, unknown][] {
  return Object.entries(value).map(([key, member]) => [key.slice(MARK.length), member]);
}

/** JSON as `JSON.parse` reads it; `keysOf` its objects gives their keys as they were written. @throws {SyntaxError} */
export function parseInOrder(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!mayHaveSortedKeys(text)) return value;
  return JSON.parse(withMarkedKeys(text), (_key, read: unknown) => {
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return read;
    return objectInOrder(markedEntries(read));
  });
}

/** As `Object.fromEntries`; `keysOf` it gives the keys in the order of the entries. */
export function objectInOrder<Value>(entries: readonly (readonly [string, Value])[]): Record<string, Value> {
  const value = Object.fromEntries(entries);
  if (entries.some(([key]) => isSortedKey(key))) ORDERS.set(value, [...new Set(entries.map(([key]) => key))]);
  return value;
}

/** The keys of an object in the order that was kept for it, else in its own. */
export function keysOf(value: object): readonly string[] {
  return ORDERS.get(value) ?? Object.keys(value);
}

/** As `Object.entries`, in the order of {@link keysOf}. */
export function entriesOf<Value>(value: Readonly<Record<string, Value>>): [string, Value][] {
  return keysOf(value).map((key) => [key, value[key]!]);
}

/** JSON as `JSON.stringify` writes plain data, with the keys of objects as `keysOf` gives them. */
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
