import type { ErrorBody } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let modelId: string;
let admin: string;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('closed');
  admin = await server.makeKey('acme', ['admin']);
});
afterAll(() => server.close());

/** Every route for training or management, with a body that is valid except for one field. */
const BODIES: readonly [string, () => [string, object], string, string][] = [
  [
    'an SFT job with a setting next to `config`',
    () => ['/v1/preview/sft-training-jobs', { model_id: modelId, training_data_url: 'data:,', batch_size: 1 }],
    'batch_size',
    'did you mean config.batch_size?',
  ],
  [
    'an SFT job with an experimental setting next to it',
    () => ['/v1/preview/sft-training-jobs', { model_id: modelId, training_data_url: 'data:,', epochs: 2 }],
    'epochs',
    'did you mean experimental_config.epochs?',
  ],
  [
    'a job with a setting next to its settings',
    () => ['/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [], learning_rate: 1 }],
    'learning_rate',
    'did you mean experimental_config.learning_rate?',
  ],
  [
    'a job with a mistyped name',
    () => ['/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [], experimental_confg: {} }],
    'experimental_confg',
    'did you mean experimental_config?',
  ],
  [
    'a log with settings',
    () => [`/v1/preview/models/${modelId}/log`, { trajectory_groups: [], split: 'val', step: 3 }],
    'step',
    'known here',
  ],
  [
    'a model with a rank outside of `lora`',
    () => ['/v1/preview/models', { project: 'p', name: 'n', base_model: 'tiny/base', rank: 4 }],
    'rank',
    'did you mean lora.rank?',
  ],
  [
    'an export of a field that it does not have',
    () => [`/v1/preview/models/${modelId}/exports`, { format: 'peft', steps: 1 }],
    'steps',
    'did you mean step?',
  ],
  [
    'an upload of an adapter',
    () => ['/v1/preview/adapters', { basemodel: 'tiny/base' }],
    'basemodel',
    'did you mean base_model?',
  ],
  ['a key', () => ['/v1/keys', { name: 'k', scopes: ['inference'], expires: 1 }], 'expires', 'known here'],
];

test.each(BODIES)('%s is refused by its name', async (_what, request, field, hint) => {
  const [path, body] = request();
  const answer = await server.request('POST', path, body, { authorization: `Bearer ${admin}` });
  expect(answer.statusCode, answer.body).toBe(422);
  const { detail, error } = answer.json<ErrorBody>();
  expect(detail).toMatchObject([{ loc: ['body', field], type: 'extra_forbidden' }]);
  expect(error.message).toContain(hint);
});

test('a setting without effect is the first warning of its job, from the submission on', async () => {
  const sent = {
    model_id: modelId,
    trajectory_groups: [],
    experimental_config: { learning_rat: 1, plot_tensors: true },
  };
  const job = (await server.request('POST', '/v1/preview/training-jobs', sent)).json<{
    id: string;
    warnings: object[];
  }>();
  const first = {
    code: 'ignored_settings',
    value: 2,
    message: expect.stringContaining('did you mean learning_rate?') as string,
  };
  expect(job.warnings).toMatchObject([first]);
  const again = await server.request('GET', `/v1/preview/training-jobs/${job.id}`);
  expect(again.json()).toMatchObject({ warnings: [first] });
});
