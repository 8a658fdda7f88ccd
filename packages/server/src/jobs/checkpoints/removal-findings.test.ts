import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { openStore, type SqlStore } from '@trainyard/store';
import { expect, onTestFinished, test } from 'vitest';

import { testDatabase } from '../../testing/test-store.ts';
import { readKeepPolicy } from './keep-policy.ts';
import { removalFindings } from './removal-findings.ts';

const HOUR_MS = 3_600_000;
const LORA = { rank: 8, alpha: 16, targets: ['q'], initSeed: 1 };

async function openService() {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-removals-'));
  const database = await testDatabase(directory);
  let now = Date.now() - 100 * HOUR_MS;
  const store = await openStore(database, { clock: () => now });
  onTestFinished(async () => {
    await store.close();
    await rm(directory, { recursive: true });
  });
  return {
    store,
    find: async (policy: string) =>
      (await Array.fromAsync(removalFindings(database, readKeepPolicy(policy)))).map(({ subject, problem }) =>
        problem === null ? subject : problem,
      ),
    train: async (name: string, numSteps: number) => {
      const modelId = await addModel(store, name);
      for (let step = 1; step <= numSteps; step++) {
        now += HOUR_MS / 10;
        await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/x' });
        const job = (await store.jobs.claim('test', 60_000))!;
        const directoryKey = `checkpoints/${name}-${step}`;
        await store.jobs.succeed(job.id, job.fencingToken, { directoryKey, digest: directoryKey, metrics: {} });
        await store.retention.setSizes(directoryKey, { sizeBytes: 20e6, optimizerBytes: 19e6 });
      }
      return modelId;
    },
  };
}

async function addModel(store: SqlStore, name: string): Promise<string> {
  const { id: entityId } = await store.keys.ensureEntity('acme');
  const made = await store.models.create({ entityId, project: 'demo', name, baseModel: 'base', lora: LORA });
  if (made.kind !== 'created') throw new Error(made.kind);
  return made.model.id;
}

test('checkpoints that the policy would remove are counted per model with their bytes, and stay', async () => {
  const { store, find, train } = await openService();
  expect(await find('last=2')).toEqual(['--keep-checkpoints would remove nothing now']);
  const long = await train('long', 5);
  await train('short', 1);
  const marked = await train('marked', 4);
  await store.retention.mark(marked, [1], true);
  // Removed: of `long` steps 1 to 3, and the state of step 4; of `marked` step 2, and the state of step 3.
  expect(await find('last=2,optimizer=1')).toEqual([
    '--keep-checkpoints would remove 4 checkpoints of 2 models: 194.0 MB, 114.0 MB of it optimizer state',
    '--keep-checkpoints would remove 3 checkpoints of acme/demo/long: 136.0 MB, 76.0 MB of it optimizer state',
    '--keep-checkpoints would remove 1 checkpoint of acme/demo/marked: 58.0 MB, 38.0 MB of it optimizer state',
  ]);
  expect(await find('all')).toEqual([]);
  expect((await store.checkpoints.list({ modelId: long })).items).toHaveLength(6);
  expect((await store.retention.listStates(long)).every(({ isOptimizerDropped }) => !isOptimizerDropped)).toBe(true);
});

test('of many models the largest have a line each, and the others one together', async () => {
  const { find, train } = await openService();
  for (let index = 0; index < 22; index++) await train(`m${index}`, 2);
  const lines = await find('last=1');
  expect(lines).toHaveLength(22);
  expect(lines[0]).toContain('22 checkpoints of 22 models: 858.0 MB');
  expect(lines.at(-1)).toContain('2 checkpoints of 2 more models: 78.0 MB');
});
