/** @param limit of items and members in all lists and objects; counting stops there */
export function hasMoreValuesThan(value: unknown, limit: number): boolean {
  const left: object[] = [];
  let numValues = 0;
  const see = (inner: unknown): void => {
    if (typeof inner === 'object' && inner !== null) left.push(inner);
  };
  see(value);
  for (let container = left.pop(); container !== undefined; container = left.pop()) {
    if (Array.isArray(container)) {
      numValues += container.length;
      if (numValues > limit) return true;
      container.forEach(see);
      continue;
    }
    for (const name in container) {
      numValues += 1;
      if (numValues > limit) return true;
      see(container[name as keyof typeof container]);
    }
  }
  return false;
}
