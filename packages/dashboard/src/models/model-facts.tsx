import type { ModelDetailsObject, SeriesObject } from '@trainyard/sdk';

import { type Fact, Facts } from '../components/facts.tsx';
import { formatCount, formatValue } from '../components/numbers.ts';
import { SamplerTile } from './sampler-tile.tsx';
import { Ago } from '../components/time.tsx';

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
              <>
                {formatValue(model.best.value)} <small>step {model.best.step}</small>
              </>
            ),
          },
        ]),
    ...(gap === null ? [] : [{ name: 'Sampler = trainer', value: <SamplerTile modelId={model.id} gap={gap} /> }]),
    { name: 'Gradient steps', value: formatCount(model.num_gradient_steps) },
    { name: 'Checkpoints', value: formatCount(model.num_checkpoints) },
    { name: 'LoRA', value: `rank ${model.lora.rank}` },
    { name: 'Made', value: <Ago at={model.created_at} /> },
  ];
  return <Facts facts={facts} />;
}
