/**
 * The whole loop as a user would write it, over HTTP: sample 8 answers to each prompt, score them, train, repeat.
 *
 *   npm run demo
 *   npm run demo -- --task yes-no-maybe --steps 15 --seed 2
 *   npm run demo -- --url http://127.0.0.1:8420/v1 --api-key KEY      on a service that is running already
 */
import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';

import { Trainyard } from '@trainyard/sdk';

import { rewardPlot } from './reward-plot.ts';
import { StepTable } from './step-table.ts';
import { type DemoTask, ROLLOUTS_PER_PROMPT } from './task.ts';
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
let outcome: { before: number; after: number };
try {
  outcome = await learn(task, new Trainyard({ baseUrl: service.url, apiKey: service.apiKey }));
} finally {
  await service.close();
}
const lift = outcome.after - outcome.before;
console.log(
  `mean reward ${outcome.before.toFixed(3)} → ${outcome.after.toFixed(3)} (${lift >= 0 ? '+' : ''}${lift.toFixed(3)})`,
);

/** @returns mean reward of the first step's rollouts and of rollouts of the last checkpoint */
async function learn(task: DemoTask, client: Trainyard): Promise<{ before: number; after: number }> {
  const { data: models } = await client.listModels();
  const base = models.find((model) => model.parent === null)!.id;
  const name = `demo-${task.name}-${randomUUID().slice(0, 8)}`;
  const model = await client.registerModel({ project: 'demo', name, baseModel: base });
  const modelName = `${model.entity}/${model.project}/${model.name}`;
  console.log(`\nTask "${task.name}": ${task.summary}`);
  console.log(`${task.numPrompts} prompts × ${ROLLOUTS_PER_PROMPT} rollouts a step, ${numSteps} steps, on ${base}\n`);

  const rewards: number[] = [];
  const table = new StepTable(numSteps);
  const startedAt = performance.now();
  for (let step = 0; step < numSteps; step++) {
    const rolloutStart = performance.now();
    table.progress(step, 'sampling');
    const gathered = await rollouts(task, client, modelName, seed * 1_000_003 + step * 1_009);
    const groups = gathered.map(({ group }) => group);
    const rolloutSeconds = (performance.now() - rolloutStart) / 1000;
    const reward = meanReward(groups);
    rewards.push(reward);
    table.progress(step, 'training', reward);
    const trainStart = performance.now();
    const job = await client.createTrainingJob(model.id, groups, { learning_rate: task.learningRate });
    const metrics = await client.waitForTraining(job.id);
    const seconds = { rollout: rolloutSeconds, training: (performance.now() - trainStart) / 1000 };
    table.row({
      step,
      reward,
      metrics,
      numTokens: gathered.reduce((sum, { usage }) => sum + usage.completion_tokens, 0),
      seconds,
    });
  }
  const final = await rollouts(task, client, modelName, seed * 1_000_003 + numSteps * 1_009);
  rewards.push(meanReward(final.map(({ group }) => group)));
  table.end(rewards.at(-1)!, (performance.now() - startedAt) / 1000);

  const plotPath = resolve(values.plot ?? `demo-reward-${task.name}-seed${seed}.svg`);
  writeFileSync(plotPath, rewardPlot(rewards, `${task.name}, seed ${seed}: mean reward by step`));
  console.log(`\nreward plot: ${plotPath}`);
  await showSample(task, client, modelName);
  if (!values['keep-model']) await client.deleteModel(model.id);
  else console.log(`\nthe model stays: ${modelName}`);
  return { before: rewards[0]!, after: rewards.at(-1)! };
}

function rollouts(task: DemoTask, client: Trainyard, model: string, seed: number) {
  return Promise.all(
    Array.from({ length: task.numPrompts }, (_, promptIndex) =>
      // Seeds of neighbouring prompts must not overlap: rollout i samples with seed + i.
      task.gather({ client, model, promptIndex, seed: seed + promptIndex * ROLLOUTS_PER_PROMPT }),
    ),
  );
}

function meanReward(groups: readonly { trajectories: readonly { reward?: number | boolean }[] }[]): number {
  const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => Number(trajectory.reward)));
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}

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
