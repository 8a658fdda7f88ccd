/** Whether a JSON value has more than `most` values in it, those within its lists and objects included. It looks at no more than that; what nests deeply was refused before. */
export function hasMoreValues(value: unknown, most: number): boolean {
  return leftOf(value, most) < 0;
}

/** How many values may still come behind this one; below 0 there are too many. */
function leftOf(value: unknown, most: number): number {
  let left = most - 1;
  if (typeof value !== 'object' || value === null) return left;
  // A list as well: what it has is known without its keys.
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
