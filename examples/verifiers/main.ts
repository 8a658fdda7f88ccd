/**
 * An environment of the Python library `verifiers` on a service of its own: starts it, runs reverse_words.py against it, draws the rewards.
 *
 *   npm run example:verifiers
 *   npm run example:verifiers -- --steps 12 --seed 2 --plot curve.svg
 */
import { spawn } from 'node:child_process';
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { rewardPlot } from '../demo/reward-plot.ts';
import { ownService } from '../../scripts/own-service.ts';
import { createPythonEnvironments, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    plot: { type: 'string' },
  },
});
// Ctrl-C and the like end the example's own service too, which happens at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const root = resolve(import.meta.dirname, '../..');
await createPythonEnvironments(root, (line) => console.error(line), 'verifiers');
const { python } = pythonEnvironment(root, 'verifiers');
const service = await ownService();
try {
  const { steps, seed } = values;
  const child = spawn(python, [join(import.meta.dirname, 'reverse_words.py'), '--steps', steps, '--seed', seed], {
    env: { ...process.env, TRAINYARD_BASE_URL: service.url, TRAINYARD_API_KEY: service.apiKey, HF_HUB_OFFLINE: '1' },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const ended = new Promise<number | null>((done) => child.once('close', done));
  const rewards: number[] = [];
  for await (const line of createInterface(child.stdout)) {
    console.log(line);
    const [, reward] = /^step \d+ reward ([\d.]+)$/.exec(line) ?? [];
    if (reward !== undefined) rewards.push(Number(reward));
  }
  process.exitCode = (await ended) ?? 1;
  if (process.exitCode === 0) {
    const path = resolve(values.plot ?? join(tmpdir(), `demo-reward-reverse-words-seed${seed}.svg`));
    writeFileSync(path, rewardPlot([rewards], `reverse-words (verifiers), seed ${seed}: mean reward by step`));
    console.log(`reward plot: ${path}`);
  }
} finally {
  await service.close();
}
