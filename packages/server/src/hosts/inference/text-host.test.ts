import { fileURLToPath } from 'node:url';

import type { ChatCompletion, ErrorBody } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';

import { ComputeArbiter } from '../computing/compute-arbiter.ts';
import { SCRIPTED_REQUEST } from '../../testing/scripted-answers.ts';
import { readEvents, TestServer } from '../../testing/test-server.ts';
import { EmbeddedInference } from '../pool/embedded-inference.ts';
import { InferencePool } from '../pool/inference-pool.ts';
import { RequestCapacity } from '../pool/request-capacity.ts';

const MODEL = 'tiny/base';

/** In its own process; see the fixture for its replies. */
function textHost(driver = 'fixture'): InferencePool {
  const capacity = new RequestCapacity(8);
  return new InferencePool({
    models: [{ id: MODEL, served: null, bytes: 1 }],
    open: (_id, onIdle) =>
      new EmbeddedInference({
        name: 'text',
        host: { modelId: MODEL, modelPath: '', maxRequests: 8, driver: { name: driver, settings: null } },
        modulePath: fileURLToPath(new URL('./text-host.fixture.ts', import.meta.url)),
        capacity,
        onIdle,
        arbiter: new ComputeArbiter(),
        share: 1,
        log: () => {},
      }),
    budgetBytes: 1,
    capacity,
    log: () => {},
  });
}

let inference: InferencePool;
let server: TestServer<InferencePool>;
beforeAll(async () => {
  inference = textHost();
  await inference.start();
  server = await TestServer.startOn(inference);
});
afterAll(async () => {
  await server.close();
  await inference.close();
});

const numRunning = () => inference.of(MODEL).stats()?.numRunning;
const says = (content: string, fields = {}) => server.chat({ messages: [{ role: 'user', content }], ...fields });
const replyTo = async (content: string, fields = {}) => {
  const answer = await says(content, { temperature: 0, ...fields });
  if (answer.statusCode !== 200) throw new Error(answer.body);
  return answer.json<ChatCompletion>().choices[0]!;
};
const contentOf = (events: ReturnType<typeof readEvents>['events']) =>
  events.map((event) => event.choices?.[0]?.delta.content ?? '').join('');

test('chats are answered, in one piece and as streams, and stop strings end them', async () => {
  expect(await replyTo('hi')).toMatchObject({ message: { content: 'Hello to you.' }, finish_reason: 'stop' });
  const { events, isDone } = readEvents((await says('hi', { temperature: 0, stream: true })).body);
  expect([contentOf(events), isDone]).toEqual(['Hello to you.', true]);
  const stopped = await replyTo('hi', { stop: ' to', logprobs: true });
  expect(stopped).toMatchObject({ message: { content: 'Hello' }, finish_reason: 'stop', stop_reason: ' to' });
  expect(stopped.logprobs?.content).toHaveLength('Hello to'.length);
});

test('tokens and texts are those of the text half, and the service is well', async () => {
  const { tokens } = (await server.request('POST', '/tokenize', { prompt: 'hé' })).json<{ tokens: number[] }>();
  expect(tokens).toEqual([256, ...Buffer.from('hé')]);
  expect(await inference.problem()).toBeNull();
  expect(inference.models).toEqual([{ id: 'tiny/base', contextLength: 512, vocabSize: 261 }]);
});

test('a field that the driver does not support is refused before the first byte', async () => {
  for (const [field, value] of Object.entries({ bad_words: ['x'], top_k: 3, min_tokens: 2, priority: 1 })) {
    const answer = await says('hi', { [field]: value, stream: true });
    expect([answer.statusCode, answer.json<ErrorBody>().error.param]).toEqual([400, field]);
  }
});

test('a driver that fails midway gives one error, as the whole answer or after the sent part', async () => {
  const failed = await says('fail');
  expect([failed.statusCode, failed.json<ErrorBody>().error.code]).toEqual([500, 'engine.internal']);
  const { events, isDone } = readEvents((await says('fail', { temperature: 0, stream: true })).body);
  expect(contentOf(events)).toBe('Hell');
  expect(events.filter((event) => event.error !== undefined)).toHaveLength(1);
  expect(events.at(-1)!.error).toMatchObject({ code: 'engine.internal' });
  expect(isDone).toBe(true);
});

test('an adapter is published before the first request that names it, once, and retired when its model is deleted', async () => {
  const id = await server.makeModel('agent');
  await server.addCheckpoint(id, 'a');
  const replies = await Promise.all([1, 2, 3].map(() => replyTo('hi', { model: 'agent' })));
  for (const { message } of replies) expect(message.content).toBe('Hello from aaaa.');
  expect((await replyTo('told')).message.content).toBe('publish aaaa');
  await server.request('DELETE', `/v1/preview/models/${id}`);
  await expect.poll(async () => (await replyTo('told')).message.content).toBe('publish aaaa, retire aaaa');
});

test('a request that gives up leaves the driver, too', async () => {
  const controller = new AbortController();
  const prompt = { kind: 'text', text: 'wait assistant\n', addSpecialTokens: false } as const;
  const events = inference.of(MODEL).generate({ ...SCRIPTED_REQUEST, prompt }, controller.signal);
  for await (const event of events) {
    if (event.kind === 'delta') controller.abort();
    if (event.kind === 'failed') expect(event.code).toBe('engine.aborted');
  }
  await expect.poll(async () => (await replyTo('told')).message.content).toMatch(/given up$/);
});

test('a host that is killed gives each request in flight one error, and comes back', async () => {
  const pid = Number((await replyTo('pid')).message.content);
  const whole = says('wait');
  const streamed = says('wait', { temperature: 0, stream: true });
  await expect.poll(numRunning).toBe(2);
  process.kill(pid, 'SIGKILL');
  expect([(await whole).statusCode, (await whole).json<ErrorBody>().error.code]).toEqual([503, 'engine.host_lost']);
  const { events, isDone } = readEvents((await streamed).body);
  expect(contentOf(events)).toBe('Hell');
  expect(events.filter((event) => event.error !== undefined)).toHaveLength(1);
  expect(events.at(-1)!.error).toMatchObject({ code: 'engine.host_lost' });
  expect(isDone).toBe(true);
  expect(Number((await replyTo('pid')).message.content)).not.toBe(pid);
  expect((await replyTo('hi')).message.content).toBe('Hello to you.');
});

test.each([
  ['no driver of that name', 'absent', /unknown sampling backend "absent"; known: fixture, other/],
  ['another vocabulary', 'other', /the sampling server has 1000 tokens, the model file 261/],
])('with %s the host does not start, and names the reason', async (_what, driver, reason) => {
  const refused = textHost(driver);
  onTestFinished(() => refused.close());
  await expect(refused.start()).rejects.toThrow(reason);
});
