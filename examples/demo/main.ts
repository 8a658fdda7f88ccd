/**
 * The whole loop as in a user's program, over HTTP: sample 8 answers to each prompt, score them, train, repeat.
 *
 *   npm run demo
 *   npm run demo -- --task yes-no-maybe --steps 15 --seed 2
 *   npm run demo -- --url http://HOST:PORT/v1      on a remote service; a local one is found
 */
import { writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';

import {
  addServiceOptions,
  modelPage,
  newCommand,
  runCommand,
  serviceConnection,
  serviceUrlAtHand,
  type ServiceOptions,
  UsageError,
} from '@trainyard/cli';
import { Trainyard } from '@trainyard/sdk';

import { learn, type Learnt } from './learn.ts';
import { rewardPlot } from './reward-plot.ts';
import type { DemoTask } from './task.ts';
import { TASKS } from './tasks/index.ts';
import { ownService } from '../../scripts/own-service.ts';

const TASK_NAMES = TASKS.map(({ name }) => name);

interface DemoOptions extends ServiceOptions {
  readonly task?: DemoTask;
  readonly steps: number;
  readonly seed: number;
  readonly plot?: string;
  readonly deleteModel?: true;
  readonly own?: true;
}

const demo = newCommand('npm run demo --', 'learn a task over HTTP')
  .description(
    'Learns a task over HTTP: samples 8 answers to each prompt, scores them, trains, and repeats. Uses the service of --url, or the service of the data folder; ' +
      'the model stays there unless --delete-model is given. If no service runs, the demo starts a temporary one.',
  )
  .option('--task <NAME>', `${TASK_NAMES.join(', ')} (${TASK_NAMES[0]})`, taskOf)
  .option('--steps <N>', 'training jobs', (text) => wholeNumber('--steps', text, 1), 15)
  .option('--seed <N>', 'seed of the sampling', (text) => wholeNumber('--seed', text, Number.MIN_SAFE_INTEGER), 1)
  .option('--plot <FILE>', 'file for the reward plot (demo-reward-TASK-seedN.svg in the temporary folder)')
  .option('--delete-model', 'delete the model from the service at the end')
  .option('--own', 'use a temporary service, even if one is running');
addServiceOptions(demo).action(async (options: DemoOptions) => {
  const url = options.own === true ? null : serviceUrlAtHand(options);
  if (url !== null) {
    await runOnService(new Trainyard(serviceConnection({ ...options, url })), options);
    return;
  }
  const service = await ownService({ environment: { TRAINYARD_PRECISION: 'strict' } });
  try {
    await runDemo(new Trainyard({ baseUrl: service.url, apiKey: service.apiKey }), options);
  } finally {
    await service.close();
  }
});

// Ctrl-C and similar signals also end the demo's own service, at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
process.exitCode = await runCommand(demo, process.argv.slice(2));

function taskOf(text: string): DemoTask {
  const task = TASKS.find(({ name }) => name === text);
  if (task === undefined) throw new UsageError(`--task must be one of ${TASK_NAMES.join(', ')}, got ${text}`);
  return task;
}

function wholeNumber(flag: string, text: string, minimum: number): number {
  const value = Number(text);
  if (Number.isSafeInteger(value) && value >= minimum) return value;
  const range = minimum > 0 ? ` from ${minimum}` : '';
  throw new UsageError(`${flag} must be a whole number${range}, got ${text}`);
}

async function runOnService(client: Trainyard, options: DemoOptions): Promise<void> {
  const { version } = await client.service.version();
  console.log(`service: ${client.baseUrl}, Trainyard ${version}`);
  const pageOf = (modelId: string) => modelPage(client.baseUrl.replace(/\/v1$/, ''), modelId);
  const { modelId, modelName } = await runDemo(client, options, (id) => {
    console.log(`watch it learn: ${pageOf(id)}   ("npx trainyard open" opens a browser signed in)\n`);
  });
  if (options.deleteModel === true) {
    await client.models.delete(modelId);
    return;
  }
  console.log(`the model stays on the service: ${modelName}`);
  console.log(`view it: ${pageOf(modelId)}`);
  console.log(`talk with it: npx trainyard chat ${modelName}`);
}

async function runDemo(
  client: Trainyard,
  { task = TASKS[0]!, steps: numSteps, seed, plot }: DemoOptions,
  onModel: (modelId: string) => void = () => undefined,
) {
  const plotPath = resolve(plot ?? join(tmpdir(), `demo-reward-${task.name}-seed${seed}.svg`));
  const learnt = await learn(task, client, { numSteps, seed, prepare: async ({ id }) => onModel(id) });
  const { rewards } = learnt;
  writeFileSync(plotPath, rewardPlot([rewards], `${task.name}, seed ${seed}: mean reward by step`));
  console.log(`\nreward plot: ${plotPath}`);
  await showSample(task, client, learnt);
  const [before, after] = [rewards[0]!, rewards.at(-1)!];
  const change = `${after >= before ? '+' : ''}${(after - before).toFixed(3)}`;
  console.log(`mean reward ${before.toFixed(3)} → ${after.toFixed(3)} (${change})`);
  return learnt;
}

/** The question with the largest improvement, before and after. */
async function showSample(
  task: DemoTask,
  client: Trainyard,
  { modelName, improvedPrompt }: Pick<Learnt, 'modelName' | 'improvedPrompt'>,
): Promise<void> {
  const before = await task.sample(client, `${modelName}:step0`, improvedPrompt);
  const after = await task.sample(client, modelName, improvedPrompt);
  console.log(`\n"${before.prompt}"`);
  console.log(`  before ${JSON.stringify(before.reply)}`);
  console.log(`  after  ${JSON.stringify(after.reply)}\n`);
}
