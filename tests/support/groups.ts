import type { WireTrajectoryGroup } from '@trainyard/protocol';
import { gatherGroup, type Trainyard } from '@trainyard/sdk';

/** Samples a small group whose rewards differ, so that it always has something to teach. */
export async function scoredGroup(
  client: Trainyard,
  model: string,
  options: { prompt?: string; n?: number; seed?: number; maxTokens?: number } = {},
): Promise<WireTrajectoryGroup> {
  const { prompt = 'Say something.', n = 4, seed = 1, maxTokens = 8 } = options;
  const { group } = await gatherGroup(
    client,
    { model, messages: [{ role: 'user', content: prompt }], n, seed, max_tokens: maxTokens },
    (choice) => choice.index,
  );
  return group;
}
