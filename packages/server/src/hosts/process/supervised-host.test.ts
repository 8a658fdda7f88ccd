import { mkdtemp, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';

import { expect, onTestFinished, test } from 'vitest';

import type { IdleCommand, IdleMessage } from './idle-host.fixture.ts';
import type { WatchLimits } from './host-watch.ts';
import { SupervisedHost } from './supervised-host.ts';

const LIMITS: WatchLimits = { firstSignMs: 600_000, silenceMs: 600_000, idleMs: 600_000, turnMs: 600_000 };

/**
 * A real watched process; `lives` gets the number of each of its processes, `losses` the reason of each end.
 */
async function supervised(limits: Partial<WatchLimits>) {
  const lives: number[] = [];
  const losses: string[] = [];
  let numHung = 0;
  let numWritten = 0;
  const steps: number[] = [];
  const host = new SupervisedHost<IdleCommand, IdleMessage>({
    name: 'idle',
    modulePath: fileURLToPath(new URL('./idle-host.fixture.ts', import.meta.url)),
    options: {},
    onMessage: (message) => {
      if (message.kind === 'ready') lives.push(message.pid);
      else if (message.kind === 'counted') steps.push(message.numSteps);
      else numWritten += 1;
    },
    onHung: () => (numHung += 1),
    onLost: (reason) => losses.push(reason),
    log: () => {},
    watchLimits: { ...LIMITS, ...limits },
  });
  onTestFinished(() => host.close());
  await host.start();
  return { host, lives, losses, numHung: () => numHung, numWritten: () => numWritten, steps };
}

/** Waits as long as needed: a process starts slowly on a busy machine. */
const until = (check: () => void) => expect.poll(() => (check(), true), { timeout: 100_000 }).toBe(true);

test('a stopped process is ended and replaced, and its owner is notified once, at once', async () => {
  const { host, lives, losses, numHung } = await supervised({ silenceMs: 5_000 });
  process.kill(lives[0]!, 'SIGSTOP');
  await until(() => expect(lives.length).toBeGreaterThan(1));
  expect(losses).toEqual([expect.stringMatching(/^it gave no sign of life for \d+ s and was killed$/)]);
  expect(numHung()).toBe(1);
  expect(host.problem).toBeNull();
});

test('a start is rejected if the host is closed meanwhile', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-host-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const modulePath = join(folder, 'loads-for-ever.mjs');
  await writeFile(modulePath, "process.on('message', () => process.exit(0));\n");
  const ignore = () => undefined;
  const options = { name: 'slow', modulePath, options: {}, onMessage: ignore, onLost: ignore, log: ignore };
  const host = new SupervisedHost<IdleCommand, IdleMessage>({ ...options, watchLimits: LIMITS });
  const started = host.start().catch((error: unknown) => error);
  await host.close();
  expect(await started).toMatchObject({ code: 'server.host_unavailable', message: 'the slow host was closed' });
});

/** Simulates a limit of files or processes: the system starts nothing, and there is no exit. */
function refuseProcesses(): () => void {
  const { execPath } = process;
  const allow = () => void (process.execPath = execPath);
  onTestFinished(allow);
  process.execPath = join(tmpdir(), 'trainyard-no-such-program');
  return allow;
}

test('a host that the system cannot start again comes back later', async () => {
  const { host, lives, losses } = await supervised({});
  const allow = refuseProcesses();
  process.kill(lives[0]!, 'SIGKILL');
  const refused = 'the system could not start its process (ENOENT)';
  await until(() => expect(host.problem).toBe(`it is being restarted: ${refused}`));
  expect(losses).toContain(refused);
  allow();
  await until(() => expect(lives).toHaveLength(2));
  expect(host.problem).toBeNull();
});

test('a first start that the system refuses is one line', async () => {
  refuseProcesses();
  const ignore = () => undefined;
  const options = { name: 'idle', modulePath: '', options: {}, onMessage: ignore, onLost: ignore, log: ignore };
  const host = new SupervisedHost<IdleCommand, IdleMessage>({ ...options, watchLimits: LIMITS });
  await expect(host.start()).rejects.toMatchObject({
    code: 'server.host_failed_to_start',
    message: 'the idle host cannot start: the system could not start its process (ENOENT)',
  });
  await host.close();
});

test('a host that gets no more threads ends with the remedy', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'trainyard-host-'));
  onTestFinished(() => rm(folder, { recursive: true }));
  const modulePath = join(folder, 'refuses.mjs');
  const failure = { code: 'ERR_WORKER_INIT_FAILED', message: 'EAGAIN' };
  await writeFile(modulePath, `process.send(${JSON.stringify({ kind: 'fatal', failure })}, () => process.exit(1));\n`);
  const ignore = () => undefined;
  const options = { name: 'idle', modulePath, options: {}, onMessage: ignore, onLost: ignore, log: ignore };
  const host = new SupervisedHost<IdleCommand, IdleMessage>({ ...options, watchLimits: LIMITS });
  await expect(host.start()).rejects.toThrow(
    'the idle host cannot start: EAGAIN: too many processes and threads; raise the limit (ulimit -u, pids.max, TasksMax)',
  );
});

test('a process that is continued in time is not replaced', async () => {
  const { host, lives, losses } = await supervised({});
  process.kill(lives[0]!, 'SIGSTOP');
  await until(() => expect(host.problem).toMatch(/no sign of life/));
  process.kill(lives[0]!, 'SIGCONT');
  await until(() => expect(host.problem).toBeNull());
  expect([lives.length, losses]).toEqual([1, []]);
});

test.each([
  ['spin', { turnMs: 3_000 }, /^it read no message for \d+ s/],
  ['wait', { idleMs: 3_000 }, /^it made no progress and used no CPU for \d+ s/],
] as const)('a main thread that is blocked for ever (%s) ends its process', async (kind, limits, reason) => {
  const { host, lives, losses } = await supervised(limits);
  host.send({ kind });
  await until(() => expect(lives.length).toBeGreaterThan(1));
  expect(losses).toEqual([expect.stringMatching(reason)]);
});

test('a process that ends by itself is reported with its exit status, without paths of its files', async () => {
  const { lives, losses } = await supervised({});
  process.kill(lives[0]!, 'SIGKILL');
  await until(() => expect(lives.length).toBeGreaterThan(1));
  expect(losses).toEqual([expect.stringMatching(/^it was killed \(SIGKILL\), probably because the memory was full/)]);
});

test('files of a host are readable by their owner only, under any umask', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'trainyard-host-'));
  const mask = process.umask(0o002);
  onTestFinished(async () => {
    process.umask(mask);
    await rm(directory, { recursive: true });
  });
  const { host, numWritten } = await supervised({});
  const folder = join(directory, 'checkpoint');
  host.send({ kind: 'write', folder });
  await until(() => expect(numWritten()).toBe(1));
  const mode = async (path: string) => ((await stat(path)).mode & 0o777).toString(8);
  expect([await mode(folder), await mode(join(folder, 'weights'))]).toEqual(['700', '600']);
});

test('a burst of commands is taken within a few steps, not one read of the channel after each', async () => {
  const { host, steps } = await supervised({});
  // 4 MB, as 2,048 chat requests have; one read of the channel is 64 KiB, a 64th of it.
  const [upTo, payload] = [2_048, 'x'.repeat(2_048)];
  for (let count = 0; count < upTo; count++) host.send({ kind: 'count', upTo, payload });
  await until(() => expect(steps).toHaveLength(1));
  expect(steps[0]).toBeLessThan(20);
});
