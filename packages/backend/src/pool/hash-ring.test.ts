import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { HashRing } from './hash-ring.ts';

interface Member {
  readonly name: string;
  numChoices: number;
}

const membersOf = (count: number): Member[] =>
  Array.from({ length: count }, (_, at) => ({ name: `server ${at}`, numChoices: 0 }));
const all = (): boolean => true;

describe('a ring', () => {
  test('gives equal keys the same member, and moves only those of a member that goes', () => {
    const members = membersOf(5);
    const ring = new HashRing(members);
    const [gone] = members;
    for (let at = 0; at < 500; at++) {
      const home = ring.pick(`key ${at}`, all, 1);
      expect(ring.pick(`key ${at}`, all, 1)).toBe(home);
      const without = ring.pick(`key ${at}`, (member) => member !== gone, 1);
      if (home !== gone) expect(without).toBe(home);
      expect(without).not.toBe(gone);
    }
  });

  test('spreads keys', () => {
    const members = membersOf(4);
    const ring = new HashRing(members);
    const counts = new Map<string, number>();
    for (let at = 0; at < 4000; at++) {
      const { name } = ring.pick(`key ${at}`, all, 1)!;
      counts.set(name, (counts.get(name) ?? 0) + 1);
    }
    for (const count of counts.values()) expect(Math.abs(count - 1000)).toBeLessThan(500);
  });

  test('has no member above a quarter more than the mean, for any keys', () => {
    fc.assert(
      fc.property(
        fc.integer({ min: 1, max: 6 }),
        fc.array(fc.integer({ min: 0, max: 3 }), { maxLength: 80 }),
        (count, keys) => {
          const members = membersOf(count);
          const ring = new HashRing(members);
          for (const [at, key] of keys.entries()) {
            ring.pick(`key ${key}`, all, 1)!.numChoices++;
            const limit = Math.ceil((1.25 * (at + 1)) / count);
            expect(Math.max(...members.map(({ numChoices }) => numChoices))).toBeLessThanOrEqual(limit);
          }
        },
      ),
    );
  });

  test('takes the least loaded member for a request that exceeds the mean on any', () => {
    const members = membersOf(3);
    members[0]!.numChoices = 2;
    members[1]!.numChoices = 1;
    expect(new HashRing(members).pick('any', (member) => member !== members[2], 64)).toBe(members[1]);
  });

  test('has none if none is open', () => {
    expect(new HashRing(membersOf(2)).pick('any', () => false, 1)).toBeNull();
    expect(new HashRing<Member>([]).pick('any', all, 1)).toBeNull();
  });
});
