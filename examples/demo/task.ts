import type { Trainyard, WireTrainingConfig } from '@trainyard/sdk';
import type { Rollout } from '@trainyard/sdk/rollouts';

/** Rollouts of one prompt, compared with each other. */
export const ROLLOUTS_PER_PROMPT = 8;

/** A task of the demo: prompts, and rollouts of each with a reward from 0 to 1. */
export interface DemoTask {
  readonly name: string;
  readonly summary: string;
  readonly numPrompts: number;
  /** Settings of its training jobs. */
  readonly settings: WireTrainingConfig;
  /** Plays one rollout; its requests use this seed. @returns its reward */
  play(rollout: Rollout, promptIndex: number, seed: number): Promise<number>;
  /** Most likely reply to a prompt, to show the result of training. */
  sample(client: Trainyard, model: string, promptIndex: number): Promise<{ prompt: string; reply: string }>;
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
  const reply = async (client: Trainyard, model: string, promptIndex: number, sampling: object) => {
    const messages = [{ role: 'user' as const, content: task.prompts[promptIndex]! }];
    const answer = await client.chat.completions.create({ model, messages, max_tokens: task.maxTokens, ...sampling });
    return answer.choices[0]!.message.content ?? '';
  };
  return {
    name: task.name,
    summary: task.summary,
    numPrompts: task.prompts.length,
    settings: task.settings,
    play: async ({ client, model }, promptIndex, seed) =>
      task.reward(promptIndex, await reply(client, model, promptIndex, { temperature: 1, seed })),
    sample: async (client, model, promptIndex) => ({
      prompt: task.prompts[promptIndex]!,
      reply: await reply(client, model, promptIndex, { temperature: 0 }),
    }),
  };
}
