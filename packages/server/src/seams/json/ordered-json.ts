/** A value as its JSON text, which keeps what no value of JavaScript does: digits beyond 2^53, `1.0`, the order of all keys, keys that come twice. */
export class JsonText {
  readonly text: string;

  /** @param text valid JSON */
  constructor(text: string) {
    this.text = text;
  }
}

/**
 * Plain data as JSON, to the byte as `JSON.stringify` writes it; a `Map` becomes an object with its entries in their order, a {@link JsonText} stands as it is.
 *
 * A plain object cannot hold every order: JavaScript puts keys that look like integers first, sorted.
 */
export function toOrderedJson(value: unknown): string {
  if (value instanceof JsonText) return value.text;
  // What holds neither is left to the engine, which writes several times faster: 11 MB took 350 ms here, 70 ms there.
  if (!holdsOrder(value)) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(toOrderedJson).join(',')}]`;
  const members: string[] = [];
  for (const [key, member] of entriesOf(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${toOrderedJson(member)}`);
  }
  return `{${members.join(',')}}`;
}

/** A Map or a text is in it. */
function holdsOrder(value: unknown): value is object {
  if (typeof value !== 'object' || value === null) return false;
  if (value instanceof Map || value instanceof JsonText) return true;
  if (Array.isArray(value)) return value.some(holdsOrder);
  // Every chunk of every stream is looked through: a list of its members would be made for that alone.
  for (const key in value) if (holdsOrder(value[key as keyof typeof value])) return true;
  return false;
}

function entriesOf(value: object): Iterable<[string, unknown]> {
  return value instanceof Map ? (value as Map<string, unknown>) : Object.entries(value);
}
