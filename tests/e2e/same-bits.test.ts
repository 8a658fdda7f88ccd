import { expect, it } from 'vitest';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';
import { WAYS_TO_SAMPLE } from '../support/ways-to-sample.ts';

type Sample = (client: Trainyard, model: string, seed: number) => Promise<WireTrajectoryGroup>;

const rewarded = (trajectories: WireTrajectoryGroup['trajectories']) =>
  trajectories.map((trajectory, index) => ({ ...trajectory, reward: index }));

/** Groups sampled with different numbers of concurrent sequences. */
const SAMPLES: Readonly<Record<string, Sample>> = {
  'one at a time': async (client, model, seed) => {
    const trajectories = [];
    for (let i = 0; i < 4; i++) {
      const group = await scoredGroup(client, model, { n: 1, seed: seed + i, maxTokens: 150 });
      trajectories.push(...group.trajectories);
    }
    return { trajectories: rewarded(trajectories) };
  },
  '64 choices of a request': async (client, model, seed) =>
    await scoredGroup(client, model, { n: 64, seed, maxTokens: 120, prompt: 'Tell me a long story. '.repeat(12) }),
  '24 requests at once': async (client, model, seed) => {
    const groups = await Promise.all(
      Array.from(
        { length: 24 },
        async (_, i) => await scoredGroup(client, model, { n: 1, seed: seed + i, maxTokens: 120 }),
      ),
    );
    return { trajectories: rewarded(groups.flatMap((group) => group.trajectories)) };
  },
  ...Object.fromEntries(
    Object.entries(WAYS_TO_SAMPLE).map(([way, fields]): [string, Sample] => [
      way,
      async (client, model, seed) => await scoredGroup(client, model, { n: 8, seed, maxTokens: 40, fields }),
    ]),
  ),
};

it('with `deterministic`, trained log-probabilities equal the sampled ones to the last bit, for each adapter and way to sample', async () => {
  const service = await smallService({ environment: { TRAINYARD_DETERMINISTIC: 'on' } });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const { id, name } = await client.models.register({ project: 'p', name: 'sampler', base_model: base });
    let numTokens = 0;
    for (const [index, [way, sample]] of Object.entries(SAMPLES).entries()) {
      // Each group is sampled from the result of the previous one.
      const group = await sample(client, name, 1000 * index);
      const job = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: [group],
        experimental_config: { learning_rate: 1e-3 },
      });
      const [metrics] = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
      numTokens += metrics!['num_trainable_tokens'] ?? NaN;
      console.log(`${way}: largest gap ${metrics!['logprob_gap_max']}, ratio ${metrics!['ratio_mean']}`);
      expect(metrics!['logprob_gap_max'], way).toBe(0);
      expect(metrics!['ratio_mean'], way).toBe(1);
    }
    console.log(`${numTokens} tokens`);
    expect(numTokens).toBeGreaterThan(10_000);
    const wide = await client.models.register({ project: 'p', name: 'wide', base_model: base, lora: { rank: 33 } });
    for (const seed of [1, 2]) {
      const job = await client.trainingJobs.create({
        model_id: wide.id,
        trajectory_groups: [await scoredGroup(client, 'wide', { seed })],
        experimental_config: {},
      });
      const [metrics] = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
      expect(metrics!['logprob_gap_max'], 'an adapter of rank 33').toBe(0);
    }
  } finally {
    await service.close();
  }
}, 600_000);
