import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest';

import { runCommandLine } from '../run-command-line.ts';

let folder: string;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-keys-'));
  vi.stubEnv('TRAINYARD_DATA_DIR', folder);
});
afterEach(async () => {
  vi.unstubAllEnvs();
  await rm(folder, { recursive: true });
});

async function keys(...args: string[]): Promise<{ exitCode: number; stdout: string; stderr: string }> {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((name) =>
    vi.spyOn(process[name], 'write').mockImplementation((text) => (written[name] += String(text)) !== ''),
  );
  try {
    return { exitCode: await runCommandLine(['keys', ...args]), ...written };
  } finally {
    for (const spy of spies) spy.mockRestore();
  }
}

test('without a service the keys of the data folder are made, listed and revoked', async () => {
  const made = await keys('create', 'ci', '--scopes', 'inference', '--expires', '90d');
  expect(made).toMatchObject({ exitCode: 0, stdout: expect.stringMatching(/^ty-[\w-]{49}\n$/) as string });
  expect(made.stderr).toContain('"ci" of local, for inference, until 2');
  await keys('create', 'all', '--scopes', 'admin', '--entity', 'team');
  const listed = await keys('list');
  expect(listed.stdout.split('\n')).toHaveLength(4);
  expect(listed.stdout).toMatch(/^id +name +entity +scopes +secret +limits +made +used +state\n/);
  expect(listed.stdout).toMatch(/\n\w{8} +ci +local +inference +ty-.{4}… .* never +valid until .*\n/);
  expect(listed.stdout).toMatch(/\n\w{8} +all +team +admin .* valid\n/);
  expect(listed.stdout).not.toContain(made.stdout.trim());
  const [, id = ''] = /\n(\w{8}) +ci /.exec(listed.stdout) ?? [];
  expect(await keys('revoke', id)).toMatchObject({ exitCode: 0, stdout: `revoked ${id} "ci" of local\n` });
  const after = JSON.parse((await keys('list', '--json')).stdout) as { id: string; revoked_at: number | null }[];
  expect(after.map((key) => key.revoked_at === null)).toEqual([false, true]);
});

test('a key has its limits, and each can be changed separately', async () => {
  await keys('create', 'ci', '--requests-per-minute', '60', '--tokens-per-minute', '100000');
  const [, id = ''] = /\n(\w{8}) +ci .* 60 requests\/min/.exec((await keys('list')).stdout) ?? [];
  expect(await keys('limit', id, '--tokens-per-minute', 'none', '--max-requests-in-flight', '8')).toMatchObject({
    exitCode: 0,
    stdout: `${id} "ci" of local has the limits: 60 requests/min, 8 in flight\n`,
  });
  const { stdout } = await keys('limit', id, '--requests-per-minute', 'none', '--json');
  expect((JSON.parse(stdout) as { limits: object }).limits).toEqual({
    requests_per_minute: null,
    tokens_per_minute: null,
    max_requests_in_flight: 8,
  });
});

test.each([
  [['create'], 'missing required argument \'NAME\'\nsee "trainyard keys create --help"'],
  [['create', 'a', 'b'], "too many arguments for 'create'. Expected 1 argument but got 2."],
  [['list', 'x'], "too many arguments for 'list'. Expected 0 arguments but got 1."],
  [['revoke'], 'missing required argument \'KEY\'\nsee "trainyard keys revoke --help"'],
  [[], 'missing command: create, list, limit, revoke\nsee "trainyard keys --help"'],
  [['lend'], "unknown command 'lend'"],
  [['create', 'a', '--scopes', 'all'], '--scopes takes inference, training, admin, got "all"'],
  [['create', 'a', '--expires', 'soon'], '--expires must be a time such as 30m'],
  [['create', 'a', '--expires', '3000'], '--expires must be a time such as 30m'],
  [['create', 'a', '--expires', '2027-02-31'], '--expires must be a time such as 30m'],
  [['revoke', ''], 'the argument KEY is empty\nsee "trainyard keys revoke --help"'],
  [['limit', ' ', '--requests-per-minute', '1'], 'the argument KEY is empty'],
  [['create', 'a', '--expires', '2020-01-01'], '--expires must be in the future'],
  [['limit'], 'missing required argument \'KEY\'\nsee "trainyard keys limit --help"'],
  [['limit', 'a'], 'no limit given: pass --requests-per-minute, --tokens-per-minute or --max-requests-in-flight'],
  [
    ['limit', 'a', '--requests-per-minute', '0'],
    '--requests-per-minute takes a whole number from 1 to 1000000000, or none, got "0"',
  ],
  [
    ['create', 'a', '--tokens-per-minute', '1e3'],
    '--tokens-per-minute takes a whole number from 1 to 1000000000, or none',
  ],
  [['list', '--expires', '1d'], "unknown option '--expires'"],
])('%j is a wrong command line', async (args, message) => {
  const { exitCode, stderr } = await keys(...args);
  expect(stderr).toContain(message);
  expect(exitCode).toBe(2);
});

test('a missing key and a missing folder are reported in one line', async () => {
  expect(await keys('revoke', 'abc')).toMatchObject({
    exitCode: 1,
    stderr: expect.stringContaining('no key abc') as string,
  });
  const nowhere = join(folder, 'nowhere');
  const { exitCode, stderr } = await keys('list', '--data-dir', nowhere);
  expect([exitCode, stderr.split('\n').length]).toEqual([1, 2]);
  expect(stderr).toContain('no data folder');
});

test('a key ends by the clock of its service, and not by that of the command', async () => {
  // A day ahead, by the header of every response.
  const now = Date.now() + 86_400_000;
  const bodies: string[] = [];
  const key = { id: 'abcdefgh', name: 'ci', entity: 'e', scopes: [], hint: 'x', created_at: 0, revoked_at: null };
  const limits = { requests_per_minute: null, tokens_per_minute: null, max_requests_in_flight: null };
  const listed = { ...key, limits, expires_at: Math.floor(now / 1000) - 3_600 };
  const data = [{ ...listed, last_used_at: Math.floor(now / 1000) - 7_300 }, listed];
  const server = createServer(async (request, response) => {
    response.setHeader('x-request-id', 'some-request');
    response.setHeader('date', new Date(now).toUTCString());
    let body = '';
    for await (const chunk of request) body += String(chunk);
    if (body !== '') bodies.push(body);
    const answer = request.url === '/v1/health' ? { status: 'ok' } : { object: 'list', data };
    response.end(JSON.stringify(request.method === 'POST' ? { ...listed, secret: 's' } : answer));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  const options = ['--url', `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`, '--api-key', 'k'];
  expect(await keys('create', 'ci', '--expires', '1h', ...options)).toMatchObject({ exitCode: 0, stdout: 's\n' });
  const { expires_at: end } = JSON.parse(bodies[0] ?? '{}') as { expires_at: number };
  expect(Math.abs(end - (now / 1000 + 3_600))).toBeLessThan(60);
  const past = new Date(now - 3_600_000).toISOString();
  const refused = await keys('create', 'ci', '--expires', past, ...options);
  expect([refused.exitCode, refused.stderr]).toEqual([2, expect.stringContaining('--expires must be in the future')]);
  const { stdout } = await keys('list', ...options);
  const [used, unknown] = stdout.split('\n').slice(1);
  expect(used).toMatch(/ 2 h ago +expired \S+ \S+Z$/);
  // A service of an earlier release does not send the last use.
  expect(unknown).toMatch(/ d ago +expired \S+ \S+Z$/);
});

test('a service is asked over HTTP', async () => {
  const asked: string[] = [];
  const server = createServer((request, response) => {
    asked.push(`${request.method} ${request.url} ${request.headers.authorization}`);
    response.setHeader('x-request-id', 'some-request');
    response.end(JSON.stringify({ object: 'list', data: [] }));
  });
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
  onTestFinished(() => void server.close());
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`;
  expect((await keys('list', '--url', url, '--api-key', 'k')).exitCode).toBe(0);
  expect(asked).toEqual(['GET /v1/keys Bearer k']);
});
