/** A binary min-heap of numbers. */
export class NumberHeap {
  readonly #values: number[] = [];

  push(value: number): void {
    const values = this.#values;
    let index = values.length;
    values.push(value);
    while (index > 0) {
      const parent = (index - 1) >> 1;
      const above = values[parent] ?? -Infinity;
      if (above <= value) break;
      values[index] = above;
      index = parent;
    }
    values[index] = value;
  }

  pop(): number | undefined {
    const values = this.#values;
    const smallest = values[0];
    const moved = values.pop();
    if (moved === undefined || values.length === 0) return smallest;
    let index = 0;
    for (;;) {
      const left = 2 * index + 1;
      const right = left + 1;
      const child = (values[right] ?? Infinity) < (values[left] ?? Infinity) ? right : left;
      const below = values[child] ?? Infinity;
      if (below >= moved) break;
      values[index] = below;
      index = child;
    }
    values[index] = moved;
    return smallest;
  }
}
