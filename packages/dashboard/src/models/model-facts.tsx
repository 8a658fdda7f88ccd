import type { ModelDetailsObject, SeriesObject } from '@trainyard/sdk';

import { type Fact, Facts } from '../components/facts.tsx';
import { formatCount, formatValue } from '../components/numbers.ts';
import { Ago } from '../components/time.tsx';

/** The main figures of a model. */
export function ModelFacts({ model, reward }: { model: ModelDetailsObject; reward: SeriesObject | undefined }) {
  const first = reward?.mean[0];
  const last = reward?.mean.at(-1);
  const facts: Fact[] = [
    { name: 'Step', value: model.latest_step ?? '–' },
    ...(first === undefined || last === undefined
      ? []
      : [
          {
            name: 'Reward',
            value: (
              <>
                {formatValue(last)} <small>from {formatValue(first)}</small>
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
    { name: 'Gradient steps', value: formatCount(model.num_gradient_steps) },
    { name: 'Checkpoints', value: formatCount(model.num_checkpoints) },
    { name: 'LoRA', value: `rank ${model.lora.rank}` },
    { name: 'Made', value: <Ago at={model.created_at} /> },
  ];
  return <Facts facts={facts} />;
}
