import { useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject, TrajectoryObject } from '@trainyard/sdk';
import { Link } from 'wouter';

import { firstRolloutsQuery } from '../api/rollouts.ts';
import { RolloutCard } from './rollout-card.tsx';

/** The best and the worst rollout of the last trained step. */
export function LastRollouts({ model }: { model: ModelDetailsObject }) {
  const { id: modelId, last_job: last } = model;
  const newest = useQuery(firstRolloutsQuery(modelId, { split: 'train', order: 'desc', limit: 1 })).data?.data[0];
  if (newest === undefined) return null;
  const isLost = last !== null && last.status !== 'succeeded' && last.id === newest.job_id;
  const job = isLost ? `whose job ${last.status === 'failed' ? 'failed' : 'was cancelled'}` : null;
  return (
    <RolloutsOfStep modelId={modelId} step={newest.step} note={job ?? `which step ${newest.step + 1} learns from`} />
  );
}

function RolloutsOfStep({ modelId, step, note }: { modelId: string; step: number; note: string }) {
  const ofStep = { split: 'train', step, sort: 'reward', limit: 1 } as const;
  const best = useQuery(firstRolloutsQuery(modelId, { ...ofStep, order: 'desc' })).data?.data[0];
  const worst = useQuery(firstRolloutsQuery(modelId, { ...ofStep, order: 'asc' })).data?.data[0];
  const shown: { title: string; trajectory: TrajectoryObject | undefined }[] = [
    { title: 'Best rollout', trajectory: best },
    { title: 'Worst rollout', trajectory: worst?.id === best?.id ? undefined : worst },
  ];
  return (
    <section className="chart-group">
      <h2>
        Rollouts of step {step} <small className="soft">{note}</small>{' '}
        <Link href={`/models/${encodeURIComponent(modelId)}/rollouts?split=train&step=${step}`}>all rollouts</Link>
      </h2>
      <div className="rollout-pair">
        {shown.map(({ title, trajectory }) =>
          trajectory === undefined ? null : <RolloutCard key={title} title={title} trajectory={trajectory} />,
        )}
      </div>
    </section>
  );
}
