import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest';
import type { ErrorBody, ListPage, ModelDetailsObject, TrainingJobObject } from '@trainyard/protocol';
import { StoreError } from '@trainyard/store';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

let numModels = 0;
async function newModel(): Promise<string> {
  return server.makeModel(`controlled-${numModels++}`);
}

async function submit(modelId: string, config: object | null = null): Promise<TrainingJobObject> {
  const body = { model_id: modelId, trajectory_groups: [], experimental_config: config };
  return (await server.request('POST', '/v1/preview/training-jobs', body)).json<TrainingJobObject>();
}

const act = (jobId: string, action: string, headers: Record<string, string> = {}) =>
  server.request('POST', `/v1/preview/training-jobs/${jobId}/${action}`, undefined, headers);
const get = async (jobId: string) =>
  (await server.request('GET', `/v1/preview/training-jobs/${jobId}`)).json<TrainingJobObject>();

describe('a training job', () => {
  test('shows its state, its complete settings, the ignored fields, and the outcome of its groups', async () => {
    const modelId = await newModel();
    const made = await submit(modelId, { ppo: true, plot_tensors: true, newer: 1, kl_penalty_coef: 0.5 });
    expect(made).toEqual(await get(made.id));
    expect(made).toMatchObject({
      model_id: modelId,
      kind: 'rl',
      status: 'queued',
      is_paused: false,
      started_at: null,
      finished_at: null,
      data_removed_at: null,
      start_step: null,
      error_message: null,
      changed_config_keys: ['kl_penalty_coef', 'loss_fn'],
      training_data: null,
      ignored_config_keys: ['plot_tensors', 'newer'],
      num_gradient_steps_done: 0,
      counts: null,
      group_outcomes: null,
      warnings: [{ code: 'ignored_settings', value: 2 }],
    });
    expect(made.config).toMatchObject({
      loss_fn: 'ppo',
      epsilon: 0.2,
      epsilon_high: 0.2,
      kl_penalty_coef: 0.5,
      kl_penalty_reference_step: null,
      packed_sequence_length: null,
      gradient_steps: null,
      kimi_k2_tau: 0,
      adam_beta2: 0.99,
      max_sequence_length: 512,
      learning_rate_schedule: 'constant',
    });
    const held = await server.store.jobs.claim('test', 60_000);
    expect(held?.id).toBe(made.id);
    const token = held?.fencingToken ?? 0;
    const started = {
      num_sequences: 2,
      packed_sequence_length: 512,
      dropped_groups: { equal_rewards: 1 },
      group_outcomes: ['equal_rewards'],
    };
    // A job that waited for its trainer has a warning before it starts.
    const away = { code: 'trainer_unreachable', message: 'm', value: 1, suggestion: 's' };
    await server.store.jobs.appendEvent(made.id, token, { type: 'warning', data: away });
    expect(await get(made.id)).toMatchObject({ counts: null, warnings: [{ code: 'ignored_settings' }, away] });
    await server.store.jobs.appendEvent(made.id, token, { type: 'training_started', data: started });
    await server.store.jobs.appendEvent(made.id, token, { type: 'gradient_step', data: {} });
    const warning = { code: 'entropy_low', message: 'm', value: 0.001, suggestion: 's' };
    await server.store.jobs.appendEvent(made.id, token, { type: 'warning', data: warning });
    expect(await get(made.id)).toMatchObject({
      warnings: [{ code: 'ignored_settings' }, away, warning],
      status: 'running',
      start_step: 0,
      num_gradient_steps_done: 1,
      counts: { num_sequences: 2, packed_sequence_length: 512, dropped_groups: { equal_rewards: 1 } },
      config: { packed_sequence_length: 512, gradient_steps: 2, kl_penalty_reference_step: 0 },
      group_outcomes: ['equal_rewards'],
    });
    await server.store.jobs.fail(made.id, token, 'no luck');
    const ended = await get(made.id);
    expect(ended).toMatchObject({ status: 'failed', error_message: 'no luck' });
    expect(ended.finished_at).toBeGreaterThanOrEqual(ended.started_at ?? Infinity);
  });

  test('is listed with the others of its model, oldest first', async () => {
    const modelId = await newModel();
    const jobs = [await submit(modelId), await submit(modelId), await submit(modelId)];
    const path = `/v1/preview/models/${modelId}/training-jobs`;
    const page = (await server.request('GET', `${path}?limit=2`)).json<ListPage<TrainingJobObject>>();
    expect([page.data, page.has_more]).toEqual([jobs.slice(0, 2), true]);
    const rest = (await server.request('GET', `${path}?after=${page.last_id}`)).json<ListPage<TrainingJobObject>>();
    expect([rest.data, rest.has_more]).toEqual([jobs.slice(2), false]);
    for (const job of jobs) await act(job.id, 'cancel');
  });

  test('can be paused and resumed repeatedly, and its worker is asked to release it', async () => {
    const { id } = await submit(await newModel());
    for (let i = 0; i < 2; i++) {
      expect((await act(id, 'pause')).json()).toMatchObject({ status: 'queued', is_paused: true });
      expect(server.training.stopped).toContain(id);
    }
    expect(await server.store.jobs.claim('test', 1000)).toBeNull();
    const { numNotified } = server.training;
    for (let i = 0; i < 2; i++)
      expect((await act(id, 'resume')).json()).toMatchObject({ status: 'queued', is_paused: false });
    expect(server.training.numNotified).toBe(numNotified + 2);
    await act(id, 'cancel');
  });

  test('reports its reason for waiting: no trainer with its base model, earlier jobs, or a pause', async () => {
    server.training.baseModels = [];
    onTestFinished(() => void (server.training.baseModels = null));
    const made = await submit(await newModel());
    const waits = async () => (await get(made.id)).waiting_for?.code ?? null;
    expect(made.waiting_for).toEqual({
      code: 'base_model',
      message: 'No running trainer has base model tiny/base. The job starts when one does (--model).',
    });
    expect(await waits()).toBe('base_model');
    const trainer = (id: string, isDraining = false) => ({
      role: 'trainer' as const,
      url: null,
      version: '1',
      baseModels: [{ id, fileDigest: null, vocabSize: null }],
      capacity: 1,
      adapterDigests: [],
      isDraining,
      machineTrouble: null,
    });
    const { store } = server;
    await store.members.register(trainer('another/base'), 60_000);
    expect(await waits()).toBe('base_model');
    await store.members.register({ ...trainer('tiny/base'), role: 'engine' }, 60_000);
    expect(await waits()).toBe('base_model');
    await store.members.register(trainer('tiny/base'), 60_000);
    expect(await waits()).toBe('turn');
    await store.members.register(trainer('tiny/base', true), 60_000);
    expect(await waits()).toBe('base_model');
    server.training.baseModels = ['tiny/base'];
    expect(await waits()).toBe('turn');
    await act(made.id, 'pause');
    expect(await waits()).toBe('resume');
    await act(made.id, 'resume');
    const held = await store.jobs.claim('test', 60_000, ['rl'], ['tiny/base']);
    expect(await waits()).toBe(held?.id === made.id ? null : 'turn');
    await act(made.id, 'cancel');
    expect(await waits()).toBeNull();
    await store.members.remove('trainer');
    await store.members.remove('engine');
  });

  test('ends when it is cancelled, with one event; a second cancellation changes nothing', async () => {
    const { id } = await submit(await newModel());
    const held = await server.store.jobs.claim('test', 60_000);
    expect(held?.id).toBe(id);
    const first = await act(id, 'cancel');
    expect(first.json()).toMatchObject({ status: 'cancelled', error_message: expect.stringContaining('cancelled') });
    expect(server.training.stopped).toContain(id);
    expect((await act(id, 'cancel')).body).toBe(first.body);
    const { items } = (await server.store.jobs.listEvents({ jobId: id })) ?? { items: [] };
    expect(items.map(({ type, data }) => [type, data])).toEqual([
      ['training_failed', { error_message: 'the job was cancelled by a client (trainer.cancelled)' }],
    ]);
    for (const action of ['pause', 'resume']) {
      const refused = await act(id, action);
      const { code, message } = refused.json<ErrorBody>().error;
      expect([refused.statusCode, code]).toEqual([409, 'request.job_ended']);
      expect(message).toBe(`The training job was cancelled and can no longer be ${action}d`);
    }
  });

  test('that succeeded can be neither cancelled, paused nor resumed', async () => {
    const { id } = await submit(await newModel());
    const held = await server.store.jobs.claim('test', 60_000);
    await server.store.jobs.succeed(id, held?.fencingToken ?? 0, {
      directoryKey: null,
      digest: null,
      metrics: {},
    });
    for (const action of ['cancel', 'pause', 'resume']) {
      const refused = await act(id, action);
      expect([refused.statusCode, refused.json<ErrorBody>().error]).toEqual([
        409,
        expect.objectContaining({ code: 'request.job_ended', message: expect.stringContaining('has succeeded') }),
      ]);
    }
  });

  test('reports when its training data were removed; its state, counts and events stay', async () => {
    const { id } = await submit(await newModel());
    const ended = (await act(id, 'cancel')).json<TrainingJobObject>();
    const events = await server.store.jobs.listEvents({ jobId: id });
    expect(ended.data_removed_at).toBeNull();
    const { blobKeys } = await server.store.trajectories.expire(Date.now() + 1000, 1000);
    expect(blobKeys).toContain((await server.store.jobs.get(id))?.dataKey);
    expect(await get(id)).toEqual({ ...ended, data_removed_at: expect.any(Number) });
    expect(await server.store.jobs.listEvents({ jobId: id })).toEqual(events);
  });

  test('of another entity looks like an unknown one', async () => {
    const { id } = await submit(await newModel());
    const rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
    for (const action of ['cancel', 'pause', 'resume']) {
      const [theirs, unknown] = [await act(id, action, rival), await act('unknown', action, rival)];
      expect([theirs.statusCode, theirs.body.replaceAll(id, 'unknown')]).toEqual([404, unknown.body]);
    }
    const sampler = { authorization: `Bearer ${await server.makeKey('acme', ['inference'])}` };
    expect((await act(id, 'cancel', sampler)).statusCode).toBe(403);
    expect((await get(id)).status).toBe('queued');
    await act(id, 'cancel');
  });

  test('obeys a repeated Idempotency-Key once', async () => {
    const { id } = await submit(await newModel());
    const headers = { 'idempotency-key': 'pause-once' };
    const first = await act(id, 'pause', headers);
    await act(id, 'resume');
    expect((await act(id, 'pause', headers)).body).toBe(first.body);
    expect((await get(id)).is_paused).toBe(false);
    await act(id, 'cancel');
  });

  test.each(['pause', 'resume', 'cancel'])(
    'keeps the answer to %s with its effect through later failures',
    async (action) => {
      const { id } = await submit(await newModel());
      if (action === 'resume') await act(id, 'pause');
      const headers = { 'idempotency-key': `${action}-lost` };
      const lost = new StoreError('store.unavailable', 'the connection was lost');
      const completing = vi.spyOn(server.store.idempotency, 'complete').mockRejectedValueOnce(lost);
      expect((await act(id, action, headers)).statusCode).toBe(503);
      completing.mockRestore();
      const done = await get(id);
      const again = await act(id, action, headers);
      expect([again.statusCode, again.headers['idempotent-replayed'], again.json()]).toEqual([200, 'true', done]);
      await act(id, 'cancel');
    },
  );
});

describe('the reference step of a job', () => {
  const refer = async (modelId: string, step: number) =>
    server.request('POST', '/v1/preview/training-jobs', {
      model_id: modelId,
      trajectory_groups: [],
      experimental_config: { kl_penalty_coef: 0.1, kl_penalty_reference_step: step },
    });

  test('exists, or can when the jobs before it have ended', async () => {
    const modelId = await newModel();
    await server.addCheckpoint(modelId, '1');
    const kept = (await server.store.checkpoints.get(modelId, 1))?.directoryKey;
    for (const step of [0, 1]) expect((await refer(modelId, step)).statusCode).toBe(200);
    // Two jobs wait, so the next one starts at step 3 at most.
    const refused = await refer(modelId, 4);
    expect([refused.statusCode, refused.json<ErrorBody>().error.message]).toEqual([
      422,
      expect.stringContaining('below 4 when the job starts, got 4'),
    ]);
    expect((await refer(modelId, 3)).statusCode).toBe(200);
    await server.store.checkpoints.delete(modelId, [1]);
    expect((await refer(modelId, 1)).statusCode).toBe(422);
    // The job that named it before still waits.
    expect((await server.store.files.listReferenced()).directoryKeys).toContain(kept);
    await server.request('DELETE', `/v1/preview/models/${modelId}`);
  });

  const submit = async (modelId: string, config: object) =>
    server.request('POST', '/v1/preview/training-jobs', {
      model_id: modelId,
      trajectory_groups: [],
      experimental_config: config,
    });
  const refusal = async (modelId: string, config: object) => {
    const { statusCode, body } = await submit(modelId, config);
    return statusCode === 422 ? (JSON.parse(body) as ErrorBody).error.message : statusCode;
  };
  /** A model that started from another one's step 1; its step 0 has files. */
  async function pupilOf(teacherId: string, name: string): Promise<string> {
    const { name: teacher } = (await server.store.models.get(teacherId))!;
    const lora = { init_from: `${teacher}:step1` };
    const body = { project: 'demo', name, base_model: 'tiny/base', lora };
    return (await server.request('POST', '/v1/preview/models', body)).json<{ id: string }>().id;
  }

  test('that nothing names is step 0: the job holds it, and is refused once it was deleted', async () => {
    const teacher = await newModel();
    await server.addCheckpoint(teacher, '7');
    const pupil = await pupilOf(teacher, 'held-reference');
    await server.request('DELETE', `/v1/preview/models/${teacher}`);
    const kept = (await server.store.checkpoints.get(pupil, 0))!.directoryKey!;
    await server.addCheckpoint(pupil, '8');
    expect((await submit(pupil, { kl_penalty_coef: 0.1 })).statusCode).toBe(200);
    await server.store.checkpoints.delete(pupil, [0]);
    expect((await server.store.files.listReferenced()).directoryKeys).toContain(kept);
    expect(await refusal(pupil, { kl_penalty_coef: 0.1 })).toContain('step 0 was deleted');
    expect(await refusal(pupil, {})).toBe(200);
    await server.request('DELETE', `/v1/preview/models/${pupil}`);
  });

  test('of a lag that leads back to step 0 is held and checked too', async () => {
    const teacher = await newModel();
    await server.addCheckpoint(teacher, '7');
    const pupil = await pupilOf(teacher, 'held-lag');
    await server.addCheckpoint(pupil, '8');
    expect((await submit(pupil, { kl_penalty_step_lag: 9 })).statusCode).toBe(200);
    const kept = (await server.store.checkpoints.get(pupil, 0))!.directoryKey!;
    await server.request('DELETE', `/v1/preview/models/${teacher}`);
    await server.store.checkpoints.delete(pupil, [0]);
    expect((await server.store.files.listReferenced()).directoryKeys).toContain(kept);
    expect(await refusal(pupil, { kl_penalty_step_lag: 9 })).toContain('step 0 was deleted');
    await server.request('DELETE', `/v1/preview/models/${pupil}`);
  });

  test('of a model that began at the base model is there, also when its step 0 was deleted', async () => {
    const modelId = await newModel();
    await server.addCheckpoint(modelId, '1');
    await server.store.checkpoints.delete(modelId, [0]);
    expect(await refusal(modelId, { kl_penalty_coef: 0.1 })).toBe(200);
    await server.request('DELETE', `/v1/preview/models/${modelId}`);
  });
});

describe('a training job', () => {
  test('that was cancelled is tried again with the same settings, once per idempotency key', async () => {
    const modelId = await newModel();
    const made = await submit(modelId, { ppo: true });
    const early = await act(made.id, 'retry');
    expect([early.statusCode, early.json<ErrorBody>().error.message]).toEqual([
      400,
      `The training job ${made.id} has not ended: wait for its end, or resume it if it is paused`,
    ]);
    await act(made.id, 'cancel');
    const details = (await server.request('GET', `/v1/preview/models/${modelId}`)).json<ModelDetailsObject>();
    expect(details.last_job).toMatchObject({ id: made.id, status: 'cancelled' });
    const key = { 'idempotency-key': 'again' };
    const again = (await act(made.id, 'retry', key)).json<TrainingJobObject>();
    expect(again).toMatchObject({ status: 'queued', model_id: modelId, config: made.config, kind: 'rl' });
    expect(again.id).not.toBe(made.id);
    expect((await act(made.id, 'retry', key)).json<TrainingJobObject>().id).toBe(again.id);
    expect(await get(again.id)).toEqual(again);
    expect((await act('unknown', 'retry')).statusCode).toBe(404);
    await act(again.id, 'cancel');
  });
});
