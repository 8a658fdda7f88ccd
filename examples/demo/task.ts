import type { Trainyard, WireTrainingConfig } from '@trainyard/sdk';
import { gatherGroup, type GatheredGroup } from '@trainyard/sdk/rollouts';

/** Rollouts of one prompt, compared with each other. */
export const ROLLOUTS_PER_PROMPT = 8;

/** A request for the rollouts of one prompt. */
export interface RolloutRequest {
  readonly client: Trainyard;
  /** Name to sample from. */
  readonly model: string;
  readonly promptIndex: number;
  /** Rollout i samples with `seed + i`. */
  readonly seed: number;
  /** A rollout is there. @param numTokens sampled for it */
  readonly onRollout: (numTokens: number) => void;
}

/** A task the demo teaches: prompts, and rollouts of each with a reward from 0 to 1. */
export interface DemoTask {
  readonly name: string;
  readonly summary: string;
  readonly numPrompts: number;
  /** Settings of its training jobs. */
  readonly settings: WireTrainingConfig;
  /** Samples and scores {@link ROLLOUTS_PER_PROMPT} rollouts. */
  gather(request: RolloutRequest): Promise<GatheredGroup>;
  /** The likeliest reply to the first prompt, for a look at what was learnt. */
  sample(client: Trainyard, model: string): Promise<{ prompt: string; reply: string }>;
}

/** A task of one question and one answer. */
export function singleTurn(task: {
  readonly name: string;
  readonly summary: string;
  readonly prompts: readonly string[];
  readonly maxTokens: number;
  readonly settings: WireTrainingConfig;
  /** @returns 0–1 */
  reward(promptIndex: number, answer: string): number;
}): DemoTask {
  const request = (model: string, promptIndex: number) => ({
    model,
    messages: [{ role: 'user' as const, content: task.prompts[promptIndex]! }],
    max_tokens: task.maxTokens,
  });
  return {
    name: task.name,
    summary: task.summary,
    numPrompts: task.prompts.length,
    settings: task.settings,
    // A request for each rollout, which shows how far they are; the same seeds give the same rollouts as one request with `n`.
    gather: async ({ client, model, promptIndex, seed, onRollout }) => {
      const gathered = await Promise.all(
        Array.from({ length: ROLLOUTS_PER_PROMPT }, async (_, index) => {
          const body = { ...request(model, promptIndex), n: 1, temperature: 1, seed: seed + index };
          const one = await gatherGroup(client, body, (choice) =>
            task.reward(promptIndex, choice.message.content ?? ''),
          );
          onRollout(one.usage.completion_tokens);
          return one;
        }),
      );
      return joined(gathered);
    },
    sample: async (client, model) => {
      const answer = await client.chat.completions.create({ ...request(model, 0), temperature: 0 });
      return { prompt: task.prompts[0]!, reply: answer.choices[0]!.message.content ?? '' };
    },
  };
}

/** Rollouts of one prompt as the one group that they are. */
function joined(gathered: readonly GatheredGroup[]): GatheredGroup {
  const [{ group, usage }] = gathered as readonly [GatheredGroup];
  return {
    group: {
      ...group,
      trajectories: gathered.flatMap((one) => one.group.trajectories),
      exceptions: gathered.flatMap((one) => one.group.exceptions ?? []),
    },
    usage: {
      ...usage,
      completion_tokens: gathered.reduce((sum, one) => sum + one.usage.completion_tokens, 0),
    },
  };
}
