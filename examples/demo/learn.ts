import { randomUUID } from 'node:crypto';

import type { Trainyard, WireTrajectory } from '@trainyard/sdk';
import { gather, group, meanReward, PolicyModel, train } from '@trainyard/sdk/rollouts';

import { mostImproved } from './most-improved.ts';
import { StepTable } from './step-table.ts';
import { type DemoTask, ROLLOUTS_PER_PROMPT } from './task.ts';

export interface Learnt {
  /** Model name for sampling. */
  readonly modelName: string;
  readonly modelId: string;
  /** Mean reward of the rollouts of each step, and of one more round with the last checkpoint. */
  readonly rewards: readonly number[];
  /**
   * Mean |Δlogprob| between sampler and trainer, before the first update of each job that trained something.
   */
  readonly gaps: readonly number[];
  readonly seconds: number;
  /** Prompt whose reward rose most. */
  readonly improvedPrompt: number;
}

export interface LearningOptions {
  readonly numSteps: number;
  readonly seed: number;
  /** Prepares the model before its first rollouts. Default: no preparation. */
  readonly prepare?: (model: { id: string; entity: string }) => Promise<void>;
}

/** The loop: sample 8 rollouts of each prompt, score them, train, repeat. Prints one line per step. */
export async function learn(task: DemoTask, client: Trainyard, options: LearningOptions): Promise<Learnt> {
  const { numSteps, seed } = options;
  const { data: models } = await client.servedModels.list();
  const base = models.find((model) => model.parent === null)!.id;
  const name = `demo-${task.name}-${randomUUID().slice(0, 8)}`;
  const made = await client.models.register({ project: 'demo', name, base_model: base });
  const model = new PolicyModel(client, made);
  console.log(`\nTask "${task.name}": ${task.summary}`);
  console.log(`${task.numPrompts} prompts × ${ROLLOUTS_PER_PROMPT} rollouts per step, ${numSteps} steps, on ${base}\n`);
  await options.prepare?.(made);

  const rewards: number[] = [];
  const gaps: number[] = [];
  let firstGroups: Sampled['groups'] | null = null;
  const table = new StepTable(numSteps);
  const run = { task, model, seed, table };
  const startedAt = performance.now();
  for (let step = 0; step < numSteps; step++) {
    const sampled = await sampleStep(step, run);
    const reward = meanReward(sampled.groups);
    firstGroups ??= sampled.groups;
    rewards.push(reward);
    table.training(step, reward, 0);
    const trainStart = performance.now();
    let numGradientSteps = 0;
    let numTotal: number | null = null;
    const { gradientSteps, job } = await train(model, sampled.groups, task.settings, {
      onEvent: ({ type, data }) => {
        if (type === 'training_started') numTotal = Number(data['num_sequences']);
        if (type === 'gradient_step') table.training(step, reward, ++numGradientSteps, numTotal);
      },
      onWarning: (warning) => table.warn(warning),
    });
    const gap = gradientSteps[0]?.['logprob_gap_mean'];
    if (gap !== undefined) gaps.push(gap);
    const seconds = { rollout: sampled.seconds, training: (performance.now() - trainStart) / 1000 };
    const dropped = (job.group_outcomes ?? []).filter((outcome) => outcome !== 'trained' && outcome !== 'regularized');
    table.row({
      step,
      reward,
      metrics: gradientSteps,
      numTokens: sampled.numTokens,
      seconds,
      numWarnings: job.warnings.length,
      numDropped: dropped.length,
    });
  }
  const last = await sampleStep(numSteps, run);
  rewards.push(meanReward(last.groups));
  const seconds = (performance.now() - startedAt) / 1000;
  table.end(rewards.at(-1)!, seconds);
  const improvedPrompt = mostImproved(firstGroups ?? last.groups, last.groups);
  return { modelName: model.name, modelId: model.id, rewards, gaps, seconds, improvedPrompt };
}

interface DemoRun {
  readonly task: DemoTask;
  readonly model: PolicyModel;
  readonly seed: number;
  readonly table: StepTable;
}

type Sampled = Awaited<ReturnType<typeof sampleStep>>;

/** Samples the rollouts of a step, all at once. */
async function sampleStep(step: number, { task, model, seed, table }: DemoRun) {
  const numRollouts = task.numPrompts * ROLLOUTS_PER_PROMPT;
  const startedAt = performance.now();
  let numTokens = 0;
  table.beginSampling(step, numRollouts);
  const plans = Array.from({ length: task.numPrompts }, (_, promptIndex) =>
    group(ROLLOUTS_PER_PROMPT, async (index) => {
      // Seeds of neighbouring prompts must not overlap.
      const rolloutSeed = seed * 1_000_003 + step * 1_009 + promptIndex * ROLLOUTS_PER_PROMPT + index;
      const trajectory = await model.rollout((rollout) => task.play(rollout, promptIndex, rolloutSeed));
      const numSampled = numSampledTokens(trajectory);
      numTokens += numSampled;
      table.rolloutDone(step, numRollouts, numSampled);
      return trajectory;
    }),
  );
  const groups = await gather(plans, { concurrency: numRollouts });
  return { groups, numTokens, seconds: (performance.now() - startedAt) / 1000 };
}

/** Recorded choices have the ids of their tokens. */
function numSampledTokens({ messages_and_choices: items = [] }: WireTrajectory): number {
  const ids = items.map((item) => (item as { token_ids?: readonly number[] }).token_ids ?? []);
  return ids.reduce((sum, { length }) => sum + length, 0);
}
