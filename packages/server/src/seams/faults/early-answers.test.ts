import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';

import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';

/** Larger than the buffers of both ends of a connection. */
const LARGE = 30_000_000;
/** Limit of uploads in this test: larger ones are refused by their length. */
const LIMIT = 40_000_000;

let server: TestServer;
let samplesOnly: string;
let port: number;
beforeAll(async () => {
  server = await TestServer.start({ previewBodyBytes: LIMIT });
  samplesOnly = await server.makeKey('acme', ['inference']);
  port = Number(new URL(await server.app.listen({ port: 0, host: '127.0.0.1' })).port);
});
afterAll(() => server.close());

interface Sent {
  readonly method?: string;
  readonly path: string;
  readonly headers?: Readonly<Record<string, string>>;
  /** Sent first; the rest is blanks. */
  readonly start?: string;
  readonly length?: number;
  readonly isChunked?: boolean;
}

const UPLOAD = '/v1/preview/artifacts/acme/demo/early';
const JSONL = { 'content-type': 'application/jsonl' };

function headOf({ method = 'POST', path, headers = {}, length = LARGE, isChunked = false }: Sent): string {
  const all = {
    host: '127.0.0.1',
    authorization: `Bearer ${server.key}`,
    'content-type': 'application/json',
    ...(isChunked ? { 'transfer-encoding': 'chunked' } : { 'content-length': String(length) }),
    ...headers,
  };
  const lines = Object.entries(all).map(([name, value]) => `${name}: ${value}`);
  return `${method} ${path} HTTP/1.1\r\n${lines.join('\r\n')}\r\n\r\n`;
}

async function opened(): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  await once(socket, 'connect');
  return socket;
}

/** Writes everything before it reads, as most clients do. @throws if the connection is reset meanwhile */
async function writeFirst(sent: Sent): Promise<string> {
  const socket = await opened();
  socket.pause();
  const failed = once(socket, 'error').then(([error]) => Promise.reject(error as Error));
  failed.catch(() => undefined);
  const { start = '', length = LARGE, isChunked = false } = sent;
  const write = async (bytes: string | Buffer): Promise<void> => {
    const framed = isChunked
      ? Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), Buffer.from(bytes), Buffer.from('\r\n')])
      : bytes;
    if (!socket.write(framed)) await Promise.race([once(socket, 'drain'), failed]);
  };
  socket.write(headOf(sent));
  if (start !== '') await write(start);
  const piece = Buffer.alloc(1_000_000, ' ');
  for (let left = length - start.length; left > 0; left -= piece.length)
    await write(left >= piece.length ? piece : piece.subarray(0, left));
  if (isChunked) socket.write('0\r\n\r\n');
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => (received += text));
  socket.resume();
  const isWhole = async (): Promise<void> => {
    while (!/\r\n\r\n.*\}$/s.test(received)) await delay(10);
  };
  await Promise.race([isWhole(), failed]);
  socket.destroy();
  return received;
}

const statusOf = (answer: string): number => Number(answer.slice(9, 12));

const REFUSALS: readonly [string, number, () => Sent][] = [
  ['an upload with a bad first line', 422, () => ({ path: UPLOAD, headers: JSONL, start: '{bad\n' })],
  ['an upload of one endless line', 422, () => ({ path: UPLOAD, headers: JSONL, start: '{"messages":"' })],
  ['an upload for another entity', 404, () => ({ path: '/v1/preview/artifacts/other/demo/early', headers: JSONL })],
  ['a job that is no JSON', 422, () => ({ path: '/v1/preview/training-jobs', start: '{bad' })],
  ['no key', 401, () => ({ path: UPLOAD, headers: { ...JSONL, authorization: '' } })],
  [
    'a key without the scope',
    403,
    () => ({ path: UPLOAD, headers: { ...JSONL, authorization: `Bearer ${samplesOnly}` } }),
  ],
  ['a foreign name', 403, () => ({ path: UPLOAD, headers: { ...JSONL, host: 'evil.example' } })],
  ['no such route', 404, () => ({ path: '/v1/nothing' })],
  ['no such method', 405, () => ({ path: '/v1/models', method: 'PUT' })],
  ['a chat above its limit', 413, () => ({ path: '/v1/chat/completions' })],
  ['an upload above its limit', 413, () => ({ path: UPLOAD, headers: JSONL, length: LIMIT + 1 })],
  ['an invalid file of an adapter', 404, () => ({ path: '/v1/preview/adapters/x/files/other', method: 'PUT' })],
  ['a wrong type', 415, () => ({ path: '/v1/chat/completions', headers: { 'content-type': 'text/plain' } })],
  ['a compressed body', 415, () => ({ path: UPLOAD, headers: { ...JSONL, 'content-encoding': 'gzip' } })],
  ['a malformed path', 400, () => ({ path: '/v1/%zz' })],
  ['a query that is not valid', 422, () => ({ path: `${UPLOAD}?file_name=${'x'.repeat(300)}`, headers: JSONL })],
];

test.each(REFUSALS)('%s: the %i reaches a client that writes all first', async (_name, status, sent) => {
  expect(statusOf(await writeFirst(sent()))).toBe(status);
});

test.each(REFUSALS)('%s: the %i reaches one that wants the connection closed', async (_name, status, sent) => {
  const { headers, ...rest } = sent();
  expect(statusOf(await writeFirst({ ...rest, headers: { ...headers, connection: 'close' } }))).toBe(status);
});

// Longer than the limit, so that the job is refused during the upload.
test.each(REFUSALS.filter(([name, , sent]) => sent().method === undefined && !/above its limit|no JSON/.test(name)))(
  '%s: the refusal reaches one that sends chunks',
  async (_name, status, sent) => {
    expect(statusOf(await writeFirst({ ...sent(), isChunked: true, length: LIMIT + 1 }))).toBe(status);
  },
);

test('a body in chunks that turns out to be above the limit: the 413 reaches a client that writes all first', async () => {
  const chunked = { path: '/v1/preview/training-jobs', isChunked: true, length: LIMIT + 20_000_000 };
  expect(statusOf(await writeFirst(chunked))).toBe(413);
});

test('a chat that is no JSON is 400 for such a client', async () => {
  expect(statusOf(await writeFirst({ path: '/v1/chat/completions', start: '{bad', length: 7_000_000 }))).toBe(400);
});

test('a refusal for now, 429 and 503, reaches it too', async () => {
  const { inference } = server;
  const checkCapacity = inference.checkCapacity.bind(inference);
  try {
    for (const [status, code] of [
      [429, 'engine.overloaded'],
      [503, 'server.unavailable'],
    ] as const) {
      inference.checkCapacity = () => {
        throw Object.assign(new Error('not now'), { code });
      };
      expect(statusOf(await writeFirst({ path: '/v1/chat/completions' }))).toBe(status);
    }
  } finally {
    inference.checkCapacity = checkCapacity;
  }
});

test('the connection takes the next request once the rest of the refused body is read', async () => {
  const socket = await opened();
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => (received += text));
  socket.write(headOf({ path: '/v1/nothing' }));
  socket.write(Buffer.alloc(LARGE, ' '));
  socket.write('GET /v1/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n');
  while ((received.match(/HTTP\/1\.1 \d+/g) ?? []).length < 2) await delay(10);
  expect(received.match(/HTTP\/1\.1 \d+/g)).toEqual(['HTTP/1.1 404', 'HTTP/1.1 200']);
  socket.destroy();
});

test('a client that waits for 100 Continue is invited when its body is read, and not for a body that is refused', async () => {
  const expecting = (length: number): Sent => ({ path: UPLOAD, headers: { ...JSONL, expect: '100-continue' }, length });
  const refused = await opened();
  let answer = '';
  refused.setEncoding('utf8').on('data', (text: string) => (answer += text));
  refused.write(headOf(expecting(LIMIT + 1)));
  await once(refused, 'close');
  expect(answer).toMatch(/^HTTP\/1\.1 413 /);

  const taken = await opened();
  const line = '{"messages":[{"role":"user","content":"q"},{"role":"assistant","content":"a"}]}\n';
  let received = '';
  taken.setEncoding('utf8').on('data', (text: string) => (received += text));
  taken.write(headOf(expecting(line.length)));
  while (received === '') await delay(10);
  expect(received).toBe('HTTP/1.1 100 Continue\r\n\r\n');
  taken.write(line);
  while (!received.endsWith('}')) await delay(10);
  expect(received).toMatch(/\r\n\r\nHTTP\/1\.1 200 /);
  taken.destroy();
});

test('bytes that are no HTTP are answered also while the client keeps writing', async () => {
  const socket = await opened();
  socket.pause();
  let failure: NodeJS.ErrnoException | null = null;
  socket.on('error', (error) => (failure = error));
  for (let index = 0; index < 10; index += 1) socket.write(Buffer.alloc(1_000_000, 'x'));
  let received = '';
  socket.setEncoding('utf8').on('data', (text: string) => (received += text));
  await delay(200);
  socket.resume();
  while (received === '' && failure === null) await delay(10);
  expect(received).toMatch(/^HTTP\/1\.1 400 /);
  socket.destroy();
});

test('Node fetch reads the refusal of a stream that it is still sending', async () => {
  const body = new ReadableStream({
    pull: (controller) => controller.enqueue(new Uint8Array(1_000_000).fill(32)),
  });
  const answer = await fetch(`http://127.0.0.1:${port}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${server.key}`, 'content-type': 'application/json' },
    body,
    duplex: 'half',
  } as RequestInit);
  expect(answer.status).toBe(413);
  expect(await answer.json()).toMatchObject({ error: { code: 'request.body_too_large' } });
});
