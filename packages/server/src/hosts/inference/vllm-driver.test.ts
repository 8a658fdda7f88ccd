import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { TokenEngine } from '@trainyard/engine';
import { EmbeddedTokenBackend, ScriptedRunner } from '@trainyard/engine/testing';
import type { ChatCompletion, ErrorBody, HostsObject } from '@trainyard/protocol';
import { FakeVllm } from '@trainyard/vllm/testing';
import { afterAll, beforeAll, beforeEach, expect, onTestFinished, test, vi } from 'vitest';

import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { EmbeddedInference } from '../pool/embedded-inference.ts';
import { InferencePool } from '../pool/inference-pool.ts';
import { RequestCapacity } from '../pool/request-capacity.ts';
import { OtlpReceiver } from '../../testing/otlp-receiver.ts';
import { readEvents, TestServer } from '../../testing/test-server.ts';
import { openTracing } from '../../seams/tracing/open-tracing.ts';
import { VLLM_KEY_VARIABLE, type VllmDriverSettings } from './vllm-driver.ts';

const MODEL = 'tiny/base';
const KEY = 'a key of vLLM';
const COMPLETIONS = '/v1/completions';
const IM_START = 257;
const IM_END = 258;
const log: string[] = [];
/** Long enough that no server counts as lost on a slow machine. */
const TIMES = {
  connectMs: 60_000,
  answerMs: 60_000,
  computeMs: 60_000,
  loadMs: 60_000,
  healthEveryMs: 60_000,
  healthMs: 60_000,
  stallMs: 600_000,
  probeAfterMs: 60_000,
  compareEveryMs: 60_000,
};

/** Greets, with the adapter's name if there is one; tokens are bytes. */
function greeter(): EmbeddedTokenBackend {
  const runner = new ScriptedRunner({
    vocabSize: 261,
    logits: (tokens, adapterPath, row) => {
      const at = tokens.length - tokens.lastIndexOf(IM_START) - 1 - 'assistant\n'.length;
      const reply = adapterPath === null ? 'Hello to you.' : 'I am trained.';
      row.fill(0);
      row[Buffer.from(reply)[at] ?? IM_END] = 50;
    },
  });
  const ends = { eosTokenId: IM_END, endTokenIds: new Set([IM_END]) };
  return new EmbeddedTokenBackend({ modelId: MODEL, engine: new TokenEngine({ runner, ends }) });
}

/** The text host in its own process, over servers in this one. */
function textOver(settings: Pick<VllmDriverSettings, 'urls' | 'times' | 'probeDirectory'>): InferencePool {
  const capacity = new RequestCapacity(8);
  return new InferencePool({
    models: [{ id: MODEL, served: null, bytes: 0 }],
    open: (_id, onIdle) =>
      new EmbeddedInference({
        name: 'text',
        host: { modelId: MODEL, modelPath: '', maxRequests: 8, driver: { name: 'vllm', settings } },
        secrets: { [VLLM_KEY_VARIABLE]: KEY },
        modulePath: fileURLToPath(new URL('./text-host.fixture.ts', import.meta.url)),
        capacity,
        onIdle,
        arbiter: new ComputeArbiter(),
        share: 1,
        log: (line) => void log.push(line),
      }),
    budgetBytes: 1,
    capacity,
    log: (line) => void log.push(line),
  });
}

const probeDirectory = mkdtempSync(join(tmpdir(), 'trainyard-vllm-'));
let fakes: FakeVllm[];
let inference: InferencePool;
let server: TestServer<InferencePool>;
beforeAll(async () => {
  const open = () => FakeVllm.open({ brain: greeter(), apiKey: KEY, policy: 'fcfs' });
  fakes = [await open(), await open()];
  inference = textOver({ urls: fakes.map(({ url }) => url), times: TIMES, probeDirectory });
  await inference.start();
  server = await TestServer.startOn(inference);
});
afterAll(async () => {
  await server.close();
  await inference.close();
  for (const fake of fakes) await fake.close();
  rmSync(probeDirectory, { recursive: true });
});
beforeEach(() => void log.splice(0));

const says = (fields = {}) =>
  server.chat({ messages: [{ role: 'user', content: 'hi' }], temperature: 0, max_tokens: 30, ...fields });
const reply = async (fields = {}): Promise<ChatCompletion['choices'][0]> => {
  const answer = await says(fields);
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<ChatCompletion>().choices[0]!;
};
const metrics = async (): Promise<string> => (await server.request('GET', '/metrics')).body;

test('chats are sampled there, and their text is made here', async () => {
  expect(await reply()).toMatchObject({
    message: { content: 'Hello to you.' },
    finish_reason: 'stop',
    stop_reason: null,
  });
  expect(await reply({ stop: ' to' })).toMatchObject({ message: { content: 'Hello' }, stop_reason: ' to' });
  const { events, isDone } = readEvents((await says({ stream: true, logprobs: true })).body);
  expect(isDone).toBe(true);
  expect(events.map((event) => event.choices?.[0]?.delta.content ?? '').join('')).toBe('Hello to you.');
  expect(fakes.flatMap(({ unknownFields }) => [...unknownFields])).toEqual([]);
});

test('requests carry the span of their generation while traces are made, and nothing of the client otherwise', async () => {
  const sampled = () => fakes.flatMap(({ samples }) => samples);
  const receiver = await OtlpReceiver.start();
  vi.stubEnv('OTEL_EXPORTER_OTLP_ENDPOINT', receiver.endpoint);
  const tracing = await openTracing({ serviceVersion: '1', role: 'all', instance: 'one', log: () => {} });
  vi.unstubAllEnvs();
  const traced = await TestServer.startOn(inference, {}, null, { tracing });
  const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
  const ask = { messages: [{ role: 'user', content: 'hi' }], max_tokens: 3 };
  const before = sampled().length;
  await says();
  await server.chat(ask, { traceparent });
  expect(
    sampled()
      .slice(before)
      .map((call) => call.traceParent),
  ).toEqual([null, null]);
  await traced.chat(ask, { traceparent });
  await traced.chat({ ...ask, stream: true });
  await traced.close();
  await tracing?.close();
  const spans = receiver.named('chat tiny/base');
  const carried = sampled()
    .map((call) => call.traceParent)
    .filter((parent) => parent !== null);
  expect(carried.toSorted()).toEqual(spans.map(({ traceId, spanId }) => `00-${traceId}-${spanId}-01`).toSorted());
  expect(carried).toHaveLength(2);
  expect(carried.some((parent) => parent.includes('0af7651916cd43dd8448eb211c80319c'))).toBe(true);
  await receiver.close();
});

test('a checkpoint is loaded on every server before it is sampled from', async () => {
  const step = await server.addCheckpoint(await server.makeModel('learner'), 'a');
  expect(await reply({ model: `acme/demo/learner:step${step}` })).toMatchObject({
    message: { content: 'I am trained.' },
  });
  for (const fake of fakes) expect([...fake.adapters.keys()]).toEqual(['a'.repeat(64)]);
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  const answer = await server.request('GET', '/v1/preview/hosts', undefined, headers);
  const now = Math.floor(Date.now() / 1000);
  for (const { steps } of answer.json<HostsObject>().sampling.hosts[0]!.members) {
    expect(steps).toEqual([{ model: 'acme/demo/learner', step, since: expect.any(Number) }]);
    expect(now - steps[0]!.since).toBeLessThan(60);
  }
});

test('an adapter of a larger rank than the servers load is refused at its registration', async () => {
  const register = (rank: number) =>
    server.request('POST', '/v1/preview/models', {
      project: 'demo',
      name: `rank-${rank}`,
      base_model: MODEL,
      sampling_only: true,
      lora: { rank },
    });
  const refused = await register(17);
  expect(refused.statusCode).toBe(422);
  expect(refused.json<ErrorBody>().error).toMatchObject({
    message: expect.stringMatching(/`lora\.rank` must be at most 16 .* got 17: this is the limit of the vLLM servers/),
  });
  expect((await register(16)).statusCode).toBe(200);
});

test('publishing an adapter loads it on every server, or returns the reason of one', async () => {
  const served = (name: string) => ({
    digest: name.repeat(64),
    directoryKey: `checkpoints/${name}`,
    path: `/checkpoints/${name}/adapter.gguf`,
  });
  const adapter = served('b');
  const { signal } = new AbortController();
  await inference.publish(MODEL, adapter, signal);
  for (const fake of fakes) expect(fake.adapters.get(adapter.digest)).toBe('/checkpoints/b');
  const message = 'No adapter found';
  const refusal = {
    kind: 'answer',
    status: 404,
    body: JSON.stringify({ error: { message, type: 'NotFoundError' } }),
  } as const;
  const load = '/v1/load_lora_adapter';
  for (const fake of fakes) fake.failNext(load, refusal);
  await expect(inference.publish(MODEL, served('c'), signal)).rejects.toThrow(/cannot see the folder of the adapter/);
  fakes[1]!.failNext(load, refusal);
  const other = served('d');
  expect(await inference.publish(MODEL, other, signal)).toMatch(/^1 of 2 vLLM servers: .*cannot see the folder/);
  expect(fakes[0]!.adapters.get(other.digest)).toBe('/checkpoints/d');
});

test('only admins see the servers and their load', async () => {
  await reply();
  expect((await server.request('GET', '/v1/preview/hosts')).statusCode).toBe(403);
  const headers = { authorization: `Bearer ${await server.makeKey('acme', ['admin'])}` };
  const answer = await server.request('GET', '/v1/preview/hosts', undefined, headers);
  const [host] = answer.json<HostsObject>().sampling.hosts;
  expect(host?.members.map(({ url }) => url)).toEqual(fakes.map(({ url }) => new URL(url).origin));
  for (const member of host!.members)
    expect(member).toMatchObject({ state: 'up', trouble: null, version: '0.32.0', num_choices: 0, kv_use: 0.25 });
  expect(answer.body).not.toContain(KEY);
});

test('a field that vLLM does not support is refused with the reason', async () => {
  const refusal = async (fields: object) => (await says(fields)).json<ErrorBody>().error;
  expect(await refusal({ top_n_sigma: 1 })).toMatchObject({
    param: 'top_n_sigma',
    message: expect.stringMatching(/no such truncation/),
  });
  expect(await refusal({ priority: 1 })).toMatchObject({
    param: 'priority',
    message: expect.stringMatching(/in order of arrival/),
  });
  expect(await refusal({ bad_words: ['x'] })).toMatchObject({
    param: 'bad_words',
    message: expect.stringMatching(/bans texts/),
  });
});

test('one that breaks in the middle ends that answer with an error, and nothing else', async () => {
  for (const fake of fakes) fake.failNext(COMPLETIONS, { kind: 'reset', afterEvents: 3 });
  onTestFinished(() => fakes.forEach((fake) => fake.failNext(COMPLETIONS)));
  const { events } = readEvents((await says({ stream: true })).body);
  expect(events.at(-1)?.error).toMatchObject({ code: expect.anything() });
  expect(JSON.stringify(events)).not.toContain('127.0.0.1');
  // The other one still has its fault to come, too.
  await says({ messages: [{ role: 'user', content: 'another head of a prompt' }] });
  await expect.poll(async () => (await says()).statusCode).toBe(200);
});

test('each server has its figures, and the key is in no argument', async () => {
  const text = await metrics();
  for (const { url } of fakes) {
    expect(text).toContain(`trainyard_server_up{model_name="${MODEL}",server="${url}"`);
    expect(text).toMatch(new RegExp(`trainyard_server_tokens_total\\{[^}]*server="${url}"`));
  }
  expect(text).not.toContain(KEY);
});

test('a read of the metrics is current, not that of the read before', async () => {
  const numRequests = async (): Promise<number> => {
    const lines = (await metrics()).matchAll(/^trainyard_server_requests_total\{.*\} (\d+)$/gm);
    return Array.from(lines, ([, count]) => Number(count)).reduce((sum, count) => sum + count, 0);
  };
  const before = await numRequests();
  await reply();
  expect(await numRequests()).toBe(before + 1);
});

test('without a usable server the service does not start, and names the reason', async () => {
  const broken = textOver({ urls: ['http://127.0.0.1:1'] });
  await expect(broken.start()).rejects.toThrow(/127\.0\.0\.1:1 cannot be reached \(ECONNREFUSED\): start vLLM there/);
  await broken.close();
  expect(log.some((line) => line.startsWith('vLLM: http://127.0.0.1:1 cannot be reached'))).toBe(true);
});
