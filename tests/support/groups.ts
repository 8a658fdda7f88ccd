import type { WireTrajectoryGroup } from '@trainyard/protocol';
import type { ChatBody, Trainyard } from '@trainyard/sdk';
import { gatherGroup } from '@trainyard/sdk/rollouts';

/** Samples a small group with different rewards, so that it always has a training signal. */
export async function scoredGroup(
  client: Trainyard,
  model: string,
  options: { prompt?: string; n?: number; seed?: number; maxTokens?: number; fields?: Partial<ChatBody> } = {},
): Promise<WireTrajectoryGroup> {
  const { prompt = 'Say something.', n = 4, seed = 1, maxTokens = 8, fields = {} } = options;
  const { group } = await gatherGroup(
    client,
    { ...fields, model, messages: [{ role: 'user', content: prompt }], n, seed, max_tokens: maxTokens },
    (choice) => choice.index,
  );
  return group;
}

/** Fields for trainable answers of a base model, for which there are no records. */
export const WITH_LOGPROBS: Partial<ChatBody> = { logprobs: true, return_token_ids: true };

/** Ten groups with prompts of about 300 tokens each: enough for several rows and gradient steps. */
export async function tenLongGroups(
  client: Trainyard,
  model: string,
  fields: Partial<ChatBody> = {},
): Promise<WireTrajectoryGroup[]> {
  return await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      scoredGroup(client, model, {
        prompt: `Say something about ${index}. ${'Please. '.repeat(100)}`,
        seed: index * 10,
        fields,
      }),
    ),
  );
}
