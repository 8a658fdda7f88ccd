import type { LearnerCapabilities } from '../learner/learner-session.ts';
import type { JobWarning } from './job-warning.ts';

/** A factor of two in the size of a fresh adapter is visible in a curve; a tenth is not. */
const SHOWS = 0.1;

export function learnerWarnings({ initialScale }: Pick<LearnerCapabilities, 'initialScale'>): JobWarning[] {
  if (Math.abs(Math.log(initialScale)) <= SHOWS) return [];
  const factor = (1 / initialScale).toPrecision(3);
  return [
    {
      code: 'initial_scale_differs',
      message: `the trainer initialised the new adapter ${initialScale.toPrecision(3)} times as large as this service does: at the same \`learning_rate\` it learns that many times as much`,
      value: initialScale,
      suggestion: `multiply \`learning_rate\` by ${factor}, or train this model on a server with this scale`,
    },
  ];
}

/** Warnings that need these metrics of gradient steps are never emitted. */
export function absentMetrics({ entropies }: Pick<LearnerCapabilities, 'entropies'>): readonly string[] {
  return entropies === 'none' ? ['entropy', 'surprisal_excess', 'surprisal_excess_error'] : [];
}
