import { useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { sparkQuery } from '../api/models.ts';

const WIDTH = 84;
const HEIGHT = 22;

/** The reward of a model over its steps, or its loss over gradient steps, as a small line; hidden from screen readers. */
export function SparkLine({ model }: { model: ModelDetailsObject }) {
  const isRewarded = model.reward !== null;
  const { data } = useQuery({
    ...sparkQuery(model.id, isRewarded ? 'train/reward' : 'train/loss', isRewarded ? 'step' : 'gradient_step'),
    enabled: model.num_gradient_steps > 0,
  });
  const series = data?.data[0];
  if (series === undefined || series.mean.length < 2) return null;
  return (
    <svg className="spark-line" width={WIDTH} height={HEIGHT} aria-hidden="true">
      <polyline points={sparkPoints(series.last, series.mean)} />
    </svg>
  );
}

function sparkPoints(x: readonly number[], y: readonly number[]): string {
  const place = (values: readonly number[], index: number) => {
    const [low, high] = [Math.min(...values), Math.max(...values)];
    return high === low ? 0.5 : (values[index]! - low) / (high - low);
  };
  return x
    .map((_, index) => {
      const [left, up] = [place(x, index), place(y, index)];
      return `${(1 + left * (WIDTH - 2)).toFixed(1)},${(HEIGHT - 2 - up * (HEIGHT - 4)).toFixed(1)}`;
    })
    .join(' ');
}
