import { StoreError } from '@trainyard/store';
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type {
  ErrorBody,
  ListPage,
  ModelList,
  ModelObject,
  TrainingEventObject,
  TrainingJobObject,
} from '@trainyard/protocol';

import { TestServer } from '../../../testing/test-server.ts';
import type { JobConfig } from '../../../training-data/wire/training-config.ts';

let server: TestServer;
let rival: string;
beforeAll(async () => {
  server = await TestServer.start();
  rival = await server.makeKey('rival', ['inference', 'training']);
});
afterAll(() => server.close());

const asRival = () => ({ authorization: `Bearer ${rival}` });

/** A trajectory as the ART client sends it: a question, and a reply of two tokens. */
function trajectory(reward: number, entry: Record<string, unknown> = {}, tokenIds: number[] | null = null) {
  return {
    messages_and_choices: [
      { role: 'user', content: 'hello' },
      {
        finish_reason: 'stop',
        index: 0,
        token_ids: tokenIds,
        logprobs: {
          content: [
            { token: 'token_id:5', bytes: null, logprob: -0.5, top_logprobs: [] },
            { token: 'token_id:6', bytes: null, logprob: -0.6, top_logprobs: [], ...entry },
          ],
          refusal: null,
        },
        message: { role: 'assistant', content: 'hi', refusal: null, tool_calls: null },
      },
    ],
    tools: null,
    additional_histories: [],
    reward,
    initial_policy_version: null,
    final_policy_version: null,
    metrics: { turns: 2, won: reward > 0 },
    metadata: { scenario_id: 'a' },
    logs: [],
  };
}

const GROUP = {
  trajectories: [trajectory(1), trajectory(0)],
  exceptions: [{ type: 'E', message: 'm', traceback: 't' }],
  metadata: {},
  metrics: { difficulty: 3 },
  logs: [],
};

describe('models', () => {
  const body = { entity: null, project: 'demo', name: 'one', base_model: 'tiny/base', return_existing: true };

  test('registering is idempotent, and the entity is never null', async () => {
    const first = (await server.request('POST', '/v1/preview/models', body)).json<ModelObject>();
    expect(first).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      entity: 'acme',
      project: 'demo',
      name: 'one',
      base_model: 'tiny/base',
      run_id: first.id,
      lora: {
        rank: 8,
        alpha: 16,
        targets: ['q_proj', 'k_proj', 'v_proj', 'o_proj', 'gate_proj', 'up_proj', 'down_proj'],
        use_rslora: false,
        rank_pattern: {},
        alpha_pattern: {},
        dropout: 0,
        init_seed: 0,
        init_from: null,
      },
    });
    expect((await server.request('POST', '/v1/preview/models', { ...body, entity: 'acme' })).json()).toEqual(first);
  });

  test('without return_existing a second one is 409', async () => {
    for (const mayExist of [false, undefined]) {
      const response = await server.request('POST', '/v1/preview/models', { ...body, return_existing: mayExist });
      expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([409, 'request.model_exists']);
    }
  });

  test('an unknown base model is 404 and lists the known ones', async () => {
    const response = await server.request('POST', '/v1/preview/models', { ...body, base_model: 'huge/model' });
    expect(response.statusCode).toBe(404);
    expect(response.json<ErrorBody>().detail).toContain('served: tiny/base');
  });

  test.each([
    { name: 'a/b' },
    { name: 'a:b' },
    { name: '' },
    { name: 'a\u0007' },
    { name: '\ud800' },
    { name: 'a\udbffb' },
    { project: 'a@b' },
    { project: '\udc00' },
    { base_model: undefined },
    { name: 5 },
    { return_existing: 'perhaps' },
  ])('%j is 422', async (fields) => {
    const response = await server.request('POST', '/v1/preview/models', { ...body, ...fields });
    expect(response.statusCode).toBe(422);
    expect(response.json<ErrorBody>().error.param).toBe(Object.keys(fields)[0]);
  });

  test('names may have characters of two halves', async () => {
    const response = await server.request('POST', '/v1/preview/models', { ...body, name: '🚂' });
    expect(response.statusCode).toBe(200);
    expect(response.json<{ name: string }>().name).toBe('🚂');
  });

  test('another entity’s name is refused, and its models look like unknown ones', async () => {
    expect((await server.request('POST', '/v1/preview/models', { ...body, entity: 'rival' })).statusCode).toBe(404);
    const id = await server.makeModel('private');
    for (const [method, path, sent] of [
      ['DELETE', `/v1/preview/models/${id}`, undefined],
      ['GET', `/v1/preview/models/${id}/checkpoints`, undefined],
      ['DELETE', `/v1/preview/models/${id}/checkpoints`, { steps: [0] }],
      ['POST', `/v1/preview/models/${id}/log`, { split: 'val', trajectory_groups: [GROUP] }],
      ['POST', '/v1/preview/training-jobs', { model_id: id, trajectory_groups: [] }],
    ] as const) {
      const theirs = await server.request(method, path, sent, asRival());
      const missing = crypto.randomUUID();
      const unknown = await server.request(
        method,
        path.replace(id, missing),
        sent && JSON.parse(JSON.stringify(sent).replace(id, missing)),
        asRival(),
      );
      expect(theirs.statusCode).toBe(404);
      expect(theirs.body.replaceAll(id, missing)).toBe(unknown.body);
    }
  });

  test('deleting removes the model and its files and frees the name', async () => {
    const id = await server.makeModel('doomed');
    await server.addCheckpoint(id, 'e');
    const job = await server.store.jobs.enqueue({ modelId: id, kind: 'rl', config: {}, dataKey: 'groups/doomed' });
    const artifact = (await server.store.checkpoints.latest(id))?.directoryKey ?? '';
    expect(await server.blobs.localDirectory(artifact)).not.toBeNull();
    const response = await server.request('DELETE', `/v1/preview/models/${id}`, undefined, {
      'content-type': 'application/json',
    });
    expect(response.json()).toEqual({ model_id: id, deleted_checkpoints: 2, deleted_run: true });
    expect(server.training.stopped).toContain(job?.id);
    expect(await server.blobs.localDirectory(artifact)).toBeNull();
    expect((await server.request('DELETE', `/v1/preview/models/${id}`)).statusCode).toBe(404);
    expect((await server.chat({ model: 'doomed' })).statusCode).toBe(404);
    expect(await server.makeModel('doomed')).not.toBe(id);
  });

  test('an Idempotency-Key makes one model', async () => {
    const headers = { 'idempotency-key': 'make-once' };
    const first = await server.request(
      'POST',
      '/v1/preview/models',
      { ...body, name: 'once', return_existing: false },
      headers,
    );
    const second = await server.request(
      'POST',
      '/v1/preview/models',
      { ...body, name: 'once', return_existing: false },
      headers,
    );
    expect([first.statusCode, second.statusCode, second.body]).toEqual([200, 200, first.body]);
    const elsewhere = await server.request(
      'POST',
      '/v1/preview/training-jobs',
      { model_id: 'x', trajectory_groups: [] },
      headers,
    );
    expect(elsewhere.statusCode).toBe(422);
  });

  test('GET /v1/models lists the base, each model and each of its steps, for its tenant only', async () => {
    const id = await server.makeModel('listed');
    await server.addCheckpoint(id, 'f');
    const { data } = (await server.request('GET', '/v1/models')).json<ModelList>();
    const ids = data.map((card) => card.id);
    expect(ids[0]).toBe('tiny/base');
    expect(ids.filter((name) => name.includes('listed'))).toEqual([
      'acme/demo/listed',
      'acme/demo/listed:step0',
      'acme/demo/listed:step1',
    ]);
    for (const name of ids) expect((await server.chat({ model: name })).statusCode).toBe(200);
    expect(data.at(-1)).toMatchObject({
      object: 'model',
      owned_by: 'trainyard',
      parent: 'tiny/base',
      max_model_len: 512,
    });
    const theirs = (await server.request('GET', '/v1/models', undefined, asRival())).json<ModelList>();
    expect(theirs.data.map((card) => card.id)).toEqual(['tiny/base']);
  });
});

describe('checkpoints', () => {
  test.each(['9007199254740993', '9007199254740992', '9223372036854775808', '1e300'])(
    'of step %s are none of the neighbouring number: it is refused',
    async (step) => {
      const id = await server.makeModel('large');
      const path = `/v1/preview/models/${id}/checkpoints`;
      const refused = await server.request('DELETE', path, `{"steps":[0,${step}]}`);
      expect(refused.statusCode).toBe(422);
      expect(refused.json()).toMatchObject({ detail: [{ type: 'less_than_equal', loc: ['body', 'steps', 1] }] });
      const told = await server.request('DELETE', path, { steps: [Number.MAX_SAFE_INTEGER] });
      expect(told.json()).toEqual({ deleted_count: 0, not_found_steps: [9007199254740991] });
    },
  );

  test('are paged by step in both directions, also past a deleted cursor', async () => {
    const id = await server.makeModel('paged');
    for (const digit of ['1', '2', '3']) await server.addCheckpoint(id, digit);
    const path = `/v1/preview/models/${id}/checkpoints`;
    const first = (await server.request('GET', `${path}?limit=2`)).json<ListPage<{ id: string; step: number }>>();
    expect(first).toMatchObject({
      object: 'list',
      has_more: true,
      data: [{ step: 0, metrics: {} }, { step: 1 }],
      first_id: first.data[0]?.id,
      last_id: first.data[1]?.id,
    });
    const deleted = await server.request('DELETE', path, { steps: [1, 1, 9] });
    expect(deleted.json()).toEqual({ deleted_count: 1, not_found_steps: [9] });
    const second = (await server.request('GET', `${path}?limit=2&after=${first.last_id}`)).json<
      ListPage<{ id: string; step: number }>
    >();
    expect([second.data.map((item) => item.step), second.has_more]).toEqual([[2, 3], false]);
    const latest = (await server.request('GET', `${path}?limit=1&order=desc`)).json<
      ListPage<{ id: string; step: number }>
    >();
    expect([latest.data[0]?.step, latest.has_more]).toEqual([3, true]);
    const end = (await server.request('GET', `${path}?after=${second.last_id}`)).json();
    expect(end).toEqual({ object: 'list', data: [], first_id: null, last_id: null, has_more: false });
  });

  test.each(['limit=0', 'limit=101', 'limit=x', 'order=up', 'after=never-an-id'])(
    'the query %s is 422',
    async (query) => {
      const id = await server.makeModel('paged');
      const response = await server.request('GET', `/v1/preview/models/${id}/checkpoints?${query}`);
      expect(response.statusCode).toBe(422);
      expect(response.json<ErrorBody>().error.code).toBe(
        query.startsWith('after') ? 'store.cursor_unknown' : 'request.invalid',
      );
    },
  );

  test('deleting a checkpoint removes its files', async () => {
    const id = await server.makeModel('trimmed');
    await server.addCheckpoint(id, '1');
    const artifact = (await server.store.checkpoints.latest(id))?.directoryKey ?? '';
    await server.addCheckpoint(id, '2');
    await server.request('DELETE', `/v1/preview/models/${id}/checkpoints`, { steps: [1] });
    expect(await server.blobs.localDirectory(artifact)).toBeNull();
  });

  test('engines are notified of adapters that no model uses any more, and of no others', async () => {
    const id = await server.makeModel('retired');
    for (const digit of ['4', '5', '5', '6']) await server.addCheckpoint(id, digit);
    const before = server.inference.retired.length;
    const heard = () => server.inference.retired.slice(before);
    await server.request('DELETE', `/v1/preview/models/${id}/checkpoints`, { steps: [0, 1, 2, 9] });
    expect(heard()).toEqual(['4'.repeat(64)]);
    await server.request('DELETE', `/v1/preview/models/${id}`);
    expect(heard().toSorted()).toEqual(['4'.repeat(64), '5'.repeat(64), '6'.repeat(64)]);
  });
});

describe('logs', () => {
  test('put the means of a split on the latest checkpoint, and a later log replaces them', async () => {
    const id = await server.makeModel('logged');
    const path = `/v1/preview/models/${id}/log`;
    expect(
      (await server.request('POST', path, { model_id: id, split: 'val', trajectory_groups: [GROUP] })).statusCode,
    ).toBe(200);
    const latest = async () => (await server.store.checkpoints.latest(id))?.metrics;
    expect(await latest()).toEqual({
      'val/reward': 0.5,
      'val/reward_std_dev': 0.5,
      'val/exception_rate': 1 / 3,
      'val/turns': 2,
      'val/won': 0.5,
      'val/group_difficulty': 3,
      'val/reply_tokens': 2,
      'val/cut_off_share': 0,
      'val/solved_share': 0.5,
    });
    await server.request('POST', path, { split: 'val', trajectory_groups: [{ trajectories: [{ reward: 2 }] }] });
    expect(await latest()).toEqual({ 'val/reward': 2, 'val/exception_rate': 0 });
    expect((await server.request('POST', path, { split: 'val', trajectory_groups: [] })).statusCode).toBe(200);
    expect((await server.request('POST', path, { split: '\ud800', trajectory_groups: [] })).statusCode).toBe(422);
    expect(await latest()).toEqual({ 'val/reward': 2, 'val/exception_rate': 0 });
    const ofAnother = { model_id: 'another', split: 'val', trajectory_groups: [GROUP] };
    const refused = await server.request('POST', path, ofAnother);
    expect([refused.statusCode, refused.json<ErrorBody>().error.param]).toEqual([422, 'model_id']);
    const { items } = await server.store.trajectories.listLogs({ modelId: id });
    expect(items).toHaveLength(2);
    expect(await Array.fromAsync(server.blobs.getJsonLines(items[0]?.blobKey ?? ''))).toEqual([GROUP]);
  });
});

describe('training jobs', () => {
  async function submit(fields: Record<string, unknown> = {}, headers: Record<string, string> = {}) {
    const id = await server.makeModel('trained');
    return server.request(
      'POST',
      '/v1/preview/training-jobs',
      { model_id: id, trajectory_groups: [GROUP], experimental_config: null, ...fields },
      headers,
    );
  }

  test('are refused when the queue of their model is full, and leave no data', async () => {
    const before = await server.blobs.listKeys();
    const enqueue = vi
      .spyOn(server.store.jobs, 'enqueue')
      .mockRejectedValueOnce(new StoreError('store.queue_full', 'full'));
    const response = await submit();
    expect(response.statusCode).toBe(429);
    expect(response.json<ErrorBody>().error).toMatchObject({
      code: 'request.too_many',
      message: expect.stringContaining('1000 jobs of this model are queued or running'),
    });
    expect(enqueue.mock.calls[0]?.[0]).toMatchObject({ maxLive: 1000 });
    expect(await server.blobs.listKeys()).toEqual(before);
  });

  test('are queued with their groups, their resolved settings and the ignored fields', async () => {
    const numNotified = server.training.numNotified;
    const response = await submit({
      experimental_config: { learning_rate: 1e-4, epsilon: null, ppo: true, future_option: 1 },
    });
    expect(response.statusCode).toBe(200);
    const job = response.json<TrainingJobObject>();
    expect(job).toMatchObject({ status: 'queued', ignored_config_keys: ['future_option'] });
    expect(server.training.numNotified).toBe(numNotified + 1);
    const stored = await server.store.jobs.get(job.id);
    const config = stored?.config as unknown as JobConfig;
    expect(config.resolved).toMatchObject({ learningRate: 1e-4, lossFunction: 'ppo', epsilon: 0.2, epsilonHigh: 0.2 });
    expect(await Array.fromAsync(server.blobs.getJsonLines(stored?.dataKey ?? ''))).toEqual([GROUP]);
    expect((await server.request('GET', `/v1/preview/training-jobs/${job.id}`)).json()).toMatchObject({
      id: job.id,
      status: 'queued',
      ignored_config_keys: ['future_option'],
    });
  });

  test('take their settings under the name `config` as well, but not under both', async () => {
    const response = await submit({ config: { learning_rate: 2e-4, ppo: true, future_option: 1 } });
    expect(response.statusCode).toBe(200);
    const job = response.json<TrainingJobObject>();
    expect(job.ignored_config_keys).toEqual(['future_option']);
    const config = (await server.store.jobs.get(job.id))?.config as unknown as JobConfig;
    expect(config.resolved).toMatchObject({ learningRate: 2e-4, lossFunction: 'ppo' });
    expect((await submit({ config: null, experimental_config: {} })).statusCode).toBe(200);
  });

  test('without groups, without trajectories and without a reward are legal: missing fields have defaults', async () => {
    for (const trajectory_groups of [[], [{}], [{ trajectories: [{}] }]])
      expect((await submit({ trajectory_groups })).statusCode).toBe(200);
  });

  test('sent twice with one Idempotency-Key are one job', async () => {
    const headers = { 'idempotency-key': 'train-once' };
    const [first, second] = [await submit({}, headers), await submit({}, headers)];
    expect(second.body).toBe(first.body);
    const { items } = await server.store.jobs.list({ modelId: first.json<TrainingJobObject>().model_id, limit: 100 });
    expect(items.filter((job) => job.id === first.json<TrainingJobObject>().id)).toHaveLength(1);
    expect((await submit({ trajectory_groups: [] }, headers)).statusCode).toBe(422);
  });

  const place = 'trajectory_groups.0.trajectories.0';
  const choice = `${place}.messages_and_choices.1`;
  test.each([
    [{ experimental_config: { advantage_balance: 1.5 } }, 'experimental_config.advantage_balance'],
    [{ config: { advantage_balance: 1.5 } }, 'config.advantage_balance'],
    [{ config: { ppo: true, loss_fn: 'cispo' } }, 'config.loss_fn'],
    [{ config: {}, experimental_config: {} }, 'config'],
    [{ experimental_config: { learning_rate: 'fast' } }, 'experimental_config.learning_rate'],
    [{ experimental_config: { importance_sampling_level: 'word' } }, 'experimental_config.importance_sampling_level'],
    [{ experimental_config: { learning_rate: -1 } }, 'experimental_config.learning_rate'],
    [{ experimental_config: { epsilon: -0.1 } }, 'experimental_config.epsilon'],
    [{ experimental_config: { ppo: true, loss_fn: 'cispo' } }, 'experimental_config.loss_fn'],
    [
      { experimental_config: { kl_penalty_step_lag: 1, kl_penalty_reference_step: 0 } },
      'experimental_config.kl_penalty_step_lag',
    ],
    [
      { experimental_config: { kl_penalty_coef: 0.1, kl_penalty_reference_step: 1000 } },
      'experimental_config.kl_penalty_reference_step',
    ],
    [{ experimental_config: { kl_ref_adapter_path: '/tmp/x' } }, 'experimental_config.kl_ref_adapter_path'],
    [{ experimental_config: { packed_sequence_length: 513 } }, 'experimental_config.packed_sequence_length'],
    [{ experimental_config: { learning_rate_schedule: 'cosine' } }, 'experimental_config.learning_rate_decay_steps'],
    [
      { trajectory_groups: [{ trajectories: [{ reward: 1, messages_and_choices: [{}] }] }] },
      `${place}.messages_and_choices.0`,
    ],
    [
      { trajectory_groups: [{ trajectories: [trajectory(1, { token: 'token_id:7' }, [5, 6])] }] },
      `${choice}.logprobs.content.1.token`,
    ],
    [{ experimental_config: { kl_penalty_step_lag: 0 } }, 'experimental_config.kl_penalty_step_lag'],
    [{ experimental_config: 5 }, 'experimental_config'],
    [{ trajectory_groups: {} }, 'trajectory_groups'],
    [{ trajectory_groups: [{ trajectories: [{ reward: 'good' }] }] }, `${place}.reward`],
    [
      { trajectory_groups: [{ trajectories: [trajectory(1, { token: 'token_id:1000' })] }] },
      `${choice}.logprobs.content.1.token`,
    ],
    [
      { trajectory_groups: [{ trajectories: [trajectory(1, { token: 'token_id:-1' })] }] },
      `${choice}.logprobs.content.1.token`,
    ],
    [{ trajectory_groups: [{ trajectories: [trajectory(1, { token: 'hi' })] }] }, `${choice}.logprobs.content.1.token`],
    [
      { trajectory_groups: [{ trajectories: [trajectory(1, { logprob: 0.5 })] }] },
      `${choice}.logprobs.content.1.logprob`,
    ],
    [
      { trajectory_groups: [{ trajectories: [trajectory(1, { logprob: null })] }] },
      `${choice}.logprobs.content.1.logprob`,
    ],
    [
      { trajectory_groups: [{ trajectories: [{ reward: 1, messages_and_choices: [{ content: 'x' }] }] }] },
      `${place}.messages_and_choices.0`,
    ],
    [{ trajectory_groups: [{ trajectories: [{ reward: null }] }] }, `${place}.reward`],
    [
      {
        trajectory_groups: [
          {
            trajectories: [
              { reward: 1, messages_and_choices: [{ role: 'user', content: [{ type: 'image_url', image_url: {} }] }] },
            ],
          },
        ],
      },
      `${place}.messages_and_choices.0.content.0.type`,
    ],
  ])('%# with a fault are 422 naming it, and no job exists', async (fields, param) => {
    const id = await server.makeModel('trained');
    const count = async () => (await server.store.jobs.list({ modelId: id, limit: 1000 })).items.length;
    const numBefore = await count();
    const response = await submit(fields);
    expect(response.statusCode).toBe(422);
    expect(response.json<ErrorBody>().error.param).toBe(param);
    expect(await count()).toBe(numBefore);
  });

  test('nesting that would exhaust a stack is refused', async () => {
    const id = await server.makeModel('trained');
    const deep = '['.repeat(100_000) + ']'.repeat(100_000);
    for (const extra of [
      `"messages_and_choices": [{"role": "user", "x": ${deep}}]`,
      `"odd": ${deep}`,
      `"tools": [{"x": ${deep}}]`,
    ]) {
      const body = `{"model_id": "${id}", "trajectory_groups": [{"trajectories": [{${extra}}]}]}`;
      const response = await server.request('POST', '/v1/preview/training-jobs', body);
      expect(response.statusCode).toBe(422);
    }
  });

  test('a reward beyond the numbers is refused', async () => {
    const id = await server.makeModel('trained');
    const response = await server.request(
      'POST',
      '/v1/preview/training-jobs',
      `{"model_id": "${id}", "trajectory_groups": [{"trajectories": [{"reward": 1e999}]}]}`,
    );
    expect(response.statusCode).toBe(422);
  });

  test.each([
    [{ learning_rate: 1e39 }, 0, 'experimental_config.learning_rate'],
    [{ kl_penalty_coef: 3.5e38 }, 0, 'experimental_config.kl_penalty_coef'],
    [{ num_trajectories_learning_rate_multiplier_power: -1e39 }, 0, 'num_trajectories_learning_rate_multiplier_power'],
    [{}, -1e39, 'trajectory_groups.0.trajectories.0.reward'],
  ])('numbers that single precision does not hold are refused: %j, %s', async (config, reward, place) => {
    const id = await server.makeModel('trained');
    const response = await server.request('POST', '/v1/preview/training-jobs', {
      model_id: id,
      trajectory_groups: [{ trajectories: [{ messages_and_choices: [], reward }] }],
      experimental_config: config,
    });
    const { error } = response.json<ErrorBody>();
    expect([response.statusCode, error.code]).toEqual([422, 'request.invalid']);
    expect(error.param).toContain(place);
    expect(error.message).toMatch(/3\.4028234663852886e\+38.*, got -?(1e\+39|3\.5e\+38)$/);
  });

  test.each(['NaN', 'Infinity', '-Infinity'])(
    'a reward that is the literal %s is invalid JSON, and the error names its position',
    async (word) => {
      const id = await server.makeModel('trained');
      const body = `{"model_id": "${id}", "trajectory_groups": [{"trajectories": [{"reward": ${word}}]}]}`;
      const response = await server.request('POST', '/v1/preview/training-jobs', body);
      const { error } = response.json<ErrorBody>();
      expect([response.statusCode, error.code]).toEqual([422, 'request.invalid_json']);
      expect(error.message).toContain(`at position ${body.indexOf(word)}`);
    },
  );

  test('of a model on another base model are refused, naming both', async () => {
    const { id: entityId } = await server.store.keys.ensureEntity('acme');
    const lora = { rank: 8, alpha: 16, targets: ['q'], initSeed: 0 };
    const made = await server.store.models.create({
      entityId,
      project: 'demo',
      name: 'other',
      baseModel: 'other/base',
      lora,
    });
    const id = made.kind === 'created' ? made.model.id : '';
    const response = await server.request('POST', '/v1/preview/training-jobs', { model_id: id, trajectory_groups: [] });
    expect([response.statusCode, response.json<ErrorBody>().error.code]).toEqual([400, 'request.conflict']);
    expect(response.json<ErrorBody>().error.message).toMatch(/other\/base.*tiny\/base/);
    expect(response.json<ErrorBody>().detail).toMatchObject([{ loc: ['body', 'model_id'] }]);
  });

  test('events are listed oldest first and paged; an unknown job is 404', async () => {
    const modelId = await server.makeModel('watched');
    const { id } = (
      await server.request('POST', '/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [] })
    ).json<TrainingJobObject>();
    for (;;) {
      const job = await server.store.jobs.claim('test', 60_000);
      if (!job) throw new Error('the queue is empty');
      if (job.id === id)
        await server.store.jobs.appendEvent(job.id, job.fencingToken, {
          type: 'training_started',
          data: { num_sequences: 0 },
        });
      await server.store.jobs.succeed(job.id, job.fencingToken, {
        directoryKey: null,
        digest: null,
        metrics: {},
      });
      if (job.id === id) break;
    }
    const path = `/v1/preview/training-jobs/${id}/events`;
    const page = (await server.request('GET', `${path}?limit=1`)).json<ListPage<TrainingEventObject>>();
    expect(page).toMatchObject({ has_more: true, data: [{ type: 'training_started', data: { num_sequences: 0 } }] });
    const rest = (await server.request('GET', `${path}?after=${page.last_id}`)).json<ListPage<TrainingEventObject>>();
    expect([rest.data.map((event) => event.type), rest.has_more]).toEqual([['training_ended'], false]);
    expect((await server.request('GET', path, undefined, asRival())).statusCode).toBe(404);
    expect((await server.request('GET', `/v1/preview/training-jobs/${crypto.randomUUID()}`)).statusCode).toBe(404);
  });
});
