import { expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';

it('rollouts under a constraint begin off policy, by what the constraint forced; precalculated log-probabilities begin on policy', async () => {
  const service = await ownService();
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const base = (await client.listModels()).data[0]!.id;
    const models = await Promise.all(
      ['sampled', 'precalculated'].map((name) => client.registerModel({ project: 'p', name, baseModel: base })),
    );
    const group = await scoredGroup(client, 'sampled', {
      fields: { structured_outputs: { regex: '(yes|no), (red|green|blue)' } },
    });
    const train = async (modelId: string, precalculate: boolean) => {
      const settings = { learning_rate: 1e-5, precalculate_logprobs: precalculate };
      const job = await client.createTrainingJob(modelId, [group], settings);
      const [step] = await client.waitForTraining(job.id);
      return step as Record<string, number>;
    };
    const sampled = await train(models[0]!.id, false);
    const precalculated = await train(models[1]!.id, true);
    console.log(
      `gap ${sampled['logprob_gap_mean']} and ${precalculated['logprob_gap_mean']}; ` +
        `mean ratio ${sampled['ratio_mean']} and ${precalculated['ratio_mean']}`,
    );
    expect(sampled['logprob_gap_mean']).toBeGreaterThan(0.05);
    expect(sampled['ratio_mean']).toBeLessThan(0.9);
    expect(precalculated['logprob_gap_mean']).toBeCloseTo(sampled['logprob_gap_mean']!, 6);
    expect(Math.abs(precalculated['ratio_mean']! - 1)).toBeLessThan(1e-4);
    expect(Math.abs(precalculated['ratio_max']! - 1)).toBeLessThan(1e-4);
  } finally {
    await service.close();
  }
});
