import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { type IncomingMessage, request, type RequestOptions } from 'node:http';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

import { afterAll, describe, expect, it } from 'vitest';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { type ChatBody, Trainyard } from '@trainyard/sdk';

import { programPath } from '../../scripts/program-path.ts';
import { eventTypes } from '../support/event-types.ts';
import { tenLongGroups, scoredGroup } from '../support/groups.ts';
import { childrenOf } from '../support/processes.ts';
import { smallService } from '../support/small-service.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-lifecycle-'));
afterAll(() => rmSync(scratch, { recursive: true }));

function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
  } catch {
    return false;
  }
}

/** A browser at the service: its cookie is for `localhost` and one port. */
const BROWSER = { host: 'localhost:8420', 'sec-fetch-site': 'same-origin', 'content-type': 'application/json' };

/** Signs in by a link. @returns the cookie as the browser sends it */
async function signIn(url: string, code: string): Promise<string> {
  const response = await send(`${url}/session`, { method: 'POST', headers: BROWSER }, JSON.stringify({ code }));
  return String(response.headers['set-cookie']).split(';')[0]!;
}

/** Name of the key of a cookie. */
async function nameOfKey(url: string, cookie: string): Promise<string | null> {
  const { body } = await send(`${url}/session`, { method: 'GET', headers: { ...BROWSER, cookie } });
  return (JSON.parse(body) as { key: { name: string } | null }).key?.name ?? null;
}

/** Sends a request with headers that `fetch` does not allow. */
async function send(url: string, options: RequestOptions, body = '') {
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    request(url, options, resolve).once('error', reject).end(body);
  });
  return { headers: response.headers, body: await text(response) };
}

/** Requests in flight may end on any slow machine. */
const PATIENT = { TRAINYARD_DRAIN_TIMEOUT_MS: '600000' };

/**
 * A streamed answer with its first output, so that it is in flight; `numTokens` is its final number of
 * tokens.
 */
async function begun(client: Trainyard, request: ChatBody): Promise<{ numTokens: Promise<number> }> {
  const chunks = await client.chat.completions.create({
    ...request,
    stream: true,
    stream_options: { include_usage: true },
  });
  expect((await chunks.next()).done).toBe(false);
  const rest = async () => {
    let numTokens = 0;
    for (let next = await chunks.next(); next.done !== true; next = await chunks.next())
      numTokens = next.value.usage?.completion_tokens ?? numTokens;
    return numTokens;
  };
  return { numTokens: rest() };
}

it('requests that outlast the drain end with an error of their own, not with a cut connection', async () => {
  const service = await smallService({ environment: { TRAINYARD_DRAIN_TIMEOUT_MS: '100' } });
  const { url, apiKey } = service;
  const chat = (stream: boolean) =>
    fetch(`${url}/chat/completions`, {
      method: 'POST',
      headers: { authorization: `Bearer ${apiKey}`, 'content-type': 'application/json' },
      body: JSON.stringify({
        messages: [{ role: 'user', content: 'Go on.' }],
        max_tokens: 8_000,
        ignore_eos: true,
        stream,
      }),
    });
  const whole = Array.from({ length: 4 }, () => chat(false));
  const streams = await Promise.all(Array.from({ length: 12 }, () => chat(true)));
  const reported = streams.map((answer) => answer.text());
  await service.close();
  for (const text of await Promise.all(reported)) {
    const ends = text.split('\n\n').filter((event) => event.includes('"error"') || event.includes('[DONE]'));
    expect(ends).toEqual([expect.stringContaining('engine.host_lost'), 'data: [DONE]']);
  }
  for (const answer of await Promise.all(whole)) {
    expect(answer.status).toBe(503);
    expect(await answer.json()).toMatchObject({ error: { code: 'engine.host_lost' } });
  }
});

describe('a service', () => {
  it('keeps models, checkpoints, logs and browser sessions over a restart, readable only by the owner, and leaves no process', async () => {
    const dataDirectory = join(scratch, 'private folder é%20#');
    const first = await smallService({ dataDirectory });
    const client = new Trainyard({ baseUrl: first.url, apiKey: first.apiKey, maxRetries: 0 });
    expect(await client.service.isHealthy()).toBe(true);
    const base = (await client.servedModels.list()).data[0]!.id;
    const model = await client.models.register({ project: 'p', name: 'kept', base_model: base });
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: [await scoredGroup(client, 'kept')],
      experimental_config: { learning_rate: 1e-4 },
    });
    const steps = await client.trainingJobs.gradientSteps(job.id);
    expect(steps).toHaveLength(1);
    await client.trajectoryLogs.create(model.id, {
      split: 'val',
      trajectory_groups: [await scoredGroup(client, 'kept')],
    });
    const greedy = {
      model: 'kept',
      messages: [{ role: 'user', content: 'Say something.' }],
      temperature: 0,
      max_tokens: 12,
    };
    const host = (await client.hosts.read()).sampling.hosts[0]!;
    expect([host.num_adapters, host.steps]).toEqual([
      1,
      [{ model: 'local/p/kept', step: 1, since: expect.any(Number) }],
    ]);
    const before = await client.chat.completions.create(greedy);
    expect(before.model).toBe('local/p/kept:step1');
    const link = await client.sessions.createLink();
    const cookie = await signIn(first.url, link.path.split('#')[1]!);
    expect(await nameOfKey(first.url, cookie)).toBe('admin');
    const children = childrenOf(first.pid);
    expect(children).toHaveLength(2);
    expect(await first.stop()).toBe(0);
    expect(children.filter(isAlive)).toEqual([]);
    const paths = readdirSync(dataDirectory, { recursive: true }).map((path) => join(dataDirectory, String(path)));
    expect(paths).toContainEqual(expect.stringContaining('adapter_model.safetensors'));
    expect([dataDirectory, ...paths].filter((path) => (statSync(path).mode & 0o077) !== 0)).toEqual([]);

    const second = await smallService({ dataDirectory, environment: { TRAINYARD_API_KEY: first.apiKey } });
    try {
      const again = new Trainyard({ baseUrl: second.url, apiKey: first.apiKey, maxRetries: 0 });
      const { data } = await again.checkpoints.list(model.id);
      expect(data.map((checkpoint) => checkpoint.step)).toEqual([0, 1]);
      expect(await nameOfKey(second.url, cookie)).toBe('admin');
      expect(data[1]!.metrics).toHaveProperty(['val/reward']);
      expect(data[1]!.metrics).toHaveProperty(['train/policy_loss']);
      const after = await again.chat.completions.create(greedy);
      expect(after.choices[0]!.message.content).toBe(before.choices[0]!.message.content);
      expect(after.system_fingerprint).toBe(before.system_fingerprint);
      const events = await again.trainingJobs.events(job.id);
      expect(eventTypes(events.data)).toEqual(['training_started', 'gradient_step', 'training_ended']);
    } finally {
      await second.close();
    }
  });

  /** Sampled by the first test; the origin of a job's data does not matter. */
  let groups: WireTrajectoryGroup[] | null = null;

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'continues the job that was running at %s, and it ends once, with all its steps',
    async (signal) => {
      const dataDirectory = join(scratch, `midjob-${signal}`);
      const first = await smallService({ dataDirectory });
      const client = new Trainyard({ baseUrl: first.url, apiKey: first.apiKey, maxRetries: 0 });
      const base = (await client.servedModels.list()).data[0]!.id;
      const model = await client.models.register({ project: 'p', name: 'midjob', base_model: base });
      groups ??= await tenLongGroups(client, 'midjob');
      const job = await client.trainingJobs.create({
        model_id: model.id,
        trajectory_groups: groups,
        experimental_config: {
          learning_rate: 1e-4,
          gradient_steps: 2,
          // The second service has no records of the first one's samples.
          allow_training_with_unknown_sampling: true,
        },
      });
      const children = childrenOf(first.pid);
      for await (const event of client.trainingJobs.watch(job.id)) if (event.type === 'gradient_step') break;
      process.kill(first.pid, signal);
      await first.stop();
      // The hosts notice the closed channel.
      await expect.poll(() => children.filter(isAlive)).toEqual([]);

      const second = await smallService({ dataDirectory, environment: { TRAINYARD_API_KEY: first.apiKey } });
      try {
        const again = new Trainyard({ baseUrl: second.url, apiKey: first.apiKey, maxRetries: 0 });
        expect(await again.trainingJobs.gradientSteps(job.id)).toHaveLength(2);
        const { data } = await again.trainingJobs.events(job.id);
        expect(eventTypes(data)).toEqual(['training_started', 'gradient_step', 'gradient_step', 'training_ended']);
        expect((await again.checkpoints.list(model.id)).data.map((checkpoint) => checkpoint.step)).toEqual([0, 1]);
      } finally {
        await second.close();
      }
    },
    240_000,
  );

  it('starts next to the lock of an unrelated process, shows its key once, stores it hashed, and leaves a file that only its owner can read', async () => {
    const dataDirectory = join(scratch, 'key');
    mkdirSync(dataDirectory);
    const lock = JSON.stringify({ pid: process.pid, startedAt: 'another boot/1' });
    writeFileSync(join(dataDirectory, 'service.pid'), lock);
    const service = await smallService({ dataDirectory, environment: { TRAINYARD_API_KEY: '' } });
    const keyFile = join(dataDirectory, 'admin-key');
    const secret = readFileSync(keyFile, 'utf8').trim();
    try {
      expect(service.output()).toContain(secret);
      expect(statSync(keyFile).mode & 0o777).toBe(0o600);
      expect(
        await new Trainyard({ baseUrl: service.url, apiKey: secret, maxRetries: 0 }).servedModels.list(),
      ).toHaveProperty('object', 'list');
    } finally {
      await service.stop();
    }
    for (const file of ['trainyard.sqlite', 'trainyard.sqlite-wal']) {
      const path = join(dataDirectory, file);
      if (statSync(path, { throwIfNoEntry: false })) expect(readFileSync(path).includes(secret), file).toBe(false);
    }
    const second = await smallService({ dataDirectory, environment: { TRAINYARD_API_KEY: '' } });
    expect(second.output()).not.toContain(secret);
    await second.close();
  });

  it('treats the second signal of one Ctrl-C under npm as the same keypress', async () => {
    const service = await smallService({ environment: PATIENT });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const messages = [{ role: 'user', content: 'Count.' }];
    const running = await begun(client, { model: base, messages, max_tokens: 24, ignore_eos: true });
    process.kill(service.pid, 'SIGINT');
    setTimeout(() => process.kill(service.pid, 'SIGINT'), 5);
    expect(await running.numTokens).toBe(24);
    await expect.poll(() => isAlive(service.pid)).toBe(false);
    expect(await service.stop(), 'it had ended in good order').toBe(0);
    await service.close();
  });

  it('finishes requests in flight before it exits', async () => {
    const service = await smallService({ environment: PATIENT });
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const messages = [{ role: 'user', content: 'Count.' }];
    const running = await begun(client, { model: base, messages, max_tokens: 24, ignore_eos: true });
    const stopped = service.stop();
    expect(await running.numTokens).toBe(24);
    expect(await stopped).toBe(0);
    await service.close();
  });
});

describe('a service that cannot start reports the reason', () => {
  it('port in use, then data folder in use', async () => {
    const blocker = createServer().listen(0, '127.0.0.1');
    await new Promise((resolve) => blocker.once('listening', resolve));
    const { port } = blocker.address() as { port: number };
    const dataDirectory = join(scratch, 'port');
    await expect(smallService({ dataDirectory, environment: { TRAINYARD_PORT: String(port) } })).rejects.toThrow(
      `port ${port} on 127.0.0.1 is in use`,
    );
    blocker.close();
    // Nothing is left that would block the folder for the next start.
    const first = await smallService({ dataDirectory });
    await expect(smallService({ dataDirectory })).rejects.toThrow(`is in use by process ${first.pid}`);
    await first.close();
  });

  it('missing model', async () => {
    await expect(smallService({ environment: { TRAINYARD_MODEL: join(scratch, 'none.gguf') } })).rejects.toThrow(
      'none.gguf does not exist',
    );
  });

  it('corrupt model', async () => {
    const path = join(scratch, 'corrupt.gguf');
    writeFileSync(path, Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(4096, 0xff)]));
    await expect(smallService({ environment: { TRAINYARD_MODEL: path } })).rejects.toThrow(/corrupt\.gguf/);
  });

  it('data folder that is a file', async () => {
    const path = join(scratch, 'file');
    writeFileSync(path, '');
    await expect(smallService({ dataDirectory: path })).rejects.toThrow('cannot be used');
  });

  it('bad setting', async () => {
    await expect(smallService({ environment: { TRAINYARD_PORT: 'http' } })).rejects.toThrow(
      'environment variable TRAINYARD_PORT must be a whole number from 0 to 65535, got "http"',
    );
  });

  it('prints its options, and refuses unknown ones', () => {
    const main = programPath('packages/cli/src/main.ts');
    const run = (...args: string[]) =>
      spawnSync(process.execPath, ['--conditions=@trainyard/source', main, ...args], { encoding: 'utf8' });
    expect(run('serve', '--help').stdout).toContain('--engine-share');
    expect(run('serve', '--prot', '1')).toMatchObject({ status: 2 });
    expect(run('fly')).toMatchObject({ status: 2 });
    expect(
      execFileSync(process.execPath, ['--conditions=@trainyard/source', main, '--help'], { encoding: 'utf8' }),
    ).toContain('usage: trainyard');
  });
});
