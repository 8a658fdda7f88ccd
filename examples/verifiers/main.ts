/**
 * An environment of the Python library `verifiers`: starts a service, runs train.py with it, plots the rewards.
 *
 *   npm run example -- verifiers
 *   npm run example -- verifiers --steps 12 --seed 2 --plot curve.svg
 *   npm run example -- verifiers --url http://127.0.0.1:8420/v1 --api-key KEY    on a running service with the same base model
 */
import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { parseArgs } from 'node:util';

import { rewardPlot } from '../demo/reward-plot.ts';
import { writeHuggingFaceTokenizer } from '../../lab/hugging-face/tokenizer.ts';
import { defaultModelPath, ownService } from '../../scripts/own-service.ts';
import { createPythonEnvironments, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const { values } = parseArgs({
  options: {
    steps: { type: 'string', default: '10' },
    seed: { type: 'string', default: '1' },
    rollouts: { type: 'string', default: '8' },
    plot: { type: 'string' },
    url: { type: 'string' },
    'api-key': { type: 'string' },
  },
});
// Ctrl-C and similar signals also end the example's own service, at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const root = resolve(import.meta.dirname, '../..');
await createPythonEnvironments(root, (line) => console.error(line), 'verifiers');
const { python } = pythonEnvironment(root, 'verifiers');
const { steps, seed, rollouts, url } = values;
// The library renders prompts itself and needs the tokenizer, but the hub may be unreachable.
const tokenizer = mkdtempSync(join(tmpdir(), 'trainyard-tokenizer-'));
const service = url === undefined ? await ownService() : null;
try {
  writeHuggingFaceTokenizer(defaultModelPath(), tokenizer);
  const options = { '--tokenizer': tokenizer, '--steps': steps, '--seed': seed, '--rollouts': rollouts };
  const child = spawn(python, [join(import.meta.dirname, 'train.py'), ...Object.entries(options).flat()], {
    env: {
      ...process.env,
      TRAINYARD_BASE_URL: url ?? service?.url,
      TRAINYARD_API_KEY: values['api-key'] ?? service?.apiKey ?? process.env['TRAINYARD_API_KEY'],
      HF_HUB_OFFLINE: '1',
    },
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
  rmSync(tokenizer, { recursive: true });
  await service?.close();
}
