import { randomUUID } from 'node:crypto';

import { type Trainyard, TrainingFailedError } from '@trainyard/sdk';
import type { GatheredGroup } from '@trainyard/sdk/rollouts';

import { StepTable } from './step-table.ts';
import { type DemoTask, ROLLOUTS_PER_PROMPT } from './task.ts';

export interface Learnt {
  /** Name to sample from. */
  readonly modelName: string;
  readonly modelId: string;
  /** Mean reward of the rollouts of each step, and of one more round with the last checkpoint. */
  readonly rewards: readonly number[];
  /** Mean |Δlogprob| between sampler and trainer, before the first update of each job that trained something. */
  readonly gaps: readonly number[];
  readonly seconds: number;
}

export interface LearningOptions {
  readonly numSteps: number;
  readonly seed: number;
  /** Prepares the model before its first rollouts. Default: no preparation. */
  readonly prepare?: (model: { id: string; entity: string }) => Promise<void>;
}

/** The loop: sample 8 rollouts of each prompt, score them, train, repeat. Prints a line a step. */
export async function learn(task: DemoTask, client: Trainyard, options: LearningOptions): Promise<Learnt> {
  const { numSteps, seed } = options;
  const { data: models } = await client.servedModels.list();
  const base = models.find((model) => model.parent === null)!.id;
  const name = `demo-${task.name}-${randomUUID().slice(0, 8)}`;
  const model = await client.models.register({ project: 'demo', name, base_model: base });
  const modelName = `${model.entity}/${model.project}/${model.name}`;
  console.log(`\nTask "${task.name}": ${task.summary}`);
  console.log(`${task.numPrompts} prompts × ${ROLLOUTS_PER_PROMPT} rollouts a step, ${numSteps} steps, on ${base}\n`);
  await options.prepare?.(model);

  const rewards: number[] = [];
  const gaps: number[] = [];
  const table = new StepTable(numSteps);
  const startedAt = performance.now();
  for (let step = 0; step < numSteps; step++) {
    const rolloutStart = performance.now();
    const gathered = await rollouts(task, client, modelName, seed, step, table);
    const groups = gathered.map(({ group }) => group);
    const rolloutSeconds = (performance.now() - rolloutStart) / 1000;
    const reward = meanReward(groups);
    rewards.push(reward);
    table.training(step, reward, 0);
    const trainStart = performance.now();
    const job = await client.trainingJobs.create({
      model_id: model.id,
      trajectory_groups: groups,
      experimental_config: task.settings,
    });
    const metrics = await training(client, job.id, (numSteps) => table.training(step, reward, numSteps));
    const gap = metrics[0]?.['logprob_gap_mean'];
    if (gap !== undefined) gaps.push(gap);
    const seconds = { rollout: rolloutSeconds, training: (performance.now() - trainStart) / 1000 };
    table.row({
      step,
      reward,
      metrics,
      numTokens: gathered.reduce((sum, { usage }) => sum + usage.completion_tokens, 0),
      seconds,
    });
  }
  const final = await rollouts(task, client, modelName, seed, numSteps, table);
  rewards.push(meanReward(final.map(({ group }) => group)));
  const seconds = (performance.now() - startedAt) / 1000;
  table.end(rewards.at(-1)!, seconds);
  return { modelName, modelId: model.id, rewards, gaps, seconds };
}

async function rollouts(
  task: DemoTask,
  client: Trainyard,
  model: string,
  seed: number,
  step: number,
  table: StepTable,
): Promise<GatheredGroup[]> {
  const numRollouts = task.numPrompts * ROLLOUTS_PER_PROMPT;
  const stepSeed = seed * 1_000_003 + step * 1_009;
  table.beginSampling(step, numRollouts);
  return await Promise.all(
    Array.from({ length: task.numPrompts }, (_, promptIndex) =>
      task.gather({
        client,
        model,
        promptIndex,
        // Seeds of neighbouring prompts must not overlap: rollout i samples with seed + i.
        seed: stepSeed + promptIndex * ROLLOUTS_PER_PROMPT,
        onRollout: (numTokens) => table.rolloutDone(step, numRollouts, numTokens),
      }),
    ),
  );
}

/** Waits for the end of a job. @returns the data of its gradient steps @throws {TrainingFailedError} */
async function training(client: Trainyard, jobId: string, onStep: (numSteps: number) => void) {
  const metrics: Record<string, number>[] = [];
  for await (const event of client.trainingJobs.watch(jobId)) {
    if (event.type === 'gradient_step') onStep(metrics.push(event.data as Record<string, number>));
    if (event.type !== 'training_failed') continue;
    const { error_message: message } = event.data;
    throw new TrainingFailedError(jobId, typeof message === 'string' ? message : 'unknown error');
  }
  return metrics;
}

function meanReward(groups: readonly { trajectories: readonly { reward?: number | boolean }[] }[]): number {
  const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => Number(trajectory.reward)));
  return rewards.reduce((sum, reward) => sum + reward, 0) / rewards.length;
}
