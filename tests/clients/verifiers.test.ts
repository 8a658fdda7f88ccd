/**
 * The training script of examples/verifiers with an environment of two turns: TrainClient of `verifiers` is
 * unmodified.
 */
import { execFile } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { promisify } from 'node:util';

import { afterAll, beforeAll, expect, it } from 'vitest';

import { writeHuggingFaceTokenizer } from '../../lab/hugging-face/tokenizer.ts';
import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import type { OwnService } from '../../scripts/own-service.ts';
import { testModel } from '../support/model.ts';
import { expectTrainedByRecords } from '../support/recorded-job.ts';
import { smallService } from '../support/small-service.ts';

const ROOT = resolve(import.meta.dirname, '../..');
const TIMEOUT_MS = 600_000;
const hasVerifiers = await hasPythonEnvironment(ROOT, 'verifiers');
const tokenizer = mkdtempSync(join(tmpdir(), 'trainyard-tokenizer-'));
let service: OwnService;

beforeAll(async () => {
  writeHuggingFaceTokenizer(testModel().small, tokenizer);
  service = await smallService();
}, TIMEOUT_MS);
afterAll(async () => {
  rmSync(tokenizer, { recursive: true });
  await service?.close();
});

it.skipIf(!hasVerifiers)(
  'rollouts of two turns are trained with their sampling distribution, at a temperature and under top_p',
  async () => {
    const environment = ['--environment', 'verifiers_two_turns', '--name', 'two-turns', '--tokenizer', tokenizer];
    const sampling = ['--rollouts', '4', '--steps', '1', '--temperature', '0.7', '--top-p', '0.9'];
    const { stdout } = await promisify(execFile)(
      pythonEnvironment(ROOT, 'verifiers').python,
      [join(ROOT, 'examples/verifiers/train.py'), ...environment, ...sampling],
      {
        env: {
          ...process.env,
          TRAINYARD_BASE_URL: service.url,
          TRAINYARD_API_KEY: service.apiKey,
          HF_HUB_OFFLINE: '1',
          PYTHONPATH: join(ROOT, 'tests/clients'),
        },
        timeout: TIMEOUT_MS,
      },
    );
    expect(stdout).toMatch(/^step 1 reward [01]\.\d{3}$/m);
    // Two tasks, four rollouts of each, two replies per rollout.
    await expectTrainedByRecords(service, stdout, 16);
  },
  TIMEOUT_MS,
);
