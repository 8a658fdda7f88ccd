import type { ModelDetailsObject, SeriesObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { type Fact, Facts } from '../components/facts.tsx';
import { formatCount, formatTick, formatValue } from '../components/numbers.ts';
import { StatusDot } from '../components/status-dot.tsx';
import { Ago } from '../components/time.tsx';
import { judgeGap } from './sampler-gap.ts';

/** The main figures of a model. */
export function ModelFacts({
  model,
  firstReward = null,
  gap = null,
  loss,
}: {
  model: ModelDetailsObject;
  firstReward?: number | null;
  /** Mean log-probability gap of the last fresh rollouts. */
  gap?: number | null;
  /** Loss over gradient steps, for a model that learns from conversations. */
  loss?: SeriesObject | undefined;
}) {
  const { reward } = model;
  const facts: Fact[] = [
    { name: 'Step', value: model.latest_step ?? '–' },
    ...(reward === null
      ? []
      : [
          {
            name: 'Reward',
            value: (
              <>
                {formatValue(reward.value)}{' '}
                {firstReward === null ? null : <small>from {formatValue(firstReward)}</small>}
              </>
            ),
          },
        ]),
    ...(loss === undefined || loss.mean.length === 0
      ? []
      : [
          {
            name: 'Loss',
            value: (
              <>
                {formatValue(loss.mean.at(-1)!)} <small>from {formatValue(loss.mean[0]!)}</small>
              </>
            ),
          },
        ]),
    ...(model.metrics['val/reward'] === undefined
      ? []
      : [{ name: 'Val', value: formatValue(model.metrics['val/reward']) }]),
    ...(model.best === null
      ? []
      : [
          {
            name: 'Best',
            value: (
              <span title={model.best.metric}>
                {formatValue(model.best.value)} <small>step {model.best.step}</small>
              </span>
            ),
          },
        ]),
    ...(gap === null ? [] : [{ name: 'Sampler = trainer', value: <SamplerTile modelId={model.id} gap={gap} /> }]),
    {
      name: 'Gradient steps',
      value: (
        <>
          {formatCount(model.num_gradient_steps)} <small>of all jobs</small>
        </>
      ),
    },
    { name: 'Checkpoints', value: formatCount(model.num_checkpoints) },
    { name: 'LoRA', value: `rank ${model.lora.rank}` },
    { name: 'Made', value: <Ago at={model.created_at} /> },
  ];
  return <Facts facts={facts} />;
}

/** Judgement of the sampler by its mean log-probability gap on fresh rollouts. */
function SamplerTile({ modelId, gap }: { modelId: string; gap: number }) {
  const { tone, word } = judgeGap(gap);
  return (
    <Link href={`/models/${encodeURIComponent(modelId)}/charts`} title={word}>
      <StatusDot tone={tone}>{gap === 0 ? '0' : formatTick(Number(gap.toPrecision(1)))}</StatusDot>
    </Link>
  );
}
