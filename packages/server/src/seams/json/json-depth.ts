/** Levels of lists and objects in one body; JSON schemas of tools have about twenty. */
export const MAX_JSON_DEPTH = 256;
export const TOO_DEEP = `Input should nest at most ${MAX_JSON_DEPTH} levels of lists and objects`;

/** Place, as in `loc`, of the first field of a body that nests deeper than `limit` levels; null if none. */
export function fieldDeeperThan(body: unknown, limit: number): string[] | null {
  if (!isDeeperThan(body, limit)) return null;
  const field = Array.isArray(body)
    ? undefined
    : Object.entries(body as object).find(([, value]) => isDeeperThan(value, limit - 1))?.[0];
  return field === undefined ? ['body'] : ['body', field];
}

/**
 * True if a JSON value nests lists and objects deeper than `limit` levels. Recursion stops at the limit: code
 * that visits the whole value overflows the stack at about ten thousand levels, which fit into 20 KB.
 */
export function isDeeperThan(value: unknown, limit: number): boolean {
  return isContainer(value) && isContainerDeeperThan(value, limit);
}

/** Loops without allocation: a body of trajectories has millions of values, and every chat is checked. */
function isContainerDeeperThan(container: object, limit: number): boolean {
  if (limit === 0) return true;
  if (Array.isArray(container)) {
    for (const item of container as readonly unknown[])
      if (isContainer(item) && isContainerDeeperThan(item, limit - 1)) return true;
    return false;
  }
  for (const name in container) {
    const member: unknown = container[name as keyof typeof container];
    if (isContainer(member) && isContainerDeeperThan(member, limit - 1)) return true;
  }
  return false;
}

function isContainer(value: unknown): value is object {
  return typeof value === 'object' && value !== null;
}
