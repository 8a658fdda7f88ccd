import { entriesOf, objectInOrder } from '@trainyard/protocol/json';

/**
 * A copy of a schema with its references changed: those from its own root, where it is put into another.
 * @param schema does not nest deep
 */
export function withReferences(schema: unknown, change: (reference: string) => string): unknown {
  if (Array.isArray(schema)) return schema.map((item) => withReferences(item, change));
  if (typeof schema !== 'object' || schema === null) return schema;
  const entries = entriesOf(schema as Record<string, unknown>).map(([key, value]): [string, unknown] => [
    key,
    key === '$ref' && typeof value === 'string' ? change(value) : withReferences(value, change),
  ]);
  return objectInOrder(entries);
}
