/** Two HTTP processes on one database: a client may use either. */
import type { AdapterObject, ChatCompletion, ErrorBody, TrainingJobObject, UsageListObject } from '@trainyard/protocol';
import type { LightMyRequestResponse } from 'fastify';
import { afterEach, beforeEach, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';
import { readTrajectoryGroups } from '../../training-data/stored/trajectory-blob.ts';

let one: TestServer;
let two: TestServer;
beforeEach(async () => {
  one = await TestServer.start();
  two = await one.startAnother('two');
});
afterEach(async () => {
  await two.close();
  await one.close();
});

const JOBS = '/v1/preview/training-jobs';
const QUESTION = { role: 'user', content: 'hello' };

test('a choice that one sampled is trained through the other, by its record', async () => {
  const modelId = await one.makeModel('agent');
  const sampled = async () => (await one.chat({ model: 'agent' })).json<ChatCompletion>().choices[0]!;
  const choices = [await sampled(), await sampled()];
  const trajectories = choices.map(({ message, record_id: recordId }, reward) => {
    expect(recordId).toEqual(expect.any(String));
    return { reward, messages_and_choices: [QUESTION, { ...message, record_id: recordId }] };
  });
  const answer = await two.request('POST', JOBS, { model_id: modelId, trajectory_groups: [{ trajectories }] });
  expect(answer.statusCode, answer.body).toBe(200);
  const { id } = answer.json<TrainingJobObject>();
  expect((await one.store.jobs.get(id))?.config).toMatchObject({ numUnknownRecords: 0 });
  const [group] = await readTrajectoryGroups(one.blobs, `groups/${id}`, { keepsBareIds: false });
  for (const { histories } of group!.trajectories)
    expect(histories[0]!.items[1]).toMatchObject({ kind: 'choice', tokenIds: Int32Array.of(5, 6, 2) });
});

test('the same request under one key at both at the same time is one answer and one job', async () => {
  const modelId = await one.makeModel('agent');
  const trajectories = [0, 1].map((reward) => ({
    reward,
    messages_and_choices: [QUESTION, { role: 'assistant', content: 'x' }],
  }));
  const body = {
    model_id: modelId,
    trajectory_groups: [{ trajectories }],
    experimental_config: { allow_training_without_logprobs: true },
  };
  /** Like a client that retries while the first request runs. */
  const insist = async (server: TestServer, key: string): Promise<LightMyRequestResponse> => {
    for (;;) {
      const answer = await server.request('POST', JOBS, body, { 'idempotency-key': key });
      if (answer.statusCode !== 409) return answer;
      expect(answer.json<ErrorBody>().error.code).toBe('request.idempotency_in_progress');
      await new Promise((over) => setTimeout(over, 5));
    }
  };
  const jobIds: string[] = [];
  let numReplayed = 0;
  for (let round = 0; round < 5; round++) {
    const at = [one, two, one, two, two, one];
    const answers = await Promise.all(at.map((server) => insist(server, `round-${round}`)));
    expect(new Set(answers.map(({ statusCode, body: sent }) => `${statusCode} ${sent}`)).size, answers[0]!.body).toBe(
      1,
    );
    numReplayed += answers.filter(({ headers }) => headers['idempotent-replayed'] === 'true').length;
    jobIds.push(answers[0]!.json<TrainingJobObject>().id);
  }
  expect(numReplayed).toBe(25);
  expect((await one.store.jobs.list({ modelId, limit: 100 })).items.map(({ id }) => id)).toEqual(jobIds);
});

test('both processes report the sum of the tokens they sampled', async () => {
  const numTokens = async (answer: Promise<LightMyRequestResponse>) =>
    (await answer).json<ChatCompletion>().usage.total_tokens;
  const sums = await Promise.all([one, two, two].map((server) => numTokens(server.chat())));
  const expected = sums.reduce((sum, tokens) => sum + tokens, 0);
  for (const server of [one, two]) {
    const usage = async () => (await server.request('GET', '/v1/preview/usage')).json<UsageListObject>().data[0];
    // The other process writes its rest within milliseconds.
    await expect.poll(async () => (await usage())?.num_requests).toBe(3);
    const all = (await usage())!;
    expect(all.prompt_tokens + all.completion_tokens).toBe(expected);
  }
});

test('a process that was stopped for too long returns the answer of the one that took over, not its own late one', async () => {
  const { id } = (await one.request('POST', '/v1/preview/adapters', { base_model: null })).json<AdapterObject>();
  const url = `/v1/preview/adapters/${id}`;
  const send = (server: TestServer) => server.request('DELETE', url, undefined, { 'idempotency-key': 'late' });
  const deleteAdapter = one.store.adapters.delete.bind(one.store.adapters);
  let taken: LightMyRequestResponse | undefined;
  one.store.adapters.delete = async (adapterId, completes) => {
    // As after a minute without renewal: the claim has expired.
    await one.store.idempotency.abandon(completes!);
    taken = await send(two);
    return await deleteAdapter(adapterId, completes);
  };
  const late = await send(one);
  expect(taken?.statusCode).toBe(200);
  expect([late.statusCode, late.body]).toEqual([200, taken?.body]);
  expect(late.headers['idempotent-replayed']).toBe('true');
  expect((await one.request('DELETE', url)).statusCode).toBe(404);
});
