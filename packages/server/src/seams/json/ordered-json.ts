/**
 * JSON text of a value, for facts that JavaScript values lose: digits beyond 2^53, `1.0`, the order of all
 * keys, repeated keys.
 */
export class JsonText {
  readonly text: string;

  /** @param text valid JSON */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Writes plain data byte for byte like `JSON.stringify`; a `Map` becomes an object with its entries in order,
 * a {@link JsonText} is copied.
 * A plain object cannot hold every order: JavaScript sorts keys that look like integers first.
 */
export function toOrderedJson(value: unknown): string {
  if (value instanceof JsonText) return value.text;
  // `JSON.stringify` writes values without either several times faster: 11 MB took 350 ms here, 70 ms there.
  if (!holdsOrder(value)) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(toOrderedJson).join(',')}]`;
  const members: string[] = [];
  for (const [key, member] of entriesOf(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${toOrderedJson(member)}`);
  }
  return `{${members.join(',')}}`;
}

function holdsOrder(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Map || value instanceof JsonText) return true;
  if (Array.isArray(value)) return value.some(holdsOrder);
  // Runs for every chunk of every stream: `for in` avoids a list of the members.
  for (const key in value) if (holdsOrder(value[key as keyof typeof value])) return true;
  return false;
}

function entriesOf(value: object): Iterable<[string, unknown]> {
  return value instanceof Map ? (value as Map<string, unknown>) : Object.entries(value);
}
