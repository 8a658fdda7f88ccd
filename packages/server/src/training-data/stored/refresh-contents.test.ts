import { afterAll, beforeAll, expect, test, vi } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';
import { toRecordLines } from '../choice-records/record-lines.ts';
import { ContentRefresh } from './refresh-contents.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const EXAMPLES = [
  { role: 'user', content: '1 + 1?' },
  { role: 'assistant', content: '2' },
];
const record = {
  kind: 'sampled' as const,
  promptTokenIds: Int32Array.of(1, 2),
  tokenIds: Int32Array.of(3, 4, 5),
  logprobs: Float32Array.of(-1, -1, -1),
};

function trajectory(question: string) {
  return {
    messages_and_choices: [
      ...EXAMPLES,
      { role: 'user', content: question },
      { finish_reason: 'length', index: 0, record_id: 'r', message: { role: 'assistant', content: 'so' } },
    ],
    reward: 0,
  };
}

/** A job as an earlier release stored it: one digest for all questions after the same examples. */
async function storeOlderJob(modelId: string, dataKey: string, questions: readonly string[]): Promise<string> {
  const groups = questions.map((question) => ({ trajectories: [trajectory(question), trajectory(question)] }));
  await server.blobs.putJsonLines(dataKey, [...toRecordLines(new Map([['r', record]])), ...groups]);
  const rewards = questions.map(() => [0, 1]);
  const job = await server.store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey, rewards });
  const older = { ...NO_CONTENTS, promptDigest: 'of the first user message' };
  await server.store.trajectories.replaceContents(
    job!.id,
    0,
    questions.map(() => [older, older]),
  );
  return job!.id;
}

const NO_CONTENTS = {
  question: null,
  reply: null,
  numTurns: null,
  numTokens: null,
  finishReason: null,
  metrics: {},
};

test('digests of an earlier release are computed again, by several processes at once', async () => {
  const { store, blobs } = server;
  const modelId = await server.makeModel('older');
  const questions = Array.from({ length: 300 }, (_, index) => `${index} + 2?`);
  const jobs = [
    await storeOlderJob(modelId, 'groups/older-1', questions),
    await storeOlderJob(modelId, 'groups/older-2', questions.slice(0, 3)),
  ];
  const lost = await storeOlderJob(modelId, 'groups/older-lost', ['?']);
  await blobs.discard({ kind: 'blob', key: 'groups/older-lost' }, Date.now());
  expect((await store.trajectories.list({ modelId })).items.map(({ promptDigest }) => promptDigest)).toEqual(
    Array.from({ length: 20 }, () => null),
  );
  const logs = [vi.fn<(line: string) => void>(), vi.fn<(line: string) => void>()];
  const refreshes = logs.map((log) => new ContentRefresh({ store, blobs, log }));
  await Promise.all(refreshes.map((refresh) => refresh.round()));
  const [first, second] = await Promise.all(
    jobs.map(async (jobId) => (await store.trajectories.list({ modelId, jobId, limit: 1000 })).items),
  );
  const digests = new Set(first!.map(({ promptDigest }) => promptDigest));
  expect(first).toHaveLength(600);
  expect(digests.size).toBe(300);
  expect(first!.slice(0, 6).map(({ promptDigest }) => promptDigest)).toEqual(
    second!.map(({ promptDigest }) => promptDigest),
  );
  expect(second![4]).toMatchObject({
    question: '2 + 2?',
    reply: 'so',
    numTokens: 3,
    numTurns: 1,
    finishReason: 'length',
  });
  expect(await store.trajectories.get(`${lost}.0.0`)).toMatchObject({ promptDigest: null });
  expect(logs.flatMap((log) => log.mock.calls.flat()).join('\n')).toContain(`the rollouts of ${lost} cannot be read`);
  expect((await store.trajectories.listOutdatedContents(10)).map(({ setId }) => setId)).toEqual([lost]);
});

test('an interrupted computation is done again from the start of its job', async () => {
  const { store, blobs } = server;
  const modelId = await server.makeModel('interrupted');
  const questions = Array.from({ length: 600 }, (_, index) => `${index}?`);
  const jobId = await storeOlderJob(modelId, 'groups/interrupted', questions);
  const stopped: Promise<void>[] = [];
  const refresh = new ContentRefresh({
    store: {
      trajectories: {
        listOutdatedContents: (limit) => store.trajectories.listOutdatedContents(limit),
        settleContents: (setId, end) => store.trajectories.settleContents(setId, end),
        replaceContents: (...of) => {
          stopped.push(refresh.stop());
          return store.trajectories.replaceContents(...of);
        },
      },
    },
    blobs,
    log: () => {},
  });
  await refresh.round();
  await Promise.all(stopped);
  expect((await store.trajectories.get(`${jobId}.0.0`))?.promptDigest).toBeNull();
  const next = new ContentRefresh({ store, blobs, log: () => {} });
  await next.round();
  for (const group of [0, 599])
    expect(await store.trajectories.get(`${jobId}.${group}.1`)).toMatchObject({ question: `${group}?` });
});
