import { useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { sparkQuery } from '../api/models.ts';
import { SparkLine } from '../charts/spark-line.tsx';

/** The reward of a model over its steps, or its loss over gradient steps, as a small line. */
export function ModelCurve({ model }: { model: ModelDetailsObject }) {
  const isRewarded = model.reward !== null;
  const { data } = useQuery({
    ...sparkQuery(model.id, isRewarded ? 'train/reward' : 'train/loss', isRewarded ? 'step' : 'gradient_step'),
    enabled: model.num_gradient_steps > 0,
  });
  const series = data?.data[0];
  return series === undefined ? null : <SparkLine x={series.last} y={series.mean} />;
}
