import { Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';

import { ownService } from '../../scripts/own-service.ts';
import type { Log } from '../serving/peers/peer.ts';
import { type Precision, serviceSettings } from '../serving/peers/trainyard.ts';
import { shownVariables } from '../settings-environment.ts';
import { type LoopKind, type LoopStep, type LoopWork, promptsOf, rewardOf, waitingOf } from './loop-work.ts';

/** A service of this repository: one process samples and trains. */
export function trainyardLoop(precision: Precision, settings: readonly string[], log: Log): LoopKind {
  return {
    name: precision,
    install: async () => void (await serviceSettings(precision, settings, log)),
    open: async (work) => {
      const environment = await serviceSettings(precision, settings, log);
      const service = await ownService({ environment });
      try {
        const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
        const base = (await client.servedModels.list()).data.find(({ parent }) => parent === null)!.id;
        const model = await client.models.register({ project: 'bench', name: 'loop', base_model: base });
        return {
          settings: shownVariables(environment),
          step: async (index) => await step(client, model, work, index),
          close: () => service.close(),
        };
      } catch (error) {
        await service.close();
        throw error;
      }
    },
  };
}

async function step(
  client: Trainyard,
  model: { readonly id: string; readonly entity: string; readonly project: string; readonly name: string },
  work: LoopWork,
  index: number,
): Promise<LoopStep> {
  const startedAt = performance.now();
  const gathered = await Promise.all(
    promptsOf(work, index).map((content) =>
      gatherGroup(
        client,
        {
          model: `${model.entity}/${model.project}/${model.name}`,
          messages: [{ role: 'user', content }],
          n: work.groupSize,
          max_tokens: work.numTokens,
          ignore_eos: true,
        },
        (choice) => rewardOf(choice.index),
      ),
    ),
  );
  const sampledAt = performance.now();
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: gathered.map(({ group }) => group),
    experimental_config: { learning_rate: work.learningRate, gradient_steps: work.gradientSteps },
  });
  let trainedAt = sampledAt;
  let endedAt = sampledAt;
  const steps: Record<string, number>[] = [];
  let trainedTokens = Number.NaN;
  for await (const event of client.trainingJobs.watch(job.id)) {
    endedAt = performance.now();
    if (event.type === 'training_failed') throw new Error(`the job failed: ${JSON.stringify(event.data)}`);
    if (event.type === 'training_started') trainedTokens = Number(event.data['num_trainable_tokens']);
    if (event.type !== 'gradient_step') continue;
    trainedAt = endedAt;
    steps.push(event.data as Record<string, number>);
  }
  const seconds = (from: number, to: number): number => (to - from) / 1000;
  const parts = {
    sampling: seconds(startedAt, sampledAt),
    training: seconds(sampledAt, trainedAt),
    publishing: seconds(trainedAt, endedAt),
  };
  const sum = (read: (usage: (typeof gathered)[number]['usage']) => number): number =>
    gathered.reduce((all, { usage }) => all + read(usage), 0);
  const total = seconds(startedAt, performance.now());
  return {
    total,
    ...parts,
    waiting: waitingOf(total, Object.values(parts)),
    sampledTokens: sum(({ completion_tokens }) => completion_tokens),
    promptTokens: sum(({ prompt_tokens }) => prompt_tokens),
    trainedTokens,
    gradientSteps: steps.length,
    meanGap: steps[0]?.['logprob_gap_mean'] ?? null,
  };
}
