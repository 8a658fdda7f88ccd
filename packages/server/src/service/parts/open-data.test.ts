import { copyFileSync, existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { type Blobs, type Model, type SqlStore, sweepOrphans } from '@trainyard/store';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { manifestOf, writeManifest } from '../../seams/data/checkpoint-manifest.ts';
import { type DataConfig, openData } from './open-data.ts';

const SHAPE = {
  isRankStabilised: true,
  rankPattern: { 'layers.1.self_attn.v_proj': 2, q_proj: 4 },
  alphaPattern: { v_proj: 3 },
};
const LORA = { rank: 8, alpha: 16, targets: ['q', 'v'], initSeed: 3, ...SHAPE };
const PEFT = { peft_type: 'LORA', r: 4, lora_alpha: 8, target_modules: ['q_proj', 'v_proj'], bias: 'none' };
const PEFT_SHAPE = { use_rslora: true, rank_pattern: SHAPE.rankPattern, alpha_pattern: SHAPE.alphaPattern };
const REFUSED = { code: 'store.unavailable' };

let folder: string;
let database: string;
let cleanups: (() => unknown)[];
let logged: string[];
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'trainyard-open-data-'));
  database = join(folder, 'trainyard.sqlite');
  [cleanups, logged] = [[], []];
});
afterEach(async () => {
  await close();
  rmSync(folder, { recursive: true });
});

async function open(options: Partial<DataConfig> = {}): Promise<{ store: SqlStore; blobs: Blobs }> {
  const config: DataConfig = {
    dataDirectory: folder,
    database: { kind: 'sqlite', path: database },
    bucket: null,
    outageSeconds: 60,
    choiceRecordHours: 24,
    choiceRecordMegabytes: 1,
    storeResponsesMs: 86_400_000,
    storeResponsesMegabytes: 1,
    adoptsBlobs: false,
    entity: 'local',
    models: [],
    modelId: 'served/base',
    ...options,
  };
  try {
    return await openData(config, cleanups, (line) => logged.push(line));
  } catch (error) {
    await close();
    throw error;
  }
}

async function close(): Promise<void> {
  for (const cleanup of cleanups.splice(0).toReversed()) await cleanup();
}

async function makeModel(store: SqlStore): Promise<Model> {
  const { id: entityId } = await store.keys.ensureEntity('team');
  const made = await store.models.create({ entityId, project: 'p', name: 'agent', baseModel: 'org/base', lora: LORA });
  return made.kind === 'created' || made.kind === 'exists' ? made.model : expect.unreachable();
}

/** Adds a job's data to the blobs and the database. */
async function train({ store, blobs }: { store: SqlStore; blobs: Blobs }, key: string, isOld = false): Promise<void> {
  const { id: modelId } = await makeModel(store);
  const model = (await store.models.get(modelId))!;
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: `groups/${key}` });
  await blobs.putJson(`groups/${key}`, 1);
  const job = (await store.jobs.claim('w', 60_000))!;
  const staged = await blobs.stageDirectory();
  writeFileSync(join(staged, 'digest'), `digest-${key}\n`);
  writeFileSync(join(staged, 'metrics.json'), JSON.stringify({ reward: 0.5, policy_loss: 0.25, loss: null }));
  writeFileSync(join(staged, 'adapter_config.json'), JSON.stringify({ ...PEFT, ...PEFT_SHAPE }));
  if (!isOld) writeManifest(staged, manifestOf(model, job, store.clock.now()));
  await store.files.announce(`checkpoints/${key}`);
  await blobs.commitDirectory(staged, `checkpoints/${key}`);
  const outcome = {
    directoryKey: `checkpoints/${key}`,
    digest: `digest-${key}`,
    metrics: { 'train/policy_loss': 0.25 },
  };
  await store.jobs.succeed(job.id, job.fencingToken, outcome);
}

const content = () => readdirSync(join(folder, 'blobs/directories'), { recursive: true, encoding: 'utf8' }).toSorted();

async function steps(store: SqlStore, project: string, name: string, entity = 'team') {
  const model = (await store.models.find(entity, project, name))!;
  const { items } = await store.checkpoints.list({ modelId: model.id, limit: 10 });
  return items.map(({ step, digest, metrics }) => ({ step, digest, metrics }));
}

test.each([
  ['missing', () => rmSync(database)],
  [
    'empty',
    () => {
      rmSync(database);
      writeFileSync(database, '');
    },
  ],
  ['damaged', () => writeFileSync(database, 'not a database at all, but longer than nothing')],
])('a start with a %s database next to checkpoints changes nothing, and names the remedies', async (how, lose) => {
  await train(await open(), '1');
  await close();
  lose();
  const [before, size] = [content(), how === 'missing' ? 0 : statSync(database).size];
  await expect(open()).rejects.toThrow(/`trainyard restore FOLDER`.*`--adopt-blobs`/);
  expect(content()).toEqual(before);
  expect(existsSync(database) ? statSync(database).size : 0).toBe(size);
  expect(existsSync(database)).toBe(how !== 'missing');

  const adopted = await open({ adoptsBlobs: true });
  expect(await steps(adopted.store, 'p', 'agent')).toEqual([
    { step: 0, digest: null, metrics: {} },
    { step: 1, digest: 'digest-1', metrics: { 'train/policy_loss': 0.25 } },
  ]);
  const { id: modelId } = (await adopted.store.models.find('team', 'p', 'agent'))!;
  const query = { modelId, names: ['train/reward'], axis: 'step', maxPoints: 10 } as const;
  expect((await adopted.store.runs.readSeries(query))[0]?.points).toMatchObject([{ first: 0, mean: 0.5 }]);
  await close();
  await open();
  expect(content()).toEqual(before);
  if (how === 'damaged') expect(readdirSync(folder).join()).toMatch(/trainyard\.sqlite\.damaged-/);
});

test('a new data folder starts, and so does a database without blobs', async () => {
  await open();
  await close();
  rmSync(join(folder, 'blobs'), { recursive: true });
  await open();
  expect(logged).toEqual([]);
});

test('an older database starts, keeps later checkpoints, and adopts them on request', async () => {
  await train(await open(), '1');
  await close();
  copyFileSync(database, join(folder, 'older'));
  for (const key of ['2', '3']) {
    await train(await open(), key);
    await close();
  }
  const before = content();
  copyFileSync(join(folder, 'older'), database);
  const { store, blobs } = await open();
  const rules = { which: 'known', ageMs: 0, binMs: 0, share: 1 } as const;
  const { unknown } = await sweepOrphans(store, blobs, rules, (line) => logged.push(line));
  expect(unknown.map(({ key }) => key).toSorted()).toEqual(['checkpoints/2', 'checkpoints/3', 'groups/2', 'groups/3']);
  await close();
  expect([content(), logged]).toEqual([before, []]);

  const adopted = await open({ adoptsBlobs: true });
  expect((await steps(adopted.store, 'p', 'agent')).map(({ digest }) => digest)).toEqual([
    null,
    'digest-1',
    'digest-2',
    'digest-3',
  ]);
  expect(logged.at(-1)).toBe('Adopted 2 of 2 unknown checkpoints, of 1 models.');
  await train(adopted, '4');
  expect((await steps(adopted.store, 'p', 'agent')).at(-1)).toMatchObject({ step: 4, digest: 'digest-4' });
});

test('checkpoints of releases without a manifest become models of their own', async () => {
  await train(await open(), 'abcdefgh-1', true);
  await close();
  rmSync(database);
  const { store } = await open({ adoptsBlobs: true });
  expect(await steps(store, 'recovered', 'checkpoint-abcdefgh', 'local')).toEqual([
    { step: 0, digest: null, metrics: {} },
    { step: 1, digest: 'digest-abcdefgh-1', metrics: { 'train/policy_loss': 0.25 } },
  ]);
  const model = await store.models.find('local', 'recovered', 'checkpoint-abcdefgh');
  expect(model).toMatchObject({ baseModel: 'served/base', lora: { rank: 4, alpha: 8, targets: ['q', 'v'], ...SHAPE } });
});

test('a database with other blobs than its own is refused, and adopts them on request', async () => {
  await train(await open(), '1');
  await close();
  const other = join(folder, 'other.sqlite');
  await expect(open({ database: { kind: 'sqlite', path: other } })).rejects.toMatchObject(REFUSED);
  expect(existsSync(other)).toBe(false);
  const adopting = { database: { kind: 'sqlite', path: other }, adoptsBlobs: true } as const;
  const { store } = await open(adopting);
  expect(await store.models.find('team', 'p', 'agent')).not.toBeNull();
  await close();
  await expect(open()).rejects.toThrow(/belongs to another service/);
  await open({ ...adopting, adoptsBlobs: false });
});
