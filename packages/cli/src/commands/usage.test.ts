import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';

import { expect, onTestFinished, test, vi } from 'vitest';

import { runCommandLine } from '../run-command-line.ts';

test.each([
  ['12h', 12 * 3_600],
  ['2d', 2 * 86_400],
])('usage since %s is counted back by the clock of the service', async (since, seconds) => {
  // Ten days late, by the header of every response.
  const now = Date.now() - 864_000_000;
  const paths: string[] = [];
  const server = createServer((request, response) => {
    paths.push(request.url ?? '');
    response.setHeader('x-request-id', 'some-request');
    response.setHeader('date', new Date(now).toUTCString());
    response.end(JSON.stringify({ object: 'list', data: [], has_more: false, status: 'ok' }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  const written = vi.spyOn(process.stdout, 'write').mockReturnValue(true);
  onTestFinished(() => written.mockRestore());
  expect(await runCommandLine(['usage', '--since', since, '--url', url, '--api-key', 'k'])).toBe(0);
  const from = new URL(paths.at(-1) ?? '', url).searchParams.get('from');
  expect(Math.abs(Number(from) - (now / 1000 - seconds))).toBeLessThan(60);
});
