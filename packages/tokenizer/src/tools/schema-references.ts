import { entriesOf, objectInOrder } from '@trainyard/protocol/json';

/**
 * Copies a schema for a place inside another one: its references to itself point to that place. Its own `$id`,
 * which would make it the root again, is dropped; inner ones stay.
 *
 * @param schema not nested deep
 * @param pointerOf the new JSON pointer of each old one, which is empty or starts with a slash
 */
export function withReferences(
  schema: Readonly<Record<string, unknown>>,
  pointerOf: (pointer: string) => string,
): Record<string, unknown> {
  const anchors = new Map<string, string>();
  findAnchors(schema, '', anchors);
  const moved = (reference: string) => {
    const fragment = reference.slice(1);
    const pointer = fragment === '' || fragment.startsWith('/') ? fragment : anchors.get(fragment);
    return reference.startsWith('#') && pointer !== undefined ? `#${pointerOf(pointer)}` : reference;
  };
  return copyOf(withoutId(schema), moved) as Record<string, unknown>;
}

function copyOf(value: unknown, moved: (reference: string) => string): unknown {
  if (Array.isArray(value)) return value.map((item) => copyOf(item, moved));
  if (typeof value !== 'object' || value === null || hasOwnRoot(value)) return value;
  const entries = entriesOf(value as Record<string, unknown>)
    .filter(([key, member]) => !(key === '$anchor' && typeof member === 'string'))
    .map(([key, member]): [string, unknown] => [
      key,
      key === '$ref' && typeof member === 'string' ? moved(member) : copyOf(member, moved),
    ]);
  return objectInOrder(entries);
}

function withoutId(schema: Readonly<Record<string, unknown>>): unknown {
  return hasOwnRoot(schema) ? objectInOrder(entriesOf(schema).filter(([key]) => key !== '$id')) : schema;
}

function hasOwnRoot(schema: object): boolean {
  const { $id: id } = schema as Record<string, unknown>;
  return typeof id === 'string' && !id.startsWith('#');
}

/** Collects them as JSON pointers. */
function findAnchors(value: unknown, pointer: string, anchors: Map<string, string>): void {
  if (typeof value !== 'object' || value === null || (pointer !== '' && hasOwnRoot(value))) return;
  const { $anchor: anchor } = value as Record<string, unknown>;
  if (typeof anchor === 'string' && !Array.isArray(value)) anchors.set(anchor, pointer);
  const entries = Array.isArray(value)
    ? value.map((item, index) => [String(index), item] as const)
    : entriesOf(value as Record<string, unknown>);
  for (const [key, member] of entries)
    findAnchors(member, `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`, anchors);
}
