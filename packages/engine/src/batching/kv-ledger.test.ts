import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { KvLedger } from './kv-ledger.ts';

describe('KvLedger', () => {
  test('shared cells count once and are free after the last holder has left', () => {
    const ledger = new KvLedger(10, 3);
    const first = ledger.openSlot();
    ledger.append(first, 4);
    const second = ledger.openSlot();
    ledger.share(first, second, 3);
    ledger.append(second, 2);
    expect([ledger.usedCells, ledger.freeCells]).toEqual([6, 4]);
    ledger.closeSlot(first);
    expect(ledger.usedCells).toBe(5);
    ledger.markCached(second);
    expect([ledger.liveCells, ledger.cachedCells]).toEqual([0, 5]);
    ledger.closeSlot(second);
    expect(ledger.freeCells).toBe(10);
    ledger.checkIntegrity();
  });

  test('a cell that a running sequence and an entry share is not evictable', () => {
    const ledger = new KvLedger(10, 3);
    const entry = ledger.openSlot();
    ledger.append(entry, 4);
    ledger.markCached(entry);
    expect(ledger.countCachedOnly(entry, 4)).toBe(4);
    const running = ledger.openSlot();
    ledger.share(entry, running, 3);
    expect(ledger.countCachedOnly(entry, 4)).toBe(1);
    expect(ledger.cachedCells).toBe(1);
  });

  test('asking for more than is free is a broken invariant', () => {
    const ledger = new KvLedger(2, 1);
    const slot = ledger.openSlot();
    expect(() => ledger.append(slot, 3)).toThrow('3 cells asked, 2 free');
    expect(() => ledger.openSlot()).toThrow('no free slot');
  });

  test('any operations: the counts equal a recount over sets of cells', () => {
    const operation = fc.record({
      kind: fc.constantFrom('open', 'append', 'share', 'cache', 'close'),
      a: fc.nat(7),
      b: fc.nat(12),
    });
    fc.assert(
      fc.property(fc.array(operation, { maxLength: 60 }), (operations) => {
        const ledger = new KvLedger(40, 8);
        // Reference implementation: a slot is a list of cell objects.
        const twin = new Map<number, { cells: object[]; isLive: boolean }>();
        for (const { kind, a, b } of operations) {
          const open = [...twin.keys()];
          const slot = open[a % Math.max(1, open.length)];
          if (kind === 'open' && ledger.freeSlots > 0) twin.set(ledger.openSlot(), { cells: [], isLive: true });
          else if (slot === undefined) continue;
          else if (kind === 'append' && twin.get(slot)!.isLive && b <= ledger.freeCells) {
            ledger.append(slot, b);
            twin.get(slot)!.cells.push(...Array.from({ length: b }, () => ({})));
          } else if (kind === 'share' && ledger.freeSlots > 0) {
            const length = Math.min(b, twin.get(slot)!.cells.length);
            const target = ledger.openSlot();
            ledger.share(slot, target, length);
            twin.set(target, { cells: twin.get(slot)!.cells.slice(0, length), isLive: true });
          } else if (kind === 'cache' && twin.get(slot)!.isLive) {
            ledger.markCached(slot);
            twin.get(slot)!.isLive = false;
          } else if (kind === 'close') {
            ledger.closeSlot(slot);
            twin.delete(slot);
          }
          ledger.checkIntegrity();
          const all = [...twin.values()];
          expect(ledger.usedCells).toBe(new Set(all.flatMap(({ cells }) => cells)).size);
          expect(ledger.liveCells).toBe(new Set(all.flatMap(({ cells, isLive }) => (isLive ? cells : []))).size);
        }
      }),
      { numRuns: 200, seed: 8 },
    );
  });
});
