import { TrainerError } from '../contract/errors.ts';
import type { LearnerForwardOptions } from '../learner/learner-session.ts';
import type { TrainingRow } from '../packing/pack.ts';
import type { TrainingJob, TrainingParts } from './training-job.ts';

/** Returns a predicate: true if a job can compute log-probabilities of that adapter. */
export function hasPolicy(
  { startFrom, policyVersions = new Map() }: Pick<TrainingJob, 'startFrom' | 'policyVersions'>,
  { learner }: Pick<TrainingParts, 'learner'>,
): (digest: string | null) => boolean {
  const { reference } = learner.capabilities;
  return (digest) => {
    if (digest === null) return startFrom === null || reference !== 'none';
    const key = policyVersions.get(digest);
    return key !== undefined && (key === startFrom || reference === 'versions');
  };
}

/**
 * Fills in unreported log-probabilities, under the adapter that drew them, with the request's masks, shifts and
 * temperature. The learner must hold the job's initial weights.
 *
 * @throws {TrainerError} `trainer.non_finite`, `trainer.checkpoint_unreadable`
 */
export async function fillUnreportedLogprobs(
  rows: readonly TrainingRow[],
  { startFrom, policyVersions = new Map() }: Pick<TrainingJob, 'startFrom' | 'policyVersions'>,
  { learner, signal }: Pick<TrainingParts, 'learner' | 'signal'>,
): Promise<number> {
  let numTokens = 0;
  for (const { row, sampledLogprobs, unreported = new Map<null, number[]>() } of rows) {
    for (const [digest, tokens] of unreported) {
      const version = digest === null ? null : policyVersions.get(digest)!;
      const under: LearnerForwardOptions['under'] =
        version === startFrom ? 'trained' : version === null ? 'base' : { version };
      const [output] = await learner.forward([row], { under, signal });
      for (const token of tokens) sampledLogprobs[token] = finite(output!.logprobs[token]!);
      numTokens += tokens.length;
    }
  }
  return numTokens;
}

function finite(logprob: number): number {
  if (Number.isFinite(logprob)) return Math.min(logprob, 0);
  throw new TrainerError('trainer.non_finite', 'the log-probability of a sampled token is not finite');
}
