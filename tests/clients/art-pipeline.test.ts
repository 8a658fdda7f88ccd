import type { ListPage, TrainingJobObject } from '@trainyard/protocol';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { ART_TIMEOUT_MS, installedArtReleases, runArtClient } from '../support/art-client.ts';
import { smallService } from '../support/small-service.ts';

interface Report {
  pipeline: { model_id: string; steps: number[]; evaluated: { val: number[]; test: number[] } };
  recorded: { model_id: string; step: number; num_calls: number[][] };
}

const releases = await installedArtReleases();

// 0.5.18 has neither a pipeline for remote training, nor recorded calls.
describe.runIf(releases.includes('art-newest'))(
  'the newest unmodified openpipe-art client, beyond its plain loop',
  () => {
    let service: OwnService;
    let report: Report;

    beforeAll(async () => {
      service = await smallService();
      report = await runArtClient<Report>('art_pipeline_client.py', service, 'art-newest');
    }, ART_TIMEOUT_MS);

    afterAll(async () => {
      await service.close();
    });

    async function jobsOf(modelId: string): Promise<TrainingJobObject[]> {
      const response = await fetch(`${service.url}/preview/models/${modelId}/training-jobs?order=asc`, {
        headers: { authorization: `Bearer ${service.apiKey}` },
      });
      return ((await response.json()) as ListPage<TrainingJobObject>).data;
    }

    it('trains while it samples, and continues after an earlier run', async () => {
      expect(report.pipeline.steps).toEqual([2, 3]);
      const jobs = await jobsOf(report.pipeline.model_id);
      expect(
        jobs.map(({ config, group_outcomes: outcomes }) => [config!['kl_penalty_reference_step'], outcomes]),
      ).toEqual([0, 0, 1].map((reference) => [reference, ['trained', 'trained']]));
      expect(jobs[2]!.config).toMatchObject({ loss_fn: 'ppo', scale_rewards: false, kl_penalty_coef: 0.02 });
    });

    it('evaluates every step with tokens sampled by that step', () => {
      // Without `policy_token_spans` of that step it discards the evaluation.
      expect(report.pipeline.evaluated).toEqual({ val: [0, 1, 2, 3], test: [0, 1, 2, 3] });
    });

    it('calls of streams, threads and nested blocks are trained with their sampling distribution', async () => {
      expect([report.recorded.step, report.recorded.num_calls]).toEqual([
        1,
        [
          [2, 2, 2],
          [1, 1, 1],
        ],
      ]);
      const [job] = await jobsOf(report.recorded.model_id);
      expect(job!.group_outcomes).toEqual(['trained', 'trained']);
      const { num_replayed_choices: numReplayed, num_histories_trainable: numHistories } = job!.counts!;
      expect(job!.counts).toMatchObject({ unreplayed_choices: {}, num_divergent_prompts: 0 });
      // One of three rollouts may have its group's mean reward; the others' choices were all sampled at
      // another temperature.
      expect(numReplayed).toBe(numHistories);
      expect(numReplayed).toBeGreaterThanOrEqual(2 * 4);
    });
  },
);
