import { expect, test } from 'vitest';

import { parseJsonLines, toJsonLines } from './json-lines.ts';

async function all<Item>(items: AsyncIterable<Item>): Promise<Item[]> {
  const read: Item[] = [];
  for await (const item of items) read.push(item);
  return read;
}

async function* inOrder<Item>(items: readonly Item[]): AsyncGenerator<Item> {
  yield* items;
}

test('short lines share a piece, long ones do not wait, and each value comes back', async () => {
  const values = [...Array.from({ length: 10_000 }, (_, i) => ({ i, text: 'é\n' })), 'x'.repeat(300_000), null, 'end'];
  const pieces = await all(toJsonLines(values));
  const sizes = pieces.map(({ length }) => length);
  console.log(
    `${values.length} lines in ${pieces.length} pieces of ${Math.min(...sizes)} to ${Math.max(...sizes)} bytes`,
  );
  expect(pieces.length).toBeLessThan(10);
  expect(Math.max(...sizes)).toBeLessThan(300_000 + 2 * 65_536);
  expect(pieces.every((piece) => piece.at(-1) === 0x0a)).toBe(true);
  expect(await all(parseJsonLines(inOrder(pieces)))).toEqual(values);
});

test('no value is no piece', async () => {
  expect(await all(toJsonLines([]))).toEqual([]);
});
