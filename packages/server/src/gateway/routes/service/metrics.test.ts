import { afterAll, beforeAll, expect, test } from 'vitest';

import { createServer } from '../../create-server.ts';
import { metricsAccess } from '../../../service/settings/network-access.ts';
import { ServiceMetrics } from '../../../seams/metrics/service-metrics.ts';
import { failure, replies } from '../../../testing/scripted-inference.ts';
import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

const read = async (app = server.app) => (await app.inject({ url: '/metrics' })).body;

/** Value of a sample, without labels that every sample has. */
function valueOf(text: string, name: string, labels = ''): number {
  const line = text.split('\n').find((one) => one.startsWith(`${name}{`) && one.includes(labels));
  if (line === undefined) throw new Error(`no ${name} with ${labels} in\n${text}`);
  return Number(line.split(' ').at(-1));
}

test('is the text form of Prometheus, without a key', async () => {
  const response = await server.app.inject({ url: '/metrics' });
  expect(response.statusCode).toBe(200);
  expect(response.headers['content-type']).toContain('text/plain; version=0.0.4');
  for (const name of [
    'vllm:num_requests_running',
    'vllm:kv_cache_usage_perc',
    'vllm:prompt_tokens_total',
    'trainyard_jobs',
  ])
    expect(response.body).toContain(`# TYPE ${name} `);
});

test('requests are counted by route and outcome, with their tokens and timings', async () => {
  server.inference.script = (request) => replies(request, [{ ids: [5, 6], text: 'hi' }]);
  await server.chat();
  await server.chat({ n: 2, max_tokens: 9 });
  server.inference.script = () => [failure('engine.internal', 'broken', null)];
  await server.chat();
  const text = await read();
  expect(valueOf(text, 'vllm:request_success_total', 'finished_reason="stop"')).toBe(3);
  expect(valueOf(text, 'vllm:time_to_first_token_seconds_count')).toBe(2);
  expect(valueOf(text, 'vllm:e2e_request_latency_seconds_count')).toBe(2);
  expect(valueOf(text, 'vllm:request_params_n_sum')).toBe(4);
  expect(valueOf(text, 'vllm:request_params_max_tokens_sum')).toBe(9);
  expect(valueOf(text, 'vllm:request_generation_tokens_sum')).toBe(9);
  const labels = (status: string) => `handler="/v1/chat/completions",method="POST",status="${status}"`;
  expect([
    valueOf(text, 'http_requests_total', labels('2xx')),
    valueOf(text, 'http_requests_total', labels('5xx')),
  ]).toEqual([2, 1]);
});

test('no name of a tenant is in a label', async () => {
  const id = await server.makeModel('secret-agent', 'secret-project');
  await server.request('GET', `/v1/preview/models/${id}/checkpoints`);
  await server.chat({ model: 'acme/secret-project/secret-agent' });
  await server.request('GET', '/v1/models/secret-agent');
  await server.request('GET', '/v1/secret-path');
  const text = await read();
  expect(text).not.toMatch(/secret|acme/);
  expect(text).not.toContain(id);
  expect(text).toContain('model_name="tiny/base"');
});

test('jobs are counted: the queue, steps, dropped groups by reason, the gap', async () => {
  const metrics = new ServiceMetrics();
  const { store, blobs, inference, training, transfers } = server;
  const app = createServer({ store, blobs, inference, training, exports: transfers, imports: transfers, metrics });
  const modelId = await server.makeModel('queue');
  await store.jobs.enqueue({ modelId, kind: 'rl', config: {}, dataKey: 'groups/x' });
  const job = { id: 'j', kind: 'rl' };
  const started = {
    num_groups_submitted: 5,
    num_groups_trainable: 2,
    dropped_groups: { equal_rewards: 2, too_long: 1 },
  };
  const step = { 'fresh/logprob_gap_mean': 0.001, 'fresh/logprob_gap_max': 0.02, 'updated/logprob_gap_max': 3 };
  for (let run = 0; run < 2; run += 1) {
    // A resumed job repeats its start.
    metrics.jobs.see(job, { type: 'training_started', data: started, dedupeKey: 'training_started' });
    metrics.jobs.see(job, { type: 'gradient_step', data: step, dedupeKey: `gradient_step:${run}` });
  }
  const snapshot = { seconds: 0.5, sizeBytes: 1000 };
  const parts = { seconds_forward: 2, seconds_backward: 3, num_trainable_tokens: 12, loss: 1 };
  metrics.jobs.stepTaken(job, { seconds: 6, snapshot }, parts);
  metrics.jobs.stepTaken(job, { seconds: 6, snapshot: null }, parts);
  metrics.jobs.claimed('rl');
  metrics.jobs.leaseLost('rl');
  metrics.data.sawCall({ kind: 'transaction', outcome: 'store.busy', seconds: 1, roundTrips: 4 });
  metrics.data.sawRequest({ method: 'PUT', outcome: 'ok', isRetry: true, bytesSent: 8, bytesReceived: 0 });
  metrics.jobs.see(job, { type: 'warning', data: { code: 'rate' }, dedupeKey: 'warning:rate' });
  metrics.jobs.end(job, 'succeeded');
  const text = await read(app);
  expect(valueOf(text, 'trainyard_jobs', 'status="queued"')).toBe(1);
  expect(valueOf(text, 'trainyard_groups_submitted_total')).toBe(5);
  expect(valueOf(text, 'trainyard_groups_dropped_total', 'reason="equal_rewards"')).toBe(2);
  expect(valueOf(text, 'trainyard_gradient_steps_total', 'kind="rl"')).toBe(2);
  expect(valueOf(text, 'trainyard_trained_tokens_total', 'kind="rl"')).toBe(24);
  expect(valueOf(text, 'trainyard_gradient_step_seconds_total', 'part="backward"')).toBe(6);
  expect(valueOf(text, 'trainyard_gradient_step_seconds_total', 'part="snapshot"')).toBe(0.5);
  expect(valueOf(text, 'trainyard_snapshot_bytes_total')).toBe(1000);
  expect(valueOf(text, 'trainyard_snapshot_seconds_count')).toBe(1);
  expect(valueOf(text, 'trainyard_jobs_claimed_total', 'kind="rl"')).toBe(1);
  expect(valueOf(text, 'trainyard_leases_lost_total', 'kind="rl"')).toBe(1);
  expect(valueOf(text, 'trainyard_database_calls_total', 'kind="transaction",outcome="store.busy"')).toBe(1);
  expect(valueOf(text, 'trainyard_database_round_trips_total')).toBe(4);
  expect(valueOf(text, 'trainyard_bucket_retries_total', 'method="PUT"')).toBe(1);
  expect(valueOf(text, 'trainyard_bucket_bytes_total', 'direction="sent"')).toBe(8);
  expect(valueOf(text, 'trainyard_logprob_gap_count')).toBe(2);
  expect(valueOf(text, 'trainyard_logprob_gap_max')).toBe(0.02);
  expect(valueOf(text, 'trainyard_job_warnings_total', 'code="rate"')).toBe(1);
  expect(valueOf(text, 'trainyard_jobs_ended_total', 'outcome="succeeded"')).toBe(1);
  await app.close();
});

test.each([
  [
    ['127.0.0.1', []],
    [200, 401, 403, 200],
  ],
  [
    ['localhost', ['localhost']],
    [200, 401, 403, 200],
  ],
  [
    ['127.0.0.1', ['yard.example']],
    [401, 401, 403, 200],
  ],
  [
    ['127.0.0.1', ['*']],
    [401, 401, 403, 200],
  ],
  [
    ['0.0.0.0', []],
    [401, 401, 403, 200],
  ],
] as const)(
  'auto on %j: with %j for no key, none through a proxy, a tenant and an admin',
  async ([host, allowed], expected) => {
    const { store, blobs, inference, training, transfers } = server;
    const access = metricsAccess({ host }, { metrics: 'auto', allowedHosts: [...allowed] });
    const app = createServer({
      store,
      blobs,
      inference,
      training,
      exports: transfers,
      imports: transfers,
      metricsAccess: access,
    });
    const admin = await server.makeKey('acme', ['admin']);
    const proxied = { 'x-forwarded-for': '203.0.113.7' };
    const keyed = (key: string) => ({ ...proxied, authorization: `Bearer ${key}` });
    const statuses = await Promise.all(
      [{}, proxied, keyed(server.key), keyed(admin)].map(
        async (headers) => (await app.inject({ url: '/metrics', headers })).statusCode,
      ),
    );
    expect(statuses).toEqual(expected);
    await app.close();
  },
);

test.each([
  'forwarded',
  'via',
  'x-forwarded-for',
  'x-forwarded-host',
  'x-forwarded-proto',
  'x-forwarded',
  'x-real-ip',
  'x-client-ip',
  'x-cluster-client-ip',
  'true-client-ip',
  'cf-connecting-ip',
  'fastly-client-ip',
  'fly-client-ip',
  'x-original-forwarded-for',
  'x-envoy-external-address',
])('the header %s shows a proxy, and auto asks for a key', async (name) => {
  const { store, blobs, inference, training, transfers } = server;
  const app = createServer({
    store,
    blobs,
    inference,
    training,
    exports: transfers,
    imports: transfers,
    metricsAccess: 'local',
  });
  expect((await app.inject({ url: '/metrics', headers: { [name]: 'x' } })).statusCode).toBe(401);
  await app.close();
});

test('metrics need an admin key if other machines reach the service, and are 404 if they are off', async () => {
  const { store, blobs, inference, training, transfers } = server;
  const parts = { store, blobs, inference, training, exports: transfers, imports: transfers };
  const keyed = createServer({ ...parts, metricsAccess: 'key' });
  const admin = await server.makeKey('acme', ['admin']);
  const get = (app: typeof keyed, key?: string) =>
    app.inject({ url: '/metrics', headers: key === undefined ? {} : { authorization: `Bearer ${key}` } });
  const statuses = [await get(keyed), await get(keyed, server.key), await get(keyed, admin)];
  expect(statuses.map(({ statusCode }) => statusCode)).toEqual([401, 403, 200]);
  const off = createServer({ ...parts, metricsAccess: 'off' });
  expect((await get(off)).statusCode).toBe(404);
  await Promise.all([keyed.close(), off.close()]);
});
