import { useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { seriesQuery } from '../api/models.ts';
import { Fault } from '../components/fault.tsx';
import { RewardChart } from './reward-chart.tsx';

const REWARD = ['train/reward', 'train/reward_std_dev', 'val/reward'];

/** The first look: does it learn? */
export function OverviewTab({ model }: { model: ModelDetailsObject }) {
  const { data, error } = useQuery(seriesQuery(model.id, REWARD));
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      {data === undefined ? null : <RewardChart series={data.data} />}
    </>
  );
}
