import * as conventions from '@opentelemetry/semantic-conventions/incubating';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';

import type { LogFields } from '../logging/log.ts';
import { engineMember, MemberList, openEngines, openPort } from '../../testing/behind-port.ts';
import { OtlpReceiver, type ReceivedSpan } from '../../testing/otlp-receiver.ts';
import { failure, replies, ScriptedInference } from '../../testing/scripted-inference.ts';
import { TestServer } from '../../testing/test-server.ts';
import { JobTrace, traceIdOfJob, traceJobStopped } from './job-trace.ts';
import { openTracing } from './open-tracing.ts';
import { readTraceParent } from './trace-parent.ts';
import type { Tracing } from './tracing.ts';

const SETTINGS = { serviceVersion: '1.2.3', role: 'api', instance: 'one' };
const PROMPT = 'a confidential prompt';
/** Maximum difference of two spans about one moment. */
const SPAN_CLOCK_NS = 2_000_000n;
const CLIENT = { trace: '0af7651916cd43dd8448eb211c80319c', span: 'b7ad6b7169203331' };

let receiver: OtlpReceiver;
let logged: [line: string, fields?: LogFields | undefined][];
let former: Record<string, string | undefined>;
const opened: Tracing[] = [];
const servers: TestServer[] = [];

beforeEach(async () => {
  former = { ...process.env };
  receiver = await OtlpReceiver.start();
  logged = [];
});

afterEach(async () => {
  for (const server of servers.splice(0)) await server.close();
  for (const tracing of opened.splice(0)) await tracing.close();
  for (const name of Object.keys(process.env)) if (name.startsWith('OTEL_')) delete process.env[name];
  for (const [name, value] of Object.entries(former)) if (name.startsWith('OTEL_')) process.env[name] = value;
  await receiver.close();
});

function setVariables(variables: Record<string, string>): void {
  Object.assign(process.env, { OTEL_EXPORTER_OTLP_ENDPOINT: receiver.endpoint, ...variables });
}

async function open(variables: Record<string, string> = {}): Promise<Tracing> {
  setVariables(variables);
  const tracing = await openTracing({ ...SETTINGS, log: (line, fields) => void logged.push([line, fields]) });
  if (tracing === null) throw new Error('there are no traces');
  opened.push(tracing);
  return tracing;
}

async function serve(tracing: Tracing | null): Promise<TestServer> {
  const server = await TestServer.startOn(new ScriptedInference(), {}, null, { tracing });
  servers.push(server);
  return server;
}

/** Flushes: all spans so far reach the receiver. */
async function sent(tracing: Tracing): Promise<void> {
  opened.splice(opened.indexOf(tracing), 1);
  await tracing.close();
}

const ask = (server: TestServer, fields: object = {}, headers: Record<string, string> = {}) =>
  server.chat({ messages: [{ role: 'user', content: PROMPT }], ...fields }, headers);

describe('without an endpoint', () => {
  test.each<[string, Record<string, string>]>([
    ['nothing is set', {}],
    ['the SDK is disabled', { OTEL_SDK_DISABLED: 'True', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }],
    ['no exporter is wanted', { OTEL_TRACES_EXPORTER: 'none', OTEL_EXPORTER_OTLP_ENDPOINT: 'http://127.0.0.1:1' }],
  ])('there are no traces if %s', async (_when, variables) => {
    Object.assign(process.env, variables);
    const log = (line: string) => void logged.push([line]);
    expect(await openTracing({ ...SETTINGS, log })).toBeNull();
    expect(logged).toEqual([]);
  });

  test('an unknown exporter is reported', async () => {
    Object.assign(process.env, { OTEL_TRACES_EXPORTER: 'zipkin' });
    expect(await openTracing({ ...SETTINGS, log: (line) => void logged.push([line]) })).toBeNull();
    expect(logged[0]?.[0]).toContain('OTEL_TRACES_EXPORTER is zipkin');
  });

  test('a request has no span', async () => {
    expect((await ask(await serve(null))).statusCode).toBe(200);
  });
});

test('a chat is a part of the trace that its client began, with the names of the conventions and without its text', async () => {
  const tracing = await open({
    OTEL_SERVICE_NAME: 'chats',
    OTEL_RESOURCE_ATTRIBUTES: 'deployment.environment.name=lab',
    OTEL_EXPORTER_OTLP_HEADERS: 'x-tenant=lab',
  });
  const server = await serve(tracing);
  const fields = { temperature: 0.5, top_p: 0.9, max_tokens: 7, seed: 3, n: 2 };
  const headers = { traceparent: `00-${CLIENT.trace}-${CLIENT.span}-01`, 'x-request-id': 'r-1' };
  const answer = await ask(server, fields, headers);
  expect(answer.statusCode).toBe(200);
  await sent(tracing);

  const http = receiver.only('POST /v1/chat/completions');
  expect(http).toMatchObject({ traceId: CLIENT.trace, parentSpanId: CLIENT.span, kind: 2, status: 0 });
  expect(http.attributes).toEqual({
    'http.request.method': 'POST',
    'http.route': '/v1/chat/completions',
    'url.scheme': 'http',
    'http.response.status_code': 200,
    'trainyard.request.id': 'r-1',
  });
  const chat = receiver.only('chat tiny/base');
  expect(chat).toMatchObject({ traceId: CLIENT.trace, parentSpanId: http.spanId, kind: 1 });
  expect(chat.attributes).toMatchObject({
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': 'trainyard',
    'gen_ai.request.model': 'tiny/base',
    'gen_ai.request.temperature': 0.5,
    'gen_ai.request.top_p': 0.9,
    'gen_ai.request.max_tokens': 7,
    'gen_ai.request.seed': 3,
    'gen_ai.request.choice.count': 2,
    'gen_ai.request.stream': false,
    'gen_ai.response.id': answer.json<{ id: string }>().id,
    'gen_ai.response.model': 'tiny/base',
    'gen_ai.response.finish_reasons': ['stop', 'stop'],
    'gen_ai.usage.input_tokens': 3,
    'gen_ai.usage.cache_read.input_tokens': 2,
    'gen_ai.usage.output_tokens': 6,
  });
  expect(chat.events).toEqual(['admitted', 'first token']);
  for (const name of ['time_in_queue', 'time_in_model_prefill', 'time_to_first_token', 'time_in_model_decode', 'e2e'])
    expect(chat.attributes[`gen_ai.latency.${name}`], name).toBeGreaterThanOrEqual(0);
  // Each span has its own clock origin, in whole milliseconds.
  expect(chat.startedAt).toBeGreaterThanOrEqual(http.startedAt - SPAN_CLOCK_NS);
  expect(chat.endedAt).toBeLessThanOrEqual(http.endedAt + SPAN_CLOCK_NS);
  expect(http.resource).toMatchObject({
    'service.name': 'chats',
    'service.version': '1.2.3',
    'service.instance.id': 'one',
    'trainyard.role': 'api',
    'deployment.environment.name': 'lab',
  });
  expect(receiver.headers[0]).toMatchObject({ 'x-tenant': 'lab' });

  const known = new Set<unknown>(Object.values(conventions));
  const names = Object.keys({ ...http.attributes, ...chat.attributes });
  const own = names.filter((name) => !known.has(name));
  expect(
    own.every((name) => /^(?:trainyard\.|gen_ai\.latency\.)/.test(name)),
    own.join(', '),
  ).toBe(true);
  for (const secret of [PROMPT, server.key, server.key.slice(-12)])
    for (const body of receiver.bodies) expect(body).not.toContain(secret);
});

test('a text completion is called so, and each prompt is a span', async () => {
  const tracing = await open();
  const server = await serve(tracing);
  await server.request('POST', '/v1/completions', { model: 'tiny/base', prompt: ['a', 'b'], max_tokens: 2 });
  await sent(tracing);
  const http = receiver.only('POST /v1/completions');
  const completions = receiver.named('text_completion tiny/base');
  expect(completions.map(({ parentSpanId }) => parentSpanId)).toEqual([http.spanId, http.spanId]);
});

test('a stream whose client leaves ends with the choices that were left', async () => {
  const tracing = await open();
  const server = await serve(tracing);
  const gone = Promise.withResolvers<void>();
  server.inference.script = async function* (request, signal) {
    yield* [...replies(request, [{ ids: [5], text: 'hi' }])].slice(0, 2);
    signal.addEventListener('abort', () => gone.resolve(), { once: true });
    await gone.promise;
    signal.throwIfAborted();
  };
  const url = await server.app.listen({ host: '127.0.0.1', port: 0 });
  const leaving = new AbortController();
  const response = await fetch(`${url}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body: JSON.stringify({ messages: [{ role: 'user', content: PROMPT }], stream: true }),
    signal: leaving.signal,
  });
  await response.body?.getReader().read();
  leaving.abort();
  await gone.promise;
  await expect.poll(() => server.inference.numEnded).toBe(1);
  await sent(tracing);
  const chat = receiver.only('chat tiny/base');
  expect(chat.attributes).toMatchObject({
    'gen_ai.request.stream': true,
    'gen_ai.response.finish_reasons': ['abort'],
    'gen_ai.usage.output_tokens': 1,
  });
  expect(chat.status).toBe(0);
  const http = receiver.only('POST /v1/chat/completions');
  expect(http.attributes).toMatchObject({ 'trainyard.request.abandoned': true, 'http.response.status_code': 200 });
  expect(chat.parentSpanId).toBe(http.spanId);
});

test('a failure has its code, and a refusal too, which is no error of the service', async () => {
  const tracing = await open();
  const server = await serve(tracing);
  server.inference.script = () => [failure('engine.host_lost', 'the engine is gone')];
  expect((await ask(server)).statusCode).toBeGreaterThanOrEqual(500);
  expect((await ask(server, { model: 'nobody/knows/this' })).statusCode).toBe(404);
  await sent(tracing);
  const [failed, refused] = receiver.named('POST /v1/chat/completions');
  expect(receiver.only('chat tiny/base')).toMatchObject({
    status: 2,
    attributes: { 'error.type': 'engine.host_lost', 'gen_ai.response.finish_reasons': ['error'] },
  });
  expect(failed).toMatchObject({ status: 2, attributes: { 'trainyard.error.code': 'engine.host_lost' } });
  expect(failed?.attributes['error.type']).toBe(String(failed?.attributes['http.response.status_code']));
  expect(refused).toMatchObject({ status: 0, attributes: { 'http.response.status_code': 404 } });
});

describe('a job', () => {
  const job = {
    id: '0b9e1c9e-6c53-4d2e-9a86-4a0d3d8f5f10',
    kind: 'rl' as const,
    modelId: 'm',
    createdAt: Date.now() - 5_000,
    origin: { requestId: 'r-2', traceParent: `00-${CLIENT.trace}-${CLIENT.span}-01`, project: null },
  };
  const taken = { seconds: 0.5, snapshot: { seconds: 0.1, sizeBytes: 1000 } };
  const metrics = { seconds_forward: 0.3, num_trainable_tokens: 12, loss: 1 };

  test('is one trace over the processes that work on it, with a link to its request', async () => {
    const first = await open();
    const left = new JobTrace(first, job, 1);
    left.stepTaken(0, taken, metrics);
    left.end(null);
    await sent(first);
    expect(receiver.named('job rl')).toEqual([]);

    const second = await open();
    const trace = new JobTrace(second, job, 2);
    trace.stepTaken(1, { seconds: 0.5, snapshot: null }, metrics);
    trace.checkpointCommitted(4);
    trace.end('succeeded');
    await sent(second);

    const whole = receiver.only('job rl');
    expect(whole.traceId).toBe(job.id.replaceAll('-', ''));
    expect(whole.parentSpanId).toBe('');
    expect(whole.links).toEqual([{ traceId: CLIENT.trace, spanId: CLIENT.span }]);
    expect(whole.attributes).toMatchObject({
      'trainyard.job.id': job.id,
      'trainyard.request.id': 'r-2',
      'trainyard.job.outcome': 'succeeded',
    });
    expect(whole.startedAt).toBe(BigInt(job.createdAt) * 1_000_000n);
    const [one, two] = receiver.named('attempt');
    expect([one, two].map((attempt) => attempt?.parentSpanId)).toEqual([whole.spanId, whole.spanId]);
    expect([one, two].map((attempt) => attempt?.attributes['trainyard.job.outcome'])).toEqual(['left', 'succeeded']);
    const steps = receiver.named('gradient step');
    expect(steps.map(({ parentSpanId }) => parentSpanId)).toEqual([one?.spanId, two?.spanId]);
    expect(steps.map(({ attributes }) => attributes['trainyard.gradient_step.index'])).toEqual([0, 1]);
    expect(steps[0]?.attributes).toMatchObject({
      'trainyard.gradient_step.seconds_forward': 0.3,
      'trainyard.gradient_step.num_trainable_tokens': 12,
    });
    const snapshot = receiver.only('snapshot');
    expect(snapshot).toMatchObject({ parentSpanId: steps[0]?.spanId, attributes: { 'trainyard.snapshot.size': 1000 } });
    expect(secondsOf(snapshot)).toBeCloseTo(0.1, 2);
    expect(secondsOf(steps[0]!)).toBeCloseTo(0.6, 2);
    expect(receiver.only('checkpoint commit').parentSpanId).toBe(two?.spanId);
    expect(new Set(receiver.spans.map(({ traceId }) => traceId))).toEqual(new Set([whole.traceId]));
  });

  test('that fails has its error, and one that was stopped without a worker has an end too', async () => {
    const tracing = await open();
    new JobTrace(tracing, job, 1).end('failed', 'trainer.non_finite');
    traceJobStopped(tracing, { ...job, id: 'another' });
    await sent(tracing);
    const [failed, stopped] = receiver.named('job rl');
    expect(failed).toMatchObject({ status: 2, attributes: { 'error.type': 'trainer.non_finite' } });
    expect(stopped).toMatchObject({ status: 0, traceId: traceIdOfJob('another') });
  });

  test('is sampled as a whole or not at all', async () => {
    const tracing = await open({ OTEL_TRACES_SAMPLER: 'traceidratio', OTEL_TRACES_SAMPLER_ARG: '0' });
    const trace = new JobTrace(tracing, job, 1);
    trace.stepTaken(0, taken, metrics);
    trace.end('succeeded');
    await sent(tracing);
    expect(receiver.spans).toEqual([]);
  });
});

describe('an engine on another machine', () => {
  async function behind(tracing: Tracing | null) {
    const inference = new ScriptedInference();
    const log = (line: string, fields?: LogFields) => void logged.push([line, fields]);
    const { port, url } = await openPort(inference, { tracing, log });
    const engines = await openEngines(new MemberList([engineMember(url)]));
    const server = await TestServer.startOn(engines, {}, null, { tracing });
    onTestFinished(async () => {
      await server.close();
      await engines.close();
      await port.close();
    });
    return { inference, server };
  }
  const headers = { traceparent: `00-${CLIENT.trace}-${CLIENT.span}-01`, 'x-request-id': 'r-3' };
  const body = { messages: [{ role: 'user', content: PROMPT }] };

  test('works for the generation that asks it, and its span has only the tokens', async () => {
    const tracing = await open();
    const { inference, server } = await behind(tracing);
    expect((await server.chat(body, headers)).statusCode).toBe(200);
    await sent(tracing);
    const chat = receiver.only('chat tiny/base');
    const engine = receiver.only('engine');
    expect(engine).toMatchObject({ traceId: CLIENT.trace, parentSpanId: chat.spanId, kind: 2, status: 0 });
    // A sampler after the engine works in the engine's span.
    const traceParent = `00-${CLIENT.trace}-${engine.spanId}-01`;
    expect(inference.lastRequest.origin).toEqual({ requestId: 'r-3', traceParent });
    expect(engine.attributes).toEqual({ 'trainyard.base_model': 'tiny/base', 'trainyard.request.id': 'r-3' });
  });

  test("logs failures there with the id of the client's request, with traces and without", async () => {
    const tracing = await open();
    for (const told of [tracing, null]) {
      const { inference, server } = await behind(told);
      inference.script = () => {
        throw new Error('a bug of the engine');
      };
      expect((await server.chat(body, headers)).statusCode).toBeGreaterThanOrEqual(500);
    }
    await sent(tracing);
    const failures = logged.filter(([line]) => line.includes('a bug of the engine'));
    expect(failures.length).toBeGreaterThanOrEqual(2);
    for (const [, fields] of failures)
      expect(fields).toEqual({ level: 'error', requestId: 'r-3', traceId: CLIENT.trace });
    for (const engine of receiver.named('engine')) expect(engine.status).toBe(2);
  });
});

test('a request that is not sampled by its client is not sent', async () => {
  const tracing = await open();
  const server = await serve(tracing);
  await ask(server, {}, { traceparent: `00-${CLIENT.trace}-${CLIENT.span}-00` });
  await sent(tracing);
  expect(receiver.spans).toEqual([]);
});

test.each(['', '00-0-0-01', `00-${'0'.repeat(32)}-${CLIENT.span}-01`, `00-${CLIENT.trace}-${CLIENT.span}-01\n`])(
  'an invalid traceparent starts a trace of its own: %j',
  async (traceparent) => {
    expect(readTraceParent(traceparent)).toBeNull();
    const tracing = await open();
    const server = await serve(tracing);
    await ask(server, {}, { traceparent: traceparent.trimEnd() === traceparent ? traceparent : 'nonsense' });
    await sent(tracing);
    expect(receiver.only('POST /v1/chat/completions').parentSpanId).toBe('');
  },
);

describe('an exporter that does not get through', () => {
  test.each(['refuses', 'hangs'] as const)('fails and delays no request when it %s', async (behaviour) => {
    receiver.behaviour = behaviour;
    const tracing = await open({ OTEL_EXPORTER_OTLP_TIMEOUT: '300', OTEL_BSP_SCHEDULE_DELAY: '10' });
    const server = await serve(tracing);
    for (let index = 0; index < 5; index++) expect((await ask(server)).statusCode).toBe(200);
    await sent(tracing);
    expect(logged.filter(([line]) => line.startsWith('the collector does not accept traces'))).toHaveLength(1);
    expect(receiver.spans).toEqual([]);
  });

  test('is missing: requests are answered, the log has one line, and the queue is bounded', async () => {
    const tracing = await open({
      OTEL_EXPORTER_OTLP_ENDPOINT: 'http://user:secret@127.0.0.1:9',
      OTEL_EXPORTER_OTLP_TIMEOUT: '200',
      OTEL_BSP_MAX_QUEUE_SIZE: '32',
      OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '16',
    });
    const server = await serve(tracing);
    for (let index = 0; index < 5; index++) expect((await ask(server)).statusCode).toBe(200);
    for (let index = 0; index < 500; index++) tracing.tracer.startSpan('many').end();
    await sent(tracing);
    expect(logged.map(([line]) => line)).toEqual([expect.stringContaining('the collector does not accept traces')]);
    expect(logged[0]?.[0]).not.toContain('secret');
  });

  test('that comes back gets no more than the queue holds', async () => {
    receiver.behaviour = 'hangs';
    const tracing = await open({ OTEL_BSP_MAX_QUEUE_SIZE: '32', OTEL_BSP_MAX_EXPORT_BATCH_SIZE: '16' });
    for (let index = 0; index < 500; index++) tracing.tracer.startSpan('many').end();
    // The batch in flight is lost; later ones are not.
    receiver.behaviour = 'takes';
    await sent(tracing);
    expect(receiver.spans.length).toBeGreaterThan(0);
    expect(receiver.spans.length).toBeLessThanOrEqual(48);
  });
});

function secondsOf({ startedAt, endedAt }: ReceivedSpan): number {
  return Number(endedAt - startedAt) / 1e9;
}
