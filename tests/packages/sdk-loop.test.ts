/** The loop in the SDK's README, verbatim: an empty TypeScript project, the tarball, a real service. */
import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

import { Trainyard } from '@trainyard/sdk';
import { afterAll, beforeAll, expect, test } from 'vitest';

import { clientTools } from '../../scripts/lib/client-tools.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { packedSdk } from '../support/packed-sdk.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = join(import.meta.dirname, '../..');
const run = promisify(execFile);

let folder: string;
let service: OwnService;
let compiler: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'trainyard-loop-'));
  compiler = (await clientTools(ROOT, (line) => console.log(line))).resolve('typescript/bin/tsc');
  await writeFile(join(folder, 'package.json'), JSON.stringify({ name: 'empty', private: true }));
  await run('npm', ['install', '--no-audit', '--no-fund', '--offline', await packedSdk()], { cwd: folder });
  const readme = await readFile(join(ROOT, 'packages/sdk/README.md'), 'utf8');
  const [, loop] = /^```ts\n(.*?)^```$/ms.exec(readme)!;
  await writeFile(join(folder, 'loop.mts'), loop!);
  service = await smallService();
}, 600_000);
afterAll(async () => {
  await service?.close();
  await rm(folder, { recursive: true, force: true });
});

test('it has some forty lines', async () => {
  const lines = (await readFile(join(folder, 'loop.mts'), 'utf8')).split('\n').filter((line) => line.trim() !== '');
  expect(lines.length).toBeLessThanOrEqual(40);
});

test.each([
  ['nodenext', 'nodenext'],
  ['esnext', 'bundler'],
])('its types hold (module %s, resolution %s)', async (module, resolution) => {
  const failed = await compile('--noEmit', '--module', module, '--moduleResolution', resolution);
  expect(failed).toBe('');
});

test('it learns from its rollouts and finds its best checkpoint', { timeout: 600_000 }, async () => {
  expect(await compile('--module', 'nodenext', '--moduleResolution', 'nodenext')).toBe('');
  const env = { ...process.env, TRAINYARD_BASE_URL: service.url, TRAINYARD_API_KEY: service.apiKey };
  const { stdout, stderr } = await run(process.execPath, ['loop.mjs'], { cwd: folder, env });
  // The random model of the tests does not end replies by itself.
  expect(stderr.split('\n').filter((line) => !line.startsWith('trainyard: replies_cut_off: '))).toEqual(['']);
  console.log(stdout);
  expect(stdout.match(/^step \d: val reward 0\.\d{3}/gm)).toHaveLength(3);
  expect(stdout).toMatch(/best \{\s+step: \d,\s+value: 0\.\d+,\s+name: 'local\/demo\/short-answers:step\d'/);

  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const [model] = await client.models.list().toArray();
  expect(model).toMatchObject({ name: 'short-answers', latest_step: 3 });
  const jobs = await client.trainingJobs.list({ model_id: model!.id }).toArray();
  expect(jobs.map(({ status }) => status)).toEqual(['succeeded', 'succeeded', 'succeeded']);
  for (const { counts } of jobs) expect(counts).toMatchObject({ num_groups_submitted: 4 });
  const trained = await client.trajectories.list(model!.id, { split: 'train', outcome: 'trained' }).toArray();
  expect(trained.length).toBeGreaterThan(0);
  // The trainer got the sampler's tokens, and used the weights they were sampled from.
  const { sequences } = await client.trajectories.tokens(trained[0]!.id);
  const gaps = sequences[0]!.sampled_logprobs.flatMap((sampled, index) =>
    sampled === null ? [] : [Math.abs(sampled - sequences[0]!.trained_logprobs[index]!)],
  );
  expect(gaps.length).toBeGreaterThan(0);
  expect(Math.max(...gaps)).toBeLessThan(0.1);
  const validated = await client.trajectories.list(model!.id, { split: 'val' }).toArray();
  expect(validated).toHaveLength(12);
});

/** @returns the compiler's complaints */
async function compile(...options: string[]): Promise<string> {
  const lib = ['--lib', 'es2022,dom,dom.iterable,dom.asynciterable'];
  const strict = [
    '--strict',
    '--exactOptionalPropertyTypes',
    '--noUncheckedIndexedAccess',
    '--noPropertyAccessFromIndexSignature',
  ];
  return await run(process.execPath, [compiler, 'loop.mts', '--target', 'es2022', ...lib, ...strict, ...options], {
    cwd: folder,
  }).then(
    () => '',
    (error: { stdout: string }) => error.stdout,
  );
}
