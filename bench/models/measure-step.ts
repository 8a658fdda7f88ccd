import { randomUUID } from 'node:crypto';

import type { Trainyard } from '@trainyard/sdk';
import { type GatheredGroup, gatherGroup } from '@trainyard/sdk/rollouts';

export interface StepSizes {
  readonly numPrompts: number;
  readonly numRollouts: number;
  readonly completionTokens: number;
  /** About 18 tokens each. */
  readonly promptSentences: number;
}

/** 64 rollouts of about 384 prompt tokens and 64 more. */
export const FULL: StepSizes = { numPrompts: 8, numRollouts: 8, completionTokens: 64, promptSentences: 21 };
export const SHORT: StepSizes = { numPrompts: 2, numRollouts: 2, completionTokens: 4, promptSentences: 1 };

export interface StepFigures {
  /** Completion tokens of all rollouts ÷ their wall time. */
  readonly sampledPerSecond: number;
  /** Tokens of all conversations, shared prompts counted for each, ÷ the job's wall time. */
  readonly trainedPerSecond: number;
  /** Rollouts, then the job until its end. */
  readonly stepSeconds: number;
}

/** One step of reinforcement learning, after a small first one that loads the trainer and makes an adapter. */
export async function measureStep(client: Trainyard, sizes: StepSizes): Promise<StepFigures> {
  const base = (await client.servedModels.list()).data.find((model) => model.parent === null)!.id;
  const { id, entity, project, name } = await client.models.register({
    project: 'bench',
    name: `bench-${randomUUID().slice(0, 8)}`,
    base_model: base,
  });
  const model = { id, name: `${entity}/${project}/${name}` };
  await step(client, model, { ...sizes, numPrompts: 1, numRollouts: 2, completionTokens: 4 });
  return await step(client, model, sizes);
}

async function step(
  client: Trainyard,
  model: { readonly id: string; readonly name: string },
  sizes: StepSizes,
): Promise<StepFigures> {
  const startedAt = performance.now();
  const groups = await Promise.all(
    Array.from({ length: sizes.numPrompts }, (_, prompt) => rollouts(client, model.name, prompt, sizes)),
  );
  const sampledAt = performance.now();
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: groups.map(({ group }) => group),
    experimental_config: { learning_rate: 1e-6 },
  });
  await client.trainingJobs.gradientSteps(job.id);
  const endedAt = performance.now();
  const sum = (count: (group: GatheredGroup) => number): number => groups.reduce((all, one) => all + count(one), 0);
  const sampled = sum(({ usage }) => usage.completion_tokens);
  const read = sum(({ usage }) => usage.prompt_tokens * sizes.numRollouts);
  return {
    sampledPerSecond: (1000 * sampled) / (sampledAt - startedAt),
    trainedPerSecond: (1000 * (read + sampled)) / (endedAt - sampledAt),
    stepSeconds: (endedAt - startedAt) / 1000,
  };
}

function rollouts(client: Trainyard, model: string, prompt: number, sizes: StepSizes): Promise<GatheredGroup> {
  const text = 'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. ';
  return gatherGroup(
    client,
    {
      model,
      messages: [{ role: 'user', content: `${text.repeat(sizes.promptSentences)}Write entry ${prompt}.` }],
      n: sizes.numRollouts,
      seed: 1 + prompt * sizes.numRollouts,
      max_tokens: sizes.completionTokens,
      ignore_eos: true,
    },
    // Equal rewards would leave nothing to train.
    (choice) => choice.index % 2,
  );
}
