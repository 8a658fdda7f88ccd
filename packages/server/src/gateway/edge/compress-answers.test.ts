import { gunzipSync } from 'node:zlib';

import fastify from 'fastify';
import { expect, onTestFinished, test } from 'vitest';

import { accepts, compressAnswers } from './compress-answers.ts';

const LARGE = { data: Array.from({ length: 500 }, (_, index) => ({ id: `local/demo/model:step${index}` })) };

async function server() {
  const app = fastify();
  onTestFinished(() => app.close());
  compressAnswers(app);
  app.get('/large', () => LARGE);
  app.get('/small', () => ({ ok: true }));
  app.get('/text', (_request, reply) => reply.type('text/plain').send('x'.repeat(10_000)));
  app.post('/large', () => LARGE);
  return app;
}

test('a large JSON answer is compressed for a client that accepts it, and unchanged for others', async () => {
  const app = await server();
  const plain = await app.inject({ url: '/large' });
  const compressed = await app.inject({ url: '/large', headers: { 'accept-encoding': 'gzip, br' } });
  expect(plain.headers['content-encoding']).toBeUndefined();
  expect([plain.headers['vary'], compressed.headers['vary']]).toEqual(['accept-encoding', 'accept-encoding']);
  expect(compressed.headers['content-encoding']).toBe('gzip');
  expect(gunzipSync(compressed.rawPayload).toString()).toBe(plain.body);
  console.log(`${plain.rawPayload.length} bytes became ${compressed.rawPayload.length}`);
  expect(compressed.rawPayload.length).toBeLessThan(plain.rawPayload.length / 5);
  expect(Number(compressed.headers['content-length'] ?? compressed.rawPayload.length)).toBe(
    compressed.rawPayload.length,
  );
});

test.each(['/small', '/text'])('%s is not compressed', async (url) => {
  const app = await server();
  const answer = await app.inject({ url, headers: { 'accept-encoding': 'gzip' } });
  expect(answer.headers['content-encoding']).toBeUndefined();
});

test('answers to other methods are not compressed', async () => {
  const app = await server();
  const answer = await app.inject({ method: 'POST', url: '/large', headers: { 'accept-encoding': 'gzip' } });
  expect(answer.headers['content-encoding']).toBeUndefined();
});

test.each([
  ['gzip', true],
  ['br, GZIP;q=0.5', true],
  ['*', true],
  ['gzip;q=0, *', false],
  ['br', false],
  ['x-gzip', false],
  [undefined, false],
] as const)('Accept-Encoding %s accepts gzip: %s', (header, isAccepted) =>
  expect(accepts(header, 'gzip')).toBe(isAccepted),
);
