import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

import { afterAll, expect, it } from 'vitest';

import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import { scoredGroup } from '../support/groups.ts';
import { smallService } from '../support/small-service.ts';

const scratch = mkdtempSync(join(tmpdir(), 'trainyard-records-'));
afterAll(() => rmSync(scratch, { recursive: true, force: true }));

/** The group with choices that have only their message and the id of their record. */
function messagesAlone(group: WireTrajectoryGroup): WireTrajectoryGroup {
  const trajectories = group.trajectories.map((trajectory) => ({
    ...trajectory,
    messages_and_choices: (trajectory.messages_and_choices ?? []).map((item) => {
      const { message, finish_reason, record_id } = item as Record<string, unknown>;
      return message === undefined ? item : { message, finish_reason, record_id };
    }),
  }));
  return { ...group, trajectories };
}

it('choices without tokens train to the same weights, with records that outlived a restart', async () => {
  const first = await smallService({ dataDirectory: scratch });
  const client = new Trainyard({ baseUrl: first.url, apiKey: first.apiKey, maxRetries: 0 });
  const base = (await client.servedModels.list()).data[0]!.id;
  const complete = await client.models.register({ project: 'p', name: 'told', base_model: base });
  const recorded = await client.models.register({ project: 'p', name: 'recorded', base_model: base });
  const group = await scoredGroup(client, 'told');
  expect(await first.stop()).toBe(0);

  const second = await smallService({ dataDirectory: scratch, environment: { TRAINYARD_API_KEY: first.apiKey } });
  try {
    const again = new Trainyard({ baseUrl: second.url, apiKey: first.apiKey, maxRetries: 0 });
    const train = async (modelId: string, sent: WireTrajectoryGroup) => {
      const job = await again.trainingJobs.create({
        model_id: modelId,
        trajectory_groups: [sent],
        experimental_config: { learning_rate: 1e-4 },
      });
      const [step] = await again.trainingJobs.gradientSteps(job.id);
      return { step: step as Record<string, number>, counts: (await again.trainingJobs.retrieve(job.id)).counts };
    };
    const [one, two] = [await train(complete.id, group), await train(recorded.id, messagesAlone(group))];
    const [digest, sameDigest] = await Promise.all(
      ['told', 'recorded'].map(
        async (model) =>
          (await again.chat.completions.create({ model, messages: [{ role: 'user', content: 'x' }], max_tokens: 1 }))
            .system_fingerprint,
      ),
    );
    console.log(`weights ${digest} and ${sameDigest}, loss ${one.step['policy_loss']} and ${two.step['policy_loss']}`);
    expect(sameDigest).toBe(digest);
    expect(digest).not.toBe('trainyard-base');
    expect(two.step['policy_loss']).toBe(one.step['policy_loss']);
    expect(two.step['probs_corr']).toBeGreaterThan(0.99);
    expect(two.counts).toEqual(one.counts);
    expect(two.counts).toMatchObject({ num_unknown_records: 0, num_turns_without_logprobs: 0 });
  } finally {
    await second.close();
  }
});
