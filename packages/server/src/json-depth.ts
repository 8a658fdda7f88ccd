/**
 * Whether a JSON value nests lists and objects deeper than `limit` levels. Iterative: what calls itself on such a value
 * (serialisers, templates) runs out of stack at some ten thousand levels, which fit into 20 KB.
 */
export function isDeeperThan(value: unknown, limit: number): boolean {
  let level: object[] = isContainer(value) ? [value] : [];
  for (let depth = 1; level.length > 0; depth += 1) {
    if (depth > limit) return true;
    level = level.flatMap((container) => Object.values(container).filter(isContainer));
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
