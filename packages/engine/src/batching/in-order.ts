import type { Sequence } from './sequence.ts';

/** Inserts a sequence into a list ordered by {@link Sequence.compare}. */
export function insertInOrder(list: Sequence[], sequence: Sequence): void {
  let low = 0;
  let high = list.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (list[middle]!.compare(sequence) < 0) low = middle + 1;
    else high = middle;
  }
  list.splice(low, 0, sequence);
}
