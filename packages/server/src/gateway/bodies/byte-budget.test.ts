import { expect, test } from 'vitest';

import { ByteBudget, type ByteHold } from './byte-budget.ts';

test('an owner may hold as much as it leaves free, so there is room for another', () => {
  const budget = new ByteBudget(120);
  const blocker = reserved(budget);
  const [first, second, third] = ['a', 'b', 'c'].map((owner) => budget.open(owner)) as [ByteHold, ByteHold, ByteHold];
  expect([first.grow(60), first.grow(1)]).toEqual([true, false]);
  expect([second.grow(30), second.grow(1)]).toEqual([true, false]);
  expect([third.grow(15), third.grow(1)]).toEqual([true, false]);
  for (const hold of [first, second, third, blocker]) hold.giveBack();
  expect(budget.isWhole).toBe(true);
});

test('an owner is charged for the bytes that its other bodies still hold', () => {
  const budget = new ByteBudget(11);
  const blocker = reserved(budget);
  const [first, second, third] = ['a', 'a', 'a'].map((owner) => budget.open(owner)) as [ByteHold, ByteHold, ByteHold];
  expect([first.grow(1), second.grow(4)]).toEqual([true, true]);
  second.giveBack();
  // 1 + 5 would exceed the 5 that it would leave.
  expect([third.grow(5), third.grow(4)]).toEqual([false, true]);
  for (const hold of [first, third, blocker]) hold.giveBack();
  expect(budget.isWhole).toBe(true);
});

test('bodies that wait for each other all come to an end, one after the other', async () => {
  const budget = new ByteBudget(10);
  const holds = Array.from({ length: 5 }, () => budget.open('a'));
  for (const hold of holds) expect(hold.grow(1)).toBe(true);
  const order: number[] = [];
  const bodies = holds.map(async (hold, index) => {
    for (let bytes = 1; bytes < 20; bytes += 1) if (!hold.grow(1)) expect(await hold.wait(1)).toBe(true);
    order.push(index);
    hold.giveBack();
  });
  await Promise.all(bodies);
  expect(new Set(order)).toEqual(new Set([0, 1, 2, 3, 4]));
  expect(budget.isWhole).toBe(true);
});

test('the one that has waited longest is next', async () => {
  const budget = new ByteBudget(10);
  const first = reserved(budget);
  const order: string[] = [];
  const waiting = ['a', 'b'].map((name) => {
    const hold = budget.open(name);
    void hold.wait(11).then(() => order.push(name));
    return hold;
  });
  first.giveBack();
  await Promise.resolve();
  expect(order).toEqual(['a']);
  waiting[0]?.giveBack();
  await Promise.resolve();
  expect(order).toEqual(['a', 'b']);
});

test('a hold given back during its wait gets false, and takes nothing any more', async () => {
  const budget = new ByteBudget(10);
  const blocker = reserved(budget);
  const hold = budget.open('a');
  expect(hold.grow(5)).toBe(true);
  const waited = hold.wait(5);
  hold.giveBack();
  hold.giveBack();
  expect(await waited).toBe(false);
  expect(await hold.wait(1)).toBe(false);
  expect(hold.grow(1)).toBe(false);
  blocker.giveBack();
  expect(budget.isWhole).toBe(true);
});

/** A hold with only the reserve. */
function reserved(budget: ByteBudget): ByteHold {
  const hold = budget.open('reserved');
  expect(hold.grow(1_000_000)).toBe(true);
  return hold;
}
