/** The order of keys that look like integers, which plain objects sort in front of all others. */

const ORDERS = new WeakMap<object, readonly string[]>();
const INTEGER_KEY = /^\d+$/;
/** Also where it stands in a string, which costs the longer way and no more. */
const MAY_BE_SORTED = /"(?:\d|\\u003)+"\s*:/;
const STRING = /"[^"\\]*(?:\\.[^"\\]*)*"(\s*:)?/g;

/** JSON as `JSON.parse` reads it; `keysOf` its objects gives their keys as they were written. @throws {SyntaxError} */
export function parseInOrder(text: string): unknown {
  const value: unknown = JSON.parse(text);
  if (!MAY_BE_SORTED.test(text)) return value;
  // Behind a letter no key looks like an integer.
  const marked = text.replace(STRING, (string: string, colon: string | undefined) =>
    colon === undefined ? string : `"k${string.slice(1)}`,
  );
  return JSON.parse(marked, (_key, read: unknown) => {
    if (typeof read !== 'object' || read === null || Array.isArray(read)) return read;
    const entries = Object.entries(read).map(([key, member]): [string, unknown] => [key.slice(1), member]);
    return inOrder(
      Object.fromEntries(entries),
      entries.map(([key]) => key),
    );
  });
}

/** The object with its keys in this order, which are all of its keys. */
export function inOrder<Value extends object>(value: Value, keys: readonly string[]): Value {
  if (keys.some((key) => INTEGER_KEY.test(key))) ORDERS.set(value, keys);
  return value;
}

/** The keys of an object in the order that was kept for it, else in its own. */
export function keysOf(value: object): readonly string[] {
  return ORDERS.get(value) ?? Object.keys(value);
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
