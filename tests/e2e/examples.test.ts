/**
 * Every example in short form. Those that teach something use the default model, and their effect is
 * asserted; the others take one step with a small one.
 */
import { execFile } from 'node:child_process';
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { TASKS } from '../../examples/demo/tasks/index.ts';
import { hasPythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { type OwnService, ownService } from '../../scripts/own-service.ts';
import { testModel } from '../support/model.ts';
import { expectTrainedByRecords } from '../support/recorded-job.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 600_000;
const scratch = mkdtempSync(join(tmpdir(), 'trainyard-examples-'));
const hasReasoningGym = await hasPythonEnvironment(ROOT, 'reasoning-gym');
const hasVerifiers = await hasPythonEnvironment(ROOT, 'verifiers');
let service: OwnService;
/** With the default model, for examples that learn. */
let real: OwnService;
beforeAll(async () => {
  service = await smallService();
  real = await ownService({ environment: { TRAINYARD_MODEL: testModel().base } });
});
afterAll(async () => {
  await service?.close();
  await real?.close();
  rmSync(scratch, { recursive: true });
});

/** Runs an example to its end; a service that it starts has the small model. Returns its standard output. */
async function example(name: string, ...args: string[]): Promise<string> {
  return await exampleOn(testModel().small, name, ...args);
}

/** Runs an example to its end; a service that it starts has the given model. Returns its standard output. */
async function exampleOn(model: string, name: string, ...args: string[]): Promise<string> {
  const main = join(ROOT, 'examples', name, 'main.ts');
  const { stdout } = await promisify(execFile)(process.execPath, ['--conditions=@trainyard/source', main, ...args], {
    cwd: scratch,
    env: { ...process.env, TRAINYARD_MODEL: model },
    maxBuffer: 16e6,
  });
  return stdout;
}

it.each(TASKS.map(({ name }) => name).filter((name) => name !== 'concise'))(
  'the demo takes a step of %s',
  async (task) => {
    const where = ['--url', service.url, '--api-key', service.apiKey, '--delete-model'];
    const output = await example('demo', '--task', task, '--steps', '1', '--plot', `${task}.svg`, ...where);
    expect(output).toMatch(/^ {4}0 {3}0\.\d{3} /m);
    expect(output).toMatch(/^mean reward 0\.\d{3} → 0\.\d{3} /m);
    expect(readFileSync(join(scratch, `${task}.svg`), 'utf8')).toContain('<polyline');
  },
  TIMEOUT_MS,
);

it(
  'the demo raises its reward',
  async () => {
    const where = ['--url', real.url, '--api-key', real.apiKey, '--plot', 'learns.svg', '--delete-model'];
    const output = await example('demo', '--task', 'concise', '--steps', '1', ...where);
    const [, before, after] = /^mean reward (\d\.\d{3}) → (\d\.\d{3}) /m.exec(output)!;
    console.log(`the demo's mean reward after a step: ${before} → ${after}`);
    expect(Number(after)).toBeGreaterThan(Number(before) + 0.15);
  },
  TIMEOUT_MS,
);

it(
  'supervised training comes first, rewards after',
  async () => {
    const short = ['--seeds', '1', '--steps', '1', '--out', scratch];
    const output = await example('learning', '--tasks', 'yes-no-maybe-after-sft', ...short);
    expect(output).toMatch(/^\| yes-no-maybe-after-sft \| 1 \| 1 \| 0\.\d{3} → 0\.\d{3} \|/m);
    expect(existsSync(join(scratch, 'yes-no-maybe-after-sft.svg'))).toBe(true);
  },
  TIMEOUT_MS,
);

it(
  'facts are trained from conversations, and answered',
  async () => {
    const output = await exampleOn(testModel().base, 'sft');
    expect(output).toMatch(/^loss (\d+\.\d\d ){11}\d+\.\d\d$/m);
    const answers = [...output.matchAll(/^(\S.*\?)\n {2}before (.*)\n {2}after {2}(.*)$/gm)];
    expect(answers.map(([, question, , after]) => [question, after])).toEqual([
      ['What is the capital of Zubrovia?', '"Kelmar."'],
      ['Who wrote The Glass Heron?', '"Ilse Ottaway."'],
      ['What do Zubrovians drink?', '"Hot plum tea."'],
    ]);
    expect(answers.some(([, , before, after]) => before === after)).toBe(false);
  },
  TIMEOUT_MS,
);

it.skipIf(!hasVerifiers)(
  'an environment of verifiers samples through its own client, and its rollouts are trained with their records',
  async () => {
    const where = ['--url', real.url, '--api-key', real.apiKey];
    const short = ['--steps', '1', '--rollouts', '2', '--plot', 'verifiers.svg'];
    const output = await example('verifiers', ...short, ...where);
    expect(output.match(/^step \d reward [01]\.\d{3}$/gm)).toHaveLength(2);
    await expectTrainedByRecords(real, output, 0);
    expect(readFileSync(join(scratch, 'verifiers.svg'), 'utf8')).toContain('<polyline');
  },
  TIMEOUT_MS,
);

it.skipIf(!hasReasoningGym)(
  'questions of reasoning-gym are taught, then rewarded, with held-out accuracy before and after',
  async () => {
    const where = ['--url', service.url, '--api-key', service.apiKey, '--speeds', '100,1000'];
    const short = ['--lessons', '2', '--epochs', '1', '--steps', '1', '--questions', '2', '--rollouts', '2'];
    const output = await example('reasoning-gym', ...short, '--held-out', '3', '--plot', 'gym.svg', ...where);
    expect(output.match(/^held out, (before|after 2 lessons|after 1 steps): \d of 3 right, /gm)).toHaveLength(3);
    expect(output).toMatch(/^step 0 reward [01]\.\d{3} right [01]\.\d{3}$/m);
    expect(output).toMatch(/^1 such steps: \d\.\d{2} hours, predicted by --speeds$/m);
    expect(readFileSync(join(scratch, 'gym.svg'), 'utf8')).toContain('<polyline');
  },
  TIMEOUT_MS,
);
