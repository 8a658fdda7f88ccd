/**
 * Questions of the Python library `reasoning-gym`: starts a service, runs train.py with it, plots the rewards.
 *
 *   npm run example -- reasoning-gym
 *   npm run example -- reasoning-gym --task word-problems --steps 10 --seed 2 --plot curve.svg
 *   npm run example -- reasoning-gym --model FILE --chat-template FILE           with another base model
 *   npm run example -- reasoning-gym --url http://127.0.0.1:8420/v1 --api-key KEY --base NAME    on a running service
 *
 * Options of train.py that are not below are passed on: --lessons 100 --rollouts 16
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { basename, join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { rewardPlot } from '../demo/reward-plot.ts';
import { ownService } from '../../scripts/own-service.ts';
import { createPythonEnvironments, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const text = { type: 'string' } as const;
const { values } = parseArgs({
  options: {
    model: text,
    'chat-template': text,
    plot: text,
    url: text,
    'api-key': text,
    task: { ...text, default: 'arithmetic' },
    seed: { ...text, default: '1' },
    base: text,
    lessons: text,
    epochs: text,
    steps: text,
    questions: text,
    rollouts: text,
    'held-out': text,
    settings: text,
    'init-from': text,
    name: text,
    speeds: text,
  },
});
// Ctrl-C and similar signals also end the example's own service, at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const root = resolve(import.meta.dirname, '../..');
await createPythonEnvironments(root, (line) => console.error(line), 'reasoning-gym');
const { python } = pythonEnvironment(root, 'reasoning-gym');
const { model, 'chat-template': template, plot, url, 'api-key': apiKey, ...training } = values;
const environment: Record<string, string> = {};
if (model !== undefined)
  Object.assign(environment, { TRAINYARD_MODEL: resolve(model), TRAINYARD_MODEL_ID: basename(model, '.gguf') });
if (template !== undefined) environment['TRAINYARD_CHAT_TEMPLATE'] = resolve(template);
const service = url === undefined ? await ownService({ environment }) : null;
try {
  const options = Object.entries(training).flatMap(([name, value]) => [`--${name}`, value]);
  const child = spawn(python, [join(import.meta.dirname, 'train.py'), ...options], {
    env: {
      ...process.env,
      TRAINYARD_BASE_URL: url ?? service?.url,
      TRAINYARD_API_KEY: apiKey ?? service?.apiKey ?? process.env['TRAINYARD_API_KEY'],
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<number | null>((done) => child.once('close', done));
  const rewards: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    console.log(line);
    const [, reward] = /^step \d+ reward ([\d.]+) /.exec(line) ?? [];
    if (reward !== undefined) rewards.push(Number(reward));
  }
  process.exitCode = (await ended) ?? 1;
  if (process.exitCode === 0 && rewards.length > 0) {
    const { task, seed } = training;
    const path = resolve(plot ?? join(tmpdir(), `demo-reward-${task}-seed${seed}.svg`));
    writeFileSync(path, rewardPlot([rewards], `${task} (reasoning-gym), seed ${seed}: mean reward by step`));
    console.log(`reward plot: ${path}`);
  }
} finally {
  await service?.close();
}
