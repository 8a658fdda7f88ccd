import type { ErrorBody, ListPage, TrajectoryContent, TrajectoryObject, TrajectoryTokens } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';

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
const GROUPS = [
  { trajectories: [said('a', 1), said('b', 0)], metadata: { scenario_id: 'one' } },
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

test('a trajectory is told as it was sent, with the rest of its group, until its words are removed', async () => {
  const { modelId, jobId } = await submitted('told');
  const told = (await one(`${jobId}.0.1`)).json<TrajectoryContent>();
  expect(told).toMatchObject({
    reward: 0,
    content: GROUPS[0]?.trajectories[1],
    group_content: { metadata: { scenario_id: 'one' } },
  });
  expect((await one(`${jobId}.1.0`)).json()).toMatchObject({
    content: { reward: 0.5 },
    group_content: { exceptions: [{ type: 'E' }] },
  });
  await server.store.cancelJob(jobId, 'enough');
  const { blobKeys } = await server.store.expireTrajectories(Date.now() + 1000, 100);
  expect((await one(`${jobId}.0.1`)).json()).toMatchObject({ reward: 0, content: null, group_content: null });
  for (const key of blobKeys) await server.blobs.remove(key);
  await server.request('DELETE', `/v1/preview/models/${modelId}`);
  expect((await one(`${jobId}.0.1`)).statusCode).toBe(404);
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

test('without a trace there are no tokens, and the outcome says why', async () => {
  const { jobId } = await submitted('bare');
  const job = await claimed(jobId);
  const outcomes = [
    [
      { outcome: 'trained', advantage: 1 },
      { outcome: 'trained', advantage: -1 },
    ],
    [{ outcome: 'single_trajectory', advantage: null }],
  ];
  await server.store.appendEvent(jobId, job.fencingToken, { type: 'training_started', data: {}, outcomes });
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

async function claimed(jobId: string) {
  for (;;) {
    const job = await server.store.claimNextJob('test', 60_000);
    if (job === null) throw new Error('the queue is empty');
    if (job.id === jobId) return job;
    await server.store.cancelJob(job.id, 'another test');
  }
}
