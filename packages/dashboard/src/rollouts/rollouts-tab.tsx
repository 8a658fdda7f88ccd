import './rollouts-tab.css';
import { useInfiniteQuery, useQuery } from '@tanstack/react-query';
import type { ModelDetailsObject, TrajectoryObject } from '@trainyard/sdk';
import { useMemo } from 'react';
import { Link, useSearchParams } from 'wouter';

import { useUnappliedJobs } from '../api/jobs.ts';
import { metricsQuery, seriesQuery } from '../api/models.ts';
import { useMoreWhile } from '../api/more-pages.ts';
import { type RolloutFilter, rolloutPagesQuery } from '../api/rollouts.ts';
import { Button } from '../components/button.tsx';
import { EmptyUntilTrained } from '../components/empty-until-trained.tsx';
import { Empty } from '../components/empty.tsx';
import { Fault } from '../components/fault.tsx';
import { changed } from '../components/lists/changed.ts';
import { counted, formatValue } from '../components/numbers.ts';
import { GroupView } from './group-view.tsx';
import { GroupList } from './group-list.tsx';
import { RewardHistogram } from './reward-histogram.tsx';
import { isInBin, rewardBins } from './reward-bins.ts';
import { groupRollouts } from './rollout-groups.ts';
import { AllRollouts } from './table/all-rollouts.tsx';
import { numberOf } from './table/rollout-view.ts';
import { SearchBox } from './table/search-box.tsx';
import { StepChart } from './step-chart.tsx';
import { StepPicker } from './step-picker.tsx';
import { shownName } from '../components/shown-name.ts';

/** Maximum rollouts shown of a step; few steps have more than some hundreds. */
const MAX_SHOWN = 20_000;

/** The rollouts of a model: one step by group, or all as a table. */
export function RolloutsTab({ model }: { model: ModelDetailsObject }) {
  const [parameters] = useSearchParams();
  const newestTrained = useInfiniteQuery(rolloutPagesQuery(model.id, { order: 'desc', split: 'train' }, { limit: 1 }));
  const newest = useInfiniteQuery(rolloutPagesQuery(model.id, { order: 'desc' }, { limit: 1 }));
  const first = newestTrained.data?.pages[0]?.data[0] ?? newest.data?.pages[0]?.data[0];
  if (newest.error !== null && newest.data === undefined) return <Fault error={newest.error} />;
  if (newest.data === undefined || newestTrained.data === undefined) return null;
  if (first === undefined)
    return (
      <EmptyUntilTrained title="No rollouts yet">
        Rollouts appear here with the first training job or log of trajectories of this model.
      </EmptyUntilTrained>
    );
  const isList = isTable(parameters);
  return (
    <>
      <RolloutControls model={model} newest={first} />
      {isList ? <AllRollouts modelId={model.id} newest={first} /> : <StepRollouts model={model} newest={first} />}
    </>
  );
}

/** A search is shown as a table. */
function isTable(parameters: URLSearchParams): boolean {
  return parameters.get('view') === 'all' || (parameters.get('text') ?? '') !== '';
}

function RolloutControls({ model, newest }: { model: ModelDetailsObject; newest: TrajectoryObject }) {
  const [parameters, setParameters] = useSearchParams();
  const split = parameters.get('split') ?? newest.split;
  const step = numberOf(parameters.get('step')) ?? newest.step;
  const isList = isTable(parameters);
  const { data } = useQuery(seriesQuery(model.id, [`${split === 'train' ? 'train' : split}/reward`]));
  const { data: metrics } = useQuery(metricsQuery(model.id));
  const logged = (metrics?.data ?? []).flatMap(({ name }) => /^([^/]+)\/reward$/.exec(name)?.[1] ?? []);
  const steps = (data?.data[0]?.first ?? []).map((first) => (split === 'train' ? Math.max(0, first - 1) : first));
  const set = (changes: Record<string, string | null>) => setParameters((before) => changed(before, changes));
  return (
    <div className="rollout-controls">
      <div className="rollout-views" role="group" aria-label="Which rollouts">
        <Button look="quiet" aria-pressed={!isList} onClick={() => set({ view: null, text: null })}>
          Groups
        </Button>
        <Button
          look="quiet"
          aria-pressed={isList}
          onClick={() => set({ view: 'all', text: null, group: null, step: null, split: null })}
        >
          Table
        </Button>
      </div>
      {isList ? null : (
        <StepPicker
          step={step}
          steps={steps}
          newest={newest.step}
          onStep={(next) => set({ step: String(next), split, group: null, from: null, text: null })}
        />
      )}
      {isList ? null : (
        <label className="inline-field">
          Split
          <select
            className="input"
            value={split}
            onChange={({ target }) => set({ split: target.value, group: null, from: null, text: null })}
          >
            {[...new Set([split, newest.split, ...logged, 'train', 'val', 'test'])].map((name) => (
              <option key={name} value={name}>
                {shownName(name)}
              </option>
            ))}
          </select>
        </label>
      )}
      <SearchBox
        text={parameters.get('text') ?? ''}
        onSearch={(text) => set(text === '' ? { text: null } : { text, view: 'all', group: null })}
      />
    </div>
  );
}

function StepRollouts({ model, newest }: { model: ModelDetailsObject; newest: TrajectoryObject }) {
  const [parameters, setParameters] = useSearchParams();
  const step = numberOf(parameters.get('step')) ?? newest.step;
  const split = parameters.get('split') ?? newest.split;
  const job = parameters.get('job');
  const filter: RolloutFilter = { step, split, ...(job === null ? {} : { job_id: job }) };
  const { rollouts, error, isRead, isComplete } = useAllPages(model.id, filter);
  const statuses = useUnappliedJobs(model.id);
  const bins = useMemo(() => rewardBins(rollouts.map(({ reward }) => reward)), [rollouts]);
  const from = numberOf(parameters.get('from'));
  const chosen = from === null ? -1 : bins.findIndex((bin) => bin.from === from);
  const shown = useMemo(() => {
    const bin = bins[chosen];
    return bin === undefined
      ? rollouts
      : rollouts.filter(({ reward }) => isInBin(reward, bin, chosen === bins.length - 1));
  }, [rollouts, bins, chosen]);
  const groups = useMemo(() => groupRollouts(shown), [shown]);
  const group = groups.find(({ key }) => key === parameters.get('group'));
  const set = (name: string, value: string | null) => setParameters((before) => changed(before, { [name]: value }));
  if (error !== null && !isRead) return <Fault error={error} />;
  if (isComplete && rollouts.length === 0)
    return (
      <Empty title={`No rollouts of step ${step} in ${split}`}>
        Try another step or split: the newest are of step {newest.step} in {shownName(newest.split)}.
      </Empty>
    );
  return (
    <>
      {error === null ? null : <Fault error={error} />}
      <section className="rollout-summary" aria-label="Rewards of this step">
        <p>
          Step <strong>{step}</strong> · <strong>{counted(rollouts.length, 'rollout')}</strong> in{' '}
          {counted(groupRollouts(rollouts).length, 'group')}
          {rollouts.length === 0 ? null : ` · mean reward ${formatValue(mean(rollouts))}`}
          {isComplete || error !== null ? null : ' · loading more …'}
          {job === null ? null : (
            <>
              {' · only of '}
              <Link className="mono" href={`/jobs/${encodeURIComponent(job)}`}>
                job {job.slice(0, 8)}
              </Link>{' '}
              <Button look="quiet" onClick={() => set('job', null)}>
                All of the step
              </Button>
            </>
          )}
        </p>
        <div className="rollout-figures">
          <RewardHistogram
            bins={bins}
            chosen={chosen}
            onChoose={(bin) => set('from', bin === null ? null : String(bin.from))}
          />
          <StepChart
            modelId={model.id}
            split={split}
            onStep={(next) =>
              setParameters((before) =>
                changed(before, { step: String(next), split, group: null, from: null, job: null }),
              )
            }
          />
        </div>
      </section>
      {group === undefined ? (
        <GroupList groups={groups} statuses={statuses} onOpen={({ key }) => set('group', key)} />
      ) : (
        <GroupView group={group} groups={groups} onClose={() => set('group', null)} />
      )}
    </>
  );
}

/** Loads all pages, one after the other. */
function useAllPages(modelId: string, filter: RolloutFilter) {
  const list = useInfiniteQuery(rolloutPagesQuery(modelId, filter));
  const { data, error } = list;
  const rollouts = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  const wantsMore = useMoreWhile(list, rollouts.length < MAX_SHOWN);
  return { rollouts, error, isRead: data !== undefined, isComplete: data !== undefined && !wantsMore };
}

function mean(rollouts: readonly TrajectoryObject[]): number {
  return rollouts.reduce((sum, { reward }) => sum + reward, 0) / rollouts.length;
}
