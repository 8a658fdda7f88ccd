import { randomUUID } from 'node:crypto';

import type { Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';

const COMPLETION_TOKENS = 64;
/** About 400 tokens; the eight prompts differ in their last sentence, like rollouts of one environment. */
const LONG_PROMPT =
  'The harbour keeps a log of ships, tides, cargo and weather, written by hand every evening. '.repeat(21);

/** Tokens per second from the first to the last token of one streamed request, without prefill. */
export async function measureDecode(
  client: Trainyard,
  model: string,
  numSequences: number,
  seed: number,
): Promise<number> {
  let firstAtMs: number | null = null;
  let lastAtMs = 0;
  let numTokens = 0;
  let numFirstTokens = 0;
  for await (const chunk of await client.chat.completions.create({
    model,
    messages: [{ role: 'user', content: 'Tell me about the history of the sea and the ships that crossed it.' }],
    n: numSequences,
    seed,
    max_tokens: COMPLETION_TOKENS,
    ignore_eos: true,
    return_token_ids: true,
    stream: true,
  })) {
    const now = performance.now();
    for (const choice of chunk.choices) {
      const count = choice.token_ids?.length ?? 0;
      if (count === 0) continue;
      firstAtMs ??= now;
      numTokens += count;
      // The first token of every sequence belongs to the prefill step.
      if (numFirstTokens < numSequences) numFirstTokens += count;
      lastAtMs = now;
    }
  }
  return (numTokens - numFirstTokens) / ((lastAtMs - (firstAtMs ?? 0)) / 1000);
}

/** Completion tokens per second of 8 prompts × n=8 at once. */
export async function measureRollouts(client: Trainyard, model: string, seed: number): Promise<number> {
  const startedAt = performance.now();
  const groups = await Promise.all(
    Array.from({ length: 8 }, (_, promptIndex) =>
      client.chat.completions.create({
        model,
        messages: [{ role: 'user', content: `${LONG_PROMPT}Write entry ${seed * 8 + promptIndex}.` }],
        n: 8,
        seed: seed * 1000 + promptIndex * 8,
        max_tokens: COMPLETION_TOKENS,
        ignore_eos: true,
        logprobs: true,
      }),
    ),
  );
  const numTokens = groups.reduce((sum, group) => sum + group.usage.completion_tokens, 0);
  return numTokens / ((performance.now() - startedAt) / 1000);
}

/** Trains one small step, to have an adapter to serve. @returns the model's name */
export async function publishAdapter(client: Trainyard, base: string): Promise<string> {
  const model = await client.models.register({
    project: 'bench',
    name: `bench-${randomUUID().slice(0, 8)}`,
    base_model: base,
  });
  const name = `${model.entity}/${model.project}/${model.name}`;
  const { group } = await gatherGroup(
    client,
    { model: name, messages: [{ role: 'user', content: 'Say something.' }], n: 4, max_tokens: 8, seed: 1 },
    (choice) => choice.index,
  );
  const job = await client.trainingJobs.create({
    model_id: model.id,
    trajectory_groups: [group],
    experimental_config: { learning_rate: 1e-4 },
  });
  await client.trainingJobs.gradientSteps(job.id);
  return name;
}
