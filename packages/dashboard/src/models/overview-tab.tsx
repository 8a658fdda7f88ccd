import './overview-tab.css';
import { useQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import type { ModelDetailsObject } from '@trainyard/sdk';

import { metricsQuery, seriesQuery } from '../api/models.ts';
import { Fault } from '../components/fault.tsx';
import { LiveJobs } from '../jobs/live-jobs.tsx';
import { FailedJob } from './failed-job.tsx';
import { LastRollouts } from './last-rollouts.tsx';
import { ModelFacts } from './model-facts.tsx';
import { RewardChart } from './reward-chart.tsx';

/** Overview: the reward curve, and the best and worst rollout. */
export function OverviewTab({ model }: { model: ModelDetailsObject }) {
  const { data: metrics } = useQuery(metricsQuery(model.id));
  const names = useMemo(() => {
    const rewards = (metrics?.data ?? []).map(({ name }) => name).filter((name) => name.endsWith('/reward'));
    const others = rewards.filter((name) => name !== 'train/reward');
    return ['train/reward', 'train/reward_std_dev', ...others].slice(0, 8);
  }, [metrics]);
  const { data, error } = useQuery({ ...seriesQuery(model.id, names), enabled: metrics !== undefined });
  const reward = data?.data.find(({ name }) => name === 'train/reward');
  const gap = metrics?.data.find(({ name }) => name === 'train/fresh/logprob_gap_mean')?.last_value ?? null;
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <ModelFacts model={model} firstReward={reward?.mean[0] ?? null} gap={gap} />
      <FailedJob job={model.last_job} />
      <LiveJobs modelId={model.id} />
      <RewardChart modelId={model.id} series={data?.data ?? null} />
      <LastRollouts model={model} />
    </>
  );
}
