/**
 * Rollouts of several turns whose earlier turns are rendered with other tokens than sampled, through the
 * whole service and the unmodified openai client.
 */
import OpenAI from 'openai';
import { expect, it } from 'vitest';

import type { WireTrajectory } from '@trainyard/protocol';
import { Trainyard } from '@trainyard/sdk';

import { smallService } from '../support/small-service.ts';

const NUM_TURNS = 3;
const NUM_ROLLOUTS = 8;

/** Forms in which clients send back a reply. */
const SENT_BACK: Readonly<Record<string, (content: string) => string>> = {
  'as it was answered': (content) => content,
  'without its last blanks': (content) => content.trimEnd(),
  'its first half': (content) => content.slice(0, content.length / 2),
};

/** A conversation with the model, as in most programs: messages go back and forth, choices are kept. */
async function rollout(openai: OpenAI, model: string, index: number, way: keyof typeof SENT_BACK) {
  const messages: OpenAI.ChatCompletionMessageParam[] = [];
  const kept: unknown[] = [];
  const tokenIds: number[] = [];
  for (let turn = 0; turn < NUM_TURNS; turn++) {
    const question = { role: 'user' as const, content: `Question ${turn}: go on.` };
    messages.push(question);
    kept.push(question);
    const seed = 100 * index + turn;
    const request = { model, messages, max_tokens: 16, logprobs: true, return_token_ids: true, seed };
    const { choices } = await openai.chat.completions.create(request);
    const [choice] = choices as [(typeof choices)[number] & { token_ids: number[] }];
    tokenIds.push(...choice.token_ids);
    kept.push(choice);
    messages.push({ role: 'assistant', content: SENT_BACK[way]!(choice.message.content ?? '') });
  }
  return { trajectory: { messages_and_choices: kept, reward: index } as WireTrajectory, tokenIds };
}

it.each([
  ['mostly the same bits', 'off', 1e-4],
  ['the same bits', 'on', 0],
])(
  'a later turn is trained after the tokens that preceded it in sampling (%s)',
  async (_what, deterministic, largestGap) => {
    const service = await smallService({ environment: { TRAINYARD_DETERMINISTIC: deterministic } });
    try {
      const client = new Trainyard({ baseUrl: service.url, apiKey: service.apiKey, maxRetries: 0 });
      const openai = new OpenAI({ baseURL: service.url, apiKey: service.apiKey, maxRetries: 0 });
      const base = (await client.servedModels.list()).data[0]!.id;
      const { id, name } = await client.models.register({ project: 'p', name: 'turns', base_model: base });
      for (const way of Object.keys(SENT_BACK)) {
        const rollouts = await Promise.all(
          Array.from({ length: NUM_ROLLOUTS }, (_, index) => rollout(openai, name, index, way)),
        );
        const job = await client.trainingJobs.create({
          model_id: id,
          trajectory_groups: [{ trajectories: rollouts.map(({ trajectory }) => trajectory) }],
          experimental_config: { learning_rate: 1e-3 },
        });
        const [metrics] = (await client.trainingJobs.gradientSteps(job.id)) as Record<string, number>[];
        const counts = (await client.trainingJobs.retrieve(job.id)).counts as Record<string, number>;
        const { logprob_gap_max: max, logprob_gap_mean: mean, ratio_max: ratio } = metrics!;
        console.log(
          `sent back ${way}: mean gap ${mean!.toExponential(1)}, largest ${max!.toExponential(1)}, largest ratio ${ratio}; ` +
            `${counts['num_branched_turns']} turns in a history of their own, ${counts['num_branch_tokens']} tokens for them`,
        );
        expect(max, way).toBeLessThanOrEqual(largestGap);
        // Each of them is trained once, in any history.
        expect(metrics!['num_trainable_tokens']).toBe(rollouts.flatMap(({ tokenIds }) => tokenIds).length);
        expect(counts).toMatchObject({ num_trajectories_trainable: NUM_ROLLOUTS, num_divergent_prompts: 0 });
        expect(counts['num_histories_trainable']).toBe(NUM_ROLLOUTS + counts['num_branched_turns']!);
        expect(counts['num_branched_turns']).toBeGreaterThan(0);
        // The read API returns the tokens of a trajectory in order, regardless of the history in which they
        // were trained.
        const { data } = await client.trajectories.list(id, { job_id: job.id });
        for (const { id: trajectoryId, index } of data) {
          const { sequences } = await client.trajectories.tokens(trajectoryId);
          const trained = sequences.flatMap((own) => own.token_ids.filter((_, place) => own.is_trained[place]));
          expect(trained).toEqual(rollouts[index]!.tokenIds);
        }
      }
    } finally {
      await service.close();
    }
  },
  600_000,
);
