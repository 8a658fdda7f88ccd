/** Place in the heap; −1 while outside. */
export interface HeapItem {
  heapPlace: number;
}

/** A binary heap, the least item on top. All changes take logarithmic time. */
export class Heap<Item extends HeapItem> {
  readonly #items: Item[] = [];
  readonly #compare: (a: Item, b: Item) => number;

  /** @param compare negative if `a` goes above `b` */
  constructor(compare: (a: Item, b: Item) => number) {
    this.#compare = compare;
  }

  get size(): number {
    return this.#items.length;
  }
  get top(): Item | undefined {
    return this.#items[0];
  }
  /** Unordered. */
  values(): Iterable<Item> {
    return this.#items;
  }

  /** Inserts an item, or moves it after its order has changed. */
  place(item: Item): void {
    if (item.heapPlace < 0) {
      item.heapPlace = this.#items.length;
      this.#items.push(item);
    }
    this.#sink(this.#rise(item.heapPlace));
  }

  remove(item: Item): void {
    const place = item.heapPlace;
    if (place < 0) return;
    const last = this.#items.pop()!;
    item.heapPlace = -1;
    if (last === item) return;
    this.#put(last, place);
    this.#sink(this.#rise(place));
  }

  #rise(start: number): number {
    const item = this.#items[start]!;
    let place = start;
    while (place > 0) {
      const above = (place - 1) >>> 1;
      if (this.#compare(item, this.#items[above]!) >= 0) break;
      this.#put(this.#items[above]!, place);
      place = above;
    }
    this.#put(item, place);
    return place;
  }

  #sink(start: number): void {
    const item = this.#items[start]!;
    let place = start;
    for (;;) {
      let below = 2 * place + 1;
      if (below >= this.#items.length) break;
      const right = below + 1;
      if (right < this.#items.length && this.#compare(this.#items[right]!, this.#items[below]!) < 0) below = right;
      if (this.#compare(item, this.#items[below]!) <= 0) break;
      this.#put(this.#items[below]!, place);
      place = below;
    }
    this.#put(item, place);
  }

  #put(item: Item, place: number): void {
    this.#items[place] = item;
    item.heapPlace = place;
  }
}
