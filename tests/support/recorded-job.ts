import assert from 'node:assert/strict';

import { Trainyard } from '@trainyard/sdk';
import { expect } from 'vitest';

import type { OwnService } from '../../scripts/own-service.ts';

/**
 * Checks the newest job of a service, the only one of its model, against the output of examples/verifiers:
 * each sampled token is trained once, with its sampling distribution.
 * @param numReplayed sampled replies that were not drawn plainly from the model
 */
export async function expectTrainedByRecords(
  { url, apiKey }: Pick<OwnService, 'url' | 'apiKey'>,
  output: string,
  numReplayed: number,
): Promise<void> {
  const [, reward] = /^step 0 reward ([\d.]+)$/m.exec(output)!;
  const [, trained, sampled] = /^trained (\d+) of (\d+) sampled tokens$/m.exec(output)!;
  const { trainingJobs } = new Trainyard({ baseUrl: url, apiKey });
  const jobs = await Array.fromAsync(trainingJobs.list());
  const { id, model_id, counts } = jobs.toSorted((a, b) => b.created_at - a.created_at)[0]!;
  expect(jobs.filter((job) => job.model_id === model_id)).toHaveLength(1);
  assert(counts !== null);
  // A choice without a record would count as unreplayed, `unknown`.
  expect(counts).toMatchObject({
    num_replayed_choices: numReplayed,
    num_unknown_records: 0,
    num_tokens_without_logprobs: 0,
    unreplayed_choices: {},
    refused_choices: {},
  });
  // Groups of equal rewards are dropped, with their tokens.
  if (Object.keys(counts['dropped_groups'] as object).length === 0) expect(trained).toBe(sampled);
  expect(counts['num_trainable_tokens']).toBe(Number(trained));
  const [{ logprob_gap_mean: gap, reward: reported }] = (await trainingJobs.gradientSteps(id)) as [
    Record<string, number>,
  ];
  console.log(`verifiers: ${trained} of ${sampled} tokens, gap ${gap!.toExponential(1)}, reward ${reward}`);
  expect(gap).toBeLessThan(1e-4);
  expect(reported).toBeCloseTo(Number(reward), 3);
}
