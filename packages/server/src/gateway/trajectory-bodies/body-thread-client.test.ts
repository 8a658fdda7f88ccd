import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { FolderBlobs } from '@trainyard/store';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { BodyThread } from './body-thread-client.ts';

let folder: string;
let blobs: FolderBlobs;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-bodies-'));
  blobs = await FolderBlobs.open(folder);
});
afterAll(async () => {
  await blobs.close();
  await rm(folder, { recursive: true, force: true });
});

async function* piecesOf(numTrajectories: number): AsyncGenerator<Buffer> {
  const trajectory = JSON.stringify({ reward: 1, messages_and_choices: [{ role: 'user', content: 'x' }] });
  yield Buffer.from('{"split":"val","trajectory_groups":[{"trajectories":[');
  for (let index = 1; index < numTrajectories; index += 1) yield Buffer.from(`${trajectory},`);
  yield Buffer.from(`${trajectory}]}]}`);
}

const POLICY = { entity: 'local', project: 'p', name: 'agent' };

test(
  'a body that does not fit into the heap ends only the thread; a new thread reads the next one',
  { timeout: 60_000 },
  async () => {
    const lines: string[] = [];
    const thread = new BodyThread({ blobs: blobs.location }, (line) => lines.push(line), 48);
    await expect(thread.read(piecesOf(200_000), 'log')).rejects.toMatchObject({
      code: 'request.body_too_large',
      message: expect.stringContaining('48 MB') as string,
    });
    expect(lines.join()).toContain('the body thread is gone');
    const body = await thread.read(piecesOf(3), 'log');
    expect(body.summary).toEqual({ fields: { split: 'val' }, numGroups: 1, numTrajectories: 3, numExceptions: 0 });
    expect(
      await body.store({ key: 'logs/a', policy: POLICY, checkVocabSize: null, metricsSplit: 'val' }, null),
    ).toMatchObject({
      metrics: { 'val/reward': 1 },
    });
    expect(await Array.fromAsync(blobs.getJsonLines('logs/a'))).toHaveLength(1);
    body.discard();
    await thread.close();
  },
);

test('a discarded body makes room for the next, and cannot be stored any more', async () => {
  const thread = new BodyThread({ blobs: blobs.location }, () => undefined);
  const first = await thread.read(piecesOf(2), 'log');
  const second = thread.read(piecesOf(5), 'log');
  first.discard();
  first.discard();
  expect((await second).summary.numTrajectories).toBe(5);
  const storing = first.store({ key: 'logs/b', policy: POLICY, checkVocabSize: null, metricsSplit: null }, null);
  await expect(storing).rejects.toMatchObject({ code: 'server.unavailable' });
  await thread.close();
});

test('the thread does not touch the bytes that the main thread is writing', async () => {
  const staged = await blobs.stageDirectory();
  const thread = new BodyThread({ blobs: blobs.location }, () => undefined);
  (await thread.read(piecesOf(2), 'log')).discard();
  await thread.close();
  await blobs.commitDirectory(staged, 'checkpoints/a');
  expect(await blobs.localDirectory('checkpoints/a')).not.toBeNull();
});
