import { request as httpRequest } from 'node:http';
import { monitorEventLoopDelay } from 'node:perf_hooks';

import { afterAll, beforeAll, describe, expect, test, vi } from 'vitest';
import type { ErrorBody, TrainingJobObject } from '@trainyard/protocol';

import { readTrajectoryGroups } from '../../training-data/stored/trajectory-blob.ts';
import { TestServer } from '../../testing/test-server.ts';

vi.setConfig({ testTimeout: 60_000 });

let server: TestServer;
let modelId: string;
beforeAll(async () => {
  server = await TestServer.start({ previewBodyBytes: 20_000_000 });
  modelId = await server.makeModel('agent');
});
afterAll(() => server.close());

const JOBS = '/v1/preview/training-jobs';
const choice = (token: string, logprob = -0.5) => ({
  finish_reason: 'stop',
  message: { role: 'assistant', content: 'x' },
  logprobs: { content: [{ token, logprob, bytes: [1], top_logprobs: [] }] },
});
const group = (item: unknown, padding = '') => ({
  trajectories: [
    { reward: 1, metrics: { length: 3 }, messages_and_choices: [{ role: 'user', content: 'é😀' }, item] },
    { reward: 0, messages_and_choices: [] },
  ],
  logs: [padding],
});

/** Below and above the size from which another thread parses. */
const SIZES = [
  ['a small body', ''],
  ['a large body', 'p'.repeat(1_500_000)],
] as const;

describe.each(SIZES)('%s', (_name, padding) => {
  test('becomes a job, its groups as they were sent', async () => {
    const groups = [group(choice('token_id:5'), padding), group(choice('token_id:6'))];
    const body = { model_id: modelId, trajectory_groups: groups, experimental_config: { ppo: true, newer: 1 } };
    const response = await server.request('POST', JOBS, body);
    expect(response.statusCode, response.body.slice(0, 300)).toBe(200);
    const job = response.json<TrainingJobObject>();
    expect(job).toMatchObject({ model_id: modelId, status: 'queued', ignored_config_keys: ['newer'] });
    const lines = await Array.fromAsync(server.blobs.getJsonLines(`groups/${job.id}`));
    expect(lines).toEqual(groups);
  });

  test('with more trajectories, or metrics of a log, than one transaction should write is refused', async () => {
    const many = { trajectories: Array.from({ length: 100_001 }, () => ({})), logs: [padding] };
    const names = Object.fromEntries(Array.from({ length: 10_001 }, (_, index) => [`m${index}`, index]));
    const rich = { trajectories: [{ reward: 1, metrics: names }], logs: [padding] };
    for (const [path, group, words] of [
      [JOBS, many, 'at most 100000 trajectories in total, got 100001'],
      [`/v1/preview/models/${modelId}/log`, rich, 'at most 10000 different metric names in total'],
    ] as const) {
      const response = await server.request('POST', path, {
        model_id: modelId,
        ...(path === JOBS ? {} : { split: 'val' }),
        trajectory_groups: [group],
      });
      expect(response.statusCode).toBe(422);
      expect(response.body).toContain(words);
    }
  });

  test('with more groups than a job can list is refused, also if they are empty', async () => {
    const groups = [{ logs: [padding] }, ...Array.from({ length: 100_000 }, () => ({}))];
    for (const path of [JOBS, `/v1/preview/models/${modelId}/log`]) {
      const body = { model_id: modelId, ...(path === JOBS ? {} : { split: 'val' }), trajectory_groups: groups };
      const response = await server.request('POST', path, body);
      expect(response.statusCode).toBe(422);
      expect(response.body).toContain('List should have at most 100000 groups in total, got 100001');
    }
  });

  test('is refused with the same words', async () => {
    const valid = { model_id: modelId, trajectory_groups: [group(choice('token_id:5'), padding)] };
    const bodies: [unknown, number, string, string | null][] = [
      [`${JSON.stringify(valid).slice(0, -1)},]`, 422, 'request.invalid_json', 'body'],
      [{ ...valid, model_id: 5 }, 422, 'request.invalid', 'model_id'],
      [{ ...valid, model_id: 'nobody' }, 404, 'request.not_found', 'model_id'],
      [
        { ...valid, experimental_config: { kl_ref_adapter_path: 'a' } },
        422,
        'request.invalid',
        'experimental_config.kl_ref_adapter_path',
      ],
      [
        { ...valid, trajectory_groups: [...valid.trajectory_groups, group(choice('token_id:1000'))] },
        422,
        'request.invalid',
        'trajectory_groups.1.trajectories.0.messages_and_choices.1.logprobs.content.0.token',
      ],
      [
        JSON.stringify(valid).replace(
          '"model_id"',
          `"experimental_config":{"a":${'['.repeat(50_000)}${']'.repeat(50_000)}},"model_id"`,
        ),
        422,
        'request.invalid',
        'experimental_config',
      ],
    ];
    for (const [body, status, code, param] of bodies) {
      const response = await server.request('POST', JOBS, body);
      const { error } = response.json<ErrorBody>();
      expect([response.statusCode, error.code, error.param], error.message).toEqual([status, code, param]);
    }
    const numBlobs = (await server.blobs.listKeys()).length;
    const after = await server.request('POST', JOBS, { ...valid, trajectory_groups: [group(choice('x'), padding)] });
    expect(after.statusCode).toBe(422);
    expect((await server.blobs.listKeys()).length).toBe(numBlobs);
  });

  test('names the position of a syntax error', async () => {
    const body = `{"model_id": "${padding}", oops}`;
    const { detail } = (await server.request('POST', JOBS, body)).json<ErrorBody>();
    expect(detail).toMatchObject([{ loc: ['body', body.indexOf('oops')], type: 'json_invalid' }]);
  });

  test('with the same idempotency key has one effect', async () => {
    const body = { model_id: modelId, trajectory_groups: [group(choice('token_id:5'), padding)] };
    const headers = { 'idempotency-key': `job-${padding.length}` };
    const first = await server.request('POST', JOBS, body, headers);
    const second = await server.request('POST', JOBS, body, headers);
    expect([second.statusCode, second.body]).toEqual([200, first.body]);
    expect(second.headers['idempotent-replayed']).toBe('true');
    const other = await server.request('POST', JOBS, { ...body, experimental_config: {} }, headers);
    expect(other.json<ErrorBody>().error.code).toBe('request.idempotency_mismatch');
  });

  test('is logged, with its means on the checkpoint', async () => {
    const split = `split${padding.length}`;
    const path = `/v1/preview/models/${modelId}`;
    const body = { split, trajectory_groups: [group(choice('anything'), padding)] };
    const response = await server.request('POST', `${path}/log`, body);
    expect(response.json()).toEqual({ model_id: modelId, num_trajectories: 2 });
    const page = (await server.request('GET', `${path}/checkpoints`)).json<{ data: { metrics: object }[] }>();
    expect(page.data[0]?.metrics).toMatchObject({ [`${split}/reward`]: 0.5, [`${split}/length`]: 3 });
  });
});

test('an empty body is no body', async () => {
  for (const headers of [{ 'content-type': 'application/json' }, {}]) {
    const response = await server.app.inject({
      method: 'POST',
      url: JOBS,
      headers: { authorization: `Bearer ${server.key}`, ...headers },
    });
    expect([response.statusCode, response.json<ErrorBody>().detail]).toMatchObject([
      422,
      [{ loc: ['body'], type: 'missing' }],
    ]);
  }
});

test('large bodies at the same time all arrive', async () => {
  const send = (index: number) =>
    server.request('POST', JOBS, {
      model_id: modelId,
      trajectory_groups: [group(choice(`token_id:${index}`), 'p'.repeat(3_000_000))],
    });
  const responses = await Promise.all(Array.from({ length: 12 }, (_, index) => send(index)));
  expect(responses.map((response) => response.statusCode)).toEqual(responses.map(() => 200));
  for (const [index, response] of responses.entries()) {
    const [line] = await Array.fromAsync(server.blobs.getJsonLines(`groups/${response.json<{ id: string }>().id}`));
    expect(JSON.stringify(line)).toContain(`"token_id:${index}"`);
  }
});

describe('over a socket', () => {
  let url: string;
  beforeAll(async () => {
    url = await server.app.listen({ port: 0, host: '127.0.0.1' });
  });

  /** Sends chunks without a length; resolves with the answer's status and body. */
  function sendPieces(pieces: Iterable<string>): Promise<{ status: number; body: string }> {
    const answer = Promise.withResolvers<{ status: number; body: string }>();
    const headers = { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' };
    const outgoing = httpRequest(`${url}${JOBS}`, { method: 'POST', headers }, (response) => {
      let body = '';
      response.setEncoding('utf8').on('data', (text: string) => (body += text));
      response.on('end', () => answer.resolve({ status: response.statusCode ?? 0, body }));
    });
    // Data still being sent when the answer comes may fail.
    outgoing.on('error', () => undefined);
    for (const piece of pieces) outgoing.write(piece);
    outgoing.end();
    return answer.promise;
  }

  test('more bytes than the limit are refused, announced or not', async () => {
    const announced = await fetch(`${url}${JOBS}`, {
      method: 'POST',
      headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
      body: ' '.repeat(20_000_001),
    }).catch(() => null);
    // The server may close before the client has sent everything; an answer that arrives has the reason.
    if (announced !== null) expect(announced.status).toBe(413);
    const chunked = await sendPieces(Array.from({ length: 25 }, () => ' '.repeat(1_000_000)));
    expect(chunked.status).toBe(413);
    expect(chunked.body).toContain('20000000 bytes');
    expect((await server.request('GET', '/v1/health')).statusCode).toBe(200);
  });

  test('a body that is never completed holds nothing up', async () => {
    const outgoing = httpRequest(`${url}${JOBS}`, {
      method: 'POST',
      headers: {
        authorization: `Bearer ${server.key}`,
        'content-type': 'application/json',
        'content-length': '15000000',
      },
    });
    outgoing.on('error', () => undefined);
    outgoing.write('['.repeat(2_000_000));
    await new Promise((resolve) => setTimeout(resolve, 50));
    outgoing.destroy();
    const body = { model_id: modelId, trajectory_groups: [group(choice('token_id:5'), 'p'.repeat(8_000_000))] };
    expect((await server.request('POST', JOBS, body)).statusCode).toBe(200);
  });

  test('the event loop keeps running while a large body is parsed', async () => {
    const [one] = group(choice('token_id:5')).trajectories;
    const groups = Array.from({ length: 50 }, () => ({ trajectories: Array.from({ length: 1200 }, () => one) }));
    const body = JSON.stringify({ model_id: modelId, trajectory_groups: groups });
    const delay = monitorEventLoopDelay({ resolution: 5 });
    delay.enable();
    let numTurns = 0;
    const turns = setInterval(() => (numTurns += 1), 5);
    const startedAt = performance.now();
    const { status } = await sendPieces([body]);
    const seconds = (performance.now() - startedAt) / 1000;
    delay.disable();
    clearInterval(turns);
    const megabytes = (body.length / 1e6).toFixed(0);
    const [p99, longest] = [delay.percentile(99) / 1e6, delay.max / 1e6];
    console.log(
      `a body of ${megabytes} MB took ${seconds.toFixed(1)} s; event loop late by p99 ${p99.toFixed(0)} ms, at most ${longest.toFixed(0)} ms`,
    );
    expect(status).toBe(200);
    // Parsing here would block for 10 ms per MB, and checking and writing as long again: only a few turns in
    // all.
    expect(numTurns).toBeGreaterThan(20);
  });
});

test('ten thousand trajectories are one job, and are read back one group at a time', async () => {
  const one = (reward: number) => ({ ...group(choice('token_id:5')).trajectories[0], reward });
  const groups = Array.from({ length: 500 }, (_, index) => ({
    trajectories: Array.from({ length: 20 }, (_unused, number) => one(index + number)),
  }));
  const body = JSON.stringify({ model_id: modelId, trajectory_groups: groups });
  const startedAt = performance.now();
  const response = await server.request('POST', JOBS, body);
  const seconds = ((performance.now() - startedAt) / 1000).toFixed(2);
  expect(response.statusCode).toBe(200);
  const options = { keepsBareIds: false };
  const read = await readTrajectoryGroups(server.blobs, `groups/${response.json<TrainingJobObject>().id}`, options);
  expect(read.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward))).toEqual(
    groups.flatMap(({ trajectories }) => trajectories.map(({ reward }) => reward)),
  );
  console.log(`10,000 trajectories (${(body.length / 1e6).toFixed(1)} MB) were accepted in ${seconds} s`);
});
