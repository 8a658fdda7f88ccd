import { useInfiniteQuery } from '@tanstack/react-query';
import { useMemo } from 'react';
import { useSearchParams } from 'wouter';

import type { JobFilter } from '../api/jobs.ts';
import { modelsQuery } from '../api/models.ts';
import { allOr, FilterSelect } from '../components/lists/filter-select.tsx';
import { ProjectFilter } from '../components/lists/project-filter.tsx';
import { Page } from '../components/page.tsx';
import { JobTable } from './job-table.tsx';

const STATUSES = ['queued', 'running', 'succeeded', 'failed', 'cancelled'] as const;
const KINDS = ['rl', 'sft'] as const;

/** Training jobs of all models, by status, kind and project. */
export function JobsPage() {
  const [parameters] = useSearchParams();
  const { data } = useInfiniteQuery(modelsQuery);
  const models = useMemo(() => data?.pages.flatMap((page) => page.data) ?? [], [data]);
  const project = parameters.get('project') ?? '';
  const status = STATUSES.find((one) => one === parameters.get('status'));
  const kind = KINDS.find((one) => one === parameters.get('kind'));
  const filter: JobFilter = {
    ...(status === undefined ? {} : { status }),
    ...(kind === undefined ? {} : { kind }),
    ...(project === '' ? {} : { project }),
  };
  return (
    <Page title="Jobs">
      <div className="filters">
        <FilterSelect name="status" label="State" options={allOr(STATUSES)} />
        <FilterSelect
          name="kind"
          label="Kind"
          options={[
            ['', 'all'],
            ['rl', 'rollouts'],
            ['sft', 'conversations'],
          ]}
        />
        <ProjectFilter projects={models.map((model) => model.project)} />
      </div>
      <JobTable modelId={null} filter={filter} models={models} />
    </Page>
  );
}
