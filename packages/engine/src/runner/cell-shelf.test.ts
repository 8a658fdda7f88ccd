import assert from 'node:assert/strict';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { CellShelf, type CellMemory } from './cell-shelf.ts';

const SPARE = 9;

/** Numbered cells in llama.cpp's scheme: a sequence is the cells that name it. */
class FakeMemory implements CellMemory {
  readonly cells: { readonly position: number; readonly content: number; readonly holders: Set<number> }[] = [];
  readonly capacity: number;
  numMoves = 0;

  constructor(capacity: number) {
    this.capacity = capacity;
  }

  add(position: number, content: number, sequence: number): void {
    assert(this.cells.length < this.capacity, 'no free cell');
    this.cells.push({ position, content, holders: new Set([sequence]) });
  }

  copySequence(from: number, to: number, end: number, start = 0): void {
    this.removeSequence(to, start, end);
    for (const { position, holders } of this.cells)
      if (holders.has(from) && position >= start && position < end) holders.add(to);
  }

  removeSequence(sequence: number, from: number, end = Infinity): void {
    for (const { position, holders } of this.cells) if (position >= from && position < end) holders.delete(sequence);
    this.cells.splice(0, Infinity, ...this.cells.filter(({ holders }) => holders.size > 0));
  }

  saveSequence(sequence: number): Uint8Array {
    this.numMoves++;
    return new TextEncoder().encode(JSON.stringify(this.contentOf(sequence)));
  }

  restoreSequence(sequence: number, state: Uint8Array): void {
    this.removeSequence(sequence, 0);
    for (const [position, content] of JSON.parse(new TextDecoder().decode(state)) as [number, number][])
      this.add(position, content, sequence);
  }

  contentOf(sequence: number): [position: number, content: number][] {
    return this.cells
      .filter(({ holders }) => holders.has(sequence))
      .map(({ position, content }): [number, number] => [position, content])
      .toSorted(([a], [b]) => a - b);
  }
}

/** A shelf over a memory, and the expected content of each sequence. */
class Harness {
  readonly memory: FakeMemory;
  readonly shelf: CellShelf;
  readonly expected = new Map<number, number[]>();
  #next = 0;

  constructor(options: { capacity?: number; shelfTokens?: number; idleRows?: number } = {}) {
    const { capacity = 100, shelfTokens = 100, idleRows = 4 } = options;
    this.memory = new FakeMemory(capacity);
    this.shelf = new CellShelf(this.memory, { spareSequence: SPARE, shelfTokens, idleRows });
  }

  run(batch: Readonly<Record<number, number>>): void {
    const rows = Object.entries(batch).flatMap(([sequence, count]) =>
      Array.from({ length: count }, () => Number(sequence)),
    );
    const sequences = new Set(rows);
    this.shelf.prepare(sequences);
    for (const sequence of sequences) this.#check(sequence);
    for (const sequence of rows) {
      const tokens = this.#tokensOf(sequence);
      this.memory.add(tokens.length, this.#next, sequence);
      tokens.push(this.#next++);
    }
    this.shelf.append(rows, sequences);
    this.shelf.checkIntegrity();
  }

  share(from: number, to: number, length: number): void {
    this.shelf.share(from, to, length);
    this.expected.set(to, this.#tokensOf(from).slice(0, length));
    this.#check(to);
    this.shelf.checkIntegrity();
  }

  forget(sequence: number, from = 0): void {
    this.shelf.forget(sequence, from);
    this.#tokensOf(sequence).splice(from);
    this.shelf.checkIntegrity();
  }

  lengthOf(sequence: number): number {
    return this.#tokensOf(sequence).length;
  }

  #tokensOf(sequence: number): number[] {
    let tokens = this.expected.get(sequence);
    if (tokens === undefined) this.expected.set(sequence, (tokens = []));
    return tokens;
  }

  /** Checks that a computed sequence holds all its own cells, and the spare one none. */
  #check(sequence: number): void {
    assert.deepEqual(
      this.memory.contentOf(sequence),
      this.#tokensOf(sequence).map((content, i) => [i, content]),
    );
    assert.deepEqual(this.memory.contentOf(SPARE), []);
    assert.equal(this.shelf.numResident, this.memory.cells.length);
  }
}

test('cells that no row attended to for so many rows leave, and others stay', () => {
  const at = new Harness({ idleRows: 4 });
  at.run({ 0: 10, 1: 6 });
  at.run({ 1: 1 });
  at.run({ 1: 2 });
  expect(at.shelf.numResident).toBe(19); // three rows have scanned sequence 0
  at.run({ 1: 1 });
  at.run({ 1: 1 });
  expect([at.shelf.numResident, at.shelf.numShelved]).toEqual([11, 10]);
  expect(at.shelf.numCells).toBe(21);
});

test('nothing stale stays while many sequences decode: two steps of eight rows after their end, the cells of others are gone', () => {
  const at = new Harness({ capacity: 1000, shelfTokens: 1000, idleRows: 16 });
  const live = Object.fromEntries([1, 2, 3, 4, 5, 6, 7, 8].map((sequence) => [sequence, 1]));
  at.run({ 0: 300 });
  for (let step = 0; step < 3; step++) at.run(live);
  expect(at.shelf.numResident).toBe(24);
  expect(at.shelf.numShelved).toBe(300);
});

test('a prefix that two sequences share is moved once, when neither is computed with', () => {
  const at = new Harness({ idleRows: 1 });
  at.run({ 0: 8 });
  at.share(0, 1, 6);
  at.run({ 1: 1 });
  at.run({ 1: 1 });
  expect(at.shelf.numShelved).toBe(2); // positions 6 and 7 of sequence 0
  at.run({ 2: 1 });
  at.run({ 2: 1 });
  expect([at.shelf.numShelved, at.shelf.numResident]).toEqual([10, 2]);
  at.run({ 0: 1 });
  expect(at.memory.contentOf(1)).toHaveLength(6); // restored for both
});

test('cells on the shelf are shared from: they come back', () => {
  const at = new Harness({ idleRows: 1 });
  at.run({ 0: 8 });
  at.run({ 1: 1 });
  at.run({ 1: 1 });
  expect(at.shelf.numShelved).toBe(8);
  at.share(0, 2, 5);
  at.run({ 2: 1 });
  expect(at.shelf.numShelved).toBe(3);
  at.forget(0);
  expect([at.shelf.numCells, at.shelf.numShelved]).toEqual([8, 0]);
});

test('the shelf takes as much as it may: the rest stays in memory', () => {
  const at = new Harness({ idleRows: 1, shelfTokens: 9 });
  at.run({ 0: 8 });
  at.run({ 1: 8 });
  at.run({ 2: 1 });
  at.run({ 2: 1 });
  expect([at.shelf.numShelved, at.shelf.numResident]).toEqual([8, 10]);
});

test('moving out and back never costs more than looking past: at most one move for so many rows', () => {
  const at = new Harness({ idleRows: 16 });
  at.run({ 0: 5 });
  for (let turn = 0; turn < 20; turn++) at.run({ [turn % 4]: 3 }); // nine rows between two turns
  expect(at.memory.numMoves).toBe(0);
});

test('under any load every sequence computes with its own cells, and all fit', () => {
  const action = fc.oneof(
    fc.record({
      kind: fc.constant('run' as const),
      counts: fc.dictionary(fc.constantFrom('0', '1', '2', '3', '4'), fc.integer({ min: 1, max: 6 }), { minKeys: 1 }),
    }),
    fc.record({
      kind: fc.constant('share' as const),
      from: fc.nat(4),
      to: fc.nat(4),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
    fc.record({
      kind: fc.constant('forget' as const),
      sequence: fc.nat(4),
      part: fc.double({ min: 0, max: 1, noNaN: true }),
    }),
  );
  fc.assert(
    fc.property(fc.array(action, { maxLength: 40 }), fc.nat(8), fc.nat(60), (actions, idleRows, shelfTokens) => {
      const capacity = 60;
      const at = new Harness({ capacity, idleRows, shelfTokens });
      for (const step of actions) {
        if (step.kind === 'run') {
          const count = Object.values(step.counts).reduce((a, b) => a + b, 0);
          if (at.shelf.numCells + count <= capacity) at.run(step.counts);
        } else if (step.kind === 'share') {
          if (step.from !== step.to && at.lengthOf(step.to) === 0)
            at.share(step.from, step.to, Math.floor(step.part * at.lengthOf(step.from)));
        } else at.forget(step.sequence, Math.floor(step.part * at.lengthOf(step.sequence)));
        expect(at.shelf.numShelved).toBeLessThanOrEqual(shelfTokens);
        expect(at.shelf.numResident).toBe(at.memory.cells.length);
      }
      for (const sequence of [0, 1, 2, 3, 4]) at.forget(sequence);
      expect([at.shelf.numCells, at.memory.cells.length]).toEqual([0, 0]);
    }),
    { numRuns: 500 },
  );
});
