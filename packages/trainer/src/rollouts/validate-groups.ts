import type { ChoiceItem } from '@trainyard/tokenizer';
import { TrainerError, type TrainerErrorCode } from '../contract/errors.ts';
import type { TrajectoryGroup } from './trajectory.ts';

/** Rounding may lift a log-probability of certainty above 0 by this. */
const LOGPROB_ROUNDING = 1e-6;

/**
 * Checks all numbers from a client, also in groups that teach nothing.
 *
 * @param allowsMissing a choice may have only ids, with NaN for all log-probabilities
 * @throws {TrainerError} `trainer.reward_not_finite`, `trainer.token_out_of_range`, `trainer.logprob_invalid`
 * with the 0-based indices of group, trajectory, history and item
 */
export function validateGroups(groups: readonly TrajectoryGroup[], vocabSize: number, allowsMissing: boolean): void {
  groups.forEach((group, groupIndex) => {
    group.trajectories.forEach((trajectory, trajectoryIndex) => {
      const where = `group ${groupIndex}, trajectory ${trajectoryIndex}`;
      if (!Number.isFinite(trajectory.reward)) {
        throw new TrainerError(
          'trainer.reward_not_finite',
          `${where}: the reward must be a finite number, got ${trajectory.reward}`,
        );
      }
      trajectory.histories.forEach((history, historyIndex) => {
        history.items.forEach((item, itemIndex) => {
          if (item.kind === 'choice')
            validateChoice(item, vocabSize, allowsMissing, `${where}, history ${historyIndex}, item ${itemIndex}`);
        });
      });
    });
  });
}

function validateChoice(choice: ChoiceItem, vocabSize: number, allowsMissing: boolean, where: string): void {
  const { tokenIds, logprobs } = choice;
  const fail = (code: TrainerErrorCode, message: string): never => {
    throw new TrainerError(code, `${where}: ${message}`);
  };
  if (tokenIds.length !== logprobs.length) {
    fail('trainer.logprob_invalid', `${tokenIds.length} sampled tokens came with ${logprobs.length} log-probabilities`);
  }
  const stray = choice.promptTokenIds?.find((id) => id < 0 || id >= vocabSize);
  if (stray !== undefined)
    fail('trainer.token_out_of_range', `the prompt has id ${stray}, outside the vocabulary of ${vocabSize}`);
  const isMissing = allowsMissing && logprobs.every(Number.isNaN);
  for (let i = 0; i < tokenIds.length; i++) {
    const id = tokenIds[i]!;
    const logprob = logprobs[i]!;
    if (id < 0 || id >= vocabSize) {
      fail('trainer.token_out_of_range', `token ${i} has id ${id}, outside the vocabulary of ${vocabSize}`);
    }
    if (isMissing) continue;
    if (!Number.isFinite(logprob) || logprob > LOGPROB_ROUNDING) {
      fail('trainer.logprob_invalid', `token ${i} has log-probability ${logprob}, which must be finite and at most 0`);
    }
  }
}
