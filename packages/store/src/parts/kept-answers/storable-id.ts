/**
 * True if a row can have this id: PostgreSQL texts cannot contain U+0000, and queries with it fail.
 */
export function isStorableId(id: string): boolean {
  return !id.includes('\0');
}
