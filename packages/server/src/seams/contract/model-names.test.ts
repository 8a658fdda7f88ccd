import { afterAll, beforeAll, describe, expect, test } from 'vitest';

import { BaseModels } from './base-models.ts';
import { parseModelName, resolveModelName } from './model-names.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
  const agent = await server.makeModel('agent');
  await server.addCheckpoint(agent, 'a');
  await server.addCheckpoint(agent, 'b');
  await server.makeModel('twice', 'one');
  await server.makeModel('twice', 'two');
});
afterAll(() => server.close());

const SERVED = { id: 'tiny/base', contextLength: 512, vocabSize: 1000 };

const resolve = (requested: string | null, entity = 'acme') =>
  resolveModelName(server.store, { requested, entity, entityId: entity, baseModels: new BaseModels(() => [SERVED]) });

describe('every form of a name', () => {
  test.each([null, '', 'tiny/base'])('%j is the base model', async (name) => {
    expect(await resolve(name)).toEqual({ kind: 'base', name: 'tiny/base', project: null, base: SERVED });
  });

  test.each([
    ['agent', 2],
    ['agent:step1', 1],
    ['agent@step1', 1],
    ['agent@1', 1],
    ['agent:step0', 0],
    ['agent@0', 0],
    ['acme/demo/agent', 2],
    ['acme/demo/agent:step2', 2],
    ['acme/demo/agent@step1', 1],
    ['wandb-artifact:///acme/demo/agent', 2],
    ['wandb-artifact:///acme/demo/agent:step1', 1],
    ['wandb-artifact://acme/demo/agent:step1', 1],
    ['wandb-artifact:///acme/demo/agent@2', 2],
  ])('%s is step %d', async (name, step) => {
    const digest = [null, 'a'.repeat(64), 'b'.repeat(64)][step];
    expect(await resolve(name)).toMatchObject({
      kind: 'checkpoint',
      step,
      name: `acme/demo/agent:step${step}`,
      digest,
    });
  });

  test.each([
    'nobody',
    'agent:step3',
    'agent:step',
    'agent:1',
    'agent:latest',
    'demo/agent',
    'acme/demo/agent/x',
    'acme//agent',
    'wandb-artifact:///agent',
    '/agent',
    'acme/other/agent',
  ])('%s is unknown', async (name) => {
    await expect(resolve(name)).rejects.toMatchObject({ code: 'request.unknown_model', param: 'model' });
  });

  test('best is the kept checkpoint with the highest reward, and unknown before there is one', async () => {
    const id = await server.makeModel('climbing');
    const names = [
      'climbing:best',
      'climbing@best',
      'acme/demo/climbing:best',
      'wandb-artifact:///acme/demo/climbing:best',
    ];
    await expect(resolve(names[0]!)).rejects.toMatchObject({
      code: 'request.unknown_model',
      message: expect.stringContaining('no checkpoint has a reward yet'),
    });
    await server.addCheckpoint(id, 'a');
    const log = (reward: number) =>
      server.store.trajectories.recordLog({
        modelId: id,
        split: 'val',
        blobKey: `logs/${reward}`,
        numGroups: 1,
        numTrajectories: 1,
        numExceptions: 0,
        metrics: { 'val/reward': reward },
      });
    await log(0.5);
    await server.addCheckpoint(id, 'b');
    await log(0.25);
    for (const name of names) expect(await resolve(name)).toMatchObject({ step: 1, name: 'acme/demo/climbing:step1' });
    await server.store.checkpoints.delete(id, [1]);
    expect(await resolve(names[0]!)).toMatchObject({ step: 2 });
  });

  test('half of a surrogate pair is no other character', async () => {
    await server.makeModel('\ufffd');
    expect(await resolve('\ufffd')).toMatchObject({ name: 'acme/demo/\ufffd:step0' });
    for (const half of ['\ud800', 'acme/demo/\udbff'])
      await expect(resolve(half)).rejects.toMatchObject({ code: 'request.unknown_model' });
  });

  test('a name of another tenant is the same 404 as an unused one', async () => {
    for (const name of ['agent', 'acme/demo/agent', 'wandb-artifact:///acme/demo/agent:step1']) {
      await expect(resolve(name, 'rival')).rejects.toMatchObject({
        code: 'request.unknown_model',
        message: `The model \`${name}\` does not exist`,
      });
    }
  });

  test('a bare name of several projects is refused with the choices', async () => {
    await expect(resolve('twice')).rejects.toMatchObject({
      code: 'request.ambiguous_model',
      message: expect.stringMatching(/acme\/one\/twice, acme\/two\/twice/),
    });
    expect(await resolve('acme/two/twice')).toMatchObject({ name: 'acme/two/twice:step0', directoryKey: null });
  });
});

test('a deleted step is unknown, step 0 of the base model too, and the latest is the highest that is left', async () => {
  const modelId = await server.makeModel('pruned');
  await server.addCheckpoint(modelId, 'c');
  await server.addCheckpoint(modelId, 'd');
  await server.store.checkpoints.delete(modelId, [2]);
  expect(await resolve('pruned')).toMatchObject({ step: 1 });
  await expect(resolve('pruned:step2')).rejects.toMatchObject({ code: 'request.unknown_model' });
  expect(await resolve('pruned:step0')).toMatchObject({ step: 0, directoryKey: null });
  await server.store.checkpoints.delete(modelId, [0]);
  await expect(resolve('pruned:step0')).rejects.toMatchObject({ code: 'request.unknown_model' });
  expect(await resolve('pruned')).toMatchObject({ step: 1 });
  await server.store.checkpoints.delete(modelId, [1]);
  await expect(resolve('pruned')).rejects.toMatchObject({ code: 'request.unknown_model' });
});

test('a step that no number can hold is not read as one', () => {
  expect(parseModelName('agent:step99999999999999999999')).toEqual({
    entity: null,
    project: null,
    name: 'agent:step99999999999999999999',
    step: null,
  });
});

test('a model of another base is refused: its adapter fits no other weights', async () => {
  const baseModels = new BaseModels(() => [{ ...SERVED, id: 'other/base' }]);
  const other = resolveModelName(server.store, { requested: 'agent', entity: 'acme', entityId: 'acme', baseModels });
  await expect(other).rejects.toMatchObject({ code: 'request.conflict', param: 'model' });
});
