import { existsSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { Adapters } from './adapters.ts';
import type { ModelRunner } from './model-runner.ts';

const MINUTE_MS = 60_000;
let root: string;
beforeAll(() => void (root = mkdtempSync(join(tmpdir(), 'trainyard-adapters-'))));
afterAll(() => rmSync(root, { recursive: true, force: true }));

/** Adapters of 1 byte each, with a fake clock. */
function open(maxAdapterBytes: number) {
  const clock = { now: 1_000 };
  const closed: string[] = [];
  const runner = {
    loadAdapter: (path: string) => {
      if (!existsSync(path)) throw new Error('there is no such file');
      return { sizeBytes: 1, close: () => closed.push(path.at(-1)!) };
    },
  } as unknown as ModelRunner;
  const adapters = new Adapters(runner, { maxAdapterBytes, now: () => clock.now });
  const names = () => adapters.present.map(({ digest }) => digest).join('');
  return { adapters, clock, closed, names };
}

function reference(digest: string) {
  const path = join(root, digest);
  writeFileSync(path, digest);
  return { digest, path };
}

test('an adapter is loaded ahead once, and reports its load time', () => {
  const { adapters, clock } = open(2);
  expect(adapters.loadAhead(reference('a'))).toBe(true);
  clock.now = 5_000;
  expect(adapters.loadAhead(reference('a'))).toBe(true);
  adapters.pin(reference('a'));
  expect(adapters.present).toEqual([{ digest: 'a', since: 1_000 }]);
});

test('one that is loaded ahead takes no room of adapters that are sampled from', () => {
  const { adapters, clock, names } = open(2);
  for (const digest of ['a', 'b']) adapters.pin(reference(digest));
  for (const digest of ['a', 'b']) adapters.unpin(digest);
  clock.now += MINUTE_MS - 1;
  expect(adapters.loadAhead(reference('c'))).toBe(false);
  expect([names(), adapters.sizeBytes]).toEqual(['ab', 2]);
  clock.now += 1;
  expect(adapters.loadAhead(reference('c'))).toBe(true);
  expect([names(), adapters.sizeBytes]).toEqual(['bc', 2]);
});

test('an adapter without requests is evicted first, for the next one and for requests', () => {
  const { adapters, names } = open(2);
  adapters.pin(reference('a'));
  adapters.unpin('a');
  for (const digest of ['b', 'c', 'd']) expect(adapters.loadAhead(reference(digest))).toBe(true);
  expect(names()).toBe('ad');
  adapters.pin(reference('e'));
  expect(names()).toBe('ae');
});

test('an adapter in use, and one that fails to load, take nothing from others', () => {
  const { adapters, clock, names } = open(1);
  adapters.pin(reference('a'));
  clock.now += 10 * MINUTE_MS;
  expect(adapters.loadAhead(reference('b'))).toBe(false);
  expect(() => adapters.loadAhead({ digest: 'c', path: join(root, 'gone', 'c') })).toThrow(/cannot be loaded/);
  expect(names()).toBe('a');
});

test('one that is retired before anybody has sampled from it goes', () => {
  const { adapters, closed } = open(2);
  adapters.loadAhead(reference('a'));
  adapters.retire('a');
  expect([adapters.count, closed]).toEqual([0, ['a']]);
});
