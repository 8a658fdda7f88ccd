import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join, resolve } from 'node:path';

import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import { Trainyard } from '@trainyard/sdk';

import type { OwnService } from '../../scripts/own-service.ts';
import { hasPythonEnvironment, pythonEnvironment } from '../../scripts/lib/python-environment.mjs';
import { smallService } from '../support/small-service.ts';

/**
 * Requests generated from /openapi.json, valid and invalid ones, against a running service: no 5xx, no
 * undocumented status, no answer that violates its schema.
 *
 * TRAINYARD_TEST_FUZZ_EXAMPLES sets the number of requests per operation; 2,000 is the full run, of about an hour.
 */
const ROOT = resolve(import.meta.dirname, '../..');
const NUM_EXAMPLES = Number(process.env['TRAINYARD_TEST_FUZZ_EXAMPLES'] ?? 5);
/** Time for every example of every operation, and for the phase that tries each limit of each field once. */
const TIMEOUT_MS = 600_000 + NUM_EXAMPLES * 5_000;
const CHECKS = [
  'not_a_server_error',
  'status_code_conformance',
  'content_type_conformance',
  'response_schema_conformance',
];
const OPTIONS =
  '--seed 1 --phases examples,coverage,fuzzing --suppress-health-check all --request-timeout 60 --continue-on-failure --warnings off --no-color';

const hasPython = await hasPythonEnvironment(ROOT, 'art');
if (!hasPython && process.env['CI'] !== undefined) {
  throw new Error('CI must run schemathesis: "node scripts/bootstrap.mjs --python" shows the reason');
}

describe.skipIf(!hasPython)('requests generated from the OpenAPI document', () => {
  let service: OwnService;
  let modelId: string;
  let jobId: string;
  const directory = mkdtempSync(join(tmpdir(), 'trainyard-fuzz-'));

  beforeAll(async () => {
    service = await smallService();
    const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey });
    const base = (await client.servedModels.list()).data[0]!.id;
    modelId = (await client.models.register({ project: 'fuzz', name: 'target', base_model: base })).id;
    jobId = (await client.trainingJobs.create({ model_id: modelId, trajectory_groups: [] })).id;
    await client.trainingJobs.gradientSteps(jobId);
  });

  afterAll(async () => {
    await service.close();
    rmSync(directory, { recursive: true, force: true });
  });

  it(`are answered as documented (${NUM_EXAMPLES} per operation)`, { timeout: TIMEOUT_MS }, async () => {
    const origin = service.url.replace(/\/v1$/, '');
    const { code, output } = await run(
      join(dirname(pythonEnvironment(ROOT).python), 'schemathesis'),
      `run ${origin}/openapi.json --checks ${CHECKS.join(',')} --max-examples ${NUM_EXAMPLES} ${OPTIONS}`
        .split(' ')
        .concat('--header', `Authorization: Bearer ${service.apiKey}`),
      { FUZZ_MODEL_ID: modelId, FUZZ_JOB_ID: jobId },
    );
    const summary = /^.*SUMMARY.*$[^]*/m.exec(output)?.[0] ?? output.slice(-2_000);
    console.log(summary);
    expect(code, output.slice(-20_000)).toBe(0);
    expect(service.output()).not.toContain('failed:');
    expect(service.output()).not.toContain('host stopped');
  });

  async function run(command: string, args: string[], environment: Record<string, string>) {
    const child = spawn(command, args, {
      cwd: directory,
      env: {
        ...process.env,
        ...environment,
        SCHEMATHESIS_HOOKS: 'schemathesis_hooks',
        PYTHONPATH: import.meta.dirname,
      },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    let output = '';
    for (const stream of [child.stdout, child.stderr])
      stream.setEncoding('utf8').on('data', (text: string) => (output += text));
    const code = await new Promise<number | null>((done) => child.once('close', done));
    return { code, output };
  }
});
