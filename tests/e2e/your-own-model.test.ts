/** Follows `docs/guide/your-own-model.md` with its own commands, on the small model. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import { Trainyard } from '@trainyard/sdk';
import { LoopbackHub, tinyRepository } from '@trainyard/server/testing';
import { afterAll, expect, test } from 'vitest';

import { commandsOf, GuideProcess } from '../support/guide-commands.ts';
import { testModel } from '../support/model.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const MODEL = '.trainyard/models/SmolLM2-135M-Instruct.Q4_1.gguf';
const clone = mkdtempSync(join(tmpdir(), 'trainyard-own-model-'));
const hub = await LoopbackHub.open();
const env = {
  TRAINYARD_PORT: '0',
  TRAINYARD_DRAIN_GRACE_MS: '0',
  TRAINYARD_API_KEY: 'k'.repeat(32),
  HF_ENDPOINT: hub.url,
  HF_HUB_CACHE: join(clone, 'hub-cache'),
  HF_HUB_OFFLINE: '',
  HF_TOKEN: '',
};
const processes = new Set<GuideProcess>();
afterAll(async () => {
  for (const process of processes) await process.end('SIGKILL');
  await hub.close();
  rmSync(clone, { recursive: true, force: true });
});

const commands = commandsOf('docs/guide/your-own-model.md').map(({ text }) => text);

/** Starts the page's next command, which must contain the text. */
function next(part: string): GuideProcess {
  const command = commands.shift();
  expect(command).toContain(part);
  // Without npx, which would not pass on the exit code after a signal.
  const process = new GuideProcess(command!.replace('npx ', ''), { cwd: clone, env });
  processes.add(process);
  return process;
}

async function run(part: string): Promise<string> {
  const process = next(part);
  expect([await process.ended(), part, process.output]).toEqual([0, part, expect.any(String)]);
  return process.output;
}

/** Log-probabilities of a greedy answer. */
async function logprobsOf(client: Trainyard, model: string): Promise<number[]> {
  const answer = await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'Tell me about rivers.' }],
    max_tokens: 16,
    temperature: 0,
    logprobs: true,
  });
  return answer.choices[0]!.logprobs!.content!.map(({ logprob }) => logprob);
}

test('models of the hub are pulled, served and asked', async () => {
  const { folder, gguf } = await tinyRepository();
  hub.add('Qwen/Qwen3-0.6B', { ...folder, 'pytorch_model.bin': 'pickle' });
  hub.add('Qwen/Qwen3-0.6B-GGUF', { 'Qwen3-0.6B-Q8_0.gguf': gguf });
  symlinkSync(join(ROOT, 'node_modules'), join(clone, 'node_modules'));
  expect(await run('pull Qwen/Qwen3-0.6B')).toMatch(/\/models--Qwen--Qwen3-0\.6B\/snapshots\/[0-9a-f]{40}$/m);
  expect(await run('pull Qwen/Qwen3-0.6B-GGUF:Q8_0')).toMatch(/\/Qwen3-0\.6B-Q8_0\.gguf$/m);
  const numDownloads = hub.storageRequests().length;
  expect(numDownloads).toBe(2);

  const service = await next('serve --model Qwen/').ready();
  const client = new Trainyard({ baseUrl: `${service.origin}/v1`, apiKey: env.TRAINYARD_API_KEY });
  const ids = ['Qwen/Qwen3-0.6B', 'Qwen/Qwen3-0.6B-GGUF:Q8_0'];
  const [one, other] = [await logprobsOf(client, ids[0]!), await logprobsOf(client, ids[1]!)];
  expect(one.length).toBeGreaterThan(0);
  expect(one).toEqual(other);
  await run('chat Qwen/Qwen3-0.6B');
  expect(await service.end('SIGTERM')).toBe(0);

  const naming = await next('serve --model Qwen/Qwen3-0.6B-GGUF').ready();
  await run('hi.jsonl');
  expect(await run('sft hi.jsonl')).toMatch(/^done: the model is at step 1/m);
  expect(await naming.end('SIGTERM')).toBe(0);
  // The cache had all files.
  expect(hub.storageRequests().length).toBe(numDownloads);

  expect(await run('models bases list')).toMatch(/Qwen\/Qwen3-0\.6B-GGUF[^]*Qwen--Qwen3-0\.6B\.\w{8}\.gguf/);
  await run('models bases remove Qwen/Qwen3-0.6B-GGUF');
  expect(readdirSync(env.HF_HUB_CACHE)).toEqual(['models--Qwen--Qwen3-0.6B']);
  rmSync(env.HF_HUB_CACHE, { recursive: true });
  expect(await run('models bases remove --orphans')).toMatch(/^removed Qwen--Qwen3-0\.6B\.\w{8}\.gguf /m);
}, 300_000);

test('a folder is served, trained and exported as a folder that is served again', async () => {
  mkdirSync(join(clone, '.trainyard/models'), { recursive: true });
  symlinkSync(testModel().small, join(clone, MODEL));
  await run('export --base');

  const first = await next('serve --model org/file=').ready();
  expect(first.output).toMatch(/^making .*\/models\/hugging-face\.\w{8}\.gguf of org\/folder/m);
  const client = new Trainyard({ baseUrl: `${first.origin}/v1`, apiKey: env.TRAINYARD_API_KEY });
  const folder = await logprobsOf(client, 'org/folder');
  expect(folder.length).toBeGreaterThan(0);
  expect(folder).toEqual(await logprobsOf(client, 'org/file'));
  await run('hello.jsonl');
  expect(await run('sft hello.jsonl')).toMatch(/^done: the model is at step 1/m);
  await run('chat demo/ahoy');
  await run('export demo/ahoy');
  const trained = await logprobsOf(client, 'local/demo/ahoy');
  expect(await first.end('SIGTERM')).toBe(0);

  const second = await next('serve --model org/trained=').ready();
  const merged = await logprobsOf(
    new Trainyard({ baseUrl: `${second.origin}/v1`, apiKey: env.TRAINYARD_API_KEY }),
    'org/trained',
  );
  expect(merged.length).toBe(trained.length);
  // Merged weights are rounded to half precision.
  for (const [index, logprob] of merged.entries()) expect(Math.abs(logprob - trained[index]!)).toBeLessThan(0.05);
  expect(await second.end('SIGTERM')).toBe(0);
  expect(commands).toEqual([]);
  const copies = readdirSync(join(clone, '.trainyard/models')).filter((name) =>
    /^(?:hugging-face|trained)\./.test(name),
  );
  expect(copies.filter((name) => name.endsWith('.gguf')).length).toBe(2);
  expect(copies.filter((name) => name.endsWith('.partial'))).toEqual([]);
  expect(
    readFileSync(join(clone, '.trainyard/models', copies[0]!))
      .subarray(0, 4)
      .toString(),
  ).toBe('GGUF');
}, 600_000);
