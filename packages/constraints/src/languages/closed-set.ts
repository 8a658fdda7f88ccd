/** Maximum values of a set whose orders are all listed: five have 326. */
const MAX_UNIQUE_VALUES = 5;

type Schema = Readonly<Record<string, unknown>>;

/** Follows references: pydantic writes an enumeration as a definition. */
export type Followed = (schema: unknown) => unknown;

/** Null if the schema lists no values. */
export function closedSet(schema: unknown, followed: Followed): readonly unknown[] | null {
  const found = followed(schema);
  if (!isObject(found)) return null;
  if (Object.hasOwn(found, 'const')) return [found['const']];
  if (Array.isArray(found['enum'])) return found['enum'] as unknown[];
  return found['type'] === 'boolean' ? [false, true] : null;
}

/**
 * Lists of distinct values that an array schema with `uniqueItems` allows, shortest first; null if the items are
 * not a closed set or too many.
 */
export function uniqueLists(schema: Schema, followed: Followed): readonly unknown[][] | null {
  const { items, minItems = 0, maxItems = Infinity, prefixItems, additionalItems } = schema;
  if (prefixItems !== undefined || additionalItems !== undefined) return null;
  if (typeof minItems !== 'number' || typeof maxItems !== 'number') return null;
  const values = closedSet(items, followed);
  if (values === null) return null;
  const different = [...new Map(values.map((value) => [JSON.stringify(value), value])).values()];
  if (different.length > MAX_UNIQUE_VALUES) return null;
  const lists: unknown[][] = [[]];
  for (let from = 0; from < lists.length; from++) {
    const list = lists[from]!;
    for (const value of different) if (!list.includes(value)) lists.push([...list, value]);
  }
  return lists.filter(({ length }) => length >= minItems && length <= maxItems);
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
