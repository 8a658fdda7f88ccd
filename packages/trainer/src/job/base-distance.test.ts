import { describe, expect, it } from 'vitest';
import { baseDistance, startDistance } from './base-distance.ts';
import { TrainerError } from '../contract/errors.ts';
import type { LearnerCapabilities, LearnerForwardOptions } from '../learner/learner-session.ts';
import type { PackedRow } from '../model/policy-model.ts';
import { packRows } from '../packing/pack.ts';
import type { TrainingParts } from './training-job.ts';

/** Gives the token `id` the log-probability -id, and records its calls. */
function scripted(reference: LearnerCapabilities['reference'] = 'base') {
  const asked: { row: PackedRow; options: LearnerForwardOptions | undefined }[] = [];
  const forward = async ([row]: readonly PackedRow[], options?: LearnerForwardOptions) => {
    asked.push({ row: row!, options });
    return [{ logprobs: Float32Array.from(row!.targets, (id) => -id), entropies: null }];
  };
  const parts = { learner: { forward, capabilities: { reference } } } as unknown as TrainingParts;
  return { parts, asked };
}

function row(promptLength: number, ids: readonly number[], logprobs = ids.map(() => -0.5)) {
  const tokenIds = Int32Array.from([...Array.from({ length: promptLength }, () => 9), ...ids]);
  const sequence = {
    groupIndex: 0,
    trajectoryIndex: 0,
    sequenceIndex: 0,
    tokenIds,
    lossMask: Uint8Array.from(tokenIds, (_, i) => Number(i >= promptLength)),
    oldLogprobs: Float32Array.from([...Array.from({ length: promptLength }, () => NaN), ...logprobs]),
    advantage: 1,
    weight: 1,
  };
  return packRows([sequence], 10_000, 0)[0]!;
}

it('is the mean difference to the base model, of tokens with a log-probability', async () => {
  const { parts, asked } = scripted();
  const result = await baseDistance(row(3, [1, 2, 3, 4], [-0.5, NaN, -1, -0.5]), 7, parts);
  expect(result['kl_base']).toBeCloseTo((0.5 + 2 + 3.5) / 3, 6);
  expect(asked[0]!.options).toMatchObject({ under: 'base' });
  expect(await baseDistance(row(3, [1], [NaN]), 4, parts)).toEqual({});
});

it('looks at a bounded part of a row, as much of it as it takes to find something that was sampled', async () => {
  const { parts, asked } = scripted();
  const ids = Array.from({ length: 4000 }, (_, i) => 1 + (i % 5));
  await baseDistance(row(10, ids), 4096, parts);
  await baseDistance(row(2000, ids), 1_000_000, parts);
  // For a small job at most an eighth, but at least 64 tokens.
  await baseDistance(row(10, ids), 1600, parts);
  await baseDistance(row(10, ids), 100, parts);
  await baseDistance(row(150, ids), 100, parts);
  expect(asked.map((one) => [one.row.tokenIds.length, one.row.targets.length])).toEqual([
    [265, 256],
    [2255, 256],
    [109, 100],
    [41, 32],
    [181, 32],
  ]);
});

it('is left out if the learner cannot compute the base model', async () => {
  const { parts, asked } = scripted('none');
  expect(await baseDistance(row(3, [1, 2]), 5, parts)).toEqual({});
  expect(asked).toEqual([]);
});

describe('the distance to the weights that training on rollouts began with', () => {
  const known = { distance: { kl_base: 2.5 }, row: row(3, [1, 2, 3]), numTokens: 6 };

  it('is that to the base model when rollouts began there, and 0 when this job starts at them', async () => {
    const { parts, asked } = scripted('versions');
    expect(await startDistance({ startFrom: 'checkpoints/9' }, known, parts)).toEqual({ kl_start: 2.5 });
    const beganFrom = { version: 'checkpoints/3' };
    expect(await startDistance({ startFrom: 'checkpoints/3', beganFrom }, known, parts)).toEqual({ kl_start: 0 });
    expect(asked).toEqual([]);
  });

  it('is measured under them otherwise', async () => {
    const { parts, asked } = scripted('versions');
    const beganFrom = { version: 'checkpoints/3' };
    const { kl_start: distance } = await startDistance({ startFrom: 'checkpoints/9', beganFrom }, known, parts);
    expect(distance).toBeCloseTo((0.5 + 1.5 + 2.5) / 3, 6);
    expect(asked[0]!.options).toMatchObject({ under: beganFrom });
  });

  it('is left out if they are gone, before the job or during it, or if the learner cannot compute them', async () => {
    const { parts } = scripted('base');
    const beganFrom = { version: 'checkpoints/3' };
    expect(await startDistance({ startFrom: 'checkpoints/9', beganFrom: 'gone' }, known, parts)).toEqual({});
    expect(await startDistance({ startFrom: 'checkpoints/9', beganFrom }, known, parts)).toEqual({});
    const lost = scripted('versions').parts;
    lost.learner.forward = () => Promise.reject(new TrainerError('trainer.checkpoint_unreadable', 'gone'));
    expect(await startDistance({ startFrom: 'checkpoints/9', beganFrom }, known, lost)).toEqual({});
  });
});
