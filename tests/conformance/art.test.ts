import { execFile } from 'node:child_process';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { ownService, type OwnService } from '../../scripts/own-service.ts';
import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';

const ROOT = resolve(import.meta.dirname, '../..');
/** Importing the client and its dependencies takes seconds; two training steps take more on a busy machine. */
const TIMEOUT_MS = 300_000;

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

const hasPython = await hasPythonEnvironment(ROOT);
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run the ART client: "node scripts/bootstrap.mjs --python" says what is missing');
}

describe.skipIf(!hasPython)('the unmodified openpipe-art client (Python)', () => {
  let service: OwnService;
  let report: Report;

  beforeAll(async () => {
    service = await ownService();
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT).python,
      [join(import.meta.dirname, 'art_client.py'), service.url, service.apiKey, 'HuggingFaceTB/SmolLM2-135M-Instruct'],
      // litellm, a dependency of the client, would fetch a price list at import.
      {
        env: { ...process.env, LITELLM_LOCAL_MODEL_COST_MAP: 'True', WANDB_API_KEY: '' },
        timeout: TIMEOUT_MS,
        maxBuffer: 64e6,
      },
    );
    report = JSON.parse(/^REPORT (.*)$/m.exec(stdout)![1]!) as Report;
  }, TIMEOUT_MS);

  afterAll(async () => {
    await service.close();
  });

  it('registers, twice, and starts at step 0', () => {
    expect(report.entity).toBe('local');
    expect(report.first_step).toBe(0);
  });

  it('gets log-probabilities of every sampled token without asking', () => {
    expect(report.num_logprobs).toBeGreaterThan(0);
    expect(report.first_token).toMatch(/^token_id:\d+$/);
  });

  it('trains two steps on gathered rollouts, with numbers it can log', () => {
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
