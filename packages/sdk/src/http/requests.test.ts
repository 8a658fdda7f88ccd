import { afterEach, beforeEach, expect, test, vi } from 'vitest';

import { Trainyard } from '../client.ts';
import { requestIdOf } from './connection.ts';
import { NotFoundError, TrainyardApiError, TrainyardConnectionError, TrainyardTimeoutError } from './errors.ts';

interface Sent {
  method: string;
  url: string;
  headers: Headers;
  body: unknown;
  credentials: RequestInit['credentials'];
  redirect: RequestInit['redirect'];
}

/** A client whose requests get these answers in turn; the last one repeats. */
function answering(...answers: ((signal: AbortSignal) => Response | Promise<Response>)[]) {
  const sent: Sent[] = [];
  const fetch = (async (url: string, init: RequestInit) => {
    const { method = 'GET', body, credentials, redirect } = init;
    sent.push({ method, url, headers: new Headers(init.headers), body, credentials, redirect });
    return await answers[Math.min(sent.length, answers.length) - 1]!(init.signal as AbortSignal);
  }) as typeof globalThis.fetch;
  const client = (options = {}) => new Trainyard({ baseUrl: 'http://h/v1', apiKey: 'k', fetch, ...options });
  return { sent, client };
}

const SSE = { headers: { 'content-type': 'text/event-stream' } };
const good = () => Response.json({ id: 'x' }, { headers: { 'x-request-id': 'req-7' } });
const busy = () => Response.json({}, { status: 503, headers: { 'x-should-retry': 'true', 'retry-after': '2' } });
const broken = () => Promise.reject(new TypeError('fetch failed'));
const never = (signal: AbortSignal) =>
  new Promise<Response>((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)));

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

/** Result or error after all waits. */
async function outcome<Value>(call: PromiseLike<Value>): Promise<Value | Error> {
  const settled = Promise.resolve(call).catch((error: Error) => error);
  await vi.runAllTimersAsync();
  return await settled;
}

test('a refused request is sent again after the time that the service asks for, at most twice', async () => {
  const { sent, client } = answering(busy);
  const startedAt = Date.now();
  expect(await outcome(client().models.retrieve('m'))).toMatchObject({ status: 503 });
  expect([sent.length, Date.now() - startedAt]).toEqual([3, 4000]);
  expect(await outcome(client({ maxRetries: 0 }).models.retrieve('m'))).toBeInstanceOf(TrainyardApiError);
  expect(sent).toHaveLength(4);
  await outcome(client({ maxRetries: 5 }).models.retrieve('m', { maxRetries: 1 }));
  expect(sent).toHaveLength(6);
});

test('requests with an effect keep one idempotency key over all tries', async () => {
  const { sent, client } = answering(broken, busy, good);
  expect(await outcome(client().trainingJobs.cancel('j'))).toEqual({ id: 'x' });
  const keys = sent.map(({ headers }) => headers.get('idempotency-key'));
  expect(keys).toHaveLength(3);
  expect(keys[0]).toMatch(/^sdk-[0-9a-f]{32}$/);
  expect(new Set(keys).size).toBe(1);
  await client().trainingJobs.cancel('j');
  expect(sent[3]!.headers.get('idempotency-key')).not.toBe(keys[0]);
  await client().trainingJobs.cancel('j', { idempotencyKey: 'mine' });
  expect(sent[4]!.headers.get('idempotency-key')).toBe('mine');
});

test('requests that only read or sample have no idempotency key and are still repeated', async () => {
  const { sent, client } = answering(broken, good, broken, good);
  await outcome(client().models.retrieve('m'));
  await outcome(client().chat.completions.create({ model: 'm', messages: [] }));
  expect(sent.map(({ headers }) => headers.get('idempotency-key'))).toEqual([null, null, null, null]);
});

test('a key is made once: its secret would be lost with a repeated answer', async () => {
  const { sent, client } = answering(broken);
  const error = await outcome(client().keys.create({ name: 'n', scopes: ['inference'] }));
  expect(error).toBeInstanceOf(TrainyardConnectionError);
  expect(sent).toHaveLength(1);
});

test('errors have the class of their status, the code, the field and the request id', async () => {
  const body = {
    error: { message: 'no such model', type: 'not_found_error', param: 'model', code: 'request.unknown_model' },
  };
  const { client } = answering(() => Response.json(body, { status: 404, headers: { 'x-request-id': 'req-9' } }));
  const error = await outcome(client().models.retrieve('m'));
  expect(error).toBeInstanceOf(NotFoundError);
  expect(error).toMatchObject({
    name: 'NotFoundError',
    message: '404: no such model',
    status: 404,
    code: 'request.unknown_model',
    type: 'not_found_error',
    param: 'model',
    requestId: 'req-9',
    body,
  });
});

test.each(['<html>', '', 'null', '"well"'])(
  'an answer that is not a JSON object names the possible cause: %j',
  async (body) => {
    const { client } = answering(() => new Response(body));
    expect(await outcome(client().models.retrieve('m'))).toMatchObject({
      message: '200: the response is not JSON: is http://h/v1 the URL of Trainyard?',
      code: null,
      body,
    });
  },
);

test('anything but a requested stream is an error, not an empty reply', async () => {
  const { sent, client } = answering(() => new Response('<html>', { headers: { 'content-type': 'text/html' } }));
  expect(await outcome(client().chat.completions.create({ model: 'm', messages: [], stream: true }))).toMatchObject({
    name: 'TrainyardApiError',
    message: '200: the response is not an event stream: is http://h/v1 the URL of Trainyard?',
    body: '<html>',
  });
  expect(sent).toHaveLength(1);
});

test('a chunk that is no JSON is an error of the service', async () => {
  const { client } = answering(() => new Response('data: {"id\n\n', SSE));
  const stream = await client().chat.completions.create({ model: 'm', messages: [], stream: true });
  expect(await outcome(stream.next())).toMatchObject({ name: 'TrainyardApiError', body: '{"id' });
});

test.each([301, 302, 303, 307, 308])(
  'a redirect (%i) is followed nowhere: it would lose the key or the method',
  async (status) => {
    const { sent, client } = answering(
      () => new Response(null, { status, headers: { location: 'https://h/v1/elsewhere' } }),
    );
    expect(await outcome(client().trainingJobs.cancel('j'))).toMatchObject({
      status,
      message: `${status}: it redirects to https://h/v1/elsewhere: is http://h/v1 the URL of Trainyard?`,
    });
    expect(sent.map(({ redirect }) => redirect)).toEqual(['manual']);
  },
);

test('a stream that is left before its first chunk ends the request', async () => {
  let isCancelled = false;
  const body = () => new ReadableStream({ cancel: () => void (isCancelled = true) }, { highWaterMark: 0 });
  const { client } = answering(() => new Response(body(), SSE));
  const stream = await client().chat.completions.create({ model: 'm', messages: [], stream: true });
  await stream.return(undefined);
  expect(isCancelled).toBe(true);
  expect(await stream.next()).toEqual({ done: true, value: undefined });
});

test('answers have a request id too', async () => {
  const { client } = answering(good);
  expect(requestIdOf(await client().models.retrieve('m'))).toBe('req-7');
  expect(requestIdOf({})).toBe(null);
});

test('each try has a time limit, and reports when it is exceeded', async () => {
  const { sent, client } = answering(never);
  const startedAt = Date.now();
  const error = await outcome(client({ timeoutMs: 2000, maxRetries: 1 }).models.retrieve('m'));
  expect(error).toBeInstanceOf(TrainyardTimeoutError);
  expect((error as Error).message).toBe('http://h/v1: no response within 2 s (`timeoutMs`)');
  expect(sent).toHaveLength(2);
  expect(Date.now() - startedAt).toBeGreaterThanOrEqual(4000);
});

test('the time covers the body of an answer, and only the beginning of a stream', async () => {
  const open = () => new Response(new ReadableStream({ pull: () => new Promise(() => undefined) }), SSE);
  const cut = (signal: AbortSignal) => {
    const body = new ReadableStream({
      start: (stream) => signal.addEventListener('abort', () => stream.error(signal.reason)),
    });
    return new Response(body);
  };
  const options = { timeoutMs: 1000, maxRetries: 0 };
  expect(await outcome(answering(cut).client(options).models.retrieve('m'))).toBeInstanceOf(TrainyardTimeoutError);
  const stream = await answering(open)
    .client(options)
    .chat.completions.create({ model: 'm', messages: [], stream: true });
  const first = stream.next();
  await vi.advanceTimersByTimeAsync(5000);
  expect(await Promise.race([first, Promise.resolve('still waiting')])).toBe('still waiting');
});

test('a signal ends a request, a wait, and requests not started, with its own reason', async () => {
  const reason = new Error('enough');
  const { sent, client } = answering(never);
  const before = AbortSignal.abort(reason);
  expect(await outcome(client().models.retrieve('m', { signal: before }))).toBe(reason);
  expect(sent).toHaveLength(0);

  const during = new AbortController();
  const running = outcome(client().models.retrieve('m', { signal: during.signal }));
  during.abort(reason);
  expect(await running).toBe(reason);

  const waiting = new AbortController();
  const refused = answering(busy);
  const retried = refused
    .client()
    .models.retrieve('m', { signal: waiting.signal })
    .catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(100);
  waiting.abort(reason);
  expect(await retried).toBe(reason);
  expect(refused.sent).toHaveLength(1);
});

test('a page that is signed in by a cookie sends no key', async () => {
  const { sent, client } = answering(good);
  const page = client({ baseUrl: '/v1', apiKey: null, credentials: 'same-origin', headers: { 'x-page': '1' } });
  await page.models.retrieve('m/1');
  const [request] = sent;
  expect(request).toMatchObject({ url: '/v1/preview/models/m%2F1', credentials: 'same-origin' });
  expect(request!.headers.get('authorization')).toBe(null);
  expect(request!.headers.get('x-page')).toBe('1');
});

test('an id that would name something else is refused, and nothing is sent', async () => {
  const { sent, client } = answering(good);
  const service = client();
  const artifact = { entity: 'e', project: 'p', name: '' };
  for (const id of ['', '.', '..']) {
    for (const call of [
      () => service.models.retrieve(id),
      () => service.models.delete(id),
      () => service.servedModels.retrieve(id),
      () => service.checkpoints.list(id),
      () => service.checkpoints.delete(id, [1]),
      () => service.trainingJobs.cancel(id),
      () => service.trainingJobs.wait(id),
      () => service.trajectories.tokens(id),
      () => service.exports.download('m', id, 'f'),
      () => service.exports.download('m', 'e', id),
      () => service.adapters.delete(id),
      () => service.artifacts.retrieve({ ...artifact, name: id }, 'v1'),
      () => service.keys.revoke(id),
    ]) {
      const error = await outcome<unknown>(call());
      expect(error).toBeInstanceOf(TypeError);
      expect((error as Error).message).toMatch(/^an id must not be empty, "\." or "\.\.", got "\.{0,2}" after \/v1\//);
    }
  }
  expect(await outcome(service.models.retrieve(''))).toMatchObject({
    message: 'an id must not be empty, "." or "..", got "" after /v1/preview/models',
  });
  expect(sent).toHaveLength(0);
});

test.each([-1, Number.NaN, -Infinity])('a timeout of %d is refused, of the client and of a call', async (timeoutMs) => {
  const { sent, client } = answering(good);
  const message = `\`timeoutMs\` must be a number of at least 0, got ${timeoutMs}`;
  expect(() => client({ timeoutMs })).toThrow(new TypeError(message));
  expect(await outcome(client().models.retrieve('m', { timeoutMs }))).toEqual(new TypeError(message));
  expect(sent).toHaveLength(0);
  expect(await outcome(client({ timeoutMs: Infinity }).models.retrieve('m'))).toEqual({ id: 'x' });
});
