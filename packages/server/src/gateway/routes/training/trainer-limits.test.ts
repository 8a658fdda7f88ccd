import { afterEach, beforeEach, expect, test } from 'vitest';

import type { ErrorBody, ModelObject } from '@trainyard/protocol';
import type { TrainerLimits } from '@trainyard/store';
import { LINEAR_NAMES } from '@trainyard/trainer';

import { TestServer } from '../../../testing/test-server.ts';

/** Limits of SkyRL on JAX. */
const LIMITS: TrainerLimits = { maxRank: 4, alpha: 32, targetSets: [LINEAR_NAMES], entropyGradients: false };

let server: TestServer;
let baseModel: string;
beforeEach(async () => {
  server = await TestServer.start();
  baseModel = server.inference.models[0]!.id;
});
afterEach(() => server.close());

const register = (name: string, more: object = {}) =>
  server.request('POST', '/v1/preview/models', { project: 'demo', name, base_model: baseModel, ...more });

const GROUPS = [
  {
    trajectories: [1, 0].map((reward) => ({
      reward,
      messages_and_choices: [
        { role: 'user', content: 'say it' },
        { role: 'assistant', content: `it ${reward}` },
      ],
    })),
  },
];
const submit = (modelId: string, settings: object = {}) =>
  server.request('POST', '/v1/preview/training-jobs', {
    model_id: modelId,
    trajectory_groups: GROUPS,
    experimental_config: { allow_training_without_logprobs: true, ...settings },
  });

test.each<[string, object, string[], string]>([
  ['a rank', { rank: 16 }, ['body', 'lora', 'rank'], 'at most 4'],
  ['an alpha', { alpha: 16 }, ['body', 'lora', 'alpha'], 'should be 32'],
  ['the scale of rsLoRA', { use_rslora: true }, ['body', 'lora', 'use_rslora'], 'should be absent'],
  ['ranks by module', { rank_pattern: { q_proj: 2 } }, ['body', 'lora', 'rank_pattern'], 'should be absent'],
  ['alphas by module', { alpha_pattern: { q_proj: 2 } }, ['body', 'lora', 'alpha_pattern'], 'should be absent'],
  ['layers', { targets: ['q_proj', 'v_proj'] }, ['body', 'lora', 'targets'], 'q_proj, k_proj'],
])('%s that the trainer does not make is 422 at registration', async (_what, lora, loc, words) => {
  server.training.limits = LIMITS;
  const refused = await register('refused', { lora });
  expect(refused.statusCode).toBe(422);
  const { detail } = refused.json<{ detail: { loc: string[]; msg: string }[] }>();
  expect(detail.map((item) => item.loc)).toEqual([loc]);
  expect(detail[0]!.msg).toContain(words);
  // A sampling-only model may have any shape.
  expect((await register('sampled', { lora, sampling_only: true })).statusCode).toBe(200);
});

test('a registration without settings gets the defaults of the trainer', async () => {
  server.training.limits = LIMITS;
  expect((await register('plain')).json<ModelObject>().lora).toMatchObject({ rank: 4, alpha: 32 });
  server.training.limits = null;
  expect((await register('here')).json<ModelObject>().lora).toMatchObject({ rank: 8, alpha: 16 });
});

test('a job that the trainer cannot do is 422 before it is queued', async () => {
  const { id } = (await register('before')).json<ModelObject>();
  server.training.limits = LIMITS;
  for (const refused of [
    await submit(id),
    await server.request('POST', '/v1/preview/sft-training-jobs', { model_id: id, training_data_url: 'data:,%7B%7D' }),
  ]) {
    expect(refused.statusCode).toBe(422);
    const { message } = refused.json<ErrorBody>().error;
    expect(message).toContain('has `lora.rank` 8');
    expect(message).toContain('only at most 4');
  }
  const fit = (await register('fit')).json<ModelObject>();
  const entropy = await submit(fit.id, { entropy_coef: 0.01 });
  expect(entropy.statusCode).toBe(422);
  expect(entropy.json<ErrorBody>().error.message).toContain('`entropy_coef` must be 0');
  expect((await submit(fit.id)).statusCode).toBe(200);
  expect(server.training.numNotified).toBe(1);
});

test('limits of trainers in other processes count if this one does not train', async () => {
  server.training.baseModels = [];
  const model = { id: baseModel, fileDigest: null, vocabSize: null };
  const member = {
    role: 'trainer',
    url: null,
    version: '1',
    capacity: 1,
    adapterDigests: [],
    isDraining: false,
    machineTrouble: null,
  } as const;
  await server.store.members.register({ ...member, baseModels: [{ ...model, trainerLimits: LIMITS }] }, 60_000);
  expect((await register('refused', { lora: { rank: 16 } })).statusCode).toBe(422);
  expect((await register('fits')).json<ModelObject>().lora).toMatchObject({ rank: 4, alpha: 32 });
});
