import { Link } from 'wouter';

import { formatTick } from '../components/numbers.ts';
import { StatusDot, type StatusTone } from '../components/status-dot.tsx';

/** Mean gap of exact arithmetic is at most this. */
const EXACT = 1e-3;
/** Mean gap above which the sampler is not the trainer's model; bf16 has about 0.02. */
const WRONG = 0.05;

/** Judgement of the sampler by its mean log-probability gap on fresh rollouts. */
export function SamplerTile({ modelId, gap }: { modelId: string; gap: number }) {
  const { tone, word } = judgeGap(gap);
  return (
    <Link href={`/models/${encodeURIComponent(modelId)}/charts`} title={word}>
      <StatusDot tone={tone}>{gap === 0 ? '0' : formatTick(Number(gap.toPrecision(1)))}</StatusDot>
    </Link>
  );
}

export function judgeGap(gap: number): { tone: StatusTone; word: string } {
  if (gap <= EXACT) return { tone: 'good', word: 'Mean log-probability gap of fresh rollouts: the same model.' };
  if (gap <= WRONG)
    return { tone: 'plain', word: 'Mean log-probability gap of fresh rollouts: as with reduced precision (bf16).' };
  return {
    tone: 'bad',
    word: "Mean log-probability gap of fresh rollouts: the sampler is not the trainer's model, or choices lost their records.",
  };
}
