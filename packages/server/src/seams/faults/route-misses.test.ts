import type { ErrorBody } from '@trainyard/protocol';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => {
  server = await TestServer.start();
});
afterAll(() => server.close());

test.each([
  '/v1/embeddings',
  '/embed',
  '/v2/embed',
  '/pooling',
  '/classify',
  '/v1/score',
  '/rerank',
  '/v2/rerank',
  '/v1/moderations',
  '/v1/audio/transcriptions',
  '/v1/audio/speech',
  '/v1/realtime',
  '/v1/images/generations',
  '/v1/videos',
  '/v1/chat/completions/chatcmpl-1',
  '/v1/assistants',
  '/v1/batches',
  '/v1/messages/batches',
  '/v1/fine_tuning/jobs',
  '/v1/files',
  '/sleep',
])('POST %s is 404 and names the existing routes', async (path) => {
  const response = await server.request('POST', path, { input: 'x' });
  const { error } = response.json<ErrorBody>();
  expect([response.statusCode, error.code]).toEqual([404, 'request.not_found']);
  expect(error.message).toContain(`There is no ${path} here`);
  expect(error.message).toContain('/v1/chat/completions');
});

test.each(['/chat/completions/tokens', '/v1/chat/completions/tokens'])(
  'POST %s is 404 and names the route for prompts of token ids',
  async (path) => {
    const response = await server.request('POST', path, { tokens: [1], messages: [] });
    expect(response.statusCode).toBe(404);
    expect(response.json<ErrorBody>().error.message).toContain(
      `There is no ${path} here: send prompts of token ids to POST /inference/v1/generate`,
    );
  },
);

test.each([
  ['/chat/completions', '/v1/chat/completions'],
  ['/messages', '/v1/messages'],
  ['/v1/v1/messages', '/v1/messages'],
  ['/v1/v1/v1/responses', '/v1/responses'],
  ['//v1/chat/completions', '/v1/chat/completions'],
  ['/v1//chat/completions/', '/v1/chat/completions/'],
  ['/v1/v1/models/tiny/base', '/v1/models/tiny/base'],
  ['/v1/inference/v1/generate', '/inference/v1/generate'],
])('POST %s is 404 and suggests %s', async (path, meant) => {
  const response = await server.request('POST', path, { input: 'x' });
  const { error } = response.json<ErrorBody>();
  expect([response.statusCode, error.code]).toEqual([404, 'request.not_found']);
  expect(error.message).toContain(`There is no ${path} here, but ${meant}: check the base URL`);
});

test('a path that resembles none is 404 without a suggestion', async () => {
  for (const path of ['/v1', '/v1/v1', '/v1/nothing', '/nothing']) {
    const { error } = (await server.request('GET', path)).json<ErrorBody>();
    expect([path, error.message]).toEqual([path, 'Not Found']);
  }
});

test('every path that a miss names is there', async () => {
  const { error } = (await server.request('GET', '/v1/embeddings')).json<ErrorBody>();
  const paths = error.message.split('Available are ')[1]?.split(', ') ?? [];
  expect(paths.length).toBeGreaterThan(5);
  for (const path of paths) {
    const { statusCode } = await server.request('DELETE', path);
    expect(statusCode, path).toBe(405);
  }
});
