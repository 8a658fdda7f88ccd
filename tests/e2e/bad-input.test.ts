import { randomUUID } from 'node:crypto';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { WireChoice } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { eventTypes } from '../support/event-types.ts';
import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

let service: OwnService;
let client: Trainyard;
let base: string;
let modelId: string;

beforeAll(async () => {
  service = await smallService();
  client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
  base = (await client.servedModels.list()).data[0]!.id;
  modelId = (await client.models.register({ project: 'bad', name: 'input', base_model: base })).id;
});

afterAll(async () => {
  await service.close();
});

async function send(method: string, path: string, body?: unknown, headers: Record<string, string> = {}) {
  const response = await fetch(service.url + path, {
    method,
    headers: {
      authorization: `Bearer ${service.apiKey}`,
      ...(body === undefined ? {} : { 'content-type': 'application/json' }),
      ...headers,
    },
    body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
  });
  const text = await response.text();
  return {
    status: response.status,
    body: JSON.parse(text) as { detail: unknown; error: { message: string; code: string; param: string | null } },
  };
}

const messages = [{ role: 'user', content: 'Hello' }];

describe('chat requests', () => {
  it.each([
    ['not JSON', '{"model":', 400, 'request.invalid_json'],
    ['an empty body', '', 400, 'request.invalid'],
    ['messages of the wrong type', { messages: 'hi' }, 400, 'request.invalid'],
    ['a message that is not an object', { messages: ['hi'] }, 400, 'request.invalid'],
    ['a temperature below 0', { messages, temperature: -0.5 }, 400, 'request.invalid'],
    ['n = 0', { messages, n: 0 }, 400, 'request.invalid'],
    ['n = 10^9', { messages, n: 1e9 }, 400, 'request.invalid'],
    ['several greedy choices', { messages, n: 2, temperature: 0 }, 400, 'request.conflict'],
    ['an unknown model', { messages, model: 'x/y/z' }, 404, 'request.unknown_model'],
    ['an unknown step', { messages, model: 'input:step9' }, 404, 'request.unknown_model'],
    ['an invalid constraint', { messages, structured_outputs: { regex: '(' } }, 400, 'engine.invalid_request'],
    ['a removed field', { messages, guided_json: { type: 'object' } }, 400, 'request.unsupported'],
    ['a bias outside the vocabulary', { messages, logit_bias: { 99999999: 1 } }, 400, null],
  ])('%s', async (_name, body, status, code) => {
    const answer = await send('POST', '/chat/completions', body);
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
    if (code !== null) expect(answer.body.error.code).toBe(code);
    if (code?.startsWith('request.invalid'))
      expect(answer.body.detail).toEqual([expect.objectContaining({ loc: expect.any(Array) })]);
    expect(answer.body.detail).toBeDefined();
    expect(answer.body.error.message).not.toBe('');
  });

  it('a prompt longer than the context, with the limit and the value, also when streaming', async () => {
    const content = 'word '.repeat(9_000);
    for (const stream of [false, true]) {
      const answer = await send('POST', '/chat/completions', { messages: [{ role: 'user', content }], stream });
      expect(answer.status).toBe(400);
      expect(answer.body.error.code).toBe('context_length_exceeded');
      expect(answer.body.error.message).toMatch(/^This model's maximum context length is 8192 tokens\. However, /);
      expect(answer.body.error.message).toMatch(/90\d\d/);
    }
  });

  it('no key, a wrong key', async () => {
    expect((await send('GET', '/models', undefined, { authorization: '' })).status).toBe(401);
    expect((await send('GET', '/models', undefined, { authorization: 'Bearer nonsense' })).status).toBe(401);
  });

  it('an unknown path and a wrong method', async () => {
    expect((await send('GET', '/nothing')).status).toBe(404);
    expect((await send('GET', '/chat/completions')).status).toBe(405);
  });
});

describe('training requests', () => {
  const trajectory = { messages_and_choices: [...messages], reward: 1 };

  it.each([
    ['an unknown model', () => ({ model_id: randomUUID(), trajectory_groups: [] }), 404],
    ['an invalid id', () => ({ model_id: '../../etc/passwd', trajectory_groups: [] }), 404],
    ['no groups key', () => ({ model_id: modelId }), 422],
    [
      'a reward of null',
      () => ({ model_id: modelId, trajectory_groups: [{ trajectories: [{ ...trajectory, reward: null }] }] }),
      422,
    ],
    [
      'a reward that is text',
      () => ({ model_id: modelId, trajectory_groups: [{ trajectories: [{ ...trajectory, reward: 'high' }] }] }),
      422,
    ],
    [
      'a reward beyond the range of numbers',
      () =>
        `{"model_id":"${modelId}","trajectory_groups":[{"trajectories":[{"messages_and_choices":[],"reward":1e999}]}]}`,
      422,
    ],
    [
      'a reward of NaN',
      () =>
        `{"model_id":"${modelId}","trajectory_groups":[{"trajectories":[{"messages_and_choices":[],"reward":NaN}]}]}`,
      422,
    ],
    [
      'a negative learning rate',
      () => ({ model_id: modelId, trajectory_groups: [], experimental_config: { learning_rate: -1 } }),
      422,
    ],
    [
      'an unknown importance level',
      () => ({ model_id: modelId, trajectory_groups: [], experimental_config: { importance_sampling_level: 'word' } }),
      422,
    ],
  ])('%s', async (_name, body, status) => {
    const answer = await send('POST', '/preview/training-jobs', body());
    expect(answer.status, JSON.stringify(answer.body)).toBe(status);
  });

  it.each([0, 101, -1, 'ten'])('limit=%s', async (limit) => {
    expect((await send('GET', `/preview/models/${modelId}/checkpoints?limit=${limit}`)).status).toBe(422);
    expect((await send('GET', `/preview/training-jobs/${randomUUID()}/events?limit=${limit}`)).status).toBe(422);
  });

  it('unknown ids', async () => {
    for (const path of [
      `/preview/models/${randomUUID()}/checkpoints`,
      `/preview/training-jobs/${randomUUID()}`,
      `/preview/training-jobs/${randomUUID()}/events`,
    ]) {
      expect((await send('GET', path)).status, path).toBe(404);
    }
    expect((await send('DELETE', `/preview/models/${randomUUID()}`)).status).toBe(404);
  });

  it('token ids outside the vocabulary and impossible log-probabilities name the place', async () => {
    const group = await scoredGroup(client, 'input', { n: 2 });
    const broken = (
      change: (choice: { token_ids: number[]; logprobs: { content: { logprob: number; token: string }[] } }) => void,
    ) => {
      const copy = structuredClone(group);
      change(copy.trajectories[1]!.messages_and_choices![1] as never);
      return { model_id: modelId, trajectory_groups: [copy] };
    };
    const outside = await send(
      'POST',
      '/preview/training-jobs',
      broken((choice) => (choice.token_ids[0] = 49_152)),
    );
    expect(outside.status).toBe(422);
    expect(outside.body.error.param).toMatch(/trajectory_groups\.0\.trajectories\.1/);
    const positive = await send(
      'POST',
      '/preview/training-jobs',
      broken((choice) => (choice.logprobs.content[0]!.logprob = 0.5)),
    );
    expect(positive.status).toBe(422);
  });

  it('trains on nothing, and reports it, when a group has equal rewards, one member, or no groups come', async () => {
    const group = await scoredGroup(client, 'input', { n: 2 });
    const equal = { ...group, trajectories: group.trajectories.map((one) => ({ ...one, reward: 0.1 })) };
    const single = { ...group, trajectories: group.trajectories.slice(0, 1) };
    const before = (await client.checkpoints.list(modelId, { order: 'desc', limit: 1 })).data[0]!.step;
    for (const groups of [[equal], [single], [{ trajectories: [] }], []]) {
      const job = await client.trainingJobs.create({ model_id: modelId, trajectory_groups: groups });
      expect(await client.trainingJobs.gradientSteps(job.id)).toEqual([]);
      const { data } = await client.trainingJobs.events(job.id);
      expect(eventTypes(data)).toEqual(['training_started', 'training_ended']);
      expect(data[0]!.data['num_sequences']).toBe(0);
    }
    const last = await client.trainingJobs.create({ model_id: modelId, trajectory_groups: [equal] });
    await client.trainingJobs.gradientSteps(last.id);
    const started = (await client.trainingJobs.events(last.id)).data[0]!;
    expect(JSON.stringify(started.data)).toContain('equal_rewards');
    expect((await client.checkpoints.list(modelId, { order: 'desc', limit: 1 })).data[0]!.step).toBe(before + 5);
  });

  it('leaves out a history longer than the context, counts it, and trains the rest', async () => {
    const group = await scoredGroup(client, 'input', { n: 3 });
    const [first, second, third] = group.trajectories;
    const turn = structuredClone(third!.messages_and_choices![1]) as WireChoice;
    turn.logprobs!.content![0]!.logprob -= 1e-3;
    const long = {
      ...third!,
      // Without its record, which is also found by log-probabilities: a choice with a record is trained after
      // the prompt it was sampled from.
      messages_and_choices: [
        { role: 'user', content: 'word '.repeat(9_000) },
        { ...turn, record_id: undefined, prompt_token_ids: undefined },
      ],
    };
    const job = await client.trainingJobs.create({
      model_id: modelId,
      trajectory_groups: [{ trajectories: [first!, second!, long] }],
      experimental_config: {
        learning_rate: 1e-5,
      },
    });
    expect(await client.trainingJobs.gradientSteps(job.id)).toHaveLength(1);
    const started = (await client.trainingJobs.events(job.id)).data[0]!;
    expect(JSON.stringify(started.data)).toContain('too_long');
  });

  it('the service still works', async () => {
    expect(await client.service.isHealthy()).toBe(true);
    expect(service.output()).not.toContain('host stopped');
  });
});
