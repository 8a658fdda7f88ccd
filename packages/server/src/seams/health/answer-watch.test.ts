import { expect, test } from 'vitest';

import { AnswerWatch } from './answer-watch.ts';

const QUICK = { name: 'bucket', freshMs: 0, timeoutMs: 30 };

test('a check that answers is well; one that refuses or hangs is away within the time limit, until it answers again', async () => {
  let answer = () => Promise.resolve();
  const watch = new AnswerWatch({ ...QUICK, ask: () => answer() });
  expect(await watch.problem()).toBeNull();
  answer = () => Promise.reject(new Error('http://10.0.0.7 refused'));
  expect(await watch.problem()).toBe('the bucket has not answered for 0 s');
  answer = () => Promise.resolve();
  expect(await watch.problem()).toBeNull();

  const hanging = Promise.withResolvers<void>();
  answer = () => hanging.promise;
  const startedAt = performance.now();
  expect(await watch.problem()).toBe('the bucket has not answered for 0 s');
  expect(performance.now() - startedAt).toBeGreaterThanOrEqual(28);
  hanging.resolve();
  answer = () => Promise.resolve();
  await expect.poll(() => watch.problem()).toBeNull();
});

test('an answer counts for a while, and a question that hangs is not asked again', async () => {
  let numAsked = 0;
  const watch = new AnswerWatch({ ...QUICK, freshMs: 60_000, ask: async () => void (numAsked += 1) });
  for (let look = 0; look < 3; look++) expect(await watch.problem()).toBeNull();
  expect(numAsked).toBe(1);
  let numHanging = 0;
  const silent = new AnswerWatch({
    ...QUICK,
    ask: () => {
      numHanging += 1;
      return new Promise<void>(() => {});
    },
  });
  for (let look = 0; look < 3; look++) expect(await silent.problem()).not.toBeNull();
  expect(numHanging).toBe(1);
});
