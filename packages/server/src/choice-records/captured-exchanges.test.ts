/** Trajectories as ART sends them from 0.5.19 on: calls instead of messages and choices, and nothing that equals its default. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import type { ChatCompletion, ErrorBody, TrainingJobObject } from '@trainyard/protocol';
import type { ClaimedJob } from '@trainyard/store';

import { wireEvent } from '../jobs/job-events.ts';
import { readTrajectoryGroups } from '../training-data/trajectory-blob.ts';
import { TestServer } from '../testing/test-server.ts';

// The first large body starts a thread.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const QUESTION = { role: 'user', content: 'hello' };
const TOOLS = [{ type: 'function', function: { name: 'look' } }];

let server: TestServer;
let modelId: string;
let answer: ChatCompletion;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  answer = (await server.chat({ model: 'agent' })).json<ChatCompletion>();
});
afterAll(() => server.close());

/** A call as the client dumps it, with what nobody here reads. */
const call = (fields: { model?: string | null; messages?: object[]; tools?: object[]; choices?: object[] } = {}) => ({
  start_time: '2026-01-01T00:00:00Z',
  end_time: '2026-01-01T00:00:01Z',
  model: fields.model === undefined ? 'agent' : fields.model,
  request: { messages: fields.messages ?? [QUESTION], max_tokens: 3, ...(fields.tools ? { tools: fields.tools } : {}) },
  response: { ...answer, choices: fields.choices ?? answer.choices },
});

/** Below and above the size from which another thread parses. */
describe.each([
  ['a small body', ''],
  ['a large body', 'p'.repeat(1_500_000)],
])('%s', (_name, padding) => {
  function submit(trajectories: object[] | undefined) {
    const group = { ...(trajectories === undefined ? {} : { trajectories }), logs: [padding] };
    return server.request('POST', '/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: [group] });
  }

  async function trained(trajectories: object[] | undefined) {
    const response = await submit(trajectories);
    expect(response.statusCode, response.body.slice(0, 500)).toBe(200);
    const { id } = response.json<TrainingJobObject>();
    const [group] = await readTrajectoryGroups(server.blobs, `groups/${id}`, { keepsBareIds: false });
    const job = await server.store.getJob(id);
    const event = wireEvent({ kind: 'training_started', numGradientSteps: 1, data: {} }, job as ClaimedJob);
    return { trajectories: group!.trajectories, data: event.data };
  }

  test('a call is a history: its messages, then what was sampled, with its tools', async () => {
    const [choice] = answer.choices;
    const second = [QUESTION, choice!.message, { role: 'tool', content: 'seen' }];
    const exchanges = { chat_completions: [call({ tools: TOOLS }), call({ messages: second })] };
    const { trajectories } = await trained([{ exchanges, reward: 1, metrics: { duration: 2 } }]);
    const [{ histories, reward }] = trajectories as [(typeof trajectories)[number]];
    expect(reward).toBe(1);
    expect(histories.map(({ items, tools }) => [items.map(({ kind }) => kind), tools])).toEqual([
      [['message', 'choice'], TOOLS],
      [['message', 'message', 'message', 'choice'], null],
    ]);
    // Exactly as the same choice in a list of messages and choices.
    const listed = await trained([{ reward: 1, messages_and_choices: [QUESTION, choice], tools: TOOLS }]);
    expect(histories[0]).toEqual(listed.trajectories[0]!.histories[0]);
  });

  test('every choice of a call is trained, behind the same messages', async () => {
    const [choice] = answer.choices;
    const exchanges = { chat_completions: [call({ choices: [choice!, choice!, choice!] })] };
    const { trajectories } = await trained([{ exchanges }]);
    expect(trajectories[0]!.histories.map(({ items }) => items.map(({ kind }) => kind))).toEqual(
      Array.from({ length: 3 }, () => ['message', 'choice']),
    );
  });

  test('calls of other models are no part of the policy: left out, and counted', async () => {
    const full = answer.model.replace(':step0', '');
    const names = [`wandb-artifact:///${full}:step3`, full, 'agent:step0', null];
    const others = ['gpt-5', 'tiny/base', full.replace('demo', 'other'), `${full}-2`, `other-${full}`, ''];
    const exchanges = {
      chat_completions: [...names, ...others].map((model) => call({ model })),
      responses: [{ model: 'judge', request: {}, response: {} }],
    };
    const { trajectories, data } = await trained([{ exchanges, reward: 2 }]);
    expect(trajectories[0]!.histories).toHaveLength(names.length);
    expect(data).toMatchObject({ num_foreign_exchanges: others.length + 1 });
  });

  test('a reward that is left out is 0, as the client means it, and a group may be empty', async () => {
    const { trajectories, data } = await trained([{ reward: 1 }, {}]);
    expect(trajectories.map(({ reward }) => reward)).toEqual([1, 0]);
    expect(data).toMatchObject({ num_foreign_exchanges: 0 });
    expect((await trained(undefined)).trajectories).toEqual([]);
  });

  test.each([
    [
      'calls beside messages',
      () => ({ exchanges: { chat_completions: [call()] }, messages_and_choices: [QUESTION] }),
      ['exchanges'],
    ],
    [
      'an answer of the policy that names no tokens',
      () => ({ exchanges: { responses: [{ model: 'agent', request: {}, response: {} }] } }),
      ['exchanges', 'responses', 0],
    ],
    [
      'a call without messages',
      () => ({ exchanges: { chat_completions: [{ ...call(), request: {} }] } }),
      ['exchanges', 'chat_completions', 0, 'request', 'messages'],
    ],
    [
      'a message without a role, in the second call',
      () => ({ exchanges: { chat_completions: [call(), call({ messages: [QUESTION, { content: 'x' }] })] } }),
      ['exchanges', 'chat_completions', 1, 'request', 'messages', 1],
    ],
    [
      'a log-probability above 0, of the second choice of the first call',
      () => ({
        exchanges: {
          chat_completions: [
            call({
              choices: [
                answerChoice(),
                { ...answerChoice(), logprobs: { content: [{ token: 'token_id:1', logprob: 1 }] }, token_ids: [1] },
              ],
            }),
          ],
        },
      }),
      ['exchanges', 'chat_completions', 0, 'response', 'choices', 1, 'logprobs', 'content', 0, 'logprob'],
    ],
  ])('%s is refused, with its place in the body', async (_what, trajectory, place) => {
    const response = await submit([{ reward: 1 }, trajectory()]);
    expect(response.statusCode).toBe(422);
    const [item] = response.json<ErrorBody & { detail: { loc: unknown[] }[] }>().detail;
    expect(item!.loc).toEqual(['body', 'trajectory_groups', 0, 'trajectories', 1, ...place]);
  });

  test('a log keeps them as histories too', async () => {
    const trajectories = [{ exchanges: { chat_completions: [call()] } }, { reward: 1 }];
    const body = { split: 'val', trajectory_groups: [{ trajectories, logs: [padding] }] };
    const response = await server.request('POST', `/v1/preview/models/${modelId}/log`, body);
    expect(response.statusCode, response.body.slice(0, 500)).toBe(200);
    expect((await server.store.latestCheckpoint(modelId))!.metrics).toMatchObject({ 'val/reward': 0.5 });
  });
});

function answerChoice(): object {
  return { finish_reason: 'stop', message: { role: 'assistant', content: 'x' } };
}
