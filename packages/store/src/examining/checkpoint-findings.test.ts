import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, onTestFinished, test } from 'vitest';

import { openSqliteStore } from '../open-sqlite-store.ts';
import { addModel, train } from '../testing/harness.ts';
import { checkpointFindings } from './checkpoint-findings.ts';

test('checkpoints are counted with their sizes, and nothing is found before the first start', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'trainyard-findings-'));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const path = join(folder, 'trainyard.sqlite');
  const look = async () => await Array.fromAsync(checkpointFindings({ kind: 'sqlite', path }));
  expect(await look()).toEqual([]);
  writeFileSync(path, '');
  expect(await look()).toEqual([]);
  const store = await openSqliteStore(path);
  const { id } = await addModel(store);
  await train(store, id, 'checkpoints/1');
  await train(store, id, 'checkpoints/2');
  await store.retention.setSizes('checkpoints/1', { sizeBytes: 20_440_000, optimizerBytes: 19_500_000 });
  await store.retention.mark(id, [1], true);
  expect(await look()).toEqual([
    {
      name: 'checkpoints',
      subject: '3 checkpoints (1 marked, 1 not measured yet): 20.4 MB and 19.5 MB of optimizer state',
      problem: null,
    },
  ]);
  await store.close();
});
