/** A set of more values has too many orders to write them all: five have 326. */
const MAX_UNIQUE_VALUES = 5;

type Schema = Readonly<Record<string, unknown>>;

/**
 * The values that a schema lists, or null where it lists none.
 *
 * @param root what `#/…` refers to: pydantic writes an enumeration as a definition
 */
export function closedSet(schema: unknown, root: unknown): readonly unknown[] | null {
  const found = followed(schema, root);
  if (!isObject(found)) return null;
  if (Object.hasOwn(found, 'const')) return [found['const']];
  if (Array.isArray(found['enum'])) return found['enum'] as unknown[];
  return found['type'] === 'boolean' ? [false, true] : null;
}

/**
 * The lists of different values that an array schema with `uniqueItems` allows, the shortest first; null where they cannot be listed: the items are no closed set, or one of
 * too many values.
 */
export function uniqueLists(schema: Schema, root: unknown): readonly unknown[][] | null {
  const { items, minItems = 0, maxItems = Infinity, prefixItems, additionalItems } = schema;
  if (prefixItems !== undefined || additionalItems !== undefined) return null;
  if (typeof minItems !== 'number' || typeof maxItems !== 'number') return null;
  const values = closedSet(items, root);
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

/** Follows references within the schema, a few at most: one may refer to itself. */
function followed(schema: unknown, root: unknown): unknown {
  let found = schema;
  for (let hops = 0; hops < 8 && isObject(found) && typeof found['$ref'] === 'string'; hops++) {
    const { $ref: reference } = found as { $ref: string };
    if (!reference.startsWith('#/')) return null;
    found = reference
      .slice(2)
      .split('/')
      .map((part) => part.replaceAll('~1', '/').replaceAll('~0', '~'))
      .reduce<unknown>((at, key) => (isObject(at) && Object.hasOwn(at, key) ? at[key] : undefined), root);
  }
  return found;
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
