import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { expect, onTestFinished, test } from 'vitest';

import { openSqliteStore } from '../../open-sqlite-store.ts';
import { SpaceReserve } from './space-reserve.ts';

function folder(): string {
  const path = mkdtempSync(join(tmpdir(), 'trainyard-reserve-'));
  onTestFinished(() => rmSync(path, { recursive: true }));
  return path;
}

test('each release frees one part until none is left', () => {
  const path = folder();
  const reserve = new SpaceReserve(join(path, 'x.db'));
  expect(reserve.release()).toBe(false);
  reserve.take();
  const numParts = readdirSync(path).length;
  expect(numParts).toBeGreaterThan(1);
  for (let left = numParts; left > 0; left -= 1) {
    expect(reserve.release()).toBe(true);
    expect(readdirSync(path)).toHaveLength(left - 1);
  }
  expect(reserve.release()).toBe(false);
});

test('a store has a reserve on request, readable only by its owner', async () => {
  const path = folder();
  const plain = await openSqliteStore(join(path, 'plain.db'));
  await plain.close();
  const reserved = await openSqliteStore(join(path, 'reserved.db'), { reservesSpace: true });
  await reserved.close();
  expect(readdirSync(path).filter((name) => name.includes('reserve-'))).toEqual(
    expect.arrayContaining(['reserved.db-reserve-0']),
  );
  expect(readdirSync(path).some((name) => name.startsWith('plain.db-reserve'))).toBe(false);
});
