/** Trajectories as ART sends them from 0.5.19 on: calls instead of messages and choices, and no defaults. */
import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';

import type {
  ChatCompletion,
  Completion,
  CompletionChunk,
  ErrorBody,
  Message,
  MessageEvent,
  Response,
  TrainingJobObject,
} from '@trainyard/protocol';
import type { ClaimedJob } from '@trainyard/store';
import type { History } from '@trainyard/trainer';

import { wireEvent } from '../../jobs/job-events.ts';
import { readTrajectoryGroups } from '../stored/trajectory-blob.ts';
import { TestServer } from '../../testing/test-server.ts';
import { carryReasoning } from '../../gateway/forms/shared/carried-reasoning.ts';

// The first large body starts a thread.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const QUESTION = { role: 'user', content: 'hello' };
const MESSAGES = { messages: [QUESTION], max_tokens: 3 };
const TOOLS = [{ type: 'function', function: { name: 'look' } }];

type ReplyItem = Extract<History['items'][number], { kind: 'choice' }>;

let server: TestServer;
let modelId: string;
let answer: ChatCompletion;
beforeAll(async () => {
  server = await TestServer.start();
  modelId = await server.makeModel('agent');
  answer = (await server.chat({ model: 'agent' })).json<ChatCompletion>();
});
afterAll(() => server.close());

/** A call as the client dumps it, with fields that this service ignores. */
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
    const job = await server.store.jobs.get(id);
    const event = wireEvent({ kind: 'training_started', numGradientSteps: 1, data: {} }, job as ClaimedJob);
    return { trajectories: group!.trajectories, data: event.data };
  }

  test('a call is a history: its messages, then the sampled reply, with its tools', async () => {
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
    // Equal to the same choice in a list of messages and choices.
    const listed = await trained([{ reward: 1, messages_and_choices: [QUESTION, choice], tools: TOOLS }]);
    expect(histories[0]).toEqual(listed.trajectories[0]!.histories[0]);
  });

  test('every choice of a call is trained, after the same messages', async () => {
    const [choice] = answer.choices;
    const exchanges = { chat_completions: [call({ choices: [choice!, choice!, choice!] })] };
    const { trajectories } = await trained([{ exchanges }]);
    expect(trajectories[0]!.histories.map(({ items }) => items.map(({ kind }) => kind))).toEqual(
      Array.from({ length: 3 }, () => ['message', 'choice']),
    );
  });

  test('a call whose choices lost their records, as a stream reassembled by the client, is found by its id', async () => {
    const { record_id: _, ...choice } = answer.choices[0]!;
    const { trajectories } = await trained([{ exchanges: { chat_completions: [call({ choices: [choice] })] } }]);
    const listed = await trained([{ messages_and_choices: [QUESTION, answer.choices[0]] }]);
    const [found, told] = [trajectories, listed.trajectories].map(([one]) => one!.histories[0]!.items[1]);
    expect(told).toMatchObject({ sampling: null, promptTokenIds: { length: 3 } });
    // The call contains the id of its answer; the choice on its own does not.
    expect(found).toEqual({ ...told, answerPlace: `${answer.id} 0` });
  });

  test('calls of tools in the form of LangChain are read as those of a chat', async () => {
    const theirs = { id: 'c', type: 'tool_call', name: 'look', args: { far: true } };
    const call = { id: 'c', type: 'function', function: { name: 'look', arguments: { far: true } } };
    const items = (one: object) => [QUESTION, { role: 'assistant', content: '', tool_calls: [one] }, answer.choices[0]];
    const conversation = (one: object) => ({
      messages_and_choices: items(one),
      additional_histories: [{ messages_and_choices: items(one) }],
    });
    const [read, expected] = [await trained([conversation(theirs)]), await trained([conversation(call)])];
    expect(read.trajectories).toEqual(expected.trajectories);
    expect(read.trajectories[0]!.histories[1]!.items[1]).toMatchObject({ message: { tool_calls: [call] } });
  });

  describe('calls of the other forms', () => {
    const asked = async <Answer>(path: string, body: object): Promise<Answer> => {
      const response = await server.request('POST', path, { model: 'agent', ...body });
      expect(response.statusCode, response.body).toBe(200);
      return response.json<Answer>();
    };
    const historiesOf = async (exchanges: object) => (await trained([{ exchanges }])).trajectories[0]!.histories;

    test('are trained by the records of their answers, after the prompts that these were sampled from', async () => {
      const told = await trained([{ messages_and_choices: [QUESTION, answer.choices[0]] }]);
      const chat = told.trajectories[0]!.histories[0]!;
      const { message, recordId: _record, ...sampled } = chat.items[1] as ReplyItem;
      const input = { input: [{ type: 'message', ...QUESTION }] };
      const response = await asked<Response>('/v1/responses', { ...input, max_output_tokens: 3 });
      const written = await asked<Message>('/v1/messages', MESSAGES);
      const histories = await historiesOf({
        responses: [{ request: { model: 'agent', ...input }, response }],
        messages: [{ model: 'agent', request: MESSAGES, response: { ...written, usage: null } }],
      });
      expect(sampled.tokenIds).toHaveLength(3);
      expect(histories).toHaveLength(2);
      for (const [index, { items, tools }] of histories.entries()) {
        expect(tools).toBeNull();
        expect(items[0]).toEqual(chat.items[0]);
        expect(items[1]).toEqual({
          ...sampled,
          recordId: [response, written][index]!.record_id,
          message: { role: 'assistant', content: message.content },
        });
      }
    });

    test('keep their tools, calls and thoughts for readers', async () => {
      const { record_id } = answer.choices[0]!;
      const parameters = { type: 'object' };
      const [history] = await historiesOf({
        responses: [
          {
            request: {
              input: 'hello',
              instructions: 'be brief',
              tools: [{ type: 'function', name: 'look', parameters }],
            },
            response: {
              record_id,
              status: 'completed',
              output: [
                { type: 'reasoning', id: 'r', summary: [], content: [{ type: 'reasoning_text', text: 'hm' }] },
                { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'I ', annotations: [] }] },
                { type: 'function_call', call_id: 'c', name: 'look', arguments: '{"a":1.0}' },
                { type: 'message', role: 'assistant', content: [{ type: 'output_text', text: 'look' }] },
              ],
            },
          },
        ],
      });
      const call = { id: 'c', type: 'function', function: { name: 'look', arguments: '{"a":1.0}' } };
      expect(history!.items.map(({ message }) => message)).toEqual([
        { role: 'system', content: 'be brief' },
        QUESTION,
        { role: 'assistant', content: 'I look', reasoning: 'hm', tool_calls: [call] },
      ]);
      expect(history!.items[2]).toMatchObject({ kind: 'choice', finishReason: 'tool_calls' });
      expect(history!.tools).toMatchObject([{ type: 'function', function: { name: 'look', parameters } }]);
      const input = '{"a":1.0,"10":1,"2":12345678901234567890}';
      const block = `{"type":"tool_use","id":"c","name":"look","input":${input}}`;
      const exchange = `{"model":"agent","request":${JSON.stringify(MESSAGES)},"response":{"record_id":"${record_id}","content":[${block}]}}`;
      const body = `{"model_id":"${modelId}","trajectory_groups":[{"logs":["${padding}"],"trajectories":[{"exchanges":{"messages":[${exchange}]}}]}]}`;
      const sent = await server.request('POST', '/v1/preview/training-jobs', body);
      expect(sent.statusCode, sent.body).toBe(200);
      const [group] = await readTrajectoryGroups(server.blobs, `groups/${sent.json<TrainingJobObject>().id}`, {
        keepsBareIds: false,
      });
      expect(group!.trajectories[0]!.histories[0]!.items[1]!.message).toMatchObject({
        tool_calls: [{ function: { arguments: input } }],
      });
    });

    test('custom tools, namespaces and thoughts that were left out are trained as the model wrote them', async () => {
      const { record_id } = answer.choices[0]!;
      const custom = { type: 'custom', name: 'code' };
      const tools = [custom, { type: 'namespace', name: 'crm', description: 'Of customers.', tools: [custom] }];
      const output = [
        { type: 'reasoning', id: 'r', summary: [], encrypted_content: carryReasoning('hm') },
        { type: 'custom_tool_call', call_id: 'c', name: 'code', namespace: 'crm', input: 'print(1)' },
      ];
      const omitted = { type: 'thinking', thinking: '', signature: carryReasoning('hm') };
      const [ofResponse, ofMessage] = await historiesOf({
        responses: [{ request: { input: 'hello', tools }, response: { record_id, status: 'completed', output } }],
        messages: [{ model: 'agent', request: MESSAGES, response: { record_id, content: [omitted] } }],
      });
      expect(ofResponse!.tools).toMatchObject([{ function: { name: 'code' } }, { function: { name: 'crm__code' } }]);
      expect(ofResponse!.items[1]!.message).toMatchObject({
        reasoning: 'hm',
        tool_calls: [{ id: 'c', function: { name: 'crm__code', arguments: '{"input":"print(1)"}' } }],
      });
      expect(ofMessage!.items[1]!.message).toMatchObject({ reasoning: 'hm' });
    });

    test('and text completions, if each choice has a record or all fields for training', async () => {
      const request = { prompt: ['ab', 'b'], n: 2, max_tokens: 2 };
      const completion = await asked<Completion>('/v1/completions', request);
      const whole = await asked<Completion>('/v1/completions', { ...request, logprobs: 0, return_token_ids: true });
      const recorded = await historiesOf({ completions: [{ model: 'agent', request, response: completion }] });
      const own = await historiesOf({
        completions: [
          { request, response: { choices: whole.choices.map((choice) => ({ ...choice, record_id: undefined })) } },
        ],
      });
      expect(completion.choices.map(({ token_ids }) => token_ids)).toEqual([null, null, null, null]);
      for (const [index, { items }] of recorded.entries()) {
        const { text, prompt_token_ids: prompt, token_ids: ids } = whole.choices[index]!;
        expect(items[0]!.message).toEqual({ role: 'user', content: index < 2 ? 'ab' : 'b' });
        const { recordId, ...reply } = items[1] as ReplyItem;
        expect(recordId).toBe(completion.choices[index]!.record_id);
        expect(reply.message).toEqual({ role: 'assistant', content: text });
        expect(reply.tokenIds).toEqual(Int32Array.from(ids!));
        // The scripted engine returns one prompt for every request.
        expect(reply.promptTokenIds).toEqual(Int32Array.of(1, 2, 3));
        // Without its id the record is found by the tokens, which are not unique: equal answers have the
        // same.
        expect(own[index]!.items[1]).toEqual({ ...reply, promptTokenIds: Int32Array.from(prompt!) });
      }
    });

    test('that continue a kept answer, or refer to its items, are trained by their records too', async () => {
      const first = await asked<Response>('/v1/responses', { input: 'hello', max_output_tokens: 3 });
      const requests = [
        { previous_response_id: first.id, input: 'And?' },
        { input: [{ role: 'user', content: 'hello' }, { id: first.output[0]?.id }, { role: 'user', content: 'And?' }] },
      ];
      for (const request of requests) {
        const second = await asked<Response>('/v1/responses', { ...request, max_output_tokens: 3 });
        const [one, two] = await historiesOf({
          responses: [
            { request: { input: 'hello' }, response: first },
            { request, response: second },
          ],
        });
        for (const [index, history] of [one, two].entries())
          expect(history!.items.at(-1)).toMatchObject({
            kind: 'choice',
            recordId: [first, second][index]!.record_id,
            tokenIds: { length: 3 },
            promptTokenIds: { length: 3 },
          });
      }
    });

    test('find their record by the id of the answer if a client dropped that of the record', async () => {
      const response = {
        request: { input: 'hello' },
        ...withoutRecord(await asked<Response>('/v1/responses', { input: 'hello' })),
      };
      const message = { request: MESSAGES, ...withoutRecord(await asked<Message>('/v1/messages', MESSAGES)) };
      expect([response.response['id'], message.response['id']]).toEqual([
        expect.stringMatching(/^resp_[0-9a-f]{32}$/),
        expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      ]);
      const histories = await historiesOf({ responses: [response], messages: [message] });
      for (const { items } of histories)
        expect(items.at(-1)).toMatchObject({ kind: 'choice', sampling: null, tokenIds: { length: 3 } });
    });

    test('are context if their record is gone, and are counted', async () => {
      const { record_id: _, ...response } = await asked<Message>('/v1/messages', MESSAGES);
      const gone = {
        model: 'agent',
        request: MESSAGES,
        response: { ...response, record_id: `${crypto.randomUUID()}-0` },
      };
      const { trajectories, data } = await trained([{ exchanges: { messages: [gone] } }]);
      expect(trajectories[0]!.histories[0]!.items.map(({ kind }) => kind)).toEqual(['message', 'message']);
      expect(data).toMatchObject({ num_unknown_records: 1 });
    });

    test('a stream of messages names the record in its first event, and the record is kept', async () => {
      const stream = await server.request('POST', '/v1/messages', { model: 'agent', ...MESSAGES, stream: true });
      const events = stream.body.matchAll(/^data: (.*)$/gm).map(([, data]) => JSON.parse(data!) as MessageEvent);
      const [start, ...others] = events;
      const { record_id } = (start as Extract<MessageEvent, { type: 'message_start' }>).message;
      expect(record_id).toMatch(/-0$/);
      expect(others.find(({ type }) => type === 'message_delta')).toMatchObject({ delta: { record_id } });
      const [history] = await historiesOf({
        messages: [{ model: 'agent', request: MESSAGES, response: { record_id, content: [] } }],
      });
      expect(history!.items[1]).toMatchObject({ kind: 'choice', tokenIds: { length: 3 } });
    });

    test('a stream of a text completion names the record of each choice in its last chunk', async () => {
      const body = { model: 'agent', prompt: 'ab', max_tokens: 2, n: 2, stream: true };
      const stream = await server.request('POST', '/v1/completions', body);
      const chunks = stream.body.matchAll(/^data: (\{.*)$/gm).map(([, data]) => JSON.parse(data!) as CompletionChunk);
      const choices = [...chunks].flatMap((chunk) => chunk.choices);
      for (const { finish_reason: reason, record_id } of choices) expect(record_id === undefined).toBe(reason === null);
      expect(new Set(choices.flatMap(({ record_id }) => record_id ?? [])).size).toBe(2);
    });

    test('base models, beams and prompts are not recorded', async () => {
      for (const body of [
        { model: answer.model.split(':')[0], use_beam_search: true, n: 2 },
        { max_tokens: 0, echo: true },
      ]) {
        const { choices } = await asked<Completion>('/v1/completions', { prompt: 'ab', ...body });
        for (const choice of choices) expect(choice).not.toHaveProperty('record_id');
      }
      const { choices } = (await server.request('POST', '/v1/completions', { prompt: 'ab' })).json<Completion>();
      expect(choices[0]).not.toHaveProperty('record_id');
    });
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
      () => ({ exchanges: { responses: [{ model: 'agent', request: { input: 'x' }, response: {} }] } }),
      ['exchanges', 'responses', 0, 'response', 'record_id'],
    ],
    [
      'the same of a text completion, of its second choice',
      () => ({
        exchanges: {
          completions: [{ model: 'agent', response: { choices: [{ text: 'x', record_id: 'y-0' }, { text: 'x' }] } }],
        },
      }),
      ['exchanges', 'completions', 0, 'response', 'choices', 1, 'record_id'],
    ],
    [
      'a request that no message could be made of',
      () => ({ exchanges: { messages: [{ model: 'agent', request: { messages: [{ role: 'user' }] } }] } }),
      ['exchanges', 'messages', 0, 'request', 'messages', 0, 'content'],
    ],
    [
      'an item that nothing here answers with',
      () => ({
        exchanges: {
          responses: [
            {
              model: 'agent',
              request: { input: [{ type: 'nothing_like_it' }] },
              response: { record_id: 'y-0', output: [] },
            },
          ],
        },
      }),
      ['exchanges', 'responses', 0, 'request', 'input', 0, 'type'],
    ],
    [
      'an answer without content',
      () => ({
        exchanges: { messages: [{ model: 'agent', request: MESSAGES, response: { record_id: 'y-0', content: null } }] },
      }),
      ['exchanges', 'messages', 0, 'response', 'content'],
    ],
    [
      'a log-probability above 0 of a text completion',
      () => ({
        exchanges: {
          completions: [
            {
              model: 'agent',
              request: { prompt: ['x'] },
              response: {
                choices: [{ token_ids: [1, 2], prompt_token_ids: [3], logprobs: { token_logprobs: [-1, 1] } }],
              },
            },
          ],
        },
      }),
      ['exchanges', 'completions', 0, 'response', 'choices', 0, 'logprobs', 'token_logprobs', 1],
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
    expect((await server.store.checkpoints.latest(modelId))!.metrics).toMatchObject({ 'val/reward': 0.5 });
  });
});

function answerChoice(): object {
  return { finish_reason: 'stop', message: { role: 'assistant', content: 'x' } };
}

function withoutRecord(answer: object): { model: string; response: Record<string, unknown> } {
  const { record_id: _, ...response } = answer as Record<string, unknown>;
  return { model: 'agent', response };
}
