import type { ErrorBody, ListPage, TrajectoryContent, TrajectoryObject, TrajectoryTokens } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
let rival: Record<string, string>;
beforeAll(async () => {
  server = await TestServer.start();
  rival = { authorization: `Bearer ${await server.makeKey('rival', ['training'])}` };
});
afterAll(() => server.close());

const said = (content: string, reward: number) => ({
  messages_and_choices: [
    { role: 'user', content: 'hello' },
    {
      finish_reason: 'stop',
      index: 0,
      token_ids: [5],
      logprobs: { content: [{ token: 'token_id:5', logprob: -0.5 }] },
      message: { role: 'assistant', content },
    },
  ],
  reward,
});
/** Any JSON, as ART has sent it since 0.5.19. */
const METADATA = { scenario_id: 'one', tags: ['x', { of: [null, true] }] };
const GROUPS = [
  { trajectories: [said('a', 1), { ...said('b', 0), metadata: METADATA }], metadata: METADATA },
  { trajectories: [said('c', 0.5)], exceptions: [{ type: 'E', message: 'm' }] },
];

async function submitted(name: string) {
  const modelId = await server.makeModel(name);
  const job = await server.request('POST', '/v1/preview/training-jobs', {
    model_id: modelId,
    trajectory_groups: GROUPS,
  });
  return { modelId, jobId: job.json<{ id: string }>().id };
}

const list = async (modelId: string, query = '') =>
  (await server.request('GET', `/v1/preview/models/${modelId}/trajectories${query}`)).json<
    ListPage<TrajectoryObject>
  >();
const one = (id: string, path = '', headers = {}) =>
  server.request('GET', `/v1/preview/trajectories/${id}${path}`, undefined, headers);

test('trajectories of jobs and logs are listed with their rewards, a page at a time, also by reward', async () => {
  const { modelId, jobId } = await submitted('listed');
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: [{ trajectories: [said('d', 0.75)] }],
    split: 'val',
  });
  const { data } = await list(modelId);
  expect(data.map(({ split, group, index, reward }) => [split, group, index, reward])).toEqual([
    ['train', 0, 0, 1],
    ['train', 0, 1, 0],
    ['train', 1, 0, 0.5],
    ['val', 0, 0, 0.75],
  ]);
  expect(data[0]).toMatchObject({ model_id: modelId, job_id: jobId, log_id: null, step: 0, outcome: null });
  const best = await list(modelId, '?sort=reward&order=desc&limit=2');
  expect([best.data.map(({ reward }) => reward), best.has_more]).toEqual([[1, 0.75], true]);
  const rest = await list(modelId, `?sort=reward&order=desc&after=${best.last_id}`);
  expect(rest.data.map(({ reward }) => reward)).toEqual([0.5, 0]);
  const rewards = async (query: string) => (await list(modelId, query)).data.map(({ reward }) => reward);
  expect(await rewards(`?job_id=${jobId}&group=1`)).toEqual([0.5]);
  expect(await rewards('?split=val')).toEqual([0.75]);
  expect(await rewards('?step=1')).toEqual([]);
  expect(await rewards(`?log_id=${data[3]?.log_id}`)).toEqual([0.75]);
  for (const query of ['?group=-1', '?sort=colour', '?step=x', '?after=nonsense'])
    expect([
      (await server.request('GET', `/v1/preview/models/${modelId}/trajectories${query}`)).statusCode,
      query,
    ]).toEqual([422, query]);
});

test('a trajectory is returned as it was sent, with the rest of its group, until its text is removed', async () => {
  const { modelId, jobId } = await submitted('told');
  const told = (await one(`${jobId}.0.1`)).json<TrajectoryContent>();
  expect(told).toMatchObject({
    reward: 0,
    content: GROUPS[0]?.trajectories[1],
    group_content: { metadata: METADATA },
  });
  expect((await one(`${jobId}.1.0`)).json()).toMatchObject({
    content: { reward: 0.5 },
    group_content: { exceptions: [{ type: 'E' }] },
  });
  await server.store.jobs.cancel(jobId, 'enough');
  const { blobKeys } = await server.store.trajectories.expire(Date.now() + 1000, 100);
  expect((await one(`${jobId}.0.1`)).json()).toMatchObject({ reward: 0, content: null, group_content: null });
  for (const key of blobKeys) await server.blobs.remove(key);
  await server.request('DELETE', `/v1/preview/models/${modelId}`);
  expect((await one(`${jobId}.0.1`)).statusCode).toBe(404);
});

test('metadata may be any JSON that survives a round trip', async () => {
  const modelId = await server.makeModel('described');
  const log = (text: string) =>
    server.request('POST', `/v1/preview/models/${modelId}/log`, `{"split":"val","trajectory_groups":[${text}]}`, {
      'content-type': 'application/json',
    });
  const trajectory = JSON.stringify(said('a', 1)).slice(0, -1);
  const groupWith = (metadata: string) => `{"trajectories":[${trajectory}}],"metadata":${metadata}}`;
  const nested = (depth: number) => `{"a":${'['.repeat(depth)}${']'.repeat(depth)}}`;
  for (const [group, param] of [
    [`{"trajectories":[${trajectory},"metadata":{"a":[1e999]}}]}`, 'trajectory_groups.0.trajectories.0.metadata.a.0'],
    [groupWith('{"a":{"b":-1e999}}'), 'trajectory_groups.0.metadata.a.b'],
    [groupWith('[]'), 'trajectory_groups.0.metadata'],
    [groupWith(nested(1000)), 'trajectory_groups.0.metadata'],
  ] as const) {
    const answer = await log(group);
    expect([answer.statusCode, answer.json<Partial<ErrorBody>>().error?.param]).toEqual([422, param]);
  }
  expect((await log(groupWith(nested(100)))).statusCode).toBe(200);
});

test('an unknown trajectory and one of another entity are the same 404', async () => {
  const { modelId, jobId } = await submitted('own');
  const id = `${jobId}.0.0`;
  const answers = [
    await one(id, '', rival),
    await one(id, '/tokens', rival),
    await one(`${jobId}.0.9`),
    await one('nonsense', '/tokens'),
    await server.request('GET', `/v1/preview/models/${modelId}/trajectories`, undefined, rival),
  ];
  for (const answer of answers)
    expect([answer.statusCode, answer.json<ErrorBody>().error.code]).toEqual([404, 'request.not_found']);
  const inference = { authorization: `Bearer ${await server.makeKey('acme', ['inference'])}` };
  expect((await one(id, '', inference)).statusCode).toBe(403);
});

test('without a trace there are no tokens, and the outcome has the reason', async () => {
  const { jobId } = await submitted('bare');
  const job = await claimed(jobId);
  const outcomes = [
    [
      { outcome: 'trained', advantage: 1 },
      { outcome: 'trained', advantage: -1 },
    ],
    [{ outcome: 'single_trajectory', advantage: null }],
  ];
  await server.store.jobs.appendEvent(jobId, job.fencingToken, { type: 'training_started', data: {}, outcomes });
  expect((await one(`${jobId}.1.0`, '/tokens')).json<TrajectoryTokens>()).toMatchObject({
    outcome: 'single_trajectory',
    advantage: null,
    sequences: [],
  });
  expect((await one(`${jobId}.0.0`, '/tokens')).json<TrajectoryTokens>()).toMatchObject({
    outcome: 'trained',
    advantage: 1,
  });
});

test('replies that were not trained get their tokens from the reply, its record, or an engine', async () => {
  const modelId = await server.makeModel('sampled');
  const entry = (id: number, bytes?: number[]) => ({ token: `token_id:${id}`, logprob: -id / 10, bytes });
  const reply = (content: object[], extra = {}) => ({
    finish_reason: 'stop',
    index: 0,
    message: { role: 'assistant', content: 'Hi' },
    logprobs: { content },
    ...extra,
  });
  const hello = { role: 'user', content: 'hello' };
  const groups = [
    {
      trajectories: [
        {
          reward: 1,
          messages_and_choices: [hello, reply([entry(7, [72]), entry(8, [0xff])])],
          additional_histories: [{ messages_and_choices: [hello, reply([entry(9, [...Buffer.from('token_id:9')])])] }],
        },
        { reward: 1, messages_and_choices: [hello, { role: 'assistant', content: 'told, not sampled' }] },
      ],
    },
  ];
  const job = await server.request('POST', '/v1/preview/training-jobs', {
    model_id: modelId,
    trajectory_groups: groups,
  });
  const { id } = job.json<{ id: string }>();
  const told = (await one(`${id}.0.0`, '/tokens')).json<TrajectoryTokens>();
  expect(told.sequences).toEqual([]);
  expect(told.choices).toEqual([
    { history: 0, item: 1, token_ids: [7, 8], texts: ['H', '�'], sampled_logprobs: [-0.7, -0.8].map(Math.fround) },
    { history: 1, item: 1, token_ids: [9], texts: ['<9>'], sampled_logprobs: [Math.fround(-0.9)] },
  ]);
  expect((await one(`${id}.0.1`, '/tokens')).json<TrajectoryTokens>().choices).toEqual([]);
  await server.store.jobs.cancel(id, 'enough');
  await server.store.trajectories.expire(Date.now() + 1000, 100);
  expect((await one(`${id}.0.0`, '/tokens')).json<TrajectoryTokens>().choices).toEqual([]);
});

test('a log that is no valid training data has no tokens, and is returned all the same', async () => {
  const modelId = await server.makeModel('odd');
  const odd = {
    reward: 1,
    messages_and_choices: [{ role: 'assistant', content: 'x', logprobs: { content: [{ token: 'x' }] } }],
  };
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: [{ trajectories: [odd] }],
    split: 'val',
  });
  const [{ id } = { id: '' }] = (await list(modelId)).data;
  expect((await one(id, '/tokens')).json<TrajectoryTokens>()).toMatchObject({ choices: [], sequences: [] });
});

test('message texts are searched page by page; roles, ids and removed texts are not found', async () => {
  const modelId = await server.makeModel('searched');
  const group = (words: string[]) => ({ trajectories: words.map((word, index) => said(word, index)) });
  const submit = async (groups: object[]) =>
    (await server.request('POST', '/v1/preview/training-jobs', { model_id: modelId, trajectory_groups: groups })).json<{
      id: string;
    }>().id;
  const first = await submit([group(['A "quoted" ship', 'boat']), group(['SHIP\nahead', 'raft'])]);
  const second = await submit([group(['another ship', 'Schiff für Übung'])]);
  const found = async (query: string) => (await list(modelId, `?${query}`)).data.map(({ id }) => id);
  expect(await found('text=ship')).toEqual([`${first}.0.0`, `${first}.1.0`, `${second}.0.0`]);
  expect(await found('text=ship&order=desc')).toEqual([`${second}.0.0`, `${first}.1.0`, `${first}.0.0`]);
  expect(await found(`text=ship&job_id=${second}`)).toEqual([`${second}.0.0`]);
  expect(await found(`text=${encodeURIComponent('"QUOTED"')}`)).toEqual([`${first}.0.0`]);
  expect(await found(`text=${encodeURIComponent('ship\nahead')}`)).toEqual([`${first}.1.0`]);
  expect(await found(`text=${encodeURIComponent('FÜR ü')}`)).toEqual([`${second}.0.1`]);
  for (const nowhere of ['assistant', 'token_id', 'finish_reason', 'messages_and_choices'])
    expect(await found(`text=${nowhere}`)).toEqual([]);
  for (const order of ['asc', 'desc']) {
    const seen: string[] = [];
    for (let after = ''; ;) {
      const page = await list(modelId, `?text=hello&limit=2&order=${order}${after}`);
      seen.push(...page.data.map(({ id }) => id));
      if (!page.has_more) break;
      after = `&after=${page.last_id}`;
    }
    expect(new Set(seen).size).toBe(6);
    expect(seen).toHaveLength(6);
  }
  expect((await list(modelId, '?text=quoted')).data[0]?.excerpt).toBe('A "quoted" ship');
  const refused = await server.request('GET', `/v1/preview/models/${modelId}/trajectories?text=ship&sort=reward`);
  expect([refused.statusCode, refused.json<ErrorBody>().error.message]).toEqual([
    422,
    expect.stringContaining('sort=reward'),
  ]);
  await server.store.jobs.cancel(first, 'enough');
  await server.store.trajectories.expire(Date.now() + 1000, 100);
  expect(await found('text=ship')).toEqual([`${second}.0.0`]);
});

test('arguments of calls are searched, as text and as the parsed object', async () => {
  const modelId = await server.makeModel('called');
  const called = (given: unknown, index: number) => ({
    reward: index,
    messages_and_choices: [
      { role: 'user', content: 'hi' },
      { role: 'assistant', content: null, tool_calls: [{ id: 'c', function: { name: 'look', arguments: given } }] },
    ],
  });
  const given = [JSON.stringify({ city: 'Zürich', at: [8, 47] }), { city: 'Zürich', at: [8, 47] }, {}, null];
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: given.map((one, index) => ({ trajectories: [called(one, index)] })),
    split: 'val',
  });
  for (const text of ['zürich', '"CITY":"Zürich"', '[8,47]']) {
    const { data } = await list(modelId, `?text=${encodeURIComponent(text)}`);
    expect(data.map(({ reward, excerpt }) => [reward, excerpt])).toEqual(
      [0, 1].map((reward) => [reward, '{"city":"Zürich","at":[8,47]}']),
    );
  }
  expect((await list(modelId, '?text=tool_calls')).data).toEqual([]);
  expect((await list(modelId, '?text=look')).data).toHaveLength(4);
});

test('examples belong to the prompt: other questions after the same examples have other digests', async () => {
  const modelId = await server.makeModel('few-shot');
  const asked = (question: string) => ({
    messages_and_choices: [
      { role: 'user', content: '1 + 1?' },
      { role: 'assistant', content: '2' },
      { role: 'user', content: question },
      ...said('first', 0).messages_and_choices.slice(1),
      { role: 'tool', content: 'no' },
      ...said('  last\n\0 reply ', 0).messages_and_choices.slice(1),
    ],
    reward: 0,
    metrics: { length: 4, is_short: true },
  });
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: [{ trajectories: [asked('2 + 2?'), asked('2 + 2?'), asked('3 + 3?')] }],
    split: 'val',
  });
  const { data } = await list(modelId);
  const [first, second, other] = data.map(({ prompt_digest: digest }) => digest);
  expect(second).toBe(first);
  expect(other).not.toBe(first);
  expect(data[2]).toMatchObject({
    question: '3 + 3?',
    excerpt: 'last reply',
    num_turns: 2,
    num_tokens: 2,
    finish_reason: 'stop',
    metrics: { length: 4, is_short: 1 },
  });
  expect(data[2]!.created_at).toBeGreaterThan(1.7e9);
  expect((await list(modelId, '?text=3 %2B 3')).data.map(({ excerpt }) => excerpt)).toEqual(['3 + 3?']);
});

test('trajectories of the same prompt have the same digest in any member order, and are found by it', async () => {
  const modelId = await server.makeModel('prompted');
  const asked = (question: object, reward: number) => ({
    reward,
    messages_and_choices: [question, { role: 'assistant', content: String(reward) }],
  });
  const trajectories = [
    asked({ role: 'user', content: 'one' }, 0),
    asked({ content: 'one', role: 'user' }, 1),
    asked({ role: 'user', content: 'two' }, 2),
    { ...asked({ role: 'user', content: 'one' }, 3), tools: [{ type: 'function', function: { name: 'f' } }] },
    { reward: 4, messages_and_choices: [{ role: 'assistant', content: 'unasked' }] },
  ];
  await server.request('POST', `/v1/preview/models/${modelId}/log`, {
    trajectory_groups: [{ trajectories }],
    split: 'val',
  });
  const { data } = await list(modelId);
  const [one1, one2, two, withTools, unasked] = data.map(({ prompt_digest: digest }) => digest);
  expect(one1).toMatch(/^[0-9a-f]{32}$/);
  expect(one2).toBe(one1);
  expect(new Set([one1, two, withTools, unasked]).size).toBe(4);
  expect(unasked).toBeNull();
  expect((await list(modelId, `?prompt_digest=${one1}`)).data.map(({ reward }) => reward)).toEqual([0, 1]);
});

async function claimed(jobId: string) {
  for (;;) {
    const job = await server.store.jobs.claim('test', 60_000);
    if (job === null) throw new Error('the queue is empty');
    if (job.id === jobId) return job;
    await server.store.jobs.cancel(job.id, 'another test');
  }
}
