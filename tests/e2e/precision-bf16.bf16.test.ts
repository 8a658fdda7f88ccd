import { readFileSync } from 'node:fs';
import { basename } from 'node:path';

import { expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import { ownService } from '../../scripts/own-service.ts';
import { scoredGroup } from '../support/groups.ts';
import { testModel } from '../support/model.ts';
import { hostOf } from '../support/processes.ts';

it('a service in bf16 samples, trains on its own samples, reports the gap, and serves the result', async () => {
  const service = await ownService({
    environment: {
      TRAINYARD_MODEL: testModel().base,
      TRAINYARD_PRECISION: 'bf16',
      TRAINYARD_ONEDNN: process.env['TRAINYARD_TEST_BF16_LIBRARY']!,
    },
  });
  try {
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
    const base = (await client.servedModels.list()).data[0]!.id;
    const { id, name } = await client.models.register({ project: 'p', name: 'rounded', base_model: base });
    for (const [seed, settings] of [
      [1, {}],
      // Between policies of the trainer, with a weight for the sampler's deviations.
      [2, { precalculate_logprobs: true, truncated_importance_sampling: 2 }],
    ] as const) {
      const group = await scoredGroup(client, name, { n: 8, seed, maxTokens: 40 });
      const job = await client.trainingJobs.create({
        model_id: id,
        trajectory_groups: [group],
        experimental_config: { learning_rate: 1e-4, ...settings },
      });
      const [metrics] = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
      console.log(`mean gap ${metrics!['logprob_gap_mean']}, largest ${metrics!['logprob_gap_max']}`);
      expect(metrics!['logprob_gap_mean']).toBeGreaterThan(1e-3);
      expect(metrics!['logprob_gap_mean']).toBeLessThan(0.05);
    }
    // Both sides use it.
    const library = basename(process.env['TRAINYARD_TEST_BF16_LIBRARY']!);
    for (const host of ['engine', 'trainer'] as const)
      expect(readFileSync(`/proc/${hostOf(service.pid, host)}/maps`, 'utf8')).toContain(library);
  } finally {
    await service.stop();
  }
});
