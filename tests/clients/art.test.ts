import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';
import { ART_TIMEOUT_MS, installedArtReleases, runArtClient } from '../support/art-client.ts';
import { smallService } from '../support/small-service.ts';

interface Report {
  entity: string;
  name: string;
  first_step: number;
  steps: number[];
  num_logprobs: number;
  first_token: string;
  metrics: Record<string, number>[];
  artifact_name: string;
  checkpoints: number[];
  val_reward: number;
  old_step_model: string;
  after_delete: number[];
  after_model_delete: string;
}

describe.each(await installedArtReleases())('the unmodified openpipe-art client (%s)', (release) => {
  let service: OwnService;
  let report: Report;

  beforeAll(async () => {
    service = await smallService();
    report = await runArtClient<Report>('art_client.py', service, release);
  }, ART_TIMEOUT_MS);

  afterAll(async () => {
    await service.close();
  });

  it('registers, twice, and starts at step 0', () => {
    expect(report.entity).toBe('local');
    expect(report.first_step).toBe(0);
  });

  it('gets log-probabilities of every sampled token by default', () => {
    expect(report.num_logprobs).toBeGreaterThan(0);
    expect(report.first_token).toMatch(/^token_id:\d+$/);
  });

  it('trains two steps on gathered rollouts, with loggable numbers', () => {
    expect(report.steps).toEqual([1, 2]);
    expect(report.artifact_name).toBe('local/conformance/art-client:step2');
    for (const metrics of report.metrics) {
      expect(metrics['loss/grad_norm']).toBeGreaterThan(0);
      expect(Number.isFinite(metrics['loss/train'])).toBe(true);
      expect(metrics['loss/learning_rate']).toBeCloseTo(1e-4);
      // Sampler and trainer are the same policy.
      expect(metrics['probs_corr'] ?? metrics['loss/probs_corr']).toBeGreaterThan(0.99);
    }
  });

  it('lists checkpoints page by page, logs, and uses an older step', () => {
    expect(report.checkpoints).toEqual([0, 1, 2]);
    expect(report.val_reward).toBeTypeOf('number');
    expect(report.old_step_model).toBe('local/conformance/art-client:step1');
  });

  it('deletes checkpoints and the model', () => {
    expect(report.after_delete).toEqual([0, 2]);
    expect(report.after_model_delete).toBe('NotFoundError');
  });
});
