import type { TrainingJobObject } from '@trainyard/sdk';

import type { StatusTone } from '../components/status-dot.tsx';

export function isLive({ status }: Pick<TrainingJobObject, 'status'>): boolean {
  return status === 'queued' || status === 'running';
}

/** The data that a kind of job learns from. */
export const KIND_WORDS: Readonly<Record<TrainingJobObject['kind'], string>> = {
  rl: 'rollouts',
  sft: 'conversations',
};

/** The state of a job as a word with a tone. */
export function jobState({ status, is_paused: isPaused }: Pick<TrainingJobObject, 'status' | 'is_paused'>): {
  readonly text: string;
  readonly tone: StatusTone;
} {
  if (isPaused) return { text: 'paused', tone: 'warn' };
  switch (status) {
    case 'running':
      return { text: 'running', tone: 'live' };
    case 'succeeded':
      return { text: 'succeeded', tone: 'good' };
    case 'failed':
      return { text: 'failed', tone: 'bad' };
    case 'cancelled':
      return { text: 'cancelled', tone: 'plain' };
    case 'queued':
      return { text: 'queued', tone: 'warn' };
  }
}

/** Total gradient steps of a job, known once it has started; null before. */
export function totalSteps({ counts }: Pick<TrainingJobObject, 'counts'>): number | null {
  const total = counts?.['num_sequences'];
  return typeof total === 'number' ? total : null;
}

/**
 * Estimated seconds until a running job is done, at its average pace.
 *
 * @param now ms
 * @returns null before its first gradient step
 */
export function secondsLeft(job: TrainingJobObject, now: number): number | null {
  const total = totalSteps(job);
  const done = job.num_gradient_steps_done;
  if (job.status !== 'running' || total === null || done === 0 || job.started_at === null) return null;
  const secondsEach = (now / 1000 - job.started_at) / done;
  return Math.max(0, secondsEach * (total - done));
}
