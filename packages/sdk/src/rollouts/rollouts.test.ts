import OpenAI from 'openai';
import { expect, test } from 'vitest';

import { Trainyard } from '../index.ts';
import { EarlyStop, evaluate, gather, group, meanReward, PolicyModel, train } from './index.ts';

const MODEL = { id: 'm1', entity: 'e', project: 'p', name: 'n', base_model: 'base', run_id: 'r', lora: {} };
type Json = Record<string, unknown>;

/** A service that answers `reply(messages)` and records its requests. */
function service(reply: (messages: Json[], index: number) => Json = () => ({ content: 'yes' })) {
  const asked: { url: string; body: Json; key: string | null }[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    const body = JSON.parse((init.body as string | null) ?? 'null') as Json;
    asked.push({ url: new URL(url).pathname, body, key: new Headers(init.headers).get('authorization') });
    if (!url.endsWith('/chat/completions')) return Response.json({ object: 'list', data: [], has_more: false });
    const choices = Array.from({ length: Number(body['n'] ?? 1) }, (_, index) =>
      choiceOf(reply(body['messages'] as Json[], index), index),
    );
    const answer = { id: 'c', object: 'chat.completion', model: body['model'], choices, prompt_token_ids: [7, 8] };
    return body['stream'] === true ? streamOf(choices) : Response.json({ ...answer, usage: { completion_tokens: 2 } });
  }) as typeof globalThis.fetch;
  const client = new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'secret', fetch });
  return { asked, model: new PolicyModel(client, MODEL as never) };
}

const logprobs = { content: [{ token: 'a', logprob: -1, bytes: [], top_logprobs: [] }] };
const choiceOf = (message: Json, index: number) => ({
  index,
  message: { role: 'assistant', content: null, ...message },
  logprobs,
  finish_reason: 'stop',
  token_ids: [1, 2],
  record_id: `rec-${index}`,
});

function streamOf(choices: ReturnType<typeof choiceOf>[]): Response {
  const chunks = choices.flatMap(({ index, message }) => [
    {
      choices: [{ index, delta: { role: 'assistant' }, finish_reason: null, logprobs: null }],
      prompt_token_ids: [7, 8],
    },
    ...String((message as Json)['content'])
      .split('')
      .map((text) => ({
        choices: [{ index, delta: { content: text }, finish_reason: null, logprobs, token_ids: [5] }],
      })),
    { choices: [{ index, delta: {}, finish_reason: 'stop', logprobs: null, stop_reason: null, record_id: 'rec' }] },
  ]);
  const text = [...chunks.map((chunk) => JSON.stringify(chunk)), '[DONE]'].map((data) => `data: ${data}\n\n`).join('');
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } });
}

const ask = [{ role: 'user', content: 'Well?' }];

test('a rollout keeps the sampled choices, with ids, log-probabilities and prompt, and its own data', async () => {
  const { asked, model } = service();
  const trajectory = await model.rollout(async ({ client, model: name, metrics, metadata, logs }) => {
    await client.chat.completions.create({ model: name, messages: ask });
    metrics['turns'] = 1;
    metadata['id'] = 'q7';
    logs.push('done');
    return 0.5;
  });
  expect(trajectory).toMatchObject({
    messages_and_choices: [
      { role: 'user', content: 'Well?' },
      { message: { content: 'yes' }, logprobs, token_ids: [1, 2], record_id: 'rec-0', prompt_token_ids: [7, 8] },
    ],
    additional_histories: [],
    reward: 0.5,
    metrics: { turns: 1 },
    metadata: { id: 'q7' },
    logs: ['done'],
  });
  expect(asked[0]).toMatchObject({
    body: { model: 'e/p/n', logprobs: true, return_token_ids: true },
    key: 'Bearer secret',
  });
});

test('an unmodified openai client does as well, with tools over several turns', async () => {
  const call = { id: 't1', type: 'function', function: { name: 'add', arguments: '{}' } };
  const { model } = service((messages) => (messages.length === 1 ? { tool_calls: [call] } : { content: '4' }));
  const tools = [{ type: 'function' as const, function: { name: 'add', parameters: {} } }];
  const trajectory = await model.rollout(async (rollout) => {
    const openai = new OpenAI(rollout.openai);
    const messages: OpenAI.ChatCompletionMessageParam[] = [{ role: 'user', content: '2+2?' }];
    const first = await openai.chat.completions.create({ model: rollout.model, messages, tools });
    messages.push(first.choices[0]!.message, { role: 'tool', tool_call_id: 't1', content: '4' });
    const second = await openai.chat.completions.create({ model: rollout.model, messages, tools });
    return second.choices[0]!.message.content === '4' ? 1 : 0;
  });
  expect(trajectory.reward).toBe(1);
  expect(trajectory.additional_histories).toEqual([]);
  expect(trajectory.tools).toEqual(tools);
  expect(trajectory.messages_and_choices).toMatchObject([
    { role: 'user' },
    { message: { tool_calls: [call] }, token_ids: [1, 2] },
    { role: 'tool', content: '4' },
    { message: { content: '4' }, token_ids: [1, 2] },
  ]);
});

test('a conversation that does not continue another is a history of its own', async () => {
  const { model } = service((messages) => ({ content: `answer ${messages.length}` }));
  const { messages_and_choices: first, additional_histories: others } = await model.rollout(
    async ({ client, model: name }) => {
      const chat = async (...contents: string[]) => {
        const messages = contents.map((content, index) => ({ role: index % 2 === 0 ? 'user' : 'assistant', content }));
        await client.chat.completions.create({ model: name, messages });
      };
      await chat('a');
      await chat('b');
      await chat('a', 'answer 1', 'c');
      await chat('a', 'something else', 'c');
      return 1;
    },
  );
  const lengths = [first, ...(others ?? []).map((history) => history.messages_and_choices)].map(
    (items) => items?.length,
  );
  expect(lengths.toSorted((a, b) => Number(a) - Number(b))).toEqual([2, 4, 4]);
});

test('several choices of one request are histories, and a streamed one is kept as the whole would be', async () => {
  const { model } = service((_messages, index) => ({ content: `no${index}` }));
  const trajectory = await model.rollout(async ({ client, openai, model: name }) => {
    await client.chat.completions.create({ model: name, messages: ask, n: 2 });
    const stream = await new OpenAI(openai).chat.completions.create({
      model: name,
      messages: [{ role: 'user', content: 's' }],
      stream: true,
    });
    for await (const _chunk of stream);
    return 0;
  });
  expect(trajectory.additional_histories).toHaveLength(2);
  const streamed = trajectory.additional_histories![1]!.messages_and_choices[1];
  expect(streamed).toMatchObject({
    message: { role: 'assistant', content: 'no0' },
    token_ids: [5, 5, 5],
    finish_reason: 'stop',
    record_id: 'rec',
    prompt_token_ids: [7, 8],
  });
  expect((streamed as { logprobs: typeof logprobs }).logprobs.content).toHaveLength(3);
});

test('chats with other models, a judge for instance, are not kept', async () => {
  const { asked, model } = service();
  const trajectory = await model.rollout(async ({ client }) => {
    await client.chat.completions.create({ model: 'judge', messages: ask });
    await client.chat.completions.create({ model: 'n:step3', messages: ask });
    return 0;
  });
  expect(asked[0]!.body).not.toHaveProperty('logprobs');
  expect(trajectory.messages_and_choices).toHaveLength(2);
  expect(trajectory.additional_histories).toEqual([]);
});

test('a reward that is no number is an error of the rollout', async () => {
  await expect(service().model.rollout(() => Number.NaN)).rejects.toThrow('must be a finite number, got NaN');
});

const trajectory = (reward: number) => ({ messages_and_choices: [], reward });

test('groups are gathered with limited concurrency, in order, and progress is reported', async () => {
  let numRunning = 0;
  let most = 0;
  const updates: object[] = [];
  const plan = (base: number) =>
    group(
      3,
      async (index) => {
        most = Math.max(most, ++numRunning);
        await new Promise((resolve) => setTimeout(resolve, 3 - index));
        numRunning--;
        return trajectory(base + index);
      },
      { metadata: { base } },
    );
  const groups = await gather([plan(0), plan(10)], {
    concurrency: 2,
    onProgress: (progress) => updates.push(progress),
  });
  expect(groups.map(({ trajectories }) => trajectories.map(({ reward }) => reward))).toEqual([
    [0, 1, 2],
    [10, 11, 12],
  ]);
  expect(groups[1]).toMatchObject({ metadata: { base: 10 }, exceptions: [] });
  expect(most).toBe(2);
  expect(updates).toHaveLength(6);
  expect(updates.at(-1)).toEqual({ numRollouts: 6, numDone: 6, numFailed: 0, meanReward: 6 });
  expect(meanReward(groups)).toBe(6);
});

test('a rollout that fails is played again, and then ends all or becomes an exception', async () => {
  const plays: number[] = [];
  const plan = group(2, async (index) => {
    plays.push(index);
    if (index === 0) throw new RangeError('lost');
    return trajectory(1);
  });
  await expect(gather([plan], { retries: 1, concurrency: 1 })).rejects.toThrow('lost');
  expect(plays).toEqual([0, 0]);
  const [dropped] = await gather([plan], { dropOnError: true });
  expect(dropped).toMatchObject({
    trajectories: [{ reward: 1 }],
    exceptions: [{ type: 'RangeError', message: 'lost' }],
  });
});

test('a signal ends a gathering', async () => {
  const left = new AbortController();
  const plan = group(4, async (index, signal) => {
    if (index === 1) left.abort(new Error('left'));
    signal.throwIfAborted();
    return trajectory(1);
  });
  await expect(gather([plan], { concurrency: 1, dropOnError: true, signal: left.signal })).rejects.toThrow('left');
  await expect(gather([plan], { signal: AbortSignal.abort(new Error('before')) })).rejects.toThrow('before');
});

test('training waits for the job and reports its result', async () => {
  const events = [
    { id: '1', type: 'gradient_step', data: { loss: 2 } },
    // Not the start's step plus one if a step in between is deleted.
    { id: '2', type: 'training_ended', data: { step: 7 } },
  ];
  let status = 'succeeded';
  const fetch = (async (url: string) => {
    if (url.includes('/events')) return Response.json({ data: events, has_more: false });
    return Response.json({ id: 'j', start_step: 4, status, error_message: 'it broke' });
  }) as unknown as typeof globalThis.fetch;
  const model = new PolicyModel(new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch }), MODEL as never);
  const updates: string[] = [];
  const trained = await train(model, [], {}, { onEvent: ({ type }) => updates.push(type) });
  expect(trained).toMatchObject({ step: 7, gradientSteps: [{ loss: 2 }], job: { id: 'j' } });
  expect(updates).toEqual(['gradient_step', 'training_ended']);
  status = 'failed';
  await expect(train(model, [])).rejects.toThrow('it broke');
});

test('an evaluation is logged under its split', async () => {
  const posted: Json[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    if (init.method === 'POST') posted.push({ url, ...(JSON.parse(init.body as string) as Json) });
    return Response.json({ object: 'list', data: [{ id: 'c', step: 2, metrics: {} }], has_more: false });
  }) as typeof globalThis.fetch;
  const model = new PolicyModel(new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch }), MODEL as never);
  const { reward, step } = await evaluate(model, 'val', [group(2, async (index) => trajectory(index))]);
  expect([reward, step]).toEqual([0.5, 2]);
  expect(posted).toMatchObject([{ url: 'http://h/v1/preview/models/m1/log', split: 'val', trajectory_groups: [{}] }]);
});

test('early stop counts evaluations without a new best', () => {
  const stop = new EarlyStop({ patience: 2, minDelta: 0.1 });
  const values = [0.1, 0.5, 0.55, 0.7, 0.7, Number.NaN];
  expect(values.map((value, step) => stop.observe({ step, value }))).toEqual([false, false, false, false, false, true]);
  expect(stop.best).toEqual({ step: 3, value: 0.7 });
});
