import { expect, it } from 'vitest';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';
import { CONSTRAINT, WAYS_TO_SAMPLE } from '../support/ways-to-sample.ts';

it('rollouts are trained under their sampling distribution, with any sampling option', async () => {
  // In half precision the sampler's cache by itself makes gaps of 1e-3.
  const service = await smallService({ environment: { TRAINYARD_PRECISION: 'strict' } });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const model = (name: string) => client.models.register({ project: 'p', name, base_model: base });
    const sampler = await model('sampler');
    async function train(name: string, group: WireTrajectoryGroup) {
      const { id } = await model(name);
      const created = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: [group],
        experimental_config: { learning_rate: 1e-3 },
      });
      const [metrics] = await client.trainingJobs.gradientSteps(created.id);
      return { metrics: metrics as Record<string, number>, job: await client.trainingJobs.retrieve(created.id) };
    }
    for (const [index, [way, fields]] of Object.entries(WAYS_TO_SAMPLE).entries()) {
      const group = await scoredGroup(client, 'sampler', { fields, maxTokens: 16, seed: 100 * index });
      const { metrics, job } = await train(`replayed-${index}`, group);
      console.log(`${way}: gap ${metrics['logprob_gap_mean']}, mean ratio ${metrics['ratio_mean']}`);
      expect(metrics['logprob_gap_mean'], way).toBeLessThan(1e-4);
      expect(metrics['logprob_gap_max'], way).toBeLessThan(5e-3);
      expect(job.counts).toMatchObject({ num_replayed_choices: 4, unreplayed_choices: {} });
      expect(codesOf(job), way).toEqual([]);
      if (fields !== CONSTRAINT) continue;
      // Records are found by tokens and log-probabilities.
      const found = await train('found', withoutRecords(group));
      expect(found.job.counts).toMatchObject({ num_replayed_choices: 4, unreplayed_choices: {} });
      const plain = await train('told', withoutRecords(group, 1e-3));
      console.log(`${way}, without records: gap ${plain.metrics['logprob_gap_mean']}`);
      // The client received the model's own log-probabilities, only with the mask of a constraint.
      expect(plain.metrics['logprob_gap_mean']).toBeGreaterThan(0.05);
      expect(plain.job.counts).toMatchObject({ num_replayed_choices: 0, unreplayed_choices: { unknown: 4 } });
      expect(codesOf(plain.job)).toContain('sampling_unknown');
    }
    const greedy = async () =>
      (await scoredGroup(client, 'sampler', { n: 1, fields: { temperature: 0 } })).trajectories[0]!;
    const samples = [await greedy(), await greedy()];
    const { job } = await train('greedy', {
      trajectories: samples.map((trajectory, reward) => ({ ...trajectory, reward })),
    });
    expect(job.counts).toMatchObject({ num_replayed_choices: 0, unreplayed_choices: { greedy: 2 } });
    expect(codesOf(job)).toEqual(['temperature_not_replayed']);
    expect(sampler.name).toBe('sampler');
  } finally {
    await service.close();
  }
}, 1_200_000);

/**
 * Codes of the warnings, except those about the length of these replies or about the small choice under a
 * constraint.
 */
function codesOf({ warnings }: { warnings: readonly { code: string }[] }): string[] {
  return warnings.map(({ code }) => code).filter((code) => code !== 'replies_cut_off' && code !== 'entropy_low');
}

/**
 * Choices of a client that keeps only tokens and log-probabilities.
 * @param change of each log-probability, so that no record is found
 */
function withoutRecords(group: WireTrajectoryGroup, change = 0): WireTrajectoryGroup {
  const trajectories = group.trajectories.map((trajectory) => ({
    ...trajectory,
    messages_and_choices: (trajectory.messages_and_choices ?? []).map((item) => {
      const { record_id: _record, logprobs, ...rest } = item as Record<string, unknown>;
      if (change === 0 || logprobs === undefined) return { ...rest, logprobs };
      const { content } = logprobs as { content: { logprob: number }[] };
      return {
        ...rest,
        logprobs: { content: content.map((entry) => ({ ...entry, logprob: entry.logprob - change })) },
      };
    }),
  }));
  return { ...group, trajectories };
}
