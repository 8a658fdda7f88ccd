/**
 * The whole loop as a user would write it, over HTTP: sample 8 answers to each prompt, score them, train, repeat.
 *
 *   npm run demo
 *   npm run demo -- --task yes-no-maybe --steps 15 --seed 2
 *   npm run demo -- --url http://127.0.0.1:8420/v1      on a service that is running already
 */
import { writeFileSync } from 'node:fs';
import { resolve } from 'node:path';

import { type Command, parseOptions, runCommand, SERVICE_OPTIONS, serviceConnection, UsageError } from '@trainyard/cli';
import { Trainyard } from '@trainyard/sdk';

import { learn } from './learn.ts';
import { rewardPlot } from './reward-plot.ts';
import type { DemoTask } from './task.ts';
import { TASKS } from './tasks/index.ts';
import { ownService } from '../../scripts/own-service.ts';

const TASK_NAMES = TASKS.map(({ name }) => name);

const HELP = `usage: npm run demo -- [options]

Learns a task over HTTP: samples 8 answers to each prompt, scores them, trains, repeats. Without --url it starts a service of its own, which is gone
afterwards; on a service that is running already the model stays there, unless --delete-model is given.

  --task NAME        ${TASK_NAMES.join(', ')} (${TASK_NAMES[0]})
  --steps N          training jobs (15)
  --seed N           of the sampling (1)
  --plot FILE        where the plot of the rewards goes (demo-reward-TASK-seedN.svg)
  --url URL          of a service that is running already, e.g. http://127.0.0.1:8420/v1
  --api-key KEY      of that service (TRAINYARD_API_KEY, or the one of a service on this machine)
  --data-dir FOLDER  where the key of a service on this machine lies (.trainyard)
  --delete-model     remove the model from that service at the end
`;

interface DemoOptions {
  readonly task: DemoTask;
  readonly numSteps: number;
  readonly seed: number;
  readonly plotPath: string;
}

const demo: Command = {
  name: 'demo',
  summary: 'learn a task over HTTP',
  help: HELP,
  async run(args) {
    const { values } = parseOptions({
      args: [...args],
      options: {
        task: { type: 'string', default: TASK_NAMES[0]! },
        steps: { type: 'string', default: '15' },
        seed: { type: 'string', default: '1' },
        plot: { type: 'string' },
        'delete-model': { type: 'boolean', default: false },
        ...SERVICE_OPTIONS,
      },
    });
    const task = TASKS.find(({ name }) => name === values.task);
    const numSteps = Number(values.steps);
    const seed = Number(values.seed);
    if (task === undefined) throw new UsageError(`--task must be one of ${TASK_NAMES.join(', ')}, got ${values.task}`);
    if (!Number.isInteger(numSteps) || numSteps < 1)
      throw new UsageError(`--steps must be a whole number from 1, got ${values.steps}`);
    if (!Number.isSafeInteger(seed)) throw new UsageError(`--seed must be a whole number, got ${values.seed}`);
    const plotPath = resolve(values.plot ?? `demo-reward-${task.name}-seed${seed}.svg`);
    const options = { task, numSteps, seed, plotPath };
    if (values.url !== undefined) {
      const client = new Trainyard(serviceConnection(values));
      const { modelId, modelName } = await runDemo(client, options);
      if (values['delete-model']) await client.deleteModel(modelId);
      else console.log(`the model stays on the service: ${modelName}`);
      return 0;
    }
    const service = await ownService({ environment: { TRAINYARD_PRECISION: 'strict' } });
    try {
      await runDemo(new Trainyard({ baseUrl: service.url, apiKey: service.apiKey }), options);
    } finally {
      await service.close();
    }
    return 0;
  },
};

// Ctrl-C and the like end the demo's own service too, which happens at exit.
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => process.exit(130));
process.exitCode = await runCommand(demo, process.argv.slice(2), 'npm run demo --');

async function runDemo(client: Trainyard, { task, numSteps, seed, plotPath }: DemoOptions) {
  const learnt = await learn(task, client, { numSteps, seed });
  const { rewards } = learnt;
  writeFileSync(plotPath, rewardPlot([rewards], `${task.name}, seed ${seed}: mean reward by step`));
  console.log(`\nreward plot: ${plotPath}`);
  await showSample(task, client, learnt.modelName);
  const [before, after] = [rewards[0]!, rewards.at(-1)!];
  const change = `${after >= before ? '+' : ''}${(after - before).toFixed(3)}`;
  console.log(`mean reward ${before.toFixed(3)} → ${after.toFixed(3)} (${change})`);
  return learnt;
}

async function showSample(task: DemoTask, client: Trainyard, model: string): Promise<void> {
  const before = await task.sample(client, `${model}:step0`);
  const after = await task.sample(client, model);
  console.log(`\n"${before.prompt}"`);
  console.log(`  before ${JSON.stringify(before.reply)}`);
  console.log(`  after  ${JSON.stringify(after.reply)}\n`);
}
