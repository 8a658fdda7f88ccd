import type {
  CallOptions,
  ChatBody,
  ChatCompletionChoice,
  CompletionUsage,
  Trainyard,
  WireTrajectory,
  WireTrajectoryGroup,
} from '../index.ts';

/** Scores one sampled choice with any finite number. */
export type RewardFunction = (choice: ChatCompletionChoice) => number | Promise<number>;

export interface GatheredGroup {
  readonly group: WireTrajectoryGroup;
  readonly usage: CompletionUsage;
}

/**
 * Samples `n` answers to one scenario in one request and scores them: a trajectory group, ready to train on.
 *
 * The choices are kept unchanged, including token ids and log-probabilities, so training uses the sampled
 * tokens. If the reward function throws, that trajectory becomes an exception of the group: counted, not
 * trained.
 */
export async function gatherGroup(
  client: Trainyard,
  request: ChatBody & { n: number },
  reward: RewardFunction,
  options: CallOptions & { metadata?: Record<string, string | number | boolean | null> } = {},
): Promise<GatheredGroup> {
  const completion = await client.chat.completions.create(request, options);
  const trajectories: WireTrajectory[] = [];
  const exceptions: { type: string; message: string }[] = [];
  for (const choice of completion.choices) {
    try {
      trajectories.push({
        messages_and_choices: [...request.messages, { ...choice }],
        reward: await reward(choice),
      } as WireTrajectory);
    } catch (error) {
      exceptions.push({ type: (error as Error).name, message: (error as Error).message });
    }
  }
  return { group: { trajectories, exceptions, metadata: options.metadata ?? {} }, usage: completion.usage };
}
