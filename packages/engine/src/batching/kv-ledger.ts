import assert from 'node:assert/strict';

/** Cells are shared only within one account. */
export interface CellAccount {
  liveCells: number;
  /** Those, and cells of its cache entries. */
  heldCells: number;
}

/**
 * An exact mirror of the runner's KV cells, so that capacity is known before a batch runs.
 *
 * A slot holds one cell per position. A cell counts its holders, and separately the running ones: cells held
 * only by cache entries can be evicted.
 */
export class KvLedger {
  readonly capacity: number;
  readonly #slots: (Slot | null)[];
  readonly #holders: Int32Array; // [capacity]
  readonly #liveHolders: Int32Array; // [capacity]
  readonly #freeCells: number[];
  readonly #freeSlots: number[];
  #liveCells = 0;
  readonly #common: CellAccount = { liveCells: 0, heldCells: 0 };

  constructor(capacity: number, maxSlots: number) {
    this.capacity = capacity;
    this.#slots = Array.from({ length: maxSlots }, () => null);
    this.#holders = new Int32Array(capacity);
    this.#liveHolders = new Int32Array(capacity);
    this.#freeCells = Array.from({ length: capacity }, (_, i) => capacity - 1 - i);
    this.#freeSlots = Array.from({ length: maxSlots }, (_, i) => maxSlots - 1 - i);
  }

  get freeCells(): number {
    return this.#freeCells.length;
  }
  get usedCells(): number {
    return this.capacity - this.#freeCells.length;
  }
  get liveCells(): number {
    return this.#liveCells;
  }
  get cachedCells(): number {
    return this.usedCells - this.#liveCells;
  }
  get freeSlots(): number {
    return this.#freeSlots.length;
  }

  /** One must be free. @param account of its cells; default one common account */
  openSlot(account: CellAccount = this.#common): number {
    const slot = this.#freeSlots.pop();
    assert(slot !== undefined, 'no free slot');
    this.#slots[slot] = { cells: [], isLive: true, account };
    return slot;
  }

  accountOf(slot: number): CellAccount {
    return this.#get(slot).account;
  }

  lengthOf(slot: number): number {
    return this.#get(slot).cells.length;
  }

  /** Number of the first `length` cells without a running holder. */
  countCachedOnly(slot: number, length: number): number {
    const { cells } = this.#get(slot);
    let count = 0;
    for (let i = 0; i < length; i++) if (this.#liveHolders[cells[i]!] === 0) count++;
    return count;
  }

  /** That many must be free. */
  append(slot: number, count: number): void {
    const { cells, isLive, account } = this.#get(slot);
    assert(count <= this.#freeCells.length, `${count} cells asked, ${this.#freeCells.length} free`);
    assert(isLive, 'a cache entry does not grow');
    for (let i = 0; i < count; i++) {
      const cell = this.#freeCells.pop()!;
      this.#holders[cell] = 1;
      this.#liveHolders[cell] = 1;
      cells.push(cell);
    }
    this.#liveCells += count;
    account.liveCells += count;
    account.heldCells += count;
  }

  /** Makes the empty live slot `to` share the first `length` cells of `from`. */
  share(from: number, to: number, length: number): void {
    const source = this.#get(from).cells;
    const target = this.#get(to);
    assert(target.isLive && target.cells.length === 0, 'shared cells go to an empty live slot');
    assert(length <= source.length, `${length} cells shared of ${source.length}`);
    for (let i = 0; i < length; i++) {
      const cell = source[i]!;
      this.#holders[cell]!++;
      if (this.#liveHolders[cell]!++ === 0) this.#countLive(target.account, 1);
      target.cells.push(cell);
    }
  }

  markCached(slot: number): void {
    const entry = this.#get(slot);
    assert(entry.isLive, 'already cached');
    entry.isLive = false;
    for (const cell of entry.cells) if (--this.#liveHolders[cell]! === 0) this.#countLive(entry.account, -1);
  }

  /** Frees the slot and the cells that only it held. */
  closeSlot(slot: number): void {
    const { cells, isLive, account } = this.#get(slot);
    for (const cell of cells) {
      if (isLive && --this.#liveHolders[cell]! === 0) this.#countLive(account, -1);
      if (--this.#holders[cell]! > 0) continue;
      this.#freeCells.push(cell);
      account.heldCells--;
    }
    this.#slots[slot] = null;
    this.#freeSlots.push(slot);
  }

  /** Recounts everything from the slots. @throws AssertionError on the first disagreement */
  checkIntegrity(): void {
    const holders = new Int32Array(this.capacity);
    const live = new Int32Array(this.capacity);
    let openSlots = 0;
    const accounts = new Map<CellAccount, { held: Set<number>; live: Set<number> }>();
    for (const slot of this.#slots) {
      if (slot === null) continue;
      openSlots++;
      assert.equal(new Set(slot.cells).size, slot.cells.length, 'a slot holds a cell twice');
      let account = accounts.get(slot.account);
      if (account === undefined) accounts.set(slot.account, (account = { held: new Set(), live: new Set() }));
      for (const cell of slot.cells) {
        account.held.add(cell);
        if (slot.isLive) account.live.add(cell);
        holders[cell]!++;
        if (slot.isLive) live[cell]!++;
      }
    }
    for (const [{ heldCells, liveCells }, { held, live: alive }] of accounts)
      assert.deepEqual([heldCells, liveCells], [held.size, alive.size], 'cells of an account');
    assert.deepEqual(holders, this.#holders, 'holder counts');
    assert.deepEqual(live, this.#liveHolders, 'live holder counts');
    assert.equal(
      live.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0),
      this.#liveCells,
      'live cells',
    );
    assert.equal(new Set(this.#freeCells).size, this.#freeCells.length, 'a free cell is listed twice');
    for (const cell of this.#freeCells) assert.equal(holders[cell], 0, 'a held cell is listed as free');
    assert.equal(
      holders.reduce((sum, count) => sum + (count > 0 ? 1 : 0), 0),
      this.usedCells,
      'used cells',
    );
    assert.equal(openSlots + this.#freeSlots.length, this.#slots.length, 'slots');
  }

  #countLive(account: CellAccount, change: 1 | -1): void {
    this.#liveCells += change;
    account.liveCells += change;
  }

  #get(slot: number): Slot {
    const entry = this.#slots[slot];
    assert(entry, `slot ${slot} is not open`);
    return entry;
  }
}

interface Slot {
  cells: number[];
  isLive: boolean;
  readonly account: CellAccount;
}
