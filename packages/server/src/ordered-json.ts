/**
 * Plain data as JSON, to the byte as `JSON.stringify` writes it; a `Map` becomes an object with its entries in their order.
 *
 * A plain object cannot hold every order: JavaScript puts keys that look like integers first, sorted.
 */
export function toOrderedJson(value: unknown): string {
  if (typeof value !== 'object' || value === null) return JSON.stringify(value) ?? 'null';
  if (Array.isArray(value)) return `[${value.map(toOrderedJson).join(',')}]`;
  const members: string[] = [];
  for (const [key, member] of value instanceof Map ? (value as Map<string, unknown>) : Object.entries(value)) {
    if (member !== undefined) members.push(`${JSON.stringify(key)}:${toOrderedJson(member)}`);
  }
  return `{${members.join(',')}}`;
}
