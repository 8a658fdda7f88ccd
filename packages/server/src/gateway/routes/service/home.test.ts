import { afterAll, beforeAll, expect, test } from 'vitest';

import { TestServer } from '../../../testing/test-server.ts';

let server: TestServer;
beforeAll(async () => void (server = await TestServer.start()));
afterAll(() => server.close());

const home = (headers: Record<string, string> = {}) =>
  server.app.inject({ url: '/', headers: { host: 'localhost:8420', ...headers } });

test('a person without a key sees the name, the state and the next step', async () => {
  const { statusCode, headers, body } = await home({ accept: 'text/html,application/xhtml+xml,*/*;q=0.8' });
  expect(statusCode).toBe(200);
  expect(headers['content-type']).toBe('text/html; charset=utf-8');
  for (const text of [
    'Trainyard',
    'running',
    'tiny/base',
    'http://localhost:8420/v1',
    'href="/docs"',
    'first_steps.py',
  ])
    expect(body).toContain(text);
  expect(body).not.toMatch(/@import|url\(|<script/);
});

test('curl gets the same as text', async () => {
  const { headers, body } = await home({ accept: '*/*' });
  expect(headers['content-type']).toBe('text/plain; charset=utf-8');
  expect(body).toMatch(/^Trainyard \S+: running\n/);
  expect(body).toContain('http://localhost:8420/docs: ');
  expect(body).toContain('curl -N http://localhost:8420/v1/chat/completions');
});

test('a host that is down is reported as by the health route', async () => {
  server.training.healthy = false;
  const { body } = await home({ accept: 'text/html' });
  server.training.healthy = true;
  expect(body).toContain('training: it is being started');
});

test('a Host header that is no host gets no page', async () => {
  const { statusCode, headers } = await home({ accept: 'text/html', host: 'a"><script>alert(1)</script>' });
  expect([statusCode, headers['content-type']]).toEqual([403, 'application/json; charset=utf-8']);
});
