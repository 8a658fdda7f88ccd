import { expect, test } from 'vitest';

import { BaseScores } from './base-scores.ts';

test('each file is scored once, also for concurrent callers; a failed one is tried again', async () => {
  const asked: string[] = [];
  let fails = true;
  const scores = new BaseScores(async (path) => {
    asked.push(path);
    if (fails) throw new Error('no memory');
    return { tokenIds: [asked.length], logprobs: [null] };
  });
  await expect(Promise.all([scores.of('a'), scores.of('a')])).rejects.toThrow('no memory');
  fails = false;
  const [first, second, other] = await Promise.all([scores.of('a'), scores.of('a'), scores.of('b')]);
  expect(first).toBe(second);
  expect(await scores.of('a')).toBe(first);
  expect(other).not.toBe(first);
  expect(asked).toEqual(['a', 'a', 'b']);
});
