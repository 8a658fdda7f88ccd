/**
 * True if a JSON value contains more than `most` values, counting those in its lists and objects. Counting
 * stops at the limit. Deep values were refused before.
 */
export function hasMoreValues(value: unknown, most: number): boolean {
  return leftOf(value, most) < 0;
}

/** Values that may still follow this one; negative if there are too many. */
function leftOf(value: unknown, most: number): number {
  let left = most - 1;
  if (typeof value !== 'object' || value === null) return left;
  // Lists skip the loop over keys.
  if (Array.isArray(value)) {
    if (value.length > left) return -1;
    for (let at = 0; at < value.length && left >= 0; at++) left = leftOf(value[at], left);
    return left;
  }
  for (const name in value) {
    left = leftOf(value[name as keyof typeof value], left);
    if (left < 0) return left;
  }
  return left;
}
