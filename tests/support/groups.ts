import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { gatherGroup, type Trainyard } from '@trainyard/sdk';

type ChatRequest = Parameters<Trainyard['chat']>[0];

/** Samples a small group whose rewards differ, so that it always has something to teach. */
export async function scoredGroup(
  client: Trainyard,
  model: string,
  options: { prompt?: string; n?: number; seed?: number; maxTokens?: number; fields?: Partial<ChatRequest> } = {},
): Promise<WireTrajectoryGroup> {
  const { prompt = 'Say something.', n = 4, seed = 1, maxTokens = 8, fields = {} } = options;
  const { group } = await gatherGroup(
    client,
    { ...fields, model, messages: [{ role: 'user', content: prompt }], n, seed, max_tokens: maxTokens },
    (choice) => choice.index,
  );
  return group;
}

/** More tokens than fit one row of 2,048, so that the job has more than one gradient step. */
export async function groupsOfTwoRows(client: Trainyard, model: string): Promise<WireTrajectoryGroup[]> {
  return await Promise.all(
    Array.from({ length: 10 }, (_, index) =>
      scoredGroup(client, model, {
        prompt: `Say something about ${index}. ${'Please. '.repeat(100)}`,
        seed: index * 10,
      }),
    ),
  );
}
