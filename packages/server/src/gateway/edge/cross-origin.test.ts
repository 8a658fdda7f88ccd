import { afterAll, beforeAll, expect, test } from 'vitest';
import type { ErrorBody } from '@trainyard/protocol';

import { createServer } from '../create-server.ts';
import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

async function send(
  method: 'OPTIONS' | 'GET',
  origin: string,
  options: { allowedOrigins?: string[]; headers?: Record<string, string>; url?: string } = {},
) {
  const { store, blobs, inference, training, transfers } = server;
  const { allowedOrigins } = options;
  const app = createServer({
    store,
    blobs,
    inference,
    training,
    exports: transfers,
    imports: transfers,
    ...(allowedOrigins ? { allowedOrigins } : {}),
  });
  const response = await app.inject({
    method,
    url: options.url ?? '/v1/models',
    headers: { origin, host: '127.0.0.1:8420', ...options.headers },
  });
  await app.close();
  return response;
}

const preflight = (origin: string, allowedOrigins?: string[], url = '/v1/chat/completions') =>
  send('OPTIONS', origin, {
    ...(allowedOrigins ? { allowedOrigins } : {}),
    url,
    headers: {
      'access-control-request-method': 'POST',
      'access-control-request-headers': 'authorization,content-type,x-stainless-os',
    },
  });

test.each([
  'http://localhost:3000',
  'https://127.0.0.1',
  'http://[::1]:5173',
  'http://app.localhost:1',
  'http://127.0.0.1:8420',
])('a preflight of %s is answered without a key, for every header', async (origin) => {
  const response = await preflight(origin);
  expect(response.statusCode).toBe(204);
  expect(response.body).toBe('');
  expect(response.headers).toMatchObject({
    'access-control-allow-origin': origin,
    'access-control-allow-methods': 'GET, HEAD, POST, PUT, DELETE',
    'access-control-allow-headers': 'authorization,content-type,x-stainless-os',
    'access-control-max-age': '600',
    vary: 'Origin',
  });
  expect(response.headers).not.toHaveProperty('access-control-allow-credentials');
});

test.each(['https://evil.example', 'null', 'http://localhost.evil.example', 'file://', 'chrome-extension://abc', ''])(
  'pages of %j are refused: the preflight names the setting, an answer names no origin',
  async (origin) => {
    const response = await preflight(origin);
    expect(response.statusCode).toBe(403);
    expect(response.json<ErrorBody>().error).toMatchObject({ code: 'request.origin_not_allowed', param: 'Origin' });
    expect(response.json<ErrorBody>().error.message).toContain('--allowed-origins');
    expect(response.headers).not.toHaveProperty('access-control-allow-origin');
    const answer = await send('GET', origin, { headers: { authorization: `Bearer ${server.key}` } });
    expect(answer.statusCode).toBe(200);
    expect(answer.headers).not.toHaveProperty('access-control-allow-origin');
    expect(answer.headers['vary']).toBe('Origin');
  },
);

test('answers, errors and events may be read, with the headers that clients need', async () => {
  const origin = 'http://localhost:3000';
  const answers = [
    await send('GET', origin, { headers: { authorization: `Bearer ${server.key}` } }),
    await send('GET', origin),
    await server.chat({ stream: true }, { origin }),
    await server.request('GET', '/v1/nothing', undefined, { origin }),
  ];
  expect(answers.map(({ statusCode }) => statusCode)).toEqual([200, 401, 200, 404]);
  for (const { headers } of answers) {
    expect(headers['access-control-allow-origin']).toBe(origin);
    expect(headers['access-control-expose-headers']).toContain('X-Request-Id');
  }
});

test('other origins are allowed by name, or all of them; the own one always', async () => {
  const origin = 'https://app.example';
  expect((await preflight(origin, ['https://app.example'])).statusCode).toBe(204);
  expect((await preflight('http://localhost:1', ['https://app.example'])).statusCode).toBe(403);
  expect((await preflight('http://127.0.0.1:8420', ['https://app.example'])).statusCode).toBe(204);
  expect((await preflight(origin, ['*'])).headers['access-control-allow-origin']).toBe('*');
});

test('OPTIONS without a preflight is an unknown method still', async () => {
  const response = await send('OPTIONS', 'http://localhost:1');
  expect([response.statusCode, response.headers['allow']]).toEqual([405, 'GET, HEAD']);
});
