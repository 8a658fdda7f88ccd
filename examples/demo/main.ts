/**
 * The whole loop as a user would write it, over HTTP: sample 8 answers to each prompt, score them, train, repeat.
 *
 *   npm run demo
 *   npm run demo -- --task yes-no-maybe --steps 15 --seed 2
 *   npm run demo -- --url http://127.0.0.1:8420/v1 --api-key KEY      on a service that is running already
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { learn } from './learn.ts';
import { rewardPlot } from './reward-plot.ts';
import type { DemoTask } from './task.ts';
import { TASKS } from './tasks/index.ts';
import { ownService } from '../../scripts/own-service.ts';

const { values } = parseArgs({
  options: {
    task: { type: 'string', default: TASKS[0]!.name },
    steps: { type: 'string', default: '15' },
    seed: { type: 'string', default: '1' },
    url: { type: 'string' },
    'api-key': { type: 'string' },
    plot: { type: 'string' },
    'keep-model': { type: 'boolean', default: false },
  },
});

// Ctrl-C and the like end the demo's own service too, which happens at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));

const task = TASKS.find(({ name }) => name === values.task);
const numSteps = Number(values.steps);
const seed = Number(values.seed);
if (task === undefined) fail(`unknown task "${values.task}"; there are ${TASKS.map(({ name }) => name).join(', ')}`);
if (!Number.isInteger(numSteps) || numSteps < 1) fail(`--steps must be a whole number from 1, got "${values.steps}"`);
if (!Number.isSafeInteger(seed)) fail(`--seed must be a whole number, got "${values.seed}"`);

const service =
  values.url === undefined
    ? await ownService()
    : {
        url: values.url,
        apiKey: values['api-key'] ?? process.env['TRAINYARD_API_KEY'] ?? '',
        close: async () => undefined,
      };
let rewards: readonly number[];
try {
  const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
  const learnt = await learn(task, client, { numSteps, seed });
  rewards = learnt.rewards;
  const plotPath = resolve(values.plot ?? `demo-reward-${task.name}-seed${seed}.svg`);
  writeFileSync(plotPath, rewardPlot([rewards], `${task.name}, seed ${seed}: mean reward by step`));
  console.log(`\nreward plot: ${plotPath}`);
  await showSample(task, client, learnt.modelName);
  if (values['keep-model']) console.log(`\nthe model stays: ${learnt.modelName}`);
  else await client.deleteModel(learnt.modelId);
} finally {
  await service.close();
}
const [before, after] = [rewards[0]!, rewards.at(-1)!];
console.log(
  `mean reward ${before.toFixed(3)} → ${after.toFixed(3)} (${after >= before ? '+' : ''}${(after - before).toFixed(3)})`,
);

async function showSample(task: DemoTask, client: Trainyard, model: string): Promise<void> {
  const before = await task.sample(client, `${model}:step0`);
  const after = await task.sample(client, model);
  console.log(`\n"${before.prompt}"`);
  console.log(`  before ${JSON.stringify(before.reply)}`);
  console.log(`  after  ${JSON.stringify(after.reply)}\n`);
}

function fail(message: string): never {
  console.error(message);
  process.exit(2);
}
