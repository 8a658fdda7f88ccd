/** Levels of lists and objects in one body: JSON schemas of tools have some twenty. */
export const MAX_JSON_DEPTH = 256;
/** The message for a value that nests deeper. */
export const TOO_DEEP = `Input should nest at most ${MAX_JSON_DEPTH} levels of lists and objects`;

/** The place of the first field of a body that nests deeper than `limit` levels, as `loc` has it; null when there is none. */
export function fieldDeeperThan(body: unknown, limit: number): string[] | null {
  if (!isDeeperThan(body, limit)) return null;
  const field = Array.isArray(body)
    ? undefined
    : Object.entries(body as object).find(([, value]) => isDeeperThan(value, limit - 1))?.[0];
  return field === undefined ? ['body'] : ['body', field];
}

/**
 * Whether a JSON value nests lists and objects deeper than `limit` levels. It calls itself no deeper than that: what goes on to the end of such a
 * value (serialisers, templates) runs out of stack at some ten thousand levels, which fit into 20 KB.
 */
export function isDeeperThan(value: unknown, limit: number): boolean {
  return isContainer(value) && isContainerDeeperThan(value, limit);
}

/** By loops alone: a body of trajectories has millions of values, and every chat is looked through. */
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
