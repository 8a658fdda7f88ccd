import type { Sequence } from './sequence.ts';

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
