import type { StatusTone } from '../components/status-dot.tsx';

/** Mean gap of exact arithmetic is at most this. */
const EXACT = 1e-3;
/** Mean gap above which the sampler is not the trainer's model; bf16 has about 0.02. */
const WRONG = 0.05;

/** Judgement of a mean log-probability gap on fresh rollouts. */
export function judgeGap(gap: number): { tone: StatusTone; word: string } {
  if (gap <= EXACT) return { tone: 'good', word: 'Mean log-probability gap of fresh rollouts: the same model.' };
  if (gap <= WRONG)
    return { tone: 'plain', word: 'Mean log-probability gap of fresh rollouts: as with reduced precision (bf16).' };
  return {
    tone: 'bad',
    word: "Mean log-probability gap of fresh rollouts: the sampler is not the trainer's model, or choices lost their records.",
  };
}
