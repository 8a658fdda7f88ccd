import type { ErrorBody, GenerateTokensAnswer, GenerateTokensChunk } from '@trainyard/protocol';
import type { TrainingJobObject } from '@trainyard/protocol';
import { readTrajectoryGroups } from '../../../training-data/stored/trajectory-blob.ts';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';

import { eventFault, operationOf } from '../../../testing/documented-answers.ts';
import { replies } from '../../../testing/scripted-inference.ts';
import { readEvents, TestServer } from '../../../testing/test-server.ts';

const URL = '/inference/v1/generate';
const ASK = { token_ids: [5, 6, 7], sampling_params: { max_tokens: 4 } };

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
beforeEach(() => {
  server.inference.script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);
});
afterAll(() => server.close());

const post = (fields: Record<string, unknown> = {}, headers = {}) =>
  server.request('POST', URL, { ...ASK, ...fields }, headers);
const sample = (sampling: Record<string, unknown>) =>
  post({ sampling_params: { ...ASK.sampling_params, ...sampling } });

test('a seed of 64 bits may be a number', async () => {
  const body = '{"token_ids": [5], "sampling_params": {"max_tokens": 4, "seed": 9223372036854775807}}';
  expect((await server.request('POST', URL, body)).statusCode).toBe(200);
  expect(server.inference.lastRequest.sampling.seed).toBe(9223372036854775807n);
});

describe('the answer', () => {
  test('is the sampled ids, with log-probabilities by id on request', async () => {
    const plain = (await post()).json<GenerateTokensAnswer>();
    expect(plain).toMatchObject({
      choices: [{ index: 0, token_ids: [5, 6, 2], logprobs: null, finish_reason: 'stop', stop_reason: null }],
      prompt_logprobs: null,
      usage: { prompt_tokens: 3 },
    });
    const scored = (await sample({ logprobs: 1 })).json<GenerateTokensAnswer>();
    expect(scored.choices[0]?.logprobs?.content.map(({ token }) => token)).toEqual([
      'token_id:5',
      'token_id:6',
      'token_id:2',
    ]);
    expect(server.inference.lastRequest.logprobs).toBe(1);
    expect(server.inference.lastRequest.prompt).toEqual({ kind: 'tokens', tokenIds: [5, 6, 7] });
  });

  test('has the request id of the header, or of the body', async () => {
    const { request_id: given } = (await post({ request_id: 'r-1' })).json<GenerateTokensAnswer>();
    const headed = await post({ request_id: 'r-1' }, { 'x-request-id': 'r-2' });
    expect([given, headed.json<GenerateTokensAnswer>().request_id]).toEqual(['r-1', 'r-2']);
  });

  test('as a stream is the same ids in order, with the usage at the end', async () => {
    const { body } = await post({ stream: true, stream_options: { include_usage: true } });
    const { events, isDone } = readEvents(body);
    const operation = operationOf('POST', URL);
    if (operation === undefined) throw new Error('it has an operation');
    for (const event of events) expect(eventFault(operation, event)).toBeNull();
    const chunks = events as unknown as GenerateTokensChunk[];
    expect(chunks.flatMap(({ choices }) => choices.flatMap((choice) => choice.token_ids))).toEqual([5, 6, 2]);
    expect(chunks.at(-2)?.choices[0]?.finish_reason).toBe('stop');
    expect(chunks.at(-1)?.usage?.prompt_tokens).toBe(3);
    expect(isDone).toBe(true);
  });

  test.each([['</end>'], [7], [undefined]])('has the finish reason, %j, streamed and whole', async (stopReason) => {
    server.inference.script = (request) =>
      replies(request, [{ ids: [5, 6], text: 'hi' }], stopReason === undefined ? {} : { stopReason });
    const [choice] = (await post()).json<GenerateTokensAnswer>().choices;
    const chunks = readEvents((await post({ stream: true })).body).events as unknown as GenerateTokensChunk[];
    const reasons = chunks.flatMap(({ choices }) => choices.map(({ stop_reason: reason }) => reason));
    expect(reasons).toEqual([...chunks.slice(1).map(() => null), choice?.stop_reason]);
    expect(choice?.stop_reason).toBe(stopReason ?? null);
  });
});

test.each<[Record<string, unknown>, (request: TestServer['inference']['lastRequest']) => unknown, unknown]>([
  [{}, (r) => r.maxTokens, 4],
  [{ max_tokens: null }, (r) => r.maxTokens, null],
  [{ n: 3, temperature: 0.5 }, (r) => [r.n, r.sampling.temperature], [3, 0.5]],
  [
    { top_p: 0.5, top_k: 3, min_p: 0.1, seed: 5 },
    (r) => [r.sampling.topP, r.sampling.topK, r.sampling.minP, r.sampling.seed],
    [0.5, 3, 0.1, 5n],
  ],
  [
    { stop: ['a'], stop_token_ids: [9], ignore_eos: true, min_tokens: 2 },
    (r) => [r.stop, r.stopTokenIds, r.ignoreEos, r.minTokens],
    [['a'], [9], true, 2],
  ],
  [{ prompt_logprobs: 1 }, (r) => r.promptLogprobs, 1],
  [{ allowed_token_ids: [5, 6], bad_words: ['x'] }, (r) => [r.allowedTokenIds, r.badWords], [[5, 6], ['x']]],
  [{ skip_special_tokens: false, detokenize: false, flat_logprobs: true }, (r) => r.skipSpecialTokens, false],
  [{ structured_outputs: { regex: 'a' } }, (r) => r.constraint, { kind: 'regex', pattern: 'a' }],
])('sampling_params %j act', async (fields, read, expected) => {
  await sample(fields);
  expect(read(server.inference.lastRequest)).toEqual(expected);
});

test.each<[Record<string, unknown>, string]>([
  [{ token_ids: [] }, 'token_ids'],
  [{ token_ids: 'text' }, 'token_ids'],
  [{ token_ids: [5000] }, 'token_ids'],
  [{ token_ids: Array.from({ length: 600 }, () => 5) }, 'input_tokens'],
  [{ sampling_params: { temperature: 9 } }, 'sampling_params.temperature'],
  [{ sampling_params: { max_tokens: 9999 } }, 'sampling_params.max_tokens'],
  [{ sampling_params: { n: 2, temperature: 0 } }, 'sampling_params.n'],
  [{ sampling_params: { min_tokens: 9, max_tokens: 4 } }, 'sampling_params.min_tokens'],
  [{ sampling_params: { stop: ['a'], detokenize: false } }, 'sampling_params.detokenize'],
  [{ sampling_params: { extra_args: { a: 1 } } }, 'sampling_params.extra_args'],
  [{ sampling_params: { unknown: 1 } }, 'sampling_params.unknown'],
  [{ features: { mm_hashes: {} } }, 'features'],
  [{ kv_transfer_params: { a: 1 } }, 'kv_transfer_params'],
])('%j is 400 and names %s', async (fields, param) => {
  const response = await post(fields);
  expect(response.statusCode, response.body).toBe(400);
  expect(response.json<ErrorBody>().error.param).toMatch(new RegExp(`^${param.replaceAll('.', '\\.')}`));
});

test('an unknown model, no key, no scope and a streamed repeat are refused', async () => {
  expect((await post({ model: 'acme/demo/none' })).statusCode).toBe(404);
  expect((await post({}, { authorization: 'Bearer none' })).statusCode).toBe(401);
  const trainer = await server.makeKey('acme', ['training']);
  expect((await post({}, { authorization: `Bearer ${trainer}` })).statusCode).toBe(403);
  expect((await post({ stream: true }, { 'idempotency-key': 'g' })).json<ErrorBody>().error.param).toBe('stream');
});

test('the request of verifiers for a later turn of a rollout is accepted', async () => {
  const sent = { logprobs: 1, stop_token_ids: [2], skip_special_tokens: false, routed_experts_prompt_start: 7 };
  expect((await sample(sent)).statusCode).toBe(200);
  expect((await sample({ routed_experts_prompt_start: -1 })).statusCode).toBe(400);
});

describe('of a trained model', () => {
  beforeAll(async () => void (await server.makeModel('agent')));
  const ASKED = { model: 'agent' };

  test('names the record of each choice, whole and streamed; the base model has none', async () => {
    const [whole] = (await post({ ...ASKED })).json<GenerateTokensAnswer>().choices;
    expect(whole).toMatchObject({ logprobs: null, record_id: expect.stringMatching(/-0$/) });
    expect(server.inference.lastRequest).toMatchObject({ logprobs: 0, tracesSampling: true });
    const chunks = readEvents((await post({ ...ASKED, stream: true })).body).events as unknown as GenerateTokensChunk[];
    const named = chunks.flatMap(({ choices }) => choices.flatMap(({ record_id: id }) => id ?? []));
    expect(named).toEqual([expect.stringMatching(/-0$/)]);
    const found = await server.store.choiceRecords.find((await server.store.keys.ensureEntity('acme')).id, [
      whole!.record_id!,
      ...named,
    ]);
    expect([...found.values()].map(({ tokenIds, promptTokenIds }) => [[...tokenIds], [...promptTokenIds]])).toEqual([
      [
        [5, 6, 2],
        [1, 2, 3],
      ],
      [
        [5, 6, 2],
        [1, 2, 3],
      ],
    ]);
    expect((await post()).json<GenerateTokensAnswer>().choices[0]).not.toHaveProperty('record_id');
  });

  test('is trained by its record as it was drawn, or by its tokens and log-probabilities if a client keeps only these', async () => {
    const modelId = await server.makeModel('tokens');
    const drawn = {
      settings: { temperature: 0.7 },
      trace: { logprobs: Float32Array.of(-1, -2, -3), kept: Uint8Array.of(0, 0, 0, 0) },
      lost: null,
    };
    server.inference.script = function* (request) {
      for (const event of replies(request, [{ ids: [7, 8], text: 'hi' }]))
        yield event.kind === 'finished' ? { ...event, sampling: drawn as never } : event;
    };
    const answer = (
      await post({ model: 'tokens', sampling_params: { max_tokens: 4, logprobs: 0, temperature: 0.7 } })
    ).json<GenerateTokensAnswer>();
    const [choice] = answer.choices;
    const { content } = choice!.logprobs!;
    const message = { role: 'assistant', content: 'hi' };
    const items = [
      { message, finish_reason: 'stop', record_id: choice!.record_id },
      { message, finish_reason: 'stop', token_ids: choice!.token_ids, logprobs: { content } },
      {
        ...message,
        token_ids: choice!.token_ids,
        logprobs: { content: content.map(({ logprob }) => ({ token: 'x', logprob })) },
      },
      {
        message,
        finish_reason: 'stop',
        token_ids: [7, 8, 9],
        logprobs: { content: content.map(({ logprob }) => ({ token: 'x', logprob })) },
      },
    ];
    const trajectories = items.map((item, reward) => ({
      reward,
      messages_and_choices: [{ role: 'user', content: 'x' }, item],
    }));
    const body = { model_id: modelId, trajectory_groups: [{ trajectories }] };
    const { id } = (await server.request('POST', '/v1/preview/training-jobs', body)).json<TrainingJobObject>();
    const [group] = await readTrajectoryGroups(server.blobs, `groups/${id}`, { keepsBareIds: false });
    const read = group!.trajectories.map(({ histories }) => histories[0]!.items[1]!);
    for (const item of read.slice(0, 3))
      expect(item).toMatchObject({ kind: 'choice', sampling: drawn, policyDigest: null });
    expect(read[3]).not.toHaveProperty('sampling');
  });
});
