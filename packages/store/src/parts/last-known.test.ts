import { expect, test } from 'vitest';

import { StoreError } from '../contract/errors.ts';
import { LastKnown } from './last-known.ts';

const gone = () => Promise.reject(new StoreError('store.unavailable', 'the database is gone'));

function at(lifetimeMs = 60_000) {
  const clock = { now: 0 };
  const database = { isAway: false };
  const isAway = async () => database.isAway;
  const known = new LastKnown<string | null>({ lifetimeMs, isAway, patienceMs: 20, now: () => clock.now });
  return { clock, database, known };
}

test('values are read each time; if that fails, the last value serves for a while, and a read is tried once a second', async () => {
  const { clock, known } = at();
  await expect(known.read('key', gone)).rejects.toThrow('gone');
  expect(await known.read('key', async () => 'one')).toEqual({ value: 'one', isRemembered: false });
  expect(await known.read('key', async () => 'two')).toEqual({ value: 'two', isRemembered: false });
  let numAsked = 0;
  const counting = () => {
    numAsked += 1;
    return gone();
  };
  for (let look = 0; look < 5; look++)
    expect(await known.read('key', counting)).toEqual({ value: 'two', isRemembered: true });
  expect(numAsked).toBe(1);
  await expect(known.read('another', gone)).rejects.toThrow('gone');
  clock.now = 59_000;
  expect(await known.read('key', counting)).toEqual({ value: 'two', isRemembered: true });
  clock.now = 60_000;
  await expect(known.read('key', counting)).rejects.toThrow('gone');
  expect(await known.read('key', async () => 'three')).toEqual({ value: 'three', isRemembered: false });
});

test('a database that hangs costs the patience once, and no second read waits at the same time', async () => {
  const { clock, database, known } = at();
  database.isAway = true;
  await known.read('key', async () => 'one');
  const hanging = Promise.withResolvers<string>();
  let numAsked = 0;
  const hang = () => {
    numAsked += 1;
    return hanging.promise;
  };
  for (let look = 0; look < 3; look++) {
    expect(await known.read('key', hang)).toEqual({ value: 'one', isRemembered: true });
    clock.now += 5_000;
  }
  expect(numAsked).toBe(1);
  hanging.resolve('two');
  await expect.poll(() => known.read('key', async () => 'three')).toEqual({ value: 'three', isRemembered: false });
});

test('a late read is awaited while the database answers, and reads of other values run meanwhile', async () => {
  const { known } = at();
  await known.read('key', async () => 'one');
  await known.read('another', async () => 'one');
  const slow = Promise.withResolvers<string | null>();
  let isOver = false;
  const reading = known.read('key', () => slow.promise).finally(() => (isOver = true));
  await new Promise((resume) => setTimeout(resume, 100));
  expect(isOver).toBe(false);
  expect(await known.read('another', async () => null)).toEqual({ value: null, isRemembered: false });
  slow.resolve(null);
  expect(await reading).toEqual({ value: null, isRemembered: false });
});

test('after an outage in silence values are read again as soon as the database answers the question', async () => {
  const { clock, database, known } = at();
  await known.read('key', async () => 'one');
  database.isAway = true;
  const never = new Promise<string>(() => undefined);
  expect(await known.read('key', () => never)).toEqual({ value: 'one', isRemembered: true });
  database.isAway = false;
  clock.now += 1_000;
  await expect.poll(() => known.read('key', async () => 'two')).toEqual({ value: 'two', isRemembered: false });
});

test('values known to be gone are not cached', async () => {
  const { known } = at();
  await known.read('model', async () => 'one');
  const deleted = () => Promise.reject(new Error('no such model'));
  await expect(known.read('model', deleted)).rejects.toThrow('no such model');
  await expect(known.read('model', gone)).rejects.toThrow('gone');
});

test('missing values, other failures and a clear are not cached, and 0 caches nothing', async () => {
  const { known } = at();
  await known.read('key', async () => 'one');
  await expect(known.read('key', () => Promise.reject(new Error('a bug')))).rejects.toThrow('a bug');
  expect(await known.read('key', async () => null)).toEqual({ value: null, isRemembered: false });
  await expect(known.read('key', gone)).rejects.toThrow('gone');
  await known.read('key', async () => 'one');
  known.clear();
  await expect(known.read('key', gone)).rejects.toThrow('gone');
  const before = known.read('key', async () => {
    known.clear();
    return 'old';
  });
  expect((await before).value).toBe('old');
  await expect(known.read('key', gone)).rejects.toThrow('gone');
  const none = at(0).known;
  await none.read('key', async () => 'one');
  await expect(none.read('key', gone)).rejects.toThrow('gone');
});
