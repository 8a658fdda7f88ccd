import { expect, test } from 'vitest';

import { packJson, packLines, unpackedBytes, unpackJson, unpackLines } from './packed-json.ts';

test.each([0, 1, 255, 256, 4096, 4097, 70_000])(
  'a text of %i bytes comes back, and its length is known before',
  async (length) => {
    const packed = await packJson('x'.repeat(length));
    expect(unpackedBytes(packed)).toBe(length);
    expect(await unpackJson(packed)).toBe('x'.repeat(length));
  },
);

test('lines come back, packed or as the first version of schema 30 wrote them', async () => {
  const lines = ['{"text":"Ünï 🚂"}', '{"n":2}'];
  expect(await unpackLines(await packLines(lines))).toEqual(lines);
  expect(await unpackLines(Buffer.from(lines.join('\n')))).toEqual(lines);
});
